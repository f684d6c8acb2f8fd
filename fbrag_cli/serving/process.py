"""The life of the warm process: it listens, until a signal or a request stops it."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

_GRACE_SECONDS = 2  # in which the requests that run end, after their work was stopped


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the process, which stops all its servers."""
        yield


def serve(apps: list[tuple[Any, socket.socket]], ready: Callable[[], object], stop: Callable[[], object]) -> int:
    """Serve each application on its socket until a signal. Return the exit code, 128 and the signal's number.

    ready: called once all of them listen. stop: stops the work of the requests that run.
    """
    return asyncio.run(_serve(apps, ready, stop))


async def _serve(apps: list[tuple[Any, socket.socket]], ready: Callable[[], object], stop: Callable[[], object]) -> int:
    servers = [_Server(_configuration(app)) for app, _ in apps]
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    with _signals(lambda: loop.call_soon_threadsafe(ended.set)) as received:
        tasks = [asyncio.create_task(server.serve([listener])) for server, (_, listener) in zip(servers, apps, strict=True)]
        while not all(server.started for server in servers):
            await asyncio.sleep(0.005)
        ready()
        await ended.wait()
        for server in servers:
            server.should_exit = True
        await asyncio.to_thread(stop)
        await asyncio.gather(*tasks)
    return 128 + received[0] if received else 0


def _configuration(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody else says from where a request comes
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


@contextmanager
def _signals(wake: Callable[[], object]) -> Iterator[list[int]]:
    """Note the signals that end the process, and call `wake` at each, until the block ends."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        wake()

    ends = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {each: signal.getsignal(each) for each in ends}
    heeded = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}  # ignored: nohup
    for each in heeded:
        signal.signal(each, note)
    try:
        yield received
    finally:
        for each, handler in heeded.items():
            signal.signal(each, handler)
