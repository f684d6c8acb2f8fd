"""A model's chat template, rendered in a sandbox. The template is untrusted: it comes with the model file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from fbrag_cli.generation.generator import Turn


@dataclass(frozen=True, slots=True)
class Markup:
    """A model's own markers, which are parsed for special tokens. They come from its chat template, never from a document."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Words of a person, a document or an answer, which are never parsed for special tokens."""

    text: str


Segment = Markup | Text


@dataclass(frozen=True, slots=True)
class Prompt:
    """The segments that a model reads, in order."""

    segments: tuple[Segment, ...]


_MAX_RENDERED = 100_000  # characters; the markup of three turns has a few hundred


class ChatTemplate:
    """Renders turns in the chat format of one model.

    source: the Jinja text in the GGUF, or None. Without it, or where it cannot be rendered, the prompt is plain text.
    bos, eos: the model's own markers, which templates may insert. problem: why the template cannot be used, None if it can.
    """

    def __init__(self, source: str | None, *, bos: str = "", eos: str = "") -> None:
        self.problem: str | None = None
        self._bos, self._eos = bos, eos
        self._template = None
        if source:
            try:
                self._template = _sandbox().from_string(source)
                self.prompt((Turn("user", "?"),))
            except Exception as error:  # whatever an untrusted template does
                self._template = None
                self.problem = (
                    f"the model's chat template cannot be used ({type(error).__name__}: {error}); prompts are plain text"
                )

    def prompt(self, turns: Sequence[Turn]) -> Prompt:
        """Return the prompt for `turns`. The template sees placeholders only; the turns' words replace them afterwards."""
        if self._template is None:
            return _plain(turns)
        opening = turns[-1].text if turns[-1].role == "assistant" else ""
        closed = turns[:-1] if opening else turns
        marks = [f"turn-{token_hex(16)}" for _ in closed]
        rendered = _bounded(
            self._template.generate(
                messages=[{"role": turn.role, "content": mark} for turn, mark in zip(closed, marks, strict=True)],
                add_generation_prompt=True,
                bos_token=self._bos,
                eos_token=self._eos,
            )
        )
        segments: list[Segment] = []
        for turn, mark in zip(closed, marks, strict=True):
            before, found, rendered = rendered.partition(mark)
            if not found:
                raise ValueError("the template leaves out the words of a turn")
            segments += [Markup(before), Text(turn.text)]
        segments.append(Markup(rendered))
        if opening:
            segments.append(Text(opening))
        return Prompt(tuple(segments))


def _plain(turns: Sequence[Turn]) -> Prompt:
    words = "\n\n".join(turn.text for turn in turns)
    return Prompt((Text(words if turns[-1].role == "assistant" else f"{words}\n\nAnswer:"),))


def _bounded(pieces: Any) -> str:
    rendered = ""
    for piece in pieces:
        rendered += piece
        if len(rendered) > _MAX_RENDERED:
            raise ValueError("the template writes without end")
    return rendered


def _sandbox() -> Any:
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        # Python's own arithmetic could fill the memory in one step ('x' * 10 ** 10): large results are refused.
        intercepted_binops = frozenset(["*", "**", "%"])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "%" and isinstance(left, (int, float)):
                return left % right
            if operator == "*" and all(isinstance(side, (int, float)) and abs(side) < 2**31 for side in (left, right)):
                return left * right
            raise TemplateError(f"the template may not compute {operator!r} here")

    def refuse(message: str) -> None:
        raise TemplateError(message)

    sandbox = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    sandbox.globals["raise_exception"] = refuse
    sandbox.globals["strftime_now"] = lambda form: ""  # a prompt that holds the date would differ from day to day
    return sandbox
