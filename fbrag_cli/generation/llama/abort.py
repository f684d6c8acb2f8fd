"""The handler of llama.cpp's aborts: a check of its own that fails, as on a model file that lies, or an exception in C++.

Both would end the process by SIGABRT. Here they end it by one error and its exit code.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from contextlib import suppress
from typing import Any

from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.generation.llama.native_log import native_log
from fbrag_cli.generation.process import aborts


class AbortHandler:
    """Reports why llama.cpp ends the process. models: names of the files in use, one of which is the reason."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self._callbacks: tuple[Any, ...] = ()
        self._first, self._installing = threading.Lock(), threading.Lock()

    def install(self) -> None:
        """Report such an end from now on. Does nothing the second time, and where this build has no way to report it."""
        from llama_cpp._ggml import libggml

        with self._installing:  # models load beside each other: callbacks that a second thread replaces would be freed
            if self._callbacks:
                return
            on_abort = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(self._aborted)
            on_terminate = ctypes.CFUNCTYPE(None)(self._terminated)
            self._callbacks = on_abort, on_terminate
            with suppress(AttributeError):
                libggml.ggml_set_abort_callback(on_abort)
            with suppress(AttributeError):
                libggml._ZSt13set_terminatePFvvE(on_terminate)  # std::set_terminate

    def _aborted(self, message: bytes) -> None:
        self._end(re.sub(r"^\S*[/\\]", "", message.decode("utf-8", "replace").strip()))  # without the folder of its source file

    def _terminated(self) -> None:
        self._end(_exception())

    def _end(self, reason: str) -> None:
        self._first.acquire()  # for good: another thread that fails too waits here for the end
        code: int = ExitCode.MODEL
        try:
            error = self._error(reason)
            code = error.exit_code
            aborts.report(error)
        finally:
            os._exit(code)

    def _error(self, reason: str) -> FbragError:
        used = f" with {' or '.join(dict.fromkeys(self.models))}" if self.models else ""
        logged = native_log.last_error()
        if any("alloc" in each or "out of memory" in each for each in (reason, logged)):
            what = f"out of memory in llama.cpp{used}: {reason}"
            return FbragError("out_of_memory", what, "use fewer chunks (--recall, --select) or a smaller model")
        hint = "check the file (fbrag models verify), or use another model (fbrag models list --all)"
        return FbragError("model_corrupt", f"llama.cpp failed{used}: {reason}", hint)


def _exception() -> str:
    """Return the C++ type of the exception that nobody catches, as "out_of_range"."""
    from llama_cpp._ggml import libggml

    if sys.platform != "linux":  # elsewhere a type may hold its name in another form
        return "an exception"
    current = getattr(libggml, "__cxa_current_exception_type")  # `libggml.__cxa…` would be mangled
    current.restype = ctypes.c_void_p
    if not (kind := current()):
        return "it ended without a reason"
    name = ctypes.c_char_p.from_address(kind + ctypes.sizeof(ctypes.c_void_p)).value or b""
    return re.sub(r"^\*?St\d+", "", name.decode("ascii", "replace"))


abort_handler = AbortHandler()  # a process ends once
