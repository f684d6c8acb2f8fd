"""Requests to one server, as their caller reads them: what comes, in the order in which it comes."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, Queue
from time import perf_counter

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.server.exchange import TICK, Exchange
from fbrag_cli.generation.server.host import Host
from fbrag_cli.generation.server.replies import Json

_ROOM = 256  # items that wait for their reader


def ask(host: Host, url: str, body: Json | None = None, cancellation: Cancellation | None = None) -> Json:
    """Return the JSON object that `url` gives: by POST where there is a body, else by GET. Raises the errors of `Exchange`."""
    with Requests(host, cancellation) as requests:
        exchange = requests.start(url, body)
        for _, item in requests:
            if item is not None:
                return item
    raise exchange.error or host.error("an empty reply", "see the server's log")


class Requests:
    """Requests to one server that run at the same time. What is left of them is stopped at the end of the block."""

    def __init__(self, host: Host, cancellation: Cancellation | None) -> None:
        self._host, self._cancellation = host, cancellation or Cancellation()
        self._inbox: Queue[tuple[Exchange, Json | None]] = Queue(_ROOM)
        self._running: set[Exchange] = set()

    def start(self, url: str, body: Json | None = None) -> Exchange:
        exchange = Exchange(self._host, url, body, self._inbox)
        self._running.add(exchange)
        return exchange

    def stop(self, exchange: Exchange) -> None:
        """End a request of which nothing more is read."""
        exchange.stop()
        self._running.discard(exchange)

    def __iter__(self) -> Iterator[tuple[Exchange, Json | None]]:
        """Yield what comes, as it comes, until all requests have ended. A request ends with None, and may then have an `error`.
        Raises the error of a requested cancellation."""
        while self._running:
            found = self._next()
            if found and found[0] in self._running:
                exchange, item = found
                exchange.heard = perf_counter()
                if item is None:
                    self._running.discard(exchange)
                yield exchange, item

    def _next(self) -> tuple[Exchange, Json | None] | None:
        """Return what comes next, or the end of a request that sends nothing any more; None where nothing came for a moment."""
        with self._cancellation.native():
            try:
                return self._inbox.get(timeout=TICK)
            except Empty:
                pass
        for exchange in self._running:
            if exchange.hung:
                exchange.stop()
                return exchange, None
        return None

    def __enter__(self) -> Requests:
        return self

    def __exit__(self, *exc: object) -> None:
        for exchange in tuple(self._running):
            self.stop(exchange)
