"""`Connection`: uvicorn's HTTP/1.1 over h11, with a limit of connections, and of the time in which a client may say nothing."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 512  # connections of a listener
SILENT_SECONDS = 20.0  # between two requests, and until the headers of one are there
_LOOK_SECONDS = 5.0


class Connection(H11Protocol):
    """A connection of a client. It is cut where nothing is asked over it for a while, or its client reads no more."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()  # of the time in which nothing is asked
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self._look = self.loop.call_later(_LOOK_SECONDS, self._cut_where_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if look := getattr(self, "_look", None):
            look.cancel()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def _cut_where_silent(self) -> None:
        cycle = cast(Any, self.cycle)
        runs = cycle is not None and not cycle.response_complete and not self.transport.is_closing()
        if not runs and self.loop.time() - self._since >= SILENT_SECONDS:
            self.transport.abort()
            return
        self._look = self.loop.call_later(_LOOK_SECONDS, self._cut_where_silent)
