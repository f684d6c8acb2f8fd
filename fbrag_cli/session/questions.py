"""Many questions to a session: several at once, each in a thread, their models' work in common batches. Answers are in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
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

#: Questions at once on a GPU, where a step of many samples takes about as long as a step of one.
AT_ONCE_ON_GPU = 8

#: Questions on one document of which Stage III begins when all of them have been through Stage II.
_GROUP = 32

T = TypeVar("T")
R = TypeVar("R")


def answer_all(
    session: Session, queries: Iterable[Query], *, listener: Listener, at_once: int = 1
) -> Iterator[Trace | FbragError]:
    """Yield the answered trace of each query, or its error, in the order of `queries`.

    queries: taken one by one, so that a document may be read when its questions are due. at_once: number of questions that run at
    once (`how_many_pay`). listener: called in this thread alone; of questions that run beside others it receives warnings, hints
    and the loading of models. Call `session.prepare` before, so that a missing model is one error.
    Raises the error of the listener's cancellation, and whatever is no FbragError. Closing the iterator stops what runs.
    """
    if at_once == 1:
        yield from _one_by_one(session, queries, listener)
        return

    def answer(query: Query, listener: Listener) -> Trace | FbragError:
        return _tried(partial(session.ask, query, listener), listener)

    session.run_at_once(at_once)
    try:
        yield from in_order(answer, queries, at_once, listener)
    finally:
        session.run_at_once(1)


def _one_by_one(session: Session, queries: Iterable[Query], listener: Listener) -> Iterator[Trace | FbragError]:
    """Answer the questions in this thread.

    A model keeps the last prompt that it has read. So, where a document is so small that contexts have much in common, Stage II
    runs for a group of questions, then Stage III for all of them, those whose contexts begin alike one after the other.
    """
    for group in _groups(queries):
        found = [_tried(partial(session.retrieve, query, listener), listener) for query in group]
        answered: dict[int, Trace | FbragError] = {}
        n_out = 0
        for i in sorted(range(len(group)), key=lambda i: _context(found[i])):
            trace = found[i]
            answered[i] = trace if isinstance(trace, FbragError) else _tried(partial(session.answer, trace, listener), listener)
            while n_out in answered:  # as soon as those before are out
                yield answered.pop(n_out)
                n_out += 1


def _groups(queries: Iterable[Query]) -> Iterator[list[Query]]:
    """Yield the queries in groups on one document. Where a context is a small part of the document, a group is one query."""
    group: list[Query] = []
    for query in queries:
        if group and (group[0].collection is not query.collection or len(group) == _GROUP):
            yield group
            group = []
        group.append(query)
        n_chunks = len(query.corpus.chunks)
        if n_chunks > 2 * query.method.n_context_chunks(n_chunks):
            yield group
            group = []
    if group:
        yield group


def _tried(run: Callable[[], Trace], listener: Listener) -> Trace | FbragError:
    """Return what `run` returns, or its error. Raises the error of a cancellation."""
    try:
        return run()
    except FbragError as error:
        if listener.cancellation.requested:
            raise
        return error


def _context(found: Trace | FbragError) -> tuple[int, ...]:
    """Return what a context begins with, as a key to sort by."""
    return () if isinstance(found, FbragError) else tuple(excerpt.position for excerpt in found.context)


def how_many_pay(session: Session, method: Method, models: ModelNames = DEFAULT_MODELS) -> int:
    """Return how many questions at once pay: several where all layers of the method's models are on a GPU, else one (see
    tests/benchmarks/README.md). A model of which nothing is known yet is loaded for it."""
    if not session.on_gpu:
        return 1
    small, large = session.names(models)
    adapter = method.adapter(session.pool.part, partial(session.models.digest, large))
    asked = [session.model(large, adapter), *([session.model(small)] if method.needs_small else [])]
    layers = [(each.info.gpu_layers or "0/1").split("/") for each in asked]  # of a server they are not known
    return AT_ONCE_ON_GPU if all(on_gpu == of_all for on_gpu, of_all in layers) else 1


def in_order(do: Callable[[T, Listener], R], tasks: Iterable[T], n: int, listener: Listener) -> Iterator[R]:
    """Yield what `do` returns for each task, in order; `n` tasks run at once, each in a thread.

    Raises what `do` raises for a task at the task's turn. Closing the iterator stops what runs.
    """
    news: SimpleQueue[Event | None] = SimpleQueue()  # from the threads; None: a task is done
    stop = Cancellation(all_of=(listener.cancellation,))
    own = Listener(progress=of_the_run(news.put), cancellation=stop)
    futures = deque[Future[R]]()
    remaining = iter(tasks)
    with ThreadPoolExecutor(n) as pool:
        try:
            while True:
                # One task more than threads, so that none of them waits for its next one to be made.
                while sum(not each.done() for each in futures) <= n and (new := list(islice(remaining, 1))):
                    futures.append(pool.submit(do, new[0], own))
                    futures[-1].add_done_callback(lambda _: news.put(None))
                if not futures:
                    return
                while not (futures[0].done() and news.empty()):
                    if (event := news.get()) is None:
                        break
                    listener.progress(event)
                else:
                    yield futures.popleft().result()
        finally:
            stop.request(CancelledError())
            pool.shutdown(wait=False, cancel_futures=True)
