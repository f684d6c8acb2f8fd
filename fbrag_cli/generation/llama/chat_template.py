"""A model's chat template, rendered in a child process. The template is untrusted: it comes with the model file."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.children import Child, command
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import EmbeddingRows, Turn


@dataclass(frozen=True, slots=True)
class Markup:
    """A model's own markers, which are parsed for special tokens. They come from its chat template, never from a document."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Words of a person, a document or an answer, which are never parsed for special tokens."""

    text: str


Segment = Markup | Text | EmbeddingRows


class ChatTemplate:
    """Renders turns in the chat format of one model.

    source: the Jinja text in the GGUF, or None. Without it, or where it cannot be rendered, the prompt is plain text.
    bos, eos: markers of the model, which templates may insert. child: a process that was started before, as that takes 0.1 s.
    problem: why the template cannot be used, None if it can.

    The words of turns are placeholders for the template, so that each sequence of roles is rendered once: a single question when
    the template is made, others when they first come.
    """

    def __init__(self, source: str | None, *, bos: str = "", eos: str = "", child: TemplateChild | None = None) -> None:
        self.problem: str | None = None
        self._source, self._markers = source or "", {"bos_token": bos, "eos_token": eos}
        self._pieces: dict[tuple[str, ...], list[str]] = {}
        if source:
            try:
                self._render(("user",), child or TemplateChild())
            except ValueError as error:
                self.problem = f"the model's chat template cannot be used ({error}); prompts are plain text"

    def segments(self, turns: Sequence[Turn]) -> tuple[Segment, ...]:
        """Return what the model reads for `turns`, in order.

        Raises FbragError `model_corrupt` where the template takes one question, but not these turns.
        """
        if not self._source or self.problem:
            return _plain(turns)
        opening = _words(turns[-1]) if turns[-1].role == "assistant" else []
        closed = turns[:-1] if opening else turns
        roles = tuple(turn.role for turn in closed)
        if roles not in self._pieces:
            try:
                self._render(roles, TemplateChild())
            except ValueError as error:
                what = f"the model's chat template cannot be used for {' and '.join(roles)}: {error}"
                raise FbragError("model_corrupt", what, "use another model (fbrag models list --all)") from None
        first, *others = self._pieces[roles]
        found: list[Segment] = [Markup(first)]
        for turn, piece in zip(closed, others, strict=True):
            found += [*_words(turn), Markup(piece)]
        return (*found, *opening)

    def beginning(self, turns: Sequence[Turn]) -> tuple[Segment, ...]:
        """Return what the model reads for `turns` up to the end of the words of the last closed one: what a chat that goes on
        begins with, whatever its template writes after an earlier turn. Raises as `segments`."""
        closed = turns[:-1] if turns[-1].role == "assistant" else turns
        if not self._source or self.problem:
            return _plain((*closed, Turn("assistant", "")))
        return self.segments(closed)[:-1]

    def _render(self, roles: tuple[str, ...], child: TemplateChild) -> None:
        with child:
            self._pieces[roles] = child.render({"source": self._source, "roles": roles, "markers": self._markers})


def _plain(turns: Sequence[Turn]) -> tuple[Segment, ...]:
    parts = [part for turn in turns for part in ("\n\n", *turn.parts)][1:]
    end = () if turns[-1].role == "assistant" else ("\n\nAnswer:",)
    return tuple(_words(Turn.of("user", (*parts, *end))))


def _words(turn: Turn) -> list[Text | EmbeddingRows]:
    """Return the segments of a turn: words are never merged across an embedding row."""
    return [part if isinstance(part, EmbeddingRows) else Text(part) for part in turn.parts]


_CPU_SECONDS = 5  # for a rendering and its process, which starts with 0.06 s and 20 MB
_SECONDS = 60  # of wall time; a machine with much other work gives little of it to one process
_MEMORY = 500_000_000  # bytes
_LATE = -int(signal.SIGXCPU) if sys.platform != "win32" else None  # the exit status when the CPU time is used up


class TemplateChild(Child):
    """A process that renders one template within limits. After a `with` block it has ended.

    cancellation: stops the rendering. Raises FbragError out_of_memory where no process can be started.
    """

    def __init__(self, cancellation: Cancellation | None = None) -> None:
        self._cancellation = cancellation
        super().__init__(command("fbrag_cli.generation.llama.template_child:main", isolated=True), "render the chat template")

    def render(self, request: dict[str, object]) -> list[str]:
        """Return the text around the turns' words. Raises ValueError with the reason where the template cannot be used."""
        limited = {"cpu_seconds": _CPU_SECONDS, "memory": _MEMORY, **request}
        ended = self.finish(json.dumps(limited).encode(), seconds=_SECONDS, cancellation=self._cancellation)
        if ended.status:
            late = ended.late or ended.status == _LATE
            raise ValueError(f"it takes more than {_CPU_SECONDS} s" if late else f"its process ended with status {ended.status}")
        outcome = json.loads(ended.output)
        if "problem" in outcome:
            raise ValueError(outcome["problem"])
        pieces: list[str] = outcome["pieces"]
        return pieces
