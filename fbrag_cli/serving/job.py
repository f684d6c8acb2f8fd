"""`Job`: one question of a client, and what becomes of it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import LABELS, Event, Progress, silent
from fbrag_cli.query import DEFAULT_MODELS, ModelNames
from fbrag_cli.session.forecast import Forecast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.corpus import Corpus, Passage
    from fbrag_cli.query import MethodSettings
    from fbrag_cli.serving.library import LibraryEntry
    from fbrag_cli.trace import Trace

    Scores = NDArray[np.float32]

#: The last event of every job.
END = Event("job", "done")


class StoppedError(FbragError):
    """A client cancelled its question or went away, or the process ends."""

    def __init__(self) -> None:
        super().__init__("timeout", "the question was cancelled", "ask it again")


class Headline:
    """What runs, in words, as "looking forward: 40% read"."""

    text = "waiting"

    def take_up(self, event: Event) -> None:
        """Say what the event says of the progress."""
        label = LABELS.get(event.stage, event.stage)
        if event.kind == "start":
            self.text = label
        elif event.kind == "progress" and event.total:
            self.text = f"{label}: {100 * event.done / event.total:.0f}% read"
        elif event.kind == "written" and event.total:
            self.text = f"{label}: {event.done:.0f} tokens written"
        elif event.kind == "keyword_matches":  # the documents are read, and no model has begun
            self.text = Headline.text


@dataclass(frozen=True, slots=True)
class KeywordMatches:
    """The chunks nearest to a question by BM25.

    scores: float32 (n_chunks,), of all. weights: the score of each term of the question, by the positions of the nearest.
    """

    corpus: Corpus
    scores: Scores
    weights: dict[int, dict[str, float]]

    @property
    def chunks(self) -> list[Passage]:
        return [self.corpus.chunks[position] for position in self.weights]


@dataclass(eq=False, kw_only=True)
class Job:
    """A question that waits, runs, or has run. Whoever comes later receives its events from the first on.

    question: as the client asked it. conversation: what it may refer to: the id of a conversation, or the questions before it,
    each with its answer; None for nothing. answering: whether it is answered; otherwise its chunks are only selected. log:
    receives sentences for the user. keyword_matches: the chunks nearest to the question, as soon as they are known. ended:
    monotonic seconds of its end, 0 before it.
    """

    question: str
    entries: tuple[LibraryEntry, ...]
    method: MethodSettings
    models: ModelNames = DEFAULT_MODELS
    conversation: str | Sequence[tuple[str, str]] | None = None
    answering: bool = True
    log: Progress = silent
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    keyword_matches: KeywordMatches | None = None
    ended: float = 0.0
    forecast: Forecast = field(default_factory=Forecast)
    cancellation: Cancellation = field(default_factory=Cancellation)
    _trace: Trace | None = None
    _error: BaseException | None = None
    _headline: Headline = field(default_factory=Headline)
    _events: list[tuple[int, Event]] = field(default_factory=list)  # so far, with their numbers
    _watchers: list[Callable[[], object]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # of both

    @property
    def done(self) -> bool:
        return self.ended > 0

    @property
    def stage(self) -> str:
        """What runs, in words, as "looking forward: 40% read, about 12 s left"."""
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

    @contextmanager
    def watched(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` after each event, in the job's thread, until the block ends. It must return at once."""
        with self._lock:
            self._watchers.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(wake)

    def leave(self) -> None:
        """Stop it, unless somebody else watches it."""
        if not self.done and not self._watchers:
            self.cancel()

    def events(self, after: int = -1) -> list[tuple[int, Event]]:
        """Return the events after a number, each with its number. Of the progress of a stage only the last one is kept."""
        with self._lock:
            return [each for each in self._events if each[0] > after]

    def hear(self, event: Event) -> None:
        """Take up what the event says of the progress, and pass it on."""
        self.forecast.update(event)
        self._headline.take_up(event)
        if event.kind in ("note", "warning", "hint"):
            self.log(event)
        self._pass_on(event)

    def end(self, trace: Trace | None, error: BaseException | None) -> None:
        """Note what became of it, once."""
        with self._lock:
            if self.done:
                return
            self._trace, self._error = trace, error
            self.ended = monotonic()
        self._pass_on(END)

    def _pass_on(self, event: Event) -> None:
        with self._lock:
            number, before = self._events[-1] if self._events else (-1, END)
            if event.kind in ("progress", "written") and (before.stage, before.kind) == (event.stage, event.kind):
                self._events.pop()
            self._events.append((number + 1, event))
            for wake in self._watchers:
                wake()
