"""The events of an answer, in the order in which a server sends them: understood, nearest, read, sample, selected, token after
token, checked, done. JSON lines have selected, token and done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fbrag_cli.corpus import Corpus
from fbrag_cli.progress import LABELS, Event
from fbrag_cli.render import as_json
from fbrag_cli.trace import Scores, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scored = NDArray[np.float32]

_RAISED = 5  # chunks that an event names of a sample

SCHEMA = "fbrag.event/1"  # of every event but the last, which has the answer's


class Events:
    """The events of one answer. begun: whether a piece of the answer was made."""

    def __init__(self) -> None:
        self.begun = False

    def understood(self, question: str) -> dict[str, Any]:
        """Return the event with the question that a typed one stands for."""
        return {"schema": SCHEMA, "event": "understood", "question": question}

    def nearest(self, corpus: Corpus, positions: Sequence[int], scores: Scored) -> dict[str, Any]:
        """Return the event with the chunks nearest to the question by its words alone, best first. scores: (n_chunks,)."""
        chunks = [{**as_json.place_of(corpus.chunks[each]), "backward": _rounded(scores[each])} for each in positions]
        return {"schema": SCHEMA, "event": "nearest", "chunks": chunks}

    def read(self, event: Event, left: float | None) -> dict[str, Any]:
        """Return the event that says what runs, and how far it has read or written. left: seconds until the answer is out."""
        return {
            "schema": SCHEMA,
            "event": "read",
            "stage": event.stage,
            "label": LABELS.get(event.stage, event.stage),
            "done": event.done,
            "total": event.total or None,
            "writes": event.kind == "written",
            "left_s": None if left is None else round(left, 1),
        }

    def samples(self, trace: Trace) -> list[dict[str, Any]]:
        """Return an event for each sample, with the chunks that it raised more than the others did, best first."""
        return [
            {
                "schema": SCHEMA,
                "event": "sample",
                "index": each.index,
                "rationale": each.rationale,
                "answer": each.answer,
                "raised": [
                    {"chunk": position + 1, "score": _rounded(trace.scores.forward[position])}
                    for position in raised(trace.scores, each.index)[:_RAISED]
                ],
            }
            for each in trace.samples
        ]

    def selected(self, trace: Trace) -> dict[str, Any]:
        """Return the event with the sources, once they are selected."""
        return {"schema": SCHEMA, "event": "selected", "sources": as_json.sources(trace)}

    def token(self, event: Event) -> dict[str, Any] | None:
        """Return the event for a piece of the answer; None for white space before its first word."""
        text = event.text if self.begun else event.text.lstrip()
        self.begun = self.begun or bool(text)
        return {"schema": SCHEMA, "event": "token", "text": text} if text else None

    def checked(self, trace: Trace) -> dict[str, Any]:
        """Return the event that says what becomes of the answer, and which source shows which sentence of it."""
        about = {"status": trace.status, **as_json.certainty(trace), "citations": as_json.citations(trace)}
        return {"schema": SCHEMA, "event": "checked", **about}

    def done(self, trace: Trace, memory_mb: float) -> dict[str, Any]:
        """Return the last event: the JSON of the answer. memory_mb: peak main memory of the process."""
        return {"event": "done", **as_json.answer(trace, memory_mb=memory_mb)}


def raised(scores: Scores, sample: int) -> list[int]:
    """Return the positions of the chunks that a sample scored higher than the others did, best first."""
    found = [int(each) for each in (scores.best_sample == sample).nonzero()[0] if scores.forward[each] > 0]
    return sorted(found, key=lambda position: -scores.forward[position])


def _rounded(value: Any) -> float:
    return round(float(value), 4)
