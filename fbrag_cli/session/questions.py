"""Runs many questions in a session, several at once in threads whose model calls share batches. Answers come in order."""

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

#: Questions at once on a GPU, on which a step of many samples takes about as long as a step of one.
AT_ONCE_ON_GPU = 8

#: Questions on one document in a group: Stage III begins when all of them have passed Stage II.
_GROUP = 32

T = TypeVar("T")
R = TypeVar("R")


def answer_all(
    session: Session, queries: Iterable[Query], *, listener: Listener, at_once: int = 1
) -> Iterator[Trace | FbragError]:
    """Yield each query's answered trace, or its error, in the order of `queries`.

    queries: taken one by one, so that a document can be read when its questions are due. at_once: number of questions to run at
    once (`how_many_pay`). listener: called only in this thread; for questions that run at the same time it receives only
    warnings, hints and model loading. Call `session.prepare` first, so that a missing model is one error. Raises the error of the
    listener's cancellation, and errors other than FbragError. Closing the iterator stops the running questions.
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

    A model keeps the last prompt that it has read. If a document is so small that contexts overlap, Stage II therefore runs for a
    group of questions, then Stage III for all of them, with those whose contexts begin alike next to each other.
    """
    for group in _groups(queries):
        found = [_tried(partial(session.retrieve, query, listener), listener) for query in group]
        answered: dict[int, Trace | FbragError] = {}
        n_out = 0
        for i in sorted(range(len(group)), key=lambda i: _context(found[i])):
            trace = found[i]
            answered[i] = trace if isinstance(trace, FbragError) else _tried(partial(session.answer, trace, listener), listener)
            while n_out in answered:  # as soon as the ones before it are out
                yield answered.pop(n_out)
                n_out += 1


def _groups(queries: Iterable[Query]) -> Iterator[list[Query]]:
    """Yield the queries in groups on one document. If a context is a small part of the document, a group is one query."""
    group: list[Query] = []
    for query in queries:
        if group and (group[0].collection is not query.collection or len(group) == _GROUP):
            yield group
            group = []
        group.append(query)
        n_chunks = len(query.corpus.chunks)
        if n_chunks > 2 * query.method.n_context_chunks(n_chunks, query.corpus.chunk_words):
            yield group
            group = []
    if group:
        yield group


def _tried(run: Callable[[], Trace], listener: Listener) -> Trace | FbragError:
    """Return the result of `run`, or its FbragError. Raises the error of a cancellation."""
    try:
        return run()
    except FbragError as error:
        if listener.cancellation.requested:
            raise
        return error


def _context(found: Trace | FbragError) -> tuple[int, ...]:
    """Return the beginning of a context as a sort key."""
    return () if isinstance(found, FbragError) else tuple(excerpt.position for excerpt in found.context)


def how_many_pay(session: Session, method: Method, models: ModelNames = DEFAULT_MODELS) -> int:
    """Return how many questions to run at once for the best speed: several if all layers of the method's models are on a GPU,
    else one (see tests/benchmarks/README.md). Loads a model if its layers are unknown."""
    if not session.on_gpu:
        return 1
    small, large = session.names(models)
    adapter = method.adapter(session.pool.part, partial(session.models.digest, large))
    asked = [session.model(large, adapter), *([session.model(small)] if method.needs_small else [])]
    layers = [(each.info.gpu_layers or "0/1").split("/") for each in asked]  # unknown for a server
    return AT_ONCE_ON_GPU if all(on_gpu == of_all for on_gpu, of_all in layers) else 1


def in_order(do: Callable[[T, Listener], R], tasks: Iterable[T], n: int, listener: Listener) -> Iterator[R]:
    """Yield the result of `do` for each task, in order; `n` tasks run at once, each in a thread.

    Raises an error of `do` at the turn of its task. Closing the iterator stops the running tasks.
    """
    news: SimpleQueue[Event | None] = SimpleQueue()  # from the threads; None: a task is done
    stop = Cancellation(all_of=(listener.cancellation,))
    own = Listener(progress=of_the_run(news.put), cancellation=stop)
    futures = deque[Future[R]]()
    remaining = iter(tasks)
    with ThreadPoolExecutor(n) as pool:
        try:
            while True:
                # One more task than threads, so that no thread waits for its next task to be made.
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
