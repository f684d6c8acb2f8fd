"""llama.cpp's own log, which would go to stderr as it is: kept for error messages, shown on request."""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from typing import Any

import llama_cpp


class NativeLog:
    """The last lines; with `verbose` (-vv) all of them on stderr. layers_on_gpu: what the last load told."""

    def __init__(self) -> None:
        self.verbose = False
        self.layers_on_gpu = 0
        self._lines: deque[str] = deque(maxlen=40)
        self._callback = llama_cpp.llama_log_callback(self._receive)
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def clear(self) -> None:
        self._lines.clear()

    def last_error(self) -> str:
        """The first line since `clear` that tells of a failure."""
        told = [line for line in self._lines if "error" in line or "failed" in line]
        return (told or ["no reason given"])[0].strip()

    def _receive(self, level: int, text: bytes, data: Any) -> None:
        line = text.decode("utf-8", "replace")
        self._lines.append(line)
        if "offloaded " in line and " layers to GPU" in line:
            self.layers_on_gpu = int(line.split("offloaded ")[1].split("/")[0])
        if self.verbose:
            print(line, end="", file=sys.stderr, flush=True)


native_log = NativeLog()  # llama.cpp has one for the process
