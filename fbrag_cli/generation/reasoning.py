"""Separates the reasoning of a model, which may ignore the request not to reason, from its answer.

Reasoning is recognized by tags from the model's chat template (`reasoning_tags_of`), and only at the beginning of a reply, in
text that the model wrote itself: the same text within an answer or a document is text. `ReasoningParser` reads a reply piece by
piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Generation

#: Maximum number of reasoning tokens, in addition to those of the answer, for a model on this machine, which must then answer. It
#: need not be large: on a CPU this takes half a minute, and three or five samples reason at the same time.
MOST_TOKENS = 256

#: Maximum number of reasoning tokens, in addition to those of the answer, for a server, which cannot be told to stop reasoning: a
#: reply that is cut off there has no answer. Reasoning about a question that a text answers is usually shorter.
MOST_SERVER_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """How a model marks its reasoning.

    opening, closing: text before and after the reasoning. end: text that ends the reasoning if the model does not. frame: text
    around the answer, if the model writes it.
    """

    opening: str
    closing: str
    end: str
    frame: tuple[str, str] = ("", "")

    @property
    def empty(self) -> str:
        """Empty reasoning, as in Qwen's template; if answers have their own tag, as for gpt-oss, that tag."""
        if self.closing.startswith(self.opening):
            return self.closing
        return f"{self.opening}\n{self.end}" if self.end.startswith("\n") else self.opening + self.end

    def spelled(self, spell: Callable[[str], str]) -> ReasoningTags:
        """Return the tags with their texts mapped by `spell`."""
        return replace(self, opening=spell(self.opening), closing=spell(self.closing))


_TAG = re.compile(r"</((?:\w+:)?(?:think|thinking|thought|reasoning)(?::\w+)?)>")  # </think>, </seed:think>, </think:opensource>
_FRAME = re.compile(r"<(response|answer)>")  # Granite, Hunyuan
_OTHERS = (
    ReasoningTags("[THINK]", "[/THINK]", "[/THINK]"),  # Mistral
    ReasoningTags("<|channel>thought", "<channel|>", "<channel|>"),  # Gemma 4
    # gpt-oss writes messages to channels. All except those to the channel "final" are reasoning.
    ReasoningTags("<|channel|>", "<|channel|>final<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ReasoningTags("<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|>"),  # Command
    ReasoningTags("<|inner_prefix|>", "<|inner_suffix|>", "<|inner_suffix|>"),  # Apertus
    ReasoningTags("<|think|>", "<|begin|>assistant<|content|>", "<|end|><|begin|>assistant<|content|>"),  # Solar
    ReasoningTags(
        "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", "\n[BEGIN FINAL RESPONSE]\n", ("", "[END FINAL RESPONSE]")
    ),
    ReasoningTags("<|open|>think<|sep|>", "<|open|>response<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"),  # Kimi K3
)


def tags_named(name: str, frame: tuple[str, str] = ("", "")) -> ReasoningTags:
    """Return the tags of a model that writes its reasoning as <name>…</name>, as most do."""
    return ReasoningTags(f"<{name}>", f"</{name}>", f"\n</{name}>\n\n", frame)


#: Tags that a server may leave in a reply, since it does not always parse those of the model's template.
COMMON_TAGS = (tags_named("think"), tags_named("thinking"), tags_named("seed:think"), *_OTHERS[:4])


def reasoning_tags_of(template: str) -> ReasoningTags | None:
    """Return the tags in a chat template, from its source and its output; None if it has none."""
    for marks in _OTHERS:
        if marks.closing in template:
            return marks
    if not (tag := _TAG.search(template)):
        return None
    frame = _FRAME.search(template)
    return tags_named(tag[1], (f"<{frame[1]}>", f"</{frame[1]}>") if frame else ("", ""))


#: Settings of a chat template that turn reasoning on or off.
REASONING_SETTINGS: dict[str, object] = {"enable_thinking": True, "thinking": True, "reasoning": True}


def settings_without_reasoning(source: str) -> list[dict[str, object]]:
    """Return the settings to try, in order, to turn reasoning off in a chat template.

    Templates raise an error for unknown values.
    """
    first: dict[str, object] = {"enable_thinking": False}
    more = first | {"thinking": False, "reasoning": False, "thinking_budget": 0, "thinking_mode": "disabled"}
    none = re.search(r"reasoning_effort[^%}]*['\"]none['\"]", source)
    return [first, more | {"reasoning_effort": "none" if none else "low"}, more]


def check_answered(name: str, samples: Sequence[Generation], max_tokens: int) -> None:
    """Raise FbragError `no_answer` if all samples of a model are only reasoning. max_tokens: limit of a sample."""
    if all(sample.reasoning_tokens and not sample.text.strip() for sample in samples):
        what = f"{name} was still reasoning after {max_tokens:,} tokens and gave no answer"
        raise FbragError("no_answer", what, "raise --max-tokens, or use a model without reasoning")


class ReasoningParser:
    """Reads a reply piece by piece, and separates the reasoning from the answer.

    known: possible tags. inside: the tags of the current reasoning; None outside of it. n_pieces: number of pieces of reasoning,
    including the tags; empty reasoning has none. A piece is usually a token.
    """

    def __init__(self, known: Sequence[ReasoningTags] = (), inside: ReasoningTags | None = None) -> None:
        self.inside = inside
        self.n_pieces = 0
        self._n_earlier = 0  # pieces of earlier reasoning
        self._known = [(text, marks) for marks in known for text in (marks.opening, marks.closing, marks.frame[0]) if text]
        self._begins = bool(known)  # whether the answer has not begun
        self._blank = True  # whether to keep leading blanks
        self._held, self._n_held = "", 0  # text that may become a tag
        self._ending = ""  # text that ends the answer, and is not part of it

    def add(self, piece: str) -> str:
        """Add the next piece. Return the text that is now certain to belong to the answer."""
        self._held += piece
        self._n_held += 1
        while self._pass_mark():
            pass
        if self.inside:
            self.n_pieces, self._n_held = self.n_pieces + self._n_held, 0
        return "" if self.inside or self._begins else self._said()

    def end(self, *, answered: bool = False) -> str:
        """End the reply, and return the text held back. Reasoning without an end is dropped, unless it was `answered`."""
        held = self._held if self._blank or not self._begins else self._held.lstrip()
        self._held = ""
        return "" if (self.inside and not answered) or held == self._ending else held

    def _pass_mark(self) -> bool:
        """Drop the next tag, and the reasoning before it. Return whether there is one."""
        if self.inside:
            thought, closed, rest = self._held.partition(self.inside.closing)
            if closed:
                self._n_earlier = self.n_pieces = self.n_pieces + self._n_held if thought.strip() else self._n_earlier
                self._pass(rest, self.inside, inside=False)
            return bool(closed)
        head = self._held.lstrip()
        if not self._begins or any(text.startswith(head) and text != head for text, _ in self._known):
            return False
        passed = [(text, marks) for text, marks in self._known if head.startswith(text)]
        if passed:
            text, marks = max(passed, key=lambda each: len(each[0]))  # one tag may begin like another
            if inside := text == marks.opening:
                self.n_pieces += self._n_held
            self._pass(head[len(text) :], marks, inside=inside)
        else:
            self._begins = False
            self._held = self._held if self._blank else head
        return bool(passed)

    def _pass(self, rest: str, marks: ReasoningTags, *, inside: bool) -> None:
        self.inside = marks if inside else None
        self._held, self._n_held, self._blank = rest, 0, False
        self._ending = "" if inside else marks.frame[1]

    def _said(self) -> str:
        n_kept = next((n for n in range(len(self._ending), 0, -1) if self._held.endswith(self._ending[:n])), 0)
        certain = len(self._held) - n_kept
        said, self._held, self._n_held = self._held[:certain], self._held[certain:], 0
        return said
