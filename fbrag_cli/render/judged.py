"""What trained parts judged of chunks: FIT-RAG's two labels, R2AG's relevance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True)
class Judged:
    """names: of the values in JSON. headers: of their columns. values: 0 to 1, by the position of the chunk."""

    names: tuple[str, ...]
    headers: tuple[str, ...]
    values: Mapping[int, tuple[float, ...]]

    def shown(self, position: int) -> tuple[str, ...]:
        """Return the values of a chunk for a table; "-" where it was not judged."""
        return tuple(f"{value:.2f}" for value in self.values.get(position, ())) or ("-",) * len(self.names)

    def record(self, position: int) -> dict[str, float]:
        """Return the values of a chunk for JSON, by name; none where it was not judged."""
        return {name: round(value, 4) for name, value in zip(self.names, self.values.get(position, ()), strict=False)}


def judged(trace: Trace) -> Judged | None:
    """Return what was judged, by the probabilities; None where no trained part judged a chunk."""
    if trace.reduction is not None and trace.reduction.labels is not None:
        values = {at: tuple(map(float, two)) for at, two in zip(trace.reduction.candidates, trace.reduction.labels, strict=True)}
        return Judged(("has_answer", "llm_prefer"), ("answer", "prefer"), values)
    if trace.information is not None:
        found = {at: (float(each),) for at, each in zip(trace.ranked, trace.information.relevance, strict=True)}
        return Judged(("relevance",), ("relevance",), found)
    return None


def list_record(trace: Trace) -> list[dict[str, Any]] | None:
    """Return R2AG's list for JSON, best first: relevance and features of each chunk; None for another method."""
    if trace.information is None:
        return None
    told = zip(trace.ranked, trace.information.relevance, trace.information.features, strict=True)
    return [
        {
            "chunk": at + 1,
            "relevance": round(float(relevance), 4),
            "features": {name: round(float(x), 4) for name, x in zip(trace.information.names, features, strict=True)},
        }
        for at, relevance, features in told
    ]
