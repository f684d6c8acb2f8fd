"""Runs many questions in a session, several at once in threads whose model calls share batches. Answers come in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Listener, of_the_run
from fbrag_cli.query import DEFAULT_MODELS, ModelNames, Query
from fbrag_cli.session.session import Session
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from fbrag_cli.methods.method import Method
    from fbrag_cli.query import Collection

#: Questions at once on a GPU, on which a step of many samples takes about as long as a step of one.
AT_ONCE_ON_GPU = 8

#: Questions on one document in a group: Stage III begins when all of them have passed Stage II.
_GROUP = 32
_POLL_SECONDS = 0.1  # between two looks at the events of running questions

T = TypeVar("T")
R = TypeVar("R")


def answer_all(
    session: Session, queries: Iterable[Query | FbragError], *, listener: Listener, at_once: int = 1
) -> Iterator[Trace | FbragError]:
    """Yield each query's answered trace, or its error, in the order of `queries`.

    queries: taken when they are due, so that a document is read shortly before its questions; the error of a document that could
    not be read is passed on. at_once: number of questions to run at once (`how_many_pay`). listener: called only in this thread;
    for questions that run at the same time it receives only warnings, hints and model loading. Call `session.prepare` first, so
    that a missing model is one error. Raises the error of the listener's cancellation, and errors other than FbragError. Closing
    the iterator stops the running questions.
    """
    if at_once == 1:
        yield from _one_by_one(session, queries, listener)
        return

    def answer(query: Query | FbragError, listener: Listener) -> Trace | FbragError:
        return _tried(session.ask, query, listener)

    session.run_at_once(at_once)
    try:
        yield from in_order(answer, queries, at_once, listener)
    finally:
        session.run_at_once(1)


def _one_by_one(session: Session, queries: Iterable[Query | FbragError], listener: Listener) -> Iterator[Trace | FbragError]:
    """Answer the questions in this thread.

    A model keeps the last prompt that it has read. If a document is so small that contexts overlap, Stage II therefore runs for a
    group of questions, then Stage III for all of them, with those whose contexts begin alike next to each other.
    """
    for group in _groups(queries):
        traces = [_tried(session.retrieve, query, listener) for query in group]
        answered: dict[int, Trace | FbragError] = {}
        n_out = 0
        for i in sorted(range(len(group)), key=lambda i: _context(traces[i])):
            answered[i] = _tried(session.answer, traces[i], listener)
            while n_out in answered:  # as soon as the ones before it are out
                yield answered.pop(n_out)
                n_out += 1


def _groups(queries: Iterable[Query | FbragError]) -> Iterator[list[Query | FbragError]]:
    """Yield the queries in groups on one document. If a context is a small part of the document, a group is one query."""
    group: list[Query | FbragError] = []
    last: Collection | None = None
    for query in queries:
        collection = None if isinstance(query, FbragError) else query.collection
        if group and (collection is not last or len(group) == _GROUP):
            yield group
            group = []
        group.append(query)
        last = collection
        if isinstance(query, FbragError) or _reads_a_small_part(query):
            yield group
            group = []
    if group:
        yield group


def _reads_a_small_part(query: Query) -> bool:
    n_chunks = len(query.corpus.chunks)
    return n_chunks > 2 * query.method.n_context_chunks(n_chunks, query.corpus.chunk_words)


def _tried(run: Callable[[T, Listener], Trace], task: T | FbragError, listener: Listener) -> Trace | FbragError:
    """Return the result of `run`, or its FbragError, or that of an earlier step. Raises the error of a cancellation."""
    if isinstance(task, FbragError):
        return task
    try:
        return run(task, listener)
    except FbragError as error:
        if listener.cancellation.requested:
            raise
        return error


def _context(trace: Trace | FbragError) -> tuple[int, ...]:
    """Return the positions of what is read, as a sort key."""
    return () if isinstance(trace, FbragError) else tuple(passage.position for passage in trace.context)


def how_many_pay(session: Session, method: Method, models: ModelNames = DEFAULT_MODELS) -> int:
    """Return how many questions to run at once for the best speed: several if all layers of the method's models are on a GPU,
    else one (see tests/benchmarks/README.md). Loads a model if its layers are unknown."""
    if not session.on_gpu:
        return 1
    asked = [session.model("large", models, method), *([session.model("small", models)] if method.needs_small else [])]
    layers = [(each.info.gpu_layers or "0/1").split("/") for each in asked]  # unknown for a server
    return AT_ONCE_ON_GPU if all(on_gpu == of_all for on_gpu, of_all in layers) else 1


def in_order(do: Callable[[T, Listener], R], tasks: Iterable[T], n: int, listener: Listener) -> Iterator[R]:
    """Yield the result of `do` for each task, in order; `n` tasks run at once, each in a thread.

    Up to 2n tasks are taken before the first of them is yielded, so a slow one holds up the others instead of piling up their
    results. Raises an error of `do` at the turn of its task. Closing the iterator stops the running tasks.
    """
    events: SimpleQueue[Event] = SimpleQueue()  # from the threads
    stop = Cancellation(all_of=(listener.cancellation,))
    own = Listener(progress=of_the_run(events.put), cancellation=stop)
    remaining, window = iter(tasks), list[Future[R]]()
    with ThreadPoolExecutor(n) as pool:
        try:
            while True:
                new = list(islice(remaining, 1)) if len(window) < 2 * n else []
                window += [pool.submit(do, task, own) for task in new]
                if not window:
                    return
                wait(window[:1], 0 if new else _POLL_SECONDS)
                is_done = window[0].done()
                while not events.empty():
                    listener.progress(events.get())
                if is_done:
                    yield window.pop(0).result()
        finally:
            stop.request(CancelledError())
            pool.shutdown(wait=False, cancel_futures=True)
