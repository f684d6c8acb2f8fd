"""The event loop of the requests to one server. Its thread is its own, so that a caller can leave whatever hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from fbrag_cli.cancellation import Cancellation

#: Seconds between two looks at whether a stop was requested.
TICK = 0.1

T = TypeVar("T")

#: Calls that work on a loop leaves to the thread of its caller; None at the end of the work.
Reports = SimpleQueue[Callable[[], object] | None]


class Loop:
    """Runs coroutines for callers in any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_DaemonThreads())
        Thread(target=self._turn, name="server", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], cancellation: Cancellation | None = None, reports: Reports | None = None) -> T:
        """Return the result of `work`, and make its reports in this thread, in their order.

        Raises what `work` or a report raises, and the error of a requested cancellation within `TICK` seconds. Then `work` is
        cancelled, which closes its connections.
        """
        cancellation, reports = cancellation or Cancellation(), reports or SimpleQueue()
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        running.add_done_callback(lambda done: reports.put(None))
        try:
            while True:
                with cancellation.native():
                    try:
                        report = reports.get(timeout=TICK)
                    except Empty:
                        continue
                if report is None:
                    return running.result()
                report()
        finally:
            running.cancel()

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _turn(self) -> None:
        self._loop.run_forever()
        self._loop.close()


class _DaemonThreads(ThreadPoolExecutor):
    """Looks up the addresses of hosts in threads that the end of the process does not wait for."""

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def call() -> None:
            try:
                future.set_result(function(*arguments, **named))
            except BaseException as error:
                future.set_exception(error)

        Thread(target=call, daemon=True).start()
        return future
