"""The life of the server: it listens, until a signal, a request or a time without requests ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import Any

import uvicorn

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.serving.http.app import create_app
from fbrag_cli.serving.http.state import State
from fbrag_cli.serving.job import StoppedError
from fbrag_cli.serving.process.connection import Connection
from fbrag_cli.serving.process.entrance import Entrance
from fbrag_cli.serving.process.guard import Guard

_GRACE_SECONDS = 2  # in which the requests that run end, after their work was stopped
_POLL_SECONDS = 0.1
_UNLOAD_SECONDS = 5.0  # between two looks at models that nobody uses


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the process, which stops all its servers."""
        yield


def serve(
    state: State,
    listeners: Sequence[tuple[socket.socket, Entrance | None]],
    ready: Callable[[], object],
    log: Callable[[str], object],
) -> int:
    """Serve until the process shall end. Return the exit code: 0, or after a signal 128 and its number.

    listeners: sockets, each with who may come in; None: this user alone. ready: called once all are served. log: receives a line
    for each request, and for what goes wrong with one.
    """
    with _logging(log):
        return asyncio.run(_serve(state, listeners, ready, log))


async def _serve(
    state: State,
    listeners: Sequence[tuple[socket.socket, Entrance | None]],
    ready: Callable[[], object],
    log: Callable[[str], object],
) -> int:
    lifetime, servers, tasks = state.lifetime, [], []
    with _signals(lifetime.stop) as received:
        for listener, entrance in listeners:
            app = Guard(create_app(state, local=entrance is None), lifetime, entrance, log)
            servers.append(server := _Server(_configuration(app)))
            tasks.append(asyncio.create_task(server.serve([listener])))
        while not all(server.started for server in servers):
            for failed in filter(asyncio.Task.done, tasks):
                failed.result()
            await asyncio.sleep(0.002)
        ready()
        ended = Cancellation()
        beginning = Thread(target=_begin, args=(state, Listener(cancellation=ended)), daemon=True)
        beginning.start()
        unloading = asyncio.create_task(_unload(state))
        while not lifetime.is_over:
            await asyncio.sleep(_POLL_SECONDS)
        unloading.cancel()
        ended.request(StoppedError())
        for server in servers:
            server.should_exit = True
        await asyncio.to_thread(state.desk.close)
        await asyncio.to_thread(beginning.join, _GRACE_SECONDS)
        await asyncio.gather(*tasks)
        lifetime.is_stuck = state.desk.n_running > 0 or beginning.is_alive()
    return 128 + received[0] if received else 0


def _begin(state: State, listener: Listener) -> None:
    """Load the models, and read the documents that are served, before the first question. What fails is said to its client."""
    if not state.library.entries():
        return
    try:
        for name in dict.fromkeys(state.session.names()):
            state.session.models.begin(name, listener)
        state.library.collection((), listener, state.desk.default_method.chunk_words)
    except FbragError:
        pass
    except Exception:
        logging.getLogger("fbrag").exception("what is served cannot be read before it is asked")


async def _unload(state: State) -> None:
    """Free what nobody has used for as long as the process waits for a request."""
    while (idle := state.lifetime.idle) is not None:
        await asyncio.sleep(min(_UNLOAD_SECONDS, idle / 4))
        try:
            await asyncio.to_thread(state.desk.unload, idle)
        except Exception:
            logging.getLogger("fbrag").exception("what nobody uses cannot be freed")


def _configuration(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody else says from where a request comes
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


@contextmanager
def _signals(stop: Callable[[], object]) -> Iterator[list[int]]:
    """Call `stop` for each signal that ends the process, until the block ends. Yield the list of those that came.

    A second Ctrl-C ends the process at once. The next one cleans up what it leaves.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and number in received:
            os._exit(128 + number)
        received.append(number)
        stop()

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


@contextmanager
def _logging(log: Callable[[str], object]) -> Iterator[None]:
    """Let `log` receive what the libraries log, until the block ends."""
    handler = _Lines(log)
    loggers = [logging.getLogger(name) for name in ("uvicorn", "asyncio", "fbrag")]
    for each in loggers:
        each.addHandler(handler)
        each.propagate = False
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(handler)
            each.propagate = True


class _Lines(logging.Handler):
    """Passes warnings and errors on, a line each. The lines of a traceback hold no text of a client but that of the error."""

    def __init__(self, log: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).splitlines():
            self._log(line)
