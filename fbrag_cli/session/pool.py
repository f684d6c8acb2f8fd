"""`Pool`: values by key, such as loaded models, shared by threads. Each is made once, and may be freed when no lease holds it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Generic, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.progress import Listener, Stopwatch, stage

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

#: Makes a value. Resources to free with the value are pushed on the stack, and are also freed if making it fails.
Make = Callable[[ExitStack], Value]


class Lease:
    """Holds values of pools for one caller: until the block ends, or until the pools are closed.

    listener: receives the progress of values made for this caller, and can end the wait. seconds: wall time that the caller
    waited.
    """

    def __init__(self, listener: Listener) -> None:
        self.listener, self.seconds = listener, 0.0
        self.held: dict[tuple[Pool[Any, Any], Hashable], _Entry[Any]] = {}

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *exc: object) -> None:
        while self.held:
            (pool, key), entry = self.held.popitem()
            pool.release(key, entry)


@dataclass(slots=True, eq=False)
class _Entry(Generic[Value]):
    """A value, or a placeholder while the value is being made and `making` is locked.

    stop: ends the making that no caller awaits. n_holders: callers that hold or await it.
    """

    value: Value = field(init=False)
    is_made: bool = False
    owned: ExitStack = field(default_factory=ExitStack)
    making: threading.Lock = field(default_factory=threading.Lock)
    stop: Cancellation = field(default_factory=Cancellation)
    n_holders: int = 1
    is_reported: bool = False  # whether a waiting caller has reported the stage
    last_used: float = 0.0

    def fill(self, make: Make[Value]) -> None:
        with ExitStack() as owned:
            self.value = make(owned)
            self.owned, self.is_made = owned.pop_all(), True


class Pool(Generic[Key, Value]):
    """Values by key. While one is made, only callers of the same key wait. If making it fails, the next caller tries again.

    most: number of values to keep; beyond it, the least recently used one without a holder is freed. None: values are kept until
    `evict_idle`. stage: reported to the first caller that has to wait.
    """

    def __init__(self, *, most: int | None = None, stage: str = "") -> None:
        self._most, self._stage = most, stage
        self._entries: OrderedDict[Key, _Entry[Value]] = OrderedDict()  # the least recently used first
        self._lock = threading.Lock()  # guards the entries; not held while values are made or freed

    def get(self, key: Key, make: Make[Value], lease: Lease) -> Value:
        """Return the value of a key, which the first call makes. The lease holds it from now on.

        Raises the errors of `make`, and the error of a requested stop.
        """
        entry: _Entry[Value] | None = lease.held.get((self, key))
        if entry is None:
            with self._lock:
                entry = self._entries.setdefault(key, _Entry(n_holders=0))
                entry.n_holders += 1
                self._entries.move_to_end(key)
            try:
                if not entry.is_made:
                    self._wait(entry, make, lease)
            except BaseException:
                self.release(key, entry)
                raise
            lease.held[self, key] = entry
            if self._most is not None:
                self._evict(len(self._entries) - self._most, idle=0.0)
        return entry.value

    def begin(self, key: Key, make: Make[Value], stop: Cancellation) -> None:
        """Make the value of a key in a thread, unless it exists or is being made. If that fails, the next caller tries again.

        stop: ends `make`; `close` requests it.
        """
        with self._lock:
            if key in self._entries:
                return
            entry = self._entries[key] = _Entry(stop=stop)
            entry.making.acquire()

        def run() -> None:
            try:
                entry.fill(make)
            except BaseException:
                pass
            finally:
                entry.making.release()
                self.release(key, entry)

        threading.Thread(target=run, name="pool").start()

    def values(self) -> dict[Key, Value]:
        """Return the current values by key."""
        with self._lock:
            return {key: entry.value for key, entry in self._entries.items() if entry.is_made}

    def evict_idle(self, seconds: float) -> None:
        """Free the values that no lease holds and that have been idle for `seconds`."""
        self._evict(len(self._entries), seconds)

    def close(self) -> None:
        """Free all values. What `begin` makes is stopped; what a caller makes is waited for."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            entry.stop.request(CancelledError())
        for entry in entries:
            with entry.making:
                entry.owned.close()

    def release(self, key: Key, entry: _Entry[Value]) -> None:
        """Record that a caller no longer holds an entry. An entry without a value is removed with its last caller."""
        with self._lock:
            entry.n_holders, entry.last_used = entry.n_holders - 1, monotonic()
            if not (entry.n_holders or entry.is_made) and self._entries.get(key) is entry:
                del self._entries[key]

    def _wait(self, entry: _Entry[Value], make: Make[Value], lease: Lease) -> None:
        """Wait until an entry's value is made, by another thread or in this one."""
        watch, listener = Stopwatch(), lease.listener
        with self._lock:
            says, entry.is_reported = self._stage and not entry.is_reported, True
        with stage(self._stage, listener.progress) if says else nullcontext(), listener.cancellation.holding(entry.making):
            if not entry.is_made:
                entry.fill(make)
        lease.seconds += watch.seconds

    def _evict(self, most: int, idle: float) -> None:
        latest = monotonic() - idle
        with self._lock:
            due = [key for key, entry in self._entries.items() if not entry.n_holders and entry.last_used <= latest]
            gone = [self._entries.pop(key) for key in due[: max(0, most)]]
        for entry in gone:
            entry.owned.close()
