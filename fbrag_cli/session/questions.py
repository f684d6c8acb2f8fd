"""Many questions to a session: several at once, each in a thread, their models' work in common batches. Answers are in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Listener, of_the_run
from fbrag_cli.session.session import DEFAULT, Choice, Session
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.methods.method import Method

#: Questions at once on a GPU, where a step of many samples takes about as long as a step of one.
AT_ONCE_ON_GPU = 8

#: Questions on one document of which Stage III begins when all of them have been through Stage II.
_GROUP = 32

Task = tuple[str, "Collection"]

T = TypeVar("T")
R = TypeVar("R")


def answer_all(
    session: Session,
    asked: Iterable[Task],
    method: Method,
    choice: Choice = DEFAULT,
    *,
    listener: Listener,
    at_once: int | None = 1,
) -> Iterator[Trace | FbragError]:
    """Yield the answered trace of each question on its collection, or the error of that question, in the order of `asked`.

    asked: taken one by one, so that a document may be read when its questions are due. at_once: number of questions that run at
    once; None for as many as pay. listener: called in this thread alone; of questions that run beside others it receives
    warnings, hints and the loading of models. Call `session.prepare` before, so that a missing model is one error.
    Raises the error of the listener's cancellation, and whatever is no FbragError. Closing the iterator stops what runs.
    """
    n = how_many_pay(session, method, choice) if at_once is None else at_once
    if n == 1:
        yield from _one_by_one(session, asked, method, choice, listener)
        return

    def answer(task: Task, listener: Listener) -> Trace | FbragError:
        return _tried(session.ask(*task, method, choice, listener).answer, listener)

    session.run_at_once(n)
    try:
        yield from in_order(answer, asked, n, listener)
    finally:
        session.run_at_once(1)


def _one_by_one(
    session: Session, asked: Iterable[Task], method: Method, choice: Choice, listener: Listener
) -> Iterator[Trace | FbragError]:
    """Answer the questions in this thread.

    A model keeps the last prompt that it has read. So, where a document is so small that contexts have much in common, Stage II
    runs for a group of questions, then Stage III for all of them, those whose contexts begin alike one after the other.
    """
    for group in _groups(asked, method):
        questions = [session.ask(*task, method, choice, listener) for task in group]
        found = [_tried(each.retrieve, listener) for each in questions]
        answered: dict[int, Trace | FbragError] = {}
        n_out = 0
        for i in sorted(range(len(group)), key=lambda i: _context(found[i])):
            answered[i] = found[i] if isinstance(found[i], FbragError) else _tried(questions[i].answer, listener)
            while n_out in answered:  # as soon as those before are out
                yield answered.pop(n_out)
                n_out += 1


def _groups(asked: Iterable[Task], method: Method) -> Iterator[list[Task]]:
    """Yield the questions in groups on one document. Where a context is a small part of the document, a group is one question."""
    group: list[Task] = []
    for task in asked:
        if group and (group[0][1] is not task[1] or len(group) == _GROUP):
            yield group
            group = []
        group.append(task)
        n_chunks = len(task[1].corpus.chunks)
        if n_chunks > 2 * method.n_read(n_chunks):
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
    return () if isinstance(found, FbragError) else tuple(excerpt.chunk.position for excerpt in found.context)


def how_many_pay(session: Session, method: Method, choice: Choice = DEFAULT) -> int:
    """Return how many questions at once pay: several where all layers of the method's models are on a GPU, else one (see
    tests/benchmarks/README.md). A model of which nothing is known yet is loaded for it."""
    if not session.on_gpu:
        return 1
    tools = session.model_tools(choice)
    asked = [method.large(tools), *([tools.small()] if method.needs_small else [])]
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
