"""Closed book: the large model answers from what it knows; its prompt has no text of the document.

The floor for all methods that read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fbrag_cli.generation.generator import Message
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.methods.prompts import question_messages
from fbrag_cli.query import Query
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedBook(Method):
    """The answer is not checked, since no passage could show it."""

    name: ClassVar[str] = "closed-book"
    retrieves: ClassVar[bool] = False

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        return ["none to read"]

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Score nothing and select nothing: the context is empty."""
        return Trace.start(query)

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        return question_messages(trace.question, self.instructions)
