"""The prompts of FIT-RAG (its Figure 6). The words are ours."""

from __future__ import annotations

from collections.abc import Sequence

from fbrag_cli.generation.generator import Turn
from fbrag_cli.methods.prompts import BETWEEN, support_question


def reasoned_turns(passages: Sequence[str], question: str, instructions: str | None = None) -> tuple[Turn, ...]:
    """Return the prompt of the paper: read, be sure to understand, answer with the reason."""
    return (Turn.about([_reasoned(passages, instructions)], f"Question: {question}"),)


def reasoned_support_turns(
    passages: Sequence[str], question: str, answer: str, instructions: str | None = None
) -> tuple[Turn, ...]:
    """Return the check of the answer, as `prompts.support_turns`. It begins as `reasoned_turns` does."""
    return (Turn.about([_reasoned(passages, instructions)], support_question(question, answer)),)


def _reasoned(passages: Sequence[str], instructions: str | None) -> str:
    form = f"Give it in this form: {instructions}" if instructions else "Give the answer first, then say why it is the answer."
    asked = (
        "Consult the passages below and answer the question. Before you answer, make sure that you understand the question and "
        f"each of the passages. {form}"
    )
    numbered = "".join(f"[{number}] {text}{BETWEEN}" for number, text in enumerate(passages, 1))
    return f"{asked}\n\nPassages:\n{numbered}"
