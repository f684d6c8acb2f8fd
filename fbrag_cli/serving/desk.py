"""`Desk`: takes the questions of clients to one session, and keeps what became of them for a while.

A question is a `Job` with a thread of its own. One that is kept outlives the call that asked it: its client comes back for it.
All jobs read their documents at once; of those that have read them, the first few ask the models, and the others wait.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.registry import choose_method
from fbrag_cli.progress import Event, Listener, Progress, silent
from fbrag_cli.query import DEFAULT_MODELS, ModelNames, Query, checked_question
from fbrag_cli.serving.job import Job, KeywordMatches, StoppedError
from fbrag_cli.serving.library import Library
from fbrag_cli.session.conversation import READ, Conversation, PastQuestion
from fbrag_cli.session.forecast import forecast, keep
from fbrag_cli.session.session import Session
from fbrag_cli.text.printable import plural

if TYPE_CHECKING:
    from fbrag_cli.query import Collection, MethodSettings
    from fbrag_cli.trace import Trace

MOST_KEPT = 16  # jobs that are done and that clients come back for
KEPT_SECONDS = 3600.0  # for as long
MOST_WAITING = 7  # jobs next to those that run
MOST_CONVERSATIONS = 64

_NEAREST = 3  # chunks that are known before the answer
_END_SECONDS = 3.0  # in which a stopped job ends
_POLL_SECONDS = 0.1  # between two looks at a cancellation
_RETRY_SECONDS = 20.0  # before a client asks again, if nothing is known of what runs


class BusyError(FbragError):
    """All places of the queue are taken. retry_after: seconds until one of them is free, about."""

    def __init__(self, n: int, retry_after: int) -> None:
        super().__init__("busy", f"{plural(n, 'question')} run or wait", f"ask again in about {retry_after} s")
        self.retry_after = retry_after


@dataclass(slots=True)
class _Talk:
    """A conversation: what was said last, without the documents. One question of it runs at a time.

    is_private: whether it was about an upload, so that nothing of it may be written to the disk.
    """

    said: list[PastQuestion] = field(default_factory=list)
    is_private: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class Desk:
    """Questions to one session. log: receives sentences for the user, as that text goes to a server.

    parallel: number of questions that ask the models at once. places: number of questions that wait, at most. limit: seconds that
    a question may take, its waiting included; None for no limit.
    """

    def __init__(
        self,
        session: Session,
        library: Library,
        log: Progress = silent,
        *,
        parallel: int = 1,
        places: int = MOST_WAITING,
        limit: float | None = None,
    ) -> None:
        self.session, self.library, self._log = session, library, log
        self._parallel, self._places, self._limit = parallel, places, limit
        self._uncached = session.uncached()  # for what may not be written to the disk
        self._running: dict[Job, threading.Thread] = {}  # those that run or wait
        self._kept: dict[str, Job] = {}  # those that clients come back for, the oldest first
        self._line: list[Job] = []  # the jobs that have read their documents; the first `parallel` of them ask the models
        self._turns = threading.Condition()  # of the line
        self._talks: OrderedDict[str, _Talk] = OrderedDict()  # the least recently used first
        self._lock = threading.Lock()
        self._is_closed = False
        self._beginning = threading.Thread(target=self._begin, name="begin", daemon=True)
        self._ended = Cancellation()  # of what is done before the first question
        session.run_at_once(parallel)

    def ask(
        self,
        question: str,
        documents: Sequence[str],
        *,
        method: MethodSettings | None = None,
        models: ModelNames = DEFAULT_MODELS,
        conversation: str | Sequence[tuple[str, str]] | None = None,
        answering: bool = True,
        markup: bool = False,
    ) -> Job:
        """Return the job of a question, which begins to run.

        documents: names as of `Library.find`. method: None for the default one. conversation: what the question may refer to: the
        id of a conversation, which its first question begins, or the questions before it as its client repeats them, each with
        its answer; None for nothing. answering: whether the question is answered; else its chunks are selected. markup: as of
        `Library.find`. Raises BusyError, and FbragError as `checked_question` and `Library.find`.
        """
        job = Job(
            question=checked_question(question),
            entries=self.library.find(documents, markup=markup),
            method=method or self.default_method,
            models=models,
            conversation=conversation,
            answering=answering,
            log=self._log,
        )
        thread = threading.Thread(target=self._run, args=(job,), name=f"job {job.id}", daemon=True)
        with self._lock:
            if self._is_closed:
                raise StoppedError
            if len(self._running) >= self._parallel + self._places:
                raise BusyError(len(self._running), self._retry_after())
            self._running[job] = thread
        thread.start()
        return job

    @property
    def default_method(self) -> MethodSettings:
        """The default method with the settings of this machine."""
        return choose_method(on_gpu=self.session.on_gpu)

    @property
    def n_running(self) -> int:
        """The number of questions that run or wait."""
        return len(self._running)

    @property
    def n_waiting(self) -> int:
        """The number of questions whose turn to ask the models has not come."""
        return max(0, len(self._line) - self._parallel)

    def keep(self, job: Job) -> Job:
        """Keep a job that its client comes back for, and return it: the last 16, an hour after their end."""
        with self._lock:
            self._kept[job.id] = job
        self.kept()
        return job

    def kept(self) -> list[Job]:
        """Return the jobs that are kept, the oldest first."""
        with self._lock:
            done = [each for each in self._kept.values() if each.done]
            for each in done[:-MOST_KEPT] + [each for each in done[-MOST_KEPT:] if monotonic() - each.ended > KEPT_SECONDS]:
                del self._kept[each.id]
            return [*self._kept.values()]

    def job(self, name: str) -> Job:
        """Return a job that is kept by its id. Raises FbragError `usage` for one that is not known, or no longer."""
        for job in self.kept():
            if job.id == name:
                return job
        what = "there is no such job, or it was too long ago"
        raise FbragError("usage", what, "ask the question again: what was computed is cached")

    def find(self, question: str, documents: Sequence[str], n: int, listener: Listener, *, markup: bool = False) -> Trace:
        """Return the trace with the `n` best chunks for a question, by BM25 alone. No model is loaded. markup: as of
        `Library.find`."""
        method, question = choose_method({"method": "vanilla", "select": n}, on_gpu=False), checked_question(question)
        collection = self.library.read(self.library.find(documents, markup=markup), listener, method.chunk_words)
        return self.session.retrieve(Query(question, collection, method), listener, answering=False)

    def evict_idle(self, seconds: float) -> None:
        """Free the models, and let go of the documents, that nobody has used for this many seconds."""
        self.session.evict_idle(seconds)
        self._uncached.retrievers.evict_idle(seconds)
        self.kept()
        self.library.evict_idle(seconds)

    def begin(self) -> None:
        """Load the models, and read the documents that are served, before the first question."""
        if self.library.entries():
            self._beginning.start()

    def close(self) -> None:
        """Stop all jobs, and wait for their end. What listens to one that nothing stops, as within a library, is told its end."""
        with self._lock:
            self._is_closed = True
            running = {**self._running}
        self._ended.request(StoppedError())
        for job in running:
            job.cancel()
        end = monotonic() + _END_SECONDS
        for job, thread in running.items():
            thread.join(max(0.0, end - monotonic()))
            if thread.is_alive():
                job.end(None, StoppedError())
        if self._beginning.is_alive():
            self._beginning.join(max(0.0, end - monotonic()))
        self._uncached.retrievers.close()

    @property
    def is_stuck(self) -> bool:
        """Whether work continues after the end."""
        return bool(self._running) or self._beginning.is_alive()

    def _begin(self) -> None:
        """What fails is said to the client that asks first."""
        listener = Listener(cancellation=self._ended)
        try:
            self.session.load_ahead(listener)
            self.library.collection((), listener, self.default_method.chunk_words)
        except FbragError:
            pass
        except Exception:
            logging.getLogger("fbrag").exception("what is served cannot be read before it is asked")

    # -- a job, in its thread --------------------------------------------------------------------------------------------

    def _run(self, job: Job) -> None:
        trace, error = None, None
        late = FbragError("timeout", f"the question took more than {self._limit or 0:g} s", "ask a shorter one, or of less text")
        timer = job.cancellation.after(self._limit, late) if self._limit else None
        try:
            trace = replace(self._answered(job), method_state=None)
        except BaseException as raised:
            error = raised
        finally:
            if timer:
                timer.cancel()
        with self._lock:
            del self._running[job]
            is_last = not self._running
        for session in (self.session, self._uncached) if is_last else ():  # other questions use the replies
            session.forget()
        job.end(trace, error)

    def _answered(self, job: Job) -> Trace:
        is_private = self.library.is_private(job.entries)
        listener = Listener(progress=job.hear, cancellation=job.cancellation)
        self.session.check(job.method, job.models, answering=job.answering)
        collection = self.library.read(job.entries, listener, job.method.chunk_words)
        _rank(job, job.question, collection)
        with self._talk(job) as talk, self._turn(job):
            if talk:
                is_private = talk.is_private = talk.is_private or is_private
            session = self._uncached if is_private else self.session
            query = self._query(session, talk, job, collection, listener)
            job.forecast = forecast(self.session, job.method, collection.corpus, job.models)
            trace = session.retrieve(query, listener, answering=job.answering)
            job.hear(Event("select", "selected", about=replace(trace, method_state=None)))
            if not job.answering:
                return trace
            trace = session.answer(trace, listener)
            if talk:
                talk.said = [*talk.said, PastQuestion.of(trace)][-READ:]
        keep(job.forecast, self.session, job.method, trace)
        return trace

    def _query(self, session: Session, talk: _Talk | None, job: Job, collection: Collection, listener: Listener) -> Query:
        """Return the query, understood from those before it in its conversation."""
        conversation = Conversation(
            session=session,
            collection=collection,
            method=job.method,
            models=job.models,
            history=[*talk.said] if talk else [],
        )
        if job.conversation and not isinstance(job.conversation, str):
            conversation.take_up(job.conversation, listener)
        query = conversation.query(job.question, listener)
        if query.text != job.question:
            job.hear(Event("understand", "resolved_question", text=query.text))
            _rank(job, query.text, collection)
        return query

    @contextmanager
    def _talk(self, job: Job) -> Iterator[_Talk | None]:
        """Yield the conversation that a job names, once no other question of it runs; None if it names none."""
        talk = None
        if isinstance(job.conversation, str):
            with self._lock:
                talk = self._talks.setdefault(job.conversation, _Talk())
                self._talks.move_to_end(job.conversation)
                while len(self._talks) > MOST_CONVERSATIONS:
                    self._talks.popitem(last=False)
        with job.cancellation.holding(talk.lock) if talk else nullcontext():
            yield talk

    @contextmanager
    def _turn(self, job: Job) -> Iterator[None]:
        """Wait until it is the job's turn to ask the models. The next one's turn comes when the block ends."""
        with self._turns:
            self._line.append(job)
        try:
            with self._turns:
                while job not in self._line[: self._parallel]:
                    self._turns.wait(_POLL_SECONDS)
                    job.cancellation.raise_if_requested()
            yield
        finally:
            with self._turns:
                self._line.remove(job)
                self._turns.notify_all()

    def _retry_after(self) -> int:
        """Return the seconds until a place is free, about: when the first of those that run is done."""
        left = [each.forecast.left() for each in self._line[: self._parallel]]
        return max(1, ceil(min((each for each in left if each is not None), default=_RETRY_SECONDS)))


def _rank(job: Job, question: str, collection: Collection) -> None:
    """Let a job know which chunks are nearest to a question, by BM25."""
    from fbrag_cli.methods.ranking import top_unique_chunks

    corpus, retriever = collection.corpus, collection.retriever
    scores = retriever.scores(question)
    found = [position for position in top_unique_chunks(corpus, scores, _NEAREST, question) if scores[position]]
    weights = {position: dict(retriever.term_scores(question, position)) for position in found}
    job.keyword_matches = KeywordMatches(corpus, scores, weights)
    job.hear(Event("recall", "keyword_matches", about=job.keyword_matches))
