"""Vanilla RAG: the chunks that the retriever ranks highest for the question, best first (FB-RAG, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fbrag_cli.methods.method import Tools
from fbrag_cli.methods.ranking import ChunkMethod, whole_chunks
from fbrag_cli.query import Query
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanilla(ChunkMethod):
    name: ClassVar[str] = "vanilla"

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        trace = self.select_by_question(query, tools)
        return trace.reading(whole_chunks(tools.corpus, trace.selection.ranked))
