"""How long the server lives: until it is stopped, or nobody has asked anything for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from time import monotonic


class Lifetime:
    """Counts the requests of clients, and says when the process shall end.

    idle: seconds without a request after which it ends; None: it does not end by itself. busy: returns whether work goes on that
    no request waits for. socket, url: where it listens. since: when it began, in UTC. running: number of requests. is_stuck:
    whether work goes on at the end that nothing stops, as within a library.
    """

    def __init__(
        self,
        idle: float | None = None,
        busy: Callable[[], bool] = lambda: False,
        *,
        socket: str | None = None,
        url: str | None = None,
    ) -> None:
        self.idle, self._busy, self.socket, self.url = idle, busy, socket, url
        self.since = datetime.now(timezone.utc)
        self.running, self.is_stuck = 0, False
        self._last = monotonic()
        self._stopped = False
        self._lock = threading.Lock()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Surround a request of a client."""
        with self._lock:
            self.running += 1
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1
                self._last = monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request ended; 0 while one runs, or work goes on."""
        if self.running or self._busy():
            self._last = monotonic()
            return 0.0
        return monotonic() - self._last

    @property
    def is_over(self) -> bool:
        """Whether the process shall end."""
        return self._stopped or (self.idle is not None and self.idle_seconds >= self.idle)

    def stop(self) -> None:
        """End the process. May be called from any thread, and from the handler of a signal."""
        self._stopped = True
