"""Order-preserving RAG: the chunks that the retriever ranks highest for the question, in document order (Yu et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fbrag_cli.methods.method import Tools
from fbrag_cli.methods.ranking import ChunkMethod
from fbrag_cli.query import Query
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreserving(ChunkMethod):
    """As in the paper, `select` chunks are read even if some have nothing in common with the question."""

    name: ClassVar[str] = "order-preserving"

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        return self.select_by_question(query, tools)
