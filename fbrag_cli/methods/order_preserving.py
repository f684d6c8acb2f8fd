"""Order-preserving RAG: the chunks that the retriever ranks highest for the question, in document order (Yu et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fbrag_cli.methods.method import Reading, Tools
from fbrag_cli.methods.ranking import select_by_question
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreserving(Reading):
    name: ClassVar[str] = "order-preserving"

    def retrieve(self, question: str, tools: Tools) -> Trace:
        return select_by_question(self, question, tools)
