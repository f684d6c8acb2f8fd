"""`Desk`: takes the questions of clients to one warm session, and keeps what became of them for a while.

A question is a `Job` with a thread of its own. It outlives the call that asked it: clients end a slow call, and come back for the
answer.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.choosing import choose_method
from fbrag_cli.methods.registry import DEFAULT
from fbrag_cli.progress import LABELS, Event, Listener, Progress, silent
from fbrag_cli.session.forecast import Forecast, forecast, keep, pace_key
from fbrag_cli.session.session import Session

if TYPE_CHECKING:
    from fbrag_cli.corpus import Chunk
    from fbrag_cli.documents.document import Document
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.trace import Trace

MOST_KEPT = 16  # jobs that are done
MOST_RUNNING = 8  # jobs that run or wait for the models
_NEAREST = 3  # chunks that are known before the answer
_END_SECONDS = 5.0  # in which a stopped job ends


class StoppedError(Exception):
    """A client cancelled its question, or the process ends."""


@dataclass(eq=False, kw_only=True)
class Job:
    """A question that runs, or has run.

    answering: whether it is answered; else its chunks are selected, and no more. log: receives sentences for the user. nearest:
    the chunks nearest to the question by BM25, best first, as soon as they are known. waiting: number of calls that wait for it.
    """

    question: str
    paths: tuple[str, ...]
    answering: bool
    log: Progress = silent
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    nearest: tuple[Chunk, ...] = ()
    waiting: int = 0
    forecast: Forecast = field(default_factory=Forecast)
    cancellation: Cancellation = field(default_factory=Cancellation)
    _trace: Trace | None = None
    _error: BaseException | None = None
    _running: str = "waiting"
    _done: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def stage(self) -> str:
        """What runs, in words, as "looking forward: 40 % read, about 12 s left"."""
        left = self.forecast.left()
        return self._running + (f", about {round(left)} s left" if left is not None and left >= 1 else "")

    def trace(self) -> Trace:
        """Return the trace of a job that is done. Raises its error."""
        if self._error is not None:
            raise self._error
        assert self._trace is not None
        return self._trace

    def cancel(self) -> None:
        """Stop it; it ends within a second."""
        self.cancellation.request(StoppedError("the question was cancelled"))

    def wait(self, seconds: float) -> bool:
        """Wait for its end. Return whether it is done."""
        return self._done.wait(seconds)

    def hear(self, event: Event) -> None:
        """Take up what the event says of the progress."""
        self.forecast.update(event)
        label = LABELS.get(event.stage, event.stage)
        if event.kind in ("note", "warning", "hint"):
            self.log(event)
        elif event.kind == "start":
            self._running = label
        elif event.kind == "progress" and event.total:
            self._running = f"{label}: {100 * event.done / event.total:.0f} % read"
        elif event.kind == "written" and event.total:
            self._running = f"{label}: {event.done:.0f} tokens written"

    def end(self, trace: Trace | None, error: BaseException | None) -> None:
        """Note what became of it."""
        self._trace, self._error = trace, error
        self._done.set()


class Desk:
    """Questions to one session, by the default method. log: receives sentences for the user, as that text goes to a server."""

    def __init__(self, session: Session, log: Progress = silent) -> None:
        self._session, self._log = session, log
        self._jobs: dict[str, Job] = {}  # the oldest first
        self._threads: dict[str, threading.Thread] = {}  # of the jobs that run
        self._lock = threading.Lock()

    def ask(self, question: str, paths: Sequence[str], *, answering: bool = True) -> Job:
        """Return the job of a question, which begins to run. While it runs, the same question is the same job.

        paths: files and folders. answering: whether the question is answered; else its chunks are selected. Raises FbragError
        `usage` where too many questions run.
        """
        job = Job(question=question, paths=tuple(paths), answering=answering, log=self._log)
        with self._lock:
            for running in (self._jobs[each] for each in self._threads):
                same = (running.question, running.paths, running.answering) == (question, job.paths, answering)
                if same and not running.cancellation.requested:
                    return running
            if len(self._threads) >= MOST_RUNNING:
                raise FbragError("usage", f"{MOST_RUNNING} questions run", "wait for the result of one of them")
            done = [name for name in self._jobs if name not in self._threads]
            for name in done[: max(0, len(done) + 1 - MOST_KEPT)]:
                del self._jobs[name]
            self._jobs[job.id] = job
            thread = threading.Thread(target=self._run, args=(job,), name=f"job {job.id}", daemon=True)
            self._threads[job.id] = thread
        thread.start()
        return job

    def job(self, name: str) -> Job:
        """Return a job by its id. Raises FbragError `usage` for one that is not known, or no longer."""
        with self._lock:
            if name in self._jobs:
                return self._jobs[name]
        what = "there is no such job, or it was too long ago"
        raise FbragError("usage", what, "ask the question again: what was computed is cached")

    def find(self, question: str, paths: Sequence[str], n: int, cancellation: Cancellation) -> Trace:
        """Return the trace with the `n` best chunks for a question, by BM25 alone. No model is loaded."""
        listener = Listener(cancellation=cancellation)
        method = choose_method("vanilla", {"select": n}, on_gpu=False)
        collection = self._session.collect(paths, chunk_words=method.chunk_words, listener=listener)
        return self._session.ask(question, collection, method, listener=listener, answering=False).retrieve()

    def document(self, path: str, cancellation: Cancellation) -> Document:
        """Return a document with its text. Raises FbragError as `Session.collect`."""
        return self._session.collect([path], listener=Listener(cancellation=cancellation)).corpus.documents[0]

    def close(self) -> None:
        """Stop all jobs, and wait for their end."""
        with self._lock:
            threads = [*self._threads.values()]
            for name in self._threads:
                self._jobs[name].cancel()
        for thread in threads:
            thread.join(_END_SECONDS)

    def _run(self, job: Job) -> None:
        trace, error = None, None
        try:
            trace = self._answered(job)
        except BaseException as raised:
            error = raised
        with self._lock:
            del self._threads[job.id]
            job.end(trace, error)
        self._session.forget()

    def _answered(self, job: Job) -> Trace:
        session, listener = self._session, Listener(progress=job.hear, cancellation=job.cancellation)
        method = choose_method(DEFAULT, {}, on_gpu=session.on_gpu)
        session.check(method, answering=job.answering)
        collection = session.collect(job.paths, chunk_words=method.chunk_words, listener=listener)
        job.nearest = _nearest(job.question, collection)
        key = pace_key(session.models.settings, method)
        job.forecast = forecast(method, collection.corpus, session.cache, key)
        asked = session.ask(job.question, collection, method, listener=listener, answering=job.answering)
        if not job.answering:
            return asked.retrieve()
        trace = asked.answer()
        keep({} if "answer" in trace.cached else job.forecast.pace, session.cache, key)
        return trace


def _nearest(question: str, collection: Collection) -> tuple[Chunk, ...]:
    from fbrag_cli.methods.ranking import distinct

    found = distinct(collection.corpus, collection.retriever.scores(question), _NEAREST)
    return tuple(collection.corpus.chunks[position] for position in found)
