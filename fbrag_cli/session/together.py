"""Questions to a session, one after the other, the answers in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from fbrag_cli.errors import FbragError
from fbrag_cli.session.session import DEFAULT, Choice, Listener, Session
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.methods.method import Method

#: Questions on one document of which Stage III begins when all of them have been through Stage II.
_GROUP = 32

Task = tuple[str, "Collection"]


def answer_all(
    session: Session,
    asked: Iterable[Task],
    method: Method,
    choice: Choice = DEFAULT,
    *,
    listener: Listener,
    at_once: int | None = 1,
) -> Iterator[Trace | FbragError]:
    yield from _one_by_one(session, asked, method, choice, listener)


def _one_by_one(
    session: Session, asked: Iterable[Task], method: Method, choice: Choice, listener: Listener
) -> Iterator[Trace | FbragError]:
    """Answer the questions in this thread.

    A model keeps the last prompt that it has read. So, where a document is so small that contexts have much in common, Stage II
    runs for a group of questions, then Stage III for all of them, those whose contexts begin alike one after the other.
    """

    def retrieve(task: Task) -> Trace:
        return session.retrieve(*task, method, choice, listener)

    def answer(found: Trace | FbragError) -> Trace | FbragError:
        return _tried(lambda: session.answer(found, choice, listener), listener) if isinstance(found, Trace) else found

    for group in _groups(asked, method):
        found = [_tried(partial(retrieve, task), listener) for task in group]
        for i in sorted(range(len(group)), key=lambda i: _context(found[i])):
            found[i] = answer(found[i])
        yield from found


def _groups(asked: Iterable[Task], method: Method) -> Iterator[list[Task]]:
    """Yield the questions in groups on one document; of a document of which a context is a small part, one question each."""
    group: list[Task] = []
    for task in asked:
        if group and (group[0][1] is not task[1] or len(group) == _GROUP):
            yield group
            group = []
        group.append(task)
        if len(task[1].corpus.chunks) > 2 * getattr(method, "select", 0):
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
