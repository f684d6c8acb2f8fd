"""What the models are told. Templates become turns of a chat, and in the model's own format a `Prompt` of segments.

Each prompt keeps the parts of the paper's (Tables 4 to 6) in the paper's order: instruction, context, instruction again,
question. The words are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Literal


@dataclass(frozen=True, slots=True)
class Markup:
    """A model's own markers: parsed for special tokens. Comes from the model's chat template, never from a document."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """Words of a person, a document or an answer: never parsed for special tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """Words of a document, as `Text`, that the model reads on their own: after what stands before the first block, without the
    other blocks. What it made of them is kept, and stands in other prompts that begin alike (not in the papers; approximate)."""

    text: str


Segment = Markup | Text | Block


@dataclass(frozen=True, slots=True)
class Prompt:
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side says. The last turn of a prompt may be the assistant's: its beginning, for the model to go on from.
    blocks: pieces of the text, in their order, that are to be read on their own."""

    role: Literal["user", "assistant"]
    text: str
    blocks: tuple[str, ...] = ()

    @property
    def segments(self) -> list[Text | Block]:
        segments: list[Text | Block] = []
        at = 0
        for block in self.blocks:
            start = self.text.index(block, at)
            segments += [Text(self.text[at:start]), Block(block)]
            at = start + len(block)
        return [segment for segment in [*segments, Text(self.text[at:])] if segment.text]


_BETWEEN = "\n\n"  # two passages
TASKS = ("answer", "self_route", "forward")
_FIELDS = ("context", "input", "all_classes")


@dataclass(frozen=True, slots=True)
class Templates:
    """Prompts in place of ours, None where ours stand: texts with `{context}`, and `{input}` for the question. The choices of a
    question stand with it, a line each: `{all_classes}`, and a line break before it, are left out. `{{` is a brace. name: what
    they are called in records.

    Raises ValueError for a template without a context, with other fields, or with a brace that stands alone.
    """

    answer: str | None = None
    self_route: str | None = None
    forward: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        for template in filter(None, (self.answer, self.self_route, self.forward)):
            fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
            if unknown := [field for field in fields if field not in _FIELDS]:
                raise ValueError(f"{{{unknown[0]}}} is none of {', '.join(f'{{{field}}}' for field in _FIELDS)}")
            if "context" not in fields:
                raise ValueError("a prompt without {context}")


def forward_turns(
    context: Sequence[str], question: str, templates: Templates | None = None, *, apart: bool = False
) -> tuple[Turn, ...]:
    """Stage II: a short rationale, then an answer. The reply's first word stands there already: small models keep to it.
    apart: whether the passages are blocks."""
    if templates and templates.forward:
        return (_filled(templates.forward, context, question, apart=apart),)
    asked = (
        f"{_passages(context)}"
        "Now write two or three short sentences that begin with 'Rationale:' and say which facts of the passages lead to "
        "the answer, with the names of the people, places and things. Then, on a new line that begins with 'Answer:', "
        "give the answer in as few words as you can.\n\n"
        f"Question: {question}"
    )
    blocks = tuple(f"{passage}{_BETWEEN}" for passage in context) if apart else ()
    return Turn("user", asked, blocks), Turn("assistant", "Rationale:")


def answer_turns(
    context: Sequence[str], question: str, instructions: str | None = None, templates: Templates | None = None
) -> tuple[Turn, ...]:
    """Stage III: the answer from the selected chunks. instructions: the asked form of it, in place of our own."""
    if templates and templates.answer:
        return (_filled(templates.answer, context, question),)
    return (Turn("user", _asked(context, question, _form(instructions))),)


def self_route_turns(
    context: Sequence[str], question: str, instructions: str | None = None, templates: Templates | None = None
) -> tuple[Turn, ...]:
    """Self-Route, step 2: as `answer_turns`, but the model may decline."""
    if templates and templates.self_route:
        return (_filled(templates.self_route, context, question),)
    decline = 'If the passages do not hold the answer, write "unanswerable" and nothing else.'
    return (Turn("user", _asked(context, question, f"{_form(instructions)} {decline}")),)


def support_turns(context: Sequence[str], question: str, answer: str) -> tuple[Turn, ...]:
    """After Stage III (not in the paper): yes or no, does the context show the answer? Begins as `answer_turns` does, so that
    the context is not read again."""
    return (
        Turn(
            "user",
            f"{_passages(context)}"
            f"Question: {question}\nProposed answer: {answer}\n\n"
            "Do the passages above show that the proposed answer is right? Reply with yes or no.",
        ),
    )


def _filled(template: str, context: Sequence[str], question: str, *, apart: bool = False) -> Turn:
    values = {"context": _BETWEEN.join(context), "input": question, "all_classes": ""}
    parts = []
    for literal, field, _, _ in Formatter().parse(template):
        parts.append(literal.removesuffix("\n") if field == "all_classes" else literal)
        parts.append(values[field] if field else "")
    return Turn("user", "".join(parts), tuple(context) if apart else ())


def _passages(context: Sequence[str]) -> str:
    return f"Answer the question from the passages below.\n\nPassages:\n{_BETWEEN.join(context)}\n\n"


def _asked(context: Sequence[str], question: str, form: str) -> str:
    asked = f"Answer the question from these passages and from nothing else. {form}"
    return f"{_passages(context)}{asked}\n\nQuestion: {question}"


def _form(instructions: str | None) -> str:
    if instructions:
        return f"Give it in this form: {instructions}"
    return "Give the answer alone, in as few words as you can, in the language of the question."
