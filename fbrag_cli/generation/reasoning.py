"""What a model thinks before it answers, although it was told not to: it is no part of the answer.

A thought is recognised by the marks that the model's chat template knows (`reasoning_tags_of`), and only at the beginning of a
reply, in what the model itself wrote: the same text within an answer, or in a document, is text. `ReasoningParser` reads a reply
piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Generation

#: Most tokens of a thought, beyond those of the answer. A model of this machine then has to answer from what it has thought so
#: far. So it need not be long: on a CPU this takes half a minute, and three or five samples think at the same time.
MOST_TOKENS = 256

#: Most tokens of a thought behind a server, beyond those of the answer. Nobody can end a thought there, and one that is cut is
#: no answer. Thoughts on a question that a text answers are mostly shorter.
MOST_SERVER_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """How a model marks its thoughts.

    opening, closing: text before and after a thought. end: what ends a thought that the model does not end itself. frame: text
    around the answer, where the model writes such.
    """

    opening: str
    closing: str
    end: str
    frame: tuple[str, str] = ("", "")

    @property
    def empty(self) -> str:
        """A thought of nothing, as Qwen's template writes it; where an answer has a mark of its own as gpt-oss', that mark."""
        if self.closing.startswith(self.opening):
            return self.closing
        return f"{self.opening}\n{self.end}" if self.end.startswith("\n") else self.opening + self.end

    def spelled(self, spell: Callable[[str], str]) -> ReasoningTags:
        """Return the marks with their texts as `spell` gives them."""
        return replace(self, opening=spell(self.opening), closing=spell(self.closing))


_TAG = re.compile(r"</((?:\w+:)?(?:think|thinking|thought|reasoning)(?::\w+)?)>")  # </think>, </seed:think>, </think:opensource>
_FRAME = re.compile(r"<(response|answer)>")  # Granite, Hunyuan
_OTHERS = (
    ReasoningTags("[THINK]", "[/THINK]", "[/THINK]"),  # Mistral
    ReasoningTags("<|channel>thought", "<channel|>", "<channel|>"),  # Gemma 4
    # gpt-oss writes messages to channels. All are thoughts but the one to the channel "final".
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
    """Return the marks of a model that writes a thought as <name>…</name>, as most do."""
    return ReasoningTags(f"<{name}>", f"</{name}>", f"\n</{name}>\n\n", frame)


#: What a server may leave in a reply: it knows the model's template, but not always what its marks mean.
COMMON_TAGS = (tags_named("think"), tags_named("thinking"), tags_named("seed:think"), *_OTHERS[:4])


def reasoning_tags_of(template: str) -> ReasoningTags | None:
    """Return the marks that a chat template knows, by its source and what it renders; None where it knows none."""
    for marks in _OTHERS:
        if marks.closing in template:
            return marks
    if not (found := _TAG.search(template)):
        return None
    frame = _FRAME.search(template)
    return tags_named(found[1], (f"<{frame[1]}>", f"</{frame[1]}>") if frame else ("", ""))


#: Settings of a chat template that let a model think.
REASONING_SETTINGS: dict[str, object] = {"enable_thinking": True, "thinking": True, "reasoning": True}


def settings_without_reasoning(source: str) -> list[dict[str, object]]:
    """Return what is tried, one after the other, to tell a chat template that the model shall not think.

    Templates raise an error for a value that they do not know.
    """
    first: dict[str, object] = {"enable_thinking": False}
    more = first | {"thinking": False, "reasoning": False, "thinking_budget": 0, "thinking_mode": "disabled"}
    none = re.search(r"reasoning_effort[^%}]*['\"]none['\"]", source)
    return [first, more | {"reasoning_effort": "none" if none else "low"}, more]


def check_answered(name: str, samples: Sequence[Generation], max_tokens: int) -> None:
    """Raise FbragError `no_answer` where all samples of a model are thoughts alone. max_tokens: limit of a sample."""
    if all(sample.reasoning_tokens and not sample.text.strip() for sample in samples):
        what = f"{name} only thinks: it wrote no answer within {max_tokens:,} tokens"
        raise FbragError("no_answer", what, "use a model that answers at once, or raise --max-tokens")


class ReasoningParser:
    """Reads a reply piece by piece, and parts what its model thinks from what it says.

    known: the marks that may come. inside: the marks of the thought that is being written; None outside of one. n_pieces: number
    of pieces of thoughts, their marks included; a thought of nothing is none. A piece is mostly a token.
    """

    def __init__(self, known: Sequence[ReasoningTags] = (), inside: ReasoningTags | None = None) -> None:
        self.inside = inside
        self.n_pieces = 0
        self._n_earlier = 0  # pieces of earlier thoughts
        self._known = [(text, marks) for marks in known for text in (marks.opening, marks.closing, marks.frame[0]) if text]
        self._begins = bool(known)  # whether nothing was said yet
        self._blank = True  # whether blanks at the beginning are said
        self._held, self._n_held = "", 0  # what may become a mark
        self._ending = ""  # text that ends the answer, and is no part of it

    def add(self, piece: str) -> str:
        """Take the next piece. Return what it makes certain to be said."""
        self._held += piece
        self._n_held += 1
        while self._pass_mark():
            pass
        if self.inside:
            self.n_pieces, self._n_held = self.n_pieces + self._n_held, 0
        return "" if self.inside or self._begins else self._said()

    def end(self, *, answered: bool = False) -> str:
        """Return what was held back, at the end of the reply. A thought without an end is not said, unless it was `answered`."""
        held = self._held if self._blank or not self._begins else self._held.lstrip()
        self._held = ""
        return "" if (self.inside and not answered) or held == self._ending else held

    def _pass_mark(self) -> bool:
        """Drop the next mark, and the thought before it. Return whether there is one."""
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
            text, marks = max(passed, key=lambda each: len(each[0]))  # one mark may begin as another
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
