"""What a client waits for: the result of a job, or its events as they come. A client that goes away stops the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.progress import Event, Listener
from fbrag_cli.serving.job import END, Job, StoppedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fbrag_cli.trace import Trace

T = TypeVar("T")

#: Renders an event of a job as pairs of a name ("" for none) and data without line breaks.
Render = Callable[[Event], Iterable[tuple[str, str]]]

_SILENCE = 1.0  # seconds without an event, after which a comment line is sent
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies pass each event on at once


async def finished(request: Request, job: Job) -> Trace:
    """Wait for the end of a job, and return its trace. Raises its error. The job is stopped when the client goes away."""
    end, loop = asyncio.Event(), asyncio.get_running_loop()

    def receive(event: Event) -> None:
        if event is END:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end.set)

    job.subscribe(receive)
    with _stopped_at_exit(job):
        await _unless_gone(request.receive, end.wait())
    return job.trace()


async def in_thread(request: Request, work: Callable[[Listener], T], limiter: CapacityLimiter | None = None) -> T:
    """Return what `work` returns, which runs in a thread. Its listener stops it when the client goes away.

    limiter: of the threads that run such work at once; None for that of all work.
    """
    cancellation = Cancellation()
    run = partial(work, Listener(cancellation=cancellation))
    try:
        return await _unless_gone(request.receive, anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=limiter))
    finally:
        cancellation.request(StoppedError())


class EventStream(Response):
    """The events of a job as server-sent events, until its end. A comment line each second without one keeps proxies awake.

    render: called with each event in the job's thread, `END` as the last one. When it raises, the stream ends. over: called with
    the job when the stream has ended.
    """

    def __init__(self, job: Job, render: Render, over: Callable[[Job], object] = lambda job: None) -> None:
        super().__init__(media_type="text/event-stream", headers=_HEADERS)
        del self.headers["content-length"]
        self._job, self._over, self._pieces = job, over, asyncio.Queue[bytes | None]()
        loop = asyncio.get_running_loop()

        def put(piece: bytes | None) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._pieces.put_nowait, piece)

        def take(event: Event) -> None:
            try:
                for name, data in render(event):
                    put(_written(name, data))
            finally:
                if event is END:
                    put(None)

        job.subscribe(take)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def run() -> None:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while (piece := await _next(self._pieces)) is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        try:
            with _stopped_at_exit(self._job), suppress(StoppedError):
                await _unless_gone(receive, run())
        finally:
            self._over(self._job)


async def _next(queue: asyncio.Queue[bytes | None]) -> bytes | None:
    """Return the next piece; a comment line after a second without one."""
    try:
        return await asyncio.wait_for(queue.get(), _SILENCE)
    except asyncio.TimeoutError:
        return b":\n\n"


def _written(name: str, data: str) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + data.encode("utf-8", "replace") + b"\n\n"


@contextmanager
def _stopped_at_exit(job: Job) -> Iterator[None]:
    """Stop a job that still runs when the block ends."""
    try:
        yield
    finally:
        if not job.done:
            job.cancel()


async def _unless_gone(receive: Receive, run: Coroutine[object, object, T]) -> T:
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


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
