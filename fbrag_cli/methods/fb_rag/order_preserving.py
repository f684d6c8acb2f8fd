"""Order-preserving RAG: the chunks that the retriever ranks highest for the question, in document order (Yu et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fbrag_cli.methods.knobs import knob
from fbrag_cli.methods.method import Reading, Tools
from fbrag_cli.methods.ranking import select_by_question
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreserving(Reading):
    """window_weight: 0 is the paper's."""

    name: ClassVar[str] = "order-preserving"

    window_weight: float = knob(
        0.0,
        "weight of the best 60 terms beside a chunk's score; 0 as in the paper",
        minimum=0,
        maximum=1e6,
        added=True,
        group="Advanced",
        metavar="X",
    )

    def retrieve(self, question: str, tools: Tools) -> Trace:
        """Select the best chunks. Raises FbragError `usage` for a `window_weight` with another retriever than bm25."""
        return select_by_question(self, question, tools, self.window_weight)

    def described(self) -> dict[str, Any]:
        """Return the settings, without a weight of 0: the rows of older versions lack it."""
        settings = Reading.described(self)
        return settings if self.window_weight else {name: value for name, value in settings.items() if name != "window_weight"}
