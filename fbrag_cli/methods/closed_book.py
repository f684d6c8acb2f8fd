"""The model alone: the answer from what it knows, without the document (FIT-RAG, Table 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fbrag_cli.generation.generator import Turn
from fbrag_cli.methods.answering import answered_by, ask
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.methods.prompts import alone_turns
from fbrag_cli.methods.ranking import nothing_selected
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedBook(Method):
    """The context is empty, so nothing is checked against it."""

    name: ClassVar[str] = "closed-book"
    retrieves: ClassVar[bool] = False

    def plan(self, n_chunks: int) -> list[str]:
        return ["none to read"]

    def retrieve(self, question: str, tools: Tools) -> Trace:
        return nothing_selected(self, question, tools)

    def turns(self, trace: Trace) -> tuple[Turn, ...]:
        return alone_turns(trace.question, self.instructions)

    def answer(self, trace: Trace, tools: Tools) -> Trace:
        trace, reply = ask(self, trace, self.turns(trace), tools)
        return replace(answered_by(trace, reply), route="own-knowledge")
