"""What a client waits for: the result of a job, or its events as they come. A client that goes away stops the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.progress import Event, Listener
from fbrag_cli.serving.job import END, Job, StoppedError

if TYPE_CHECKING:
    from fbrag_cli.trace import Trace

T = TypeVar("T")

#: Renders an event of a job as pairs of a name ("" for none) and data without line breaks.
Render = Callable[[Event], Iterable[tuple[str, str]]]

_SILENCE = 1.0  # seconds without an event, after which a comment line is sent
_APART = 0.25  # seconds between two events of the progress, at least
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies pass each event on at once


async def followed(job: Job) -> AsyncGenerator[list[tuple[int, Event]], None]:
    """Yield the events of a job from the first to `END`, with their numbers, as they come; none after a second without one."""
    loop, woken, last = asyncio.get_running_loop(), asyncio.Event(), -1

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(woken.set)

    with job.watched(wake):
        while True:
            woken.clear()
            if events := job.events(last):
                yield events
                last, event = events[-1]
                if event is END:
                    return
            else:
                try:
                    await asyncio.wait_for(woken.wait(), _SILENCE)
                except TimeoutError:
                    yield []


async def finished(request: Request, job: Job) -> Trace:
    """Wait for the end of a job, and return its trace. Raises its error. The job is stopped when the client goes away."""

    async def end() -> None:
        async with aclosing(followed(job)) as events:
            async for _ in events:
                pass

    try:
        await unless_gone(request.receive, end())
    finally:
        job.leave()
    return job.trace()


async def in_thread(request: Request, work: Callable[[Listener], T], limiter: CapacityLimiter | None = None) -> T:
    """Return what `work` returns, which runs in a thread. Its listener stops it when the client goes away.

    limiter: of the threads that run such work at once; None for that of all work.
    """
    cancellation = Cancellation()
    run = partial(work, Listener(cancellation=cancellation))
    try:
        return await unless_gone(request.receive, anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter))
    finally:
        cancellation.request(StoppedError())


class EventStream(StreamingResponse):
    """The events of a job as server-sent events, until its end. A comment line each second without one keeps proxies awake.

    render: called with each event in its order, `END` as the last one, in a thread. When it raises, the stream ends.
    after: number of the last event that a client has, which comes back for the others: its events have their numbers. None for a
    client that does not, which stops the job when it goes away.
    """

    def __init__(self, job: Job, render: Render, *, after: int | None = None) -> None:
        super().__init__(self._pieces(), media_type="text/event-stream", headers=_HEADERS)
        self._job, self._render, self._after = job, render, after
        self._told = 0.0  # when progress was

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self.body_iterator):  # type: ignore[type-var]
                await super().__call__(scope, receive, send)
        finally:
            if self._after is None:
                self._job.leave()

    async def _pieces(self) -> AsyncIterator[bytes]:
        async with aclosing(followed(self._job)) as batches:
            async for batch in batches:
                for piece in await anyio.to_thread.run_sync(self._rendered, batch) if batch else [b":\n\n"]:
                    yield piece

    def _rendered(self, batch: list[tuple[int, Event]]) -> list[bytes]:
        pieces = []
        for number, event in batch:
            if event.kind in ("progress", "written"):
                if monotonic() - self._told < _APART:
                    continue
                self._told = monotonic()
            rendered = [*self._render(event)]
            if self._after is None:  # some clients take a comment after a number for an event without data
                pieces += [_written(name, data) for name, data in rendered]
            elif number > self._after:
                pieces += [_written(name, f"{data}\nid: {number}") for name, data in rendered]
        return pieces


def _written(name: str, data: str) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode("utf-8", "replace")


async def unless_gone(receive: Receive, run: Coroutine[object, object, T]) -> T:
    """Return what `run` returns, unless the client goes away before. Raises StoppedError then, and what `run` raises."""
    running, gone = asyncio.ensure_future(run), asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        raise StoppedError()
    finally:
        running.cancel()
        gone.cancel()
        await asyncio.wait((running, gone))


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
