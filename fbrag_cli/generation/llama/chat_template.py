"""A model's chat template, rendered in jinja2's sandbox. The template is untrusted: it comes with the model file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

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

_MOST_CHARACTERS = 100_000  # that a template writes; the markup of three turns has a few hundred
_MOST_NUMBERS = 100_000  # of all its ranges, one within another too
_MOST_OF_A_REASON = 300  # characters
_OF_THOUGHTS = re.compile("think|thought|reason|channel|inner_", re.IGNORECASE)  # in each template that knows thoughts


class ChatTemplate:
    """Renders turns in the chat format of one model.

    source: the Jinja text in the GGUF, or None. Without it, or where it cannot be rendered, the prompt is plain text. bos, eos:
    markers of the model, which templates may insert. problem: why the template cannot be used, None if it can. marks: how the
    model marks its thoughts, None where the template knows none. may_think: whether it knows them, and no way not to think.

    The words of turns are placeholders for the template, so that each sequence of roles is rendered once: a single question when
    the template is made, others when they first come. The prompt ends where the answer begins, without a thought (see `_end`).
    Raises FbragError `model_corrupt` for a template that writes without end.
    """

    def __init__(self, source: str | None, *, bos: str = "", eos: str = "") -> None:
        self.problem: str | None = None
        self.marks: Marks | None = None
        self.may_think = False
        self._source, self._markers = source or "", {"bos_token": bos, "eos_token": eos}
        self._against: dict[str, object] = {}  # settings of the template, against thoughts
        self._end = ""  # what follows the last marker of a prompt, against thoughts
        self._pieces: dict[tuple[str, ...], list[str]] = {}
        if source:
            try:
                self._begin()
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
                self._pieces[roles] = _checked(self._rendered(roles, self._against))
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

    def _begin(self) -> None:
        """Render a single question, and see how the model answers without a thought. Raises ValueError."""
        question, chat = ("user",), ("user", "assistant", "user")
        tried = settings_against(self._source)
        if not _OF_THOUGHTS.search(self._source):
            self._against, self._pieces[question] = tried[0], _checked(self._rendered(question, tried[0]))
            return
        found = [self._rendered(question, settings) for settings in tried]
        thinking, past = self._rendered(question, FOR_THOUGHTS), self._rendered(chat, tried[0])
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

    def _rendered(self, roles: Sequence[str], settings: dict[str, object]) -> list[str] | str:
        """Return the pieces around the words of turns with these roles, or why the template cannot be used for them."""
        try:
            return _pieces(_sandbox().from_string(self._source), roles, self._markers | settings)
        except FbragError:
            raise
        except Exception as error:  # whatever an untrusted template does
            return f"{type(error).__name__}: {error}"[:_MOST_OF_A_REASON]


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


# -- jinja2 ------------------------------------------------------------------------------------------------------------------


def _pieces(template: Any, roles: Sequence[str], variables: dict[str, object]) -> list[str]:
    """Render turns whose words are placeholders. Return the text around them: one piece more than turns."""
    marks = [f"turn-{token_hex(16)}" for _ in roles]
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
    rest = _bounded(template.generate(messages=messages, add_generation_prompt=True, **variables))
    pieces = []
    for mark in marks:
        if rest.count(mark) != 1:
            raise ValueError("the template leaves out or repeats the words of a turn")
        before, _, rest = rest.partition(mark)
        pieces.append(before)
    return [*pieces, rest]


def _bounded(written: Any) -> str:
    text = ""
    for piece in written:
        text += piece
        if len(text) > _MOST_CHARACTERS:
            what = f"the model's chat template writes more than {_MOST_CHARACTERS:,} characters"
            raise FbragError("model_corrupt", what, "use another model (fbrag models list --all)")
    return text


def _sandbox() -> Any:
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    n_numbers = 0

    def limited_range(*arguments: int) -> range:
        nonlocal n_numbers
        n_numbers += len(numbers := range(*arguments))
        if n_numbers > _MOST_NUMBERS:
            raise OverflowError("the template counts without end")
        return numbers

    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_block()]
    )
    sandbox.globals["range"] = limited_range
    sandbox.globals["raise_exception"] = refuse
    sandbox.globals["strftime_now"] = lambda form: ""  # a prompt that holds the date would differ from day to day
    return sandbox


def _generation_block() -> Any:
    """Return the extension for a block around the words of an assistant, which marks them for training."""
    from jinja2.ext import Extension

    class Generation(Extension):
        def __init__(self, environment: Any) -> None:
            super().__init__(environment)
            self.tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return Generation
