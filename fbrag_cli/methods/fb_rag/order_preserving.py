"""Order-preserving RAG: the chunks that the retriever ranks highest for the question, in document order (Yu et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.method import Tools
from fbrag_cli.methods.ranking import ChunkMethod, matching, top_unique_chunks
from fbrag_cli.query import Query
from fbrag_cli.settings import knob
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreserving(ChunkMethod):
    """window_weight: weight of windows over the ends of chunks; 0 as in the paper.

    As in the paper, `select` chunks are read even if some have nothing in common with the question. With windows (`--fast`) such
    chunks are left out.
    """

    name: ClassVar[str] = "order-preserving"

    window_weight: float = knob(
        0.0,
        "weight of the best 60 terms next to the score of the chunk (0: as in the paper)",
        minimum=0,
        maximum=1e6,
        expert=True,
        metavar="X",
    )

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Select the best chunks. Raises FbragError `usage` for a `window_weight` where the retriever is not bm25."""
        return self.select_by_question(query, tools)

    def best(self, corpus: Corpus, scores: Array, question: str) -> dict[int, tuple[int, ...]]:
        chosen = matching if self.window_weight else top_unique_chunks
        return chosen(corpus, scores, self.n_selected, question)

    def combined(self, question: str, backward: Array, tools: Tools) -> Array:
        """Return the scores of the chunks, with the weighted score of the best window that touches each."""
        if not self.window_weight:
            return backward
        from fbrag_cli.retrieval.bm25 import BM25

        if not isinstance(tools.retriever, BM25):
            what = f"--set window-weight needs the retriever bm25, not {tools.retriever.name}"
            raise FbragError("usage", what, "leave out window-weight, or --retriever")
        return backward + self.window_weight * tools.retriever.window_scores(question, tools.corpus)
