"""The life of the server: it listens, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.middleware.cors import CORSMiddleware

from fbrag_cli.serving.desk import Desk
from fbrag_cli.serving.http.app import create_app
from fbrag_cli.serving.process.access import Access

_MOST_REQUESTS = 512  # at once; connections count, also those on which nothing is asked
_GRACE_SECONDS = 2  # in which the requests that run end, after their work was stopped
_EVICT_SECONDS = 5.0  # between two looks at models that nobody uses


class _Server(uvicorn.Server):
    """ready: called once it listens."""

    def __init__(self, config: uvicorn.Config, desk: Desk, idle: float | None, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._desk, self._idle, self._ready = desk, idle, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._desk.begin()
        self._evicting = asyncio.create_task(_evict(self._desk, self._idle))
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the work first, so that its clients are told."""
        self._evicting.cancel()
        await asyncio.to_thread(self._desk.close)
        await super().shutdown(sockets)


def serve(
    desk: Desk,
    access: Access,
    listener: socket.socket,
    *,
    idle: float | None,
    ready: Callable[[], object],
    log: Callable[[str], object],
) -> None:
    """Serve until a signal comes, which is raised again at the end.

    access: who may come in. idle: seconds after which models that nobody uses are freed; None for never. ready: called once it
    listens. log: receives a line for each request, and for what goes wrong with one.
    """
    app = access.guard(create_app(desk), log)
    if access.origins:
        app = CORSMiddleware(
            app,
            access.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            allow_private_network=True,  # a page of the internet asks a private address
            expose_headers=["Retry-After"],
        )
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody else says from where a request comes
        limit_concurrency=_MOST_REQUESTS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored: nohup
        signal.signal(signal.SIGHUP, lambda number, frame: signal.raise_signal(signal.SIGTERM))
    with _logging(log):
        _Server(config, desk, idle, ready).run([listener])


async def _evict(desk: Desk, idle: float | None) -> None:
    """Free what nobody has used for as long."""
    while idle is not None:
        await asyncio.sleep(min(_EVICT_SECONDS, idle / 4))
        try:
            await asyncio.to_thread(desk.evict_idle, idle)
        except Exception:
            logging.getLogger("fbrag").exception("what nobody uses cannot be freed")


@contextmanager
def _logging(log: Callable[[str], object]) -> Iterator[None]:
    """Let `log` receive what the libraries log, until the block ends."""
    handler = _Lines(log)
    loggers = [logging.getLogger(name) for name in ("uvicorn", "asyncio", "fbrag")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True


class _Lines(logging.Handler):
    """Passes warnings and errors on, a line each. The lines of a traceback hold no text of a client but that of the error."""

    def __init__(self, log: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        for line in self.format(record).splitlines():
            self._log(line)
