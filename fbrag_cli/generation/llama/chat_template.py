"""A model's chat template, rendered in a child process. The template is untrusted: it comes with the model file."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.children import Child, command
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import EmbeddingRows, Turn
from fbrag_cli.generation.thought import FOR_THOUGHTS, Marks, marks_of, settings_against


@dataclass(frozen=True, slots=True)
class Markup:
    """A model's own markers, which are parsed for special tokens. They come from its chat template, never from a document."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Words of a person, a document or an answer, which are never parsed for special tokens."""

    text: str


Segment = Markup | Text | EmbeddingRows

_OF_THOUGHTS = re.compile("think|thought|reason|channel|inner_", re.IGNORECASE)  # in each template that knows thoughts


class ChatTemplate:
    """Renders turns in the chat format of one model.

    source: the Jinja text in the GGUF, or None. Without it, or where it cannot be rendered, the prompt is plain text.
    bos, eos: markers of the model, which templates may insert. child: a process that was started before, as that takes 0.1 s.
    problem: why the template cannot be used, None if it can. marks: how the model marks its thoughts, None where the template
    knows no thoughts. may_think: whether it knows them, and no way not to think.

    The words of turns are placeholders for the template, so that each sequence of roles is rendered once: a single question when
    the template is made, others when they first come. The prompt ends where the answer begins, without a thought (see `_end`).
    """

    def __init__(self, source: str | None, *, bos: str = "", eos: str = "", child: TemplateChild | None = None) -> None:
        self.problem: str | None = None
        self.marks: Marks | None = None
        self.may_think = False
        self._source, self._markers = source or "", {"bos_token": bos, "eos_token": eos}
        self._against: dict[str, object] = {}  # settings of the template, against thoughts
        self._end = ""  # what follows the last marker of a prompt, against thoughts
        self._pieces: dict[tuple[str, ...], list[str]] = {}
        if source:
            try:
                self._begin(child or TemplateChild())
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
                (pieces,) = self._rendered(TemplateChild(), (roles, self._against))
                self._pieces[roles] = _checked(pieces)
            except ValueError as error:
                what = f"the model's chat template cannot be used for {' and '.join(roles)}: {error}"
                raise FbragError("model_corrupt", what, "use another model (fbrag models list --all)") from None
        first, *others, last = self._pieces[roles]
        if not self._is_closed(last):
            last += self._end
        found: list[Segment] = [Markup(first)]
        for turn, piece in zip(closed, (*others, last), strict=True):
            found += [*_words(turn), Markup(piece)]
        return (*found, *opening)

    def beginning(self, turns: Sequence[Turn]) -> tuple[Segment, ...]:
        """Return what the model reads for `turns` up to the end of the words of the last closed one: what a chat that goes on
        begins with, whatever its template writes after an earlier turn. Raises as `segments`."""
        closed = turns[:-1] if turns[-1].role == "assistant" else turns
        if not self._source or self.problem:
            return _plain((*closed, Turn("assistant", "")))
        return self.segments(closed)[:-1]

    def _begin(self, child: TemplateChild) -> None:
        """Render a single question, and see how the model answers without a thought. Raises ValueError."""
        question, chat = ("user",), ("user", "assistant", "user")
        tried = settings_against(self._source)
        if not _OF_THOUGHTS.search(self._source):
            (pieces,) = self._rendered(child, (question, tried[0]))
            self._against, self._pieces[question] = tried[0], _checked(pieces)
            return
        asked = [*((question, settings) for settings in tried), (question, FOR_THOUGHTS), (chat, tried[0])]
        *found, thinking, past = self._rendered(child, *asked)
        usable = [(settings, each) for settings, each in zip(tried, found, strict=True) if isinstance(each, list)]
        plain = usable[0][1] if usable else _checked(found[0])
        self.marks = marks_of("\n".join([self._source, *(piece for each in (*found, past) for piece in each)]))
        # The first settings suffice where they end the prompt with the mark of a closed thought.
        self._against, pieces = usable[1 if len(usable) > 1 and self.marks and not self._is_closed(plain[-1]) else 0]
        if self.marks and not self._is_closed(pieces[-1]):
            switched = isinstance(thinking, list) and (thinking != plain or thinking[-1] != pieces[-1])
            before = past[1] if isinstance(past, list) else ""
            self._end = _end(pieces, plain[-1], before, self.marks, "" if switched else self._source)
            self.may_think = not (self._end or switched)
        self._pieces[question] = pieces

    def _is_closed(self, prompt: str) -> bool:
        return self.marks is not None and prompt.rstrip().endswith(self.marks.closing)

    def _rendered(self, child: TemplateChild, *asked: tuple[tuple[str, ...], dict[str, object]]) -> list[list[str] | str]:
        """Return the pieces around the words of turns with these roles, for each rendering with such settings, or its problem."""
        renderings = [(roles, self._markers | settings) for roles, settings in asked]
        with child:
            return child.render({"source": self._source, "renderings": renderings})


def _checked(rendered: list[str] | str) -> list[str]:
    """Return the pieces of a rendering. Raises ValueError with its problem."""
    if isinstance(rendered, str):
        raise ValueError(rendered)
    return rendered


def _end(pieces: Sequence[str], plain: str, past: str, marks: Marks, source: str) -> str:
    """Return what follows a prompt so that an answer begins there, and no thought, where no setting of the template does that.

    pieces: the prompt of a question, with the settings against thoughts. plain, past: what the template writes after a question
    without them, and between a question and an earlier answer. source: "" where the template has a setting for thoughts.

    - The template writes more before an earlier answer than at the end of a prompt: an empty thought (Kimi K2), or the channel of
      answers (gpt-oss). That follows.
    - The prompt ends within a thought, which the template has opened (DeepSeek R1): the thought is ended at once.
    - The prompt asks for thoughts (Ministral), or the template knows how thoughts are written, and no way to have none (LFM2.5):
      an empty thought follows. A template that only removes thoughts from earlier answers may be that of a model that has none:
      nothing follows, and the replies are watched (`Thoughts`).
    """
    last = pieces[-1]
    if past.startswith(plain) and past[len(plain) :].strip() and last.endswith(plain):
        return past[len(plain) :]
    if last.rstrip().endswith(marks.opening):
        return marks.end
    return marks.empty if any(marks.opening in each for each in (*pieces, source)) else ""


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

    def render(self, request: dict[str, object]) -> list[list[str] | str]:
        """Return the text around the turns' words for each rendering, or the reason why the template cannot be used for it.

        Raises ValueError with the reason where the process ends before.
        """
        limited = {"cpu_seconds": _CPU_SECONDS, "memory": _MEMORY, **request}
        ended = self.finish(json.dumps(limited).encode(), seconds=_SECONDS, cancellation=self._cancellation)
        if ended.status:
            late = ended.late or ended.status == _LATE
            raise ValueError(f"it takes more than {_CPU_SECONDS} s" if late else f"its process ended with status {ended.status}")
        return [outcome["problem"] if "problem" in outcome else outcome["pieces"] for outcome in json.loads(ended.output)]
