"""The prompts of R2AG: a list of results, each behind its embedding row. The words are ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from fbrag_cli.generation.generator import EmbeddingRows, Turn
from fbrag_cli.methods.prompts import BETWEEN, form_of, support_question


def list_turns(
    texts: Sequence[str], question: str, rows: Sequence[EmbeddingRows] | None, instructions: str | None = None
) -> tuple[Turn, ...]:
    """Return the prompt for the answer from a numbered list of results, each with its embedding row.

    rows: one for each text; None for the same prompt without rows and the words that announce them.
    """
    asked = f"Answer the question from these results and from nothing else. {form_of(instructions)}\n\nQuestion: {question}"
    return (Turn.about(_results(texts, rows), asked),)


def list_words() -> str:
    """Return the SHA-256 (hex) of the words of `list_turns`: rows are trained to stand among them."""
    (turn,) = list_turns(["", ""], "", [EmbeddingRows(bytes(4), 1)] * 2)
    return sha256("\0".join(part if isinstance(part, str) else part.shown for part in turn.parts).encode()).hexdigest()


def list_support_turns(
    texts: Sequence[str], question: str, answer: str, rows: Sequence[EmbeddingRows] | None
) -> tuple[Turn, ...]:
    """Return the check of the answer, as `prompts.support_turns`. It begins as `list_turns` does, rows included."""
    return (Turn.about(_results(texts, rows), support_question(question, answer, "results")),)


def _results(texts: Sequence[str], rows: Sequence[EmbeddingRows] | None) -> Iterator[str | EmbeddingRows]:
    """Yield the task and the list, as parts of a turn."""
    yield "Answer the question from the search results below and from nothing else. Some of them may be irrelevant.\n"
    if rows is not None:
        yield "A similarity mark before each result shows how near it is to the question and to the other results.\n"
    yield "\nResults:\n"
    marks = [()] * len(texts) if rows is None else [(" similarity:", each) for each in rows]
    for number, (text, mark) in enumerate(zip(texts, marks, strict=True), 1):
        yield f"[{number}]"
        yield from mark
        yield f" {text}{BETWEEN}"
