"""A request to stop that reaches into llama.cpp: signals cannot be raised as exceptions while native code runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Cancellation:
    """Carries one exception from a signal handler to the place where it can be raised.

    A handler calls `request(error)`. Outside native code the error is raised at once; inside (`native()`), llama.cpp asks
    `requested` between two operations and returns early, and the error is raised as soon as it has. Signals come to the main
    thread: another one, where a model is loaded, only returns early.
    """

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._in_native = False

    def request(self, error: BaseException) -> None:
        self._error = self._error or error
        if not self._in_native:
            raise self._error

    @property
    def requested(self) -> bool:
        return self._error is not None

    @contextmanager
    def native(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._in_native = True
        try:
            yield
        finally:
            self._in_native = False
        if self._error is not None:
            raise self._error
