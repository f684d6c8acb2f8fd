"""`Job`: one question of a client, and what becomes of it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import LABELS, Event, Progress, silent
from fbrag_cli.query import DEFAULT_MODELS, ModelNames
from fbrag_cli.session.forecast import Forecast

if TYPE_CHECKING:
    from fbrag_cli.corpus import Passage
    from fbrag_cli.methods.method import Method
    from fbrag_cli.query import Collection
    from fbrag_cli.serving.library import LibraryEntry
    from fbrag_cli.trace import Trace

#: The last event of every job.
END = Event("job", "done")


class StoppedError(FbragError):
    """A client cancelled its question or went away, or the process ends."""

    def __init__(self) -> None:
        super().__init__("timeout", "the question was cancelled", "ask it again")


class Headline:
    """What runs, in words, as "looking forward: 40 % read"."""

    text = "waiting"

    def take_up(self, event: Event) -> None:
        """Say what the event says of the progress."""
        label = LABELS.get(event.stage, event.stage)
        if event.kind == "start":
            self.text = label
        elif event.kind == "progress" and event.total:
            self.text = f"{label}: {100 * event.done / event.total:.0f} % read"
        elif event.kind == "written" and event.total:
            self.text = f"{label}: {event.done:.0f} tokens written"


@dataclass(eq=False, kw_only=True)
class Job:
    """A question that waits, runs, or has run. Its events may be received from the first on (`subscribe`).

    question: as the client asked it; `asked` is the question that it stands for. conversation: what it may refer to: the id of a
    conversation, or the questions before it, each with its answer; None for nothing. answering: whether it is answered; else its
    chunks are selected, and no more. log: receives sentences for the user. collection: its documents, from when they are read
    until its end. keyword_matches: the chunks nearest to the question by BM25, best first, as soon as they are known. waiting:
    number of calls that wait for it. kept: whether a client may come back for it.
    """

    question: str
    entries: tuple[LibraryEntry, ...]
    method: Method
    models: ModelNames = DEFAULT_MODELS
    conversation: str | Sequence[tuple[str, str]] | None = None
    answering: bool = True
    log: Progress = silent
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    asked: str = ""
    collection: Collection | None = None
    keyword_matches: tuple[Passage, ...] = ()
    waiting: int = 0
    kept: bool = True
    forecast: Forecast = field(default_factory=Forecast)
    cancellation: Cancellation = field(default_factory=Cancellation)
    _trace: Trace | None = None
    _error: BaseException | None = None
    _headline: Headline = field(default_factory=Headline)
    _events: list[Event] = field(default_factory=list)  # so far
    _receivers: list[Progress] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # of both
    _done: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def stage(self) -> str:
        """What runs, in words, as "looking forward: 40 % read, about 12 s left"."""
        left = self.forecast.left()
        return self._headline.text + (f", about {round(left)} s left" if left is not None and left >= 1 else "")

    def trace(self) -> Trace:
        """Return the trace of a job that is done. Raises its error."""
        if self._error is not None:
            raise self._error
        assert self._trace is not None
        return self._trace

    def cancel(self) -> None:
        """Stop it; it ends within a second."""
        self.cancellation.request(StoppedError())

    def wait(self, seconds: float) -> bool:
        """Wait for its end. Return whether it is done."""
        return self._done.wait(seconds)

    def subscribe(self, receive: Callable[[Event], None]) -> None:
        """Call `receive` with each event from the first on, and then with `END`: in the job's thread, those that were before in
        this one. It must return at once. Of the progress of a stage before now only the last event counts."""
        with self._lock:
            for event in self._events:
                receive(event)
            self._receivers.append(receive)

    def hear(self, event: Event) -> None:
        """Take up what the event says of the progress, and pass it on."""
        self.forecast.update(event)
        self._headline.take_up(event)
        if event.kind in ("note", "warning", "hint"):
            self.log(event)
        self._pass_on(event)

    def end(self, trace: Trace | None, error: BaseException | None) -> None:
        """Note what became of it, and let go of what it held beside the trace."""
        self._trace, self._error = trace, error
        self.collection, self.keyword_matches = None, ()
        self._done.set()
        self._pass_on(END)
        with self._lock:
            self._events[:], self._receivers[:] = [END], []

    def _pass_on(self, event: Event) -> None:
        with self._lock:
            if event.kind in ("progress", "written") and self._events and _is_same(self._events[-1], event):
                self._events[-1] = event
            else:
                self._events.append(event)
            for receive in self._receivers:
                receive(event)


def _is_same(before: Event, event: Event) -> bool:
    return (before.stage, before.kind) == (event.stage, event.kind)
