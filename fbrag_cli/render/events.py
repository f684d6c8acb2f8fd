"""The events of an answer, in the order in which JSON lines and a server send them: selected, token after token, done."""

from __future__ import annotations

from typing import Any

from fbrag_cli.progress import Event
from fbrag_cli.render import as_json
from fbrag_cli.trace import Trace

SCHEMA = "fbrag.event/1"  # of every event but the last, which has the answer's


class Events:
    """The events of one answer. begun: whether a piece of the answer was made."""

    def __init__(self) -> None:
        self.begun = False

    def selected(self, trace: Trace) -> dict[str, Any]:
        """Return the event with the sources, once they are selected."""
        return {"schema": SCHEMA, "event": "selected", "sources": as_json.sources(trace)}

    def token(self, event: Event) -> dict[str, Any] | None:
        """Return the event for a piece of the answer; None for white space before its first word."""
        text = event.text if self.begun else event.text.lstrip()
        self.begun = self.begun or bool(text)
        return {"schema": SCHEMA, "event": "token", "text": text} if text else None

    def done(self, trace: Trace, memory_mb: float) -> dict[str, Any]:
        """Return the last event: the JSON of the answer. memory_mb: peak main memory of the process."""
        return {"event": "done", **as_json.answer(trace, memory_mb=memory_mb)}
