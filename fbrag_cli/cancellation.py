"""Requests to stop that also reach child processes and llama.cpp, in which Python cannot raise an exception."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1  # between two checks for a request


class Cancellation:
    """A request to stop one call, or several calls that share it. It cannot be withdrawn: a later call needs a new one.

    A call runs its native code inside `native()`. llama.cpp checks `requested` between two operations and returns early; then
    `native()` raises the error in the thread of that call.

    all_of: other cancellations; once all of them are requested, so is this one.
    """

    def __init__(self, all_of: Sequence[Cancellation] = ()) -> None:
        self._error: BaseException | None = None
        self._all_of = all_of

    @property
    def requested(self) -> bool:
        return self._error is not None or bool(self._all_of and all(each.requested for each in self._all_of))

    @property
    def error(self) -> BaseException | None:
        """What the stopped calls raise; None before a request."""
        if self._error is None and self.requested:
            return self._all_of[0].error
        return self._error

    def request(self, error: BaseException) -> None:
        """Stop the calls that carry this cancellation; each raises `error`, or the first error of several requests. May be
        called from any thread, and returns at once."""
        self._error = self._error or error

    def after(self, seconds: float, error: BaseException) -> threading.Timer:
        """Request a stop after `seconds` of wall time, unless the returned timer is cancelled before. Works in any thread."""
        timer = threading.Timer(seconds, self.request, (error,))
        timer.daemon = True
        timer.start()
        return timer

    def interrupt(self, error: BaseException) -> None:
        """Request a stop from a signal handler, which runs in the main thread. Raises `error` at once, unless the main thread is
        inside native code: then that code returns early and the error is raised in its caller, whichever cancellation the call
        carries."""
        self.request(error)
        running: Cancellation | None = getattr(_this_thread, "running", None)
        if running is None:
            raise error
        running.request(error)

    @contextmanager
    def native(self) -> Iterator[None]:
        """Context manager for native code: raises the error of a pending request on entry and on exit. Blocks may be nested."""
        self.raise_if_requested()
        outer, _this_thread.running = getattr(_this_thread, "running", None), self
        try:
            yield
        finally:
            _this_thread.running = outer
        self.raise_if_requested()

    @contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock. Raises the error of a request that comes while another thread holds it."""
        while not lock.acquire(timeout=_POLL_SECONDS):
            self.raise_if_requested()
        try:
            yield
        finally:
            lock.release()

    def sleep(self, seconds: float) -> None:
        """Wait. Raises the error of a request within a tenth of a second."""
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            with self.native():
                sleep(min(left, _POLL_SECONDS))

    def raise_if_requested(self) -> None:
        """Raise the error of a request."""
        if (error := self.error) is not None:
            raise error


_this_thread = threading.local()  # running: the cancellation of the native code that this thread is in


def abandonable(call: Callable[[], T]) -> Future[T]:
    """Start a call that nothing can stop, such as a DNS lookup, in a thread that does not delay the end of the process."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
