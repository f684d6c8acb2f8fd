"""llama.cpp's own log. Its last lines explain an error, and with -vv all of them go to stderr."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import deque
from typing import Any

from fbrag_cli.generation.llama.library import llama_cpp
from fbrag_cli.text.printable import printable


class NativeLog:
    """The last lines of llama.cpp's log. verbose: whether all lines go to stderr too."""

    def __init__(self) -> None:
        self.verbose = False
        self._lines: deque[str] = deque(maxlen=40)
        self._callback: Any = None
        self._installing = threading.Lock()

    def install(self) -> None:
        """Receive the log from now on, instead of llama.cpp writing it to stderr. Does nothing the second time."""
        with self._installing:  # models load beside each other: a callback that a second thread replaces would be freed
            if self._callback is None:
                self._callback = llama_cpp.llama_log_callback(self._receive)
                llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def clear(self) -> None:
        self._lines.clear()

    def last_error(self) -> str:
        """Return the first line since `clear` that reports a failure."""
        failures = [line for line in self._lines if "error" in line or "failed" in line]
        return (failures or ["no reason given"])[0].strip()

    def _receive(self, level: int, text: bytes, data: Any) -> None:
        line = text.decode("utf-8", "replace")
        self._lines.append(line)
        if self.verbose:
            print(printable(line), end="", file=sys.stderr, flush=True)


native_log = NativeLog()  # llama.cpp has one log for the process
