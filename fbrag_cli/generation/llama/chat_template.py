"""A model's chat template, rendered in jinja2's sandbox. The template is untrusted: it comes with the model file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Blend, InputEmbeddings, Message
from fbrag_cli.generation.llama.sandbox import MOST_CHARACTERS, ExcessError, Sandbox
from fbrag_cli.generation.reasoning import REASONING_SETTINGS, ReasoningTags, reasoning_tags_of, settings_without_reasoning


@dataclass(frozen=True, slots=True)
class Markup:
    """The model's own markers, which are parsed for special tokens. They come from its chat template, never from a document."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Words from a person, a document or an answer, which are never parsed for special tokens."""

    text: str


Segment = Markup | Text | InputEmbeddings

_MOST_OF_A_REASON = 300  # characters
_OF_THOUGHTS = re.compile("think|thought|reason|channel|inner_", re.IGNORECASE)  # in every template that supports reasoning


class ChatTemplate:
    """Renders messages in the chat format of one model.

    source: the Jinja text in the GGUF, or None. Without it, or if it cannot be rendered, the prompt is plain text. name: file of
    the model, for errors. bos, eos: markers of the model, which templates may insert. problem: why the template cannot be used,
    None if it can. reasoning_tags: how the model marks its reasoning, None if the template has no reasoning. may_reason: whether
    the template supports reasoning and cannot turn it off.

    The template sees placeholders instead of the words of messages, so that each sequence of roles is rendered only once: a
    single question at construction, others at their first use. The prompt ends where the answer begins, after any reasoning (see
    `_end`). Raises FbragError `model_corrupt` for a template that exceeds a limit of `Sandbox`.
    """

    def __init__(self, source: str | None, name: str = "the model", *, bos: str = "", eos: str = "") -> None:
        self.problem: str | None = None
        self.reasoning_tags: ReasoningTags | None = None
        self.may_reason = False
        self._source, self._name, self._markers = source or "", name, {"bos_token": bos, "eos_token": eos}
        self._against: dict[str, object] = {}  # template settings that turn reasoning off
        self._end = ""  # text after the last marker of a prompt that turns reasoning off
        self._pieces: dict[tuple[str, ...], list[str]] = {}
        if source:
            try:
                self._begin()
            except ValueError as error:
                self.problem = f"the model's chat template does not work ({error}); using plain-text prompts"

    def segments(self, messages: Sequence[Message]) -> tuple[Segment, ...]:
        """Return the prompt for `messages` as segments, in order.

        Raises FbragError `model_corrupt` if the template accepts a single question, but not these messages.
        """
        if not self._source or self.problem:
            return _plain(messages)
        opening = _words(messages[-1]) if messages[-1].role == "assistant" else []
        closed = messages[:-1] if opening else messages
        roles = tuple(message.role for message in closed)
        if roles not in self._pieces:
            try:
                self._pieces[roles] = _checked(self._rendered(roles, self._against))
            except ValueError as error:
                raise self._corrupt(f"does not work for {' and '.join(roles)}: {error}") from None
        first, *others, last = self._pieces[roles]
        if not self._is_closed(last):
            last += self._end
        segments: list[Segment] = [Markup(first)]
        for message, piece in zip(closed, (*others, last), strict=True):
            segments += [*_words(message), Markup(piece)]
        return (*segments, *opening)

    def beginning(self, messages: Sequence[Message]) -> tuple[Segment, ...]:
        """Return the prompt for `messages` up to the end of the words of the last complete message: the common beginning of all
        continuations of the chat, whatever the template writes after an earlier message. Raises the same errors as `segments`."""
        closed = messages[:-1] if messages[-1].role == "assistant" else messages
        if not self._source or self.problem:
            return _plain((*closed, Message("assistant", "")))
        return self.segments(closed)[:-1]

    def _begin(self) -> None:
        """Render a single question, and find out how to make the model answer without reasoning. Raises ValueError."""
        question, chat = ("user",), ("user", "assistant", "user")
        tried = settings_without_reasoning(self._source)
        if not _OF_THOUGHTS.search(self._source):
            self._against, self._pieces[question] = tried[0], _checked(self._rendered(question, tried[0]))
            return
        renderings = [self._rendered(question, settings) for settings in tried]
        thinking, past = self._rendered(question, REASONING_SETTINGS), self._rendered(chat, tried[0])
        usable = [(settings, each) for settings, each in zip(tried, renderings, strict=True) if isinstance(each, list)]
        plain = usable[0][1] if usable else _checked(renderings[0])
        self.reasoning_tags = reasoning_tags_of(
            "\n".join([self._source, *(piece for each in (*renderings, past) for piece in each)])
        )
        # The first settings are enough if they end the prompt with the tag that closes reasoning.
        self._against, pieces = usable[1 if len(usable) > 1 and self.reasoning_tags and not self._is_closed(plain[-1]) else 0]
        if self.reasoning_tags and not self._is_closed(pieces[-1]):
            switched = isinstance(thinking, list) and (thinking != plain or thinking[-1] != pieces[-1])
            before = past[1] if isinstance(past, list) else ""
            self._end = _end(pieces, plain[-1], before, self.reasoning_tags, "" if switched else self._source)
            self.may_reason = not (self._end or switched)
        self._pieces[question] = pieces

    def _is_closed(self, prompt: str) -> bool:
        return self.reasoning_tags is not None and prompt.rstrip().endswith(self.reasoning_tags.closing)

    def _rendered(self, roles: Sequence[str], settings: dict[str, object]) -> list[str] | str:
        """Return the pieces around the words of messages with these roles, or the reason why the template does not work for
        them."""
        try:
            if len(self._source) > MOST_CHARACTERS:
                raise ExcessError(f"has more than {MOST_CHARACTERS:,} characters")
            return _pieces(Sandbox().from_string(self._source), roles, self._markers | settings)
        except ExcessError as error:
            raise self._corrupt(str(error)) from None
        except Exception as error:  # an untrusted template can raise anything
            return f"{type(error).__name__}: {error}"[:_MOST_OF_A_REASON]

    def _corrupt(self, reason: str) -> FbragError:
        what = f"the chat template in {self._name} {reason}"
        return FbragError("model_corrupt", what, "use another model (fbrag models list --all)")


def _checked(rendered: list[str] | str) -> list[str]:
    """Return the pieces of a rendering. Raises ValueError with its problem, if there is one."""
    if isinstance(rendered, str):
        raise ValueError(rendered)
    return rendered


def _end(pieces: Sequence[str], plain: str, past: str, marks: ReasoningTags, source: str) -> str:
    """Return the text to append to a prompt so that the answer begins without reasoning, if no template setting does that.

    pieces: the prompt of a question, with the settings that turn reasoning off. plain, past: what the template writes after a
    question without them, and between a question and an earlier answer. source: "" if the template has a setting for reasoning.

    - If the template writes more before an earlier answer than at the end of a prompt (the empty reasoning of Kimi K2, the answer
      channel of gpt-oss), append that.
    - If the prompt ends within reasoning that the template has opened (DeepSeek R1), close it at once.
    - If the prompt asks for reasoning (Ministral), or the template supports it and cannot turn it off (LFM2.5), append empty
      reasoning. A template that only removes reasoning from earlier answers may belong to a model without any: append nothing,
      and watch the replies (`ReasoningParser`).
    """
    last = pieces[-1]
    if past.startswith(plain) and past[len(plain) :].strip() and last.endswith(plain):
        return past[len(plain) :]
    if last.rstrip().endswith(marks.opening):
        return marks.end
    return marks.empty if any(marks.opening in each for each in (*pieces, source)) else ""


def _plain(messages: Sequence[Message]) -> tuple[Segment, ...]:
    parts = [part for message in messages for part in ("\n\n", *message.parts)][1:]
    end = () if messages[-1].role == "assistant" else ("\n\nAnswer:",)
    return tuple(_words(Message.of("user", (*parts, *end))))


def _words(message: Message) -> list[Text | InputEmbeddings]:
    """Return the segments of a message. Words are never merged across an input embedding."""
    words = (part.word if isinstance(part, Blend) else part for part in message.parts)
    return [part if isinstance(part, InputEmbeddings) else Text(part) for part in words]


# -- jinja2 ------------------------------------------------------------------------------------------------------------------


def _pieces(template: Any, roles: Sequence[str], variables: dict[str, object]) -> list[str]:
    """Render messages with placeholders as words. Return the text around them: one more piece than messages."""
    marks = [f"message-{token_hex(16)}" for _ in roles]
    messages = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
    rest = _bounded(template.generate(messages=messages, add_generation_prompt=True, **variables))
    pieces = []
    for mark in marks:
        if rest.count(mark) != 1:
            raise ValueError("the template drops or repeats the words of a message")
        before, _, rest = rest.partition(mark)
        pieces.append(before)
    return [*pieces, rest]


def _bounded(written: Any) -> str:
    text = ""
    for piece in written:
        text += piece
        if len(text) > MOST_CHARACTERS:
            raise ExcessError(f"writes more than {MOST_CHARACTERS:,} characters")
    return text
