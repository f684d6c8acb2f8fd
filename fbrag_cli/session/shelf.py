"""`Shelf`: values by key that several threads share, as loaded models. Each is made once, and let go when nobody holds it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from fbrag_cli.progress import Listener, Stopwatch

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lease(ExitStack):
    """Holds values of shelves for one caller until the block ends; without a block, until the shelves are closed.

    listener: receives the progress of what is made for this caller, and can stop it. seconds: wall time for which the caller
    waited.
    """

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.listener, self.seconds = listener, 0.0


@dataclass(slots=True)
class _Entry(Generic[Value]):
    value: Value
    n_holders: int = 0
    last_used: float = 0.0


class Shelf(Generic[Key, Value]):
    """Values by key. While one is made, only callers of the same key wait. If that fails, the next caller tries again.

    free: called with each value that is let go. most: number of values that are kept; then the least recently used one that
    nobody holds is let go. None: values are kept until `unload` or `close`.
    """

    def __init__(self, free: Callable[[Value], object] = lambda value: None, most: int | None = None) -> None:
        self._free, self._most = free, most
        self._entries: OrderedDict[Key, _Entry[Value]] = OrderedDict()  # the least recently used first
        self._making: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()  # of both; nothing is made or freed under it

    def get(self, key: Key, make: Callable[[], Value], lease: Lease) -> Value:
        """Return the value of a key, made by the first call. Raises what `make` raises, and the error of a requested stop."""
        if found := self._held(key, lease):
            return found.value
        watch = Stopwatch()
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with lease.listener.cancellation.holding(making):
            found = self._held(key, lease) or self._held(key, lease, _Entry(make()))
        lease.seconds += watch.seconds
        assert found
        if self._most is not None:
            self._let_go(len(self._entries) - self._most, idle=0.0)
        return found.value

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def now(self) -> dict[Key, Value]:
        """Return the values that are there now, by key."""
        with self._lock:
            return {key: entry.value for key, entry in self._entries.items()}

    def unload(self, idle: float) -> None:
        """Let go what nobody holds and nobody has used for `idle` seconds."""
        self._let_go(len(self._entries), idle)

    def close(self) -> None:
        """Free all values."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            self._free(entry.value)

    def _held(self, key: Key, lease: Lease, new: _Entry[Value] | None = None) -> _Entry[Value] | None:
        """Return the entry of a key, or `new` as its entry where there is none. The lease holds it from now on."""
        with self._lock:
            if (entry := self._entries.get(key, new)) is None:
                return None
            self._entries[key] = entry
            self._entries.move_to_end(key)
            entry.n_holders, entry.last_used = entry.n_holders + 1, monotonic()
        lease.callback(self._release, entry)
        return entry

    def _release(self, entry: _Entry[Value]) -> None:
        with self._lock:
            entry.n_holders, entry.last_used = entry.n_holders - 1, monotonic()

    def _let_go(self, most: int, idle: float) -> None:
        latest = monotonic() - idle
        with self._lock:
            due = [key for key, entry in self._entries.items() if not entry.n_holders and entry.last_used <= latest]
            gone = [self._entries.pop(key) for key in due[: max(0, most)]]
        for entry in gone:
            self._free(entry.value)
