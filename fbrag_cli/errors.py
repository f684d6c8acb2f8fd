"""The one error that people see, and the exit code of each family of errors."""

from __future__ import annotations

import errno
import os
from enum import IntEnum

TYPE_CHECKING = False  # typing is not loaded before Ctrl-C ends the process without a traceback
if TYPE_CHECKING:
    from typing import Any


class ExitCode(IntEnum):
    """Process exit codes; a negative result (1) is distinct from every failure."""

    DONE = 0
    NEGATIVE = 1
    USAGE = 2
    DOCUMENT = 3
    MODEL = 4
    RESOURCES = 5
    INTERNAL = 70
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


#: Error code -> exit code. An error code is a stable word for scripts (`--json`).
EXIT_CODES: dict[str, ExitCode] = {
    "usage": ExitCode.USAGE,
    "config": ExitCode.USAGE,
    "output": ExitCode.USAGE,
    "prompt_too_long": ExitCode.USAGE,
    "too_large": ExitCode.USAGE,
    "doc_not_found": ExitCode.DOCUMENT,
    "doc_unreadable": ExitCode.DOCUMENT,
    "doc_empty": ExitCode.DOCUMENT,
    "pdf_encrypted": ExitCode.DOCUMENT,
    "pdf_bad_password": ExitCode.DOCUMENT,
    "pdf_no_text": ExitCode.DOCUMENT,
    "unsupported_format": ExitCode.DOCUMENT,
    "library_missing": ExitCode.DOCUMENT,
    "model_missing": ExitCode.MODEL,
    "model_corrupt": ExitCode.MODEL,
    "no_answer": ExitCode.MODEL,
    "llama_unavailable": ExitCode.MODEL,
    "download_failed": ExitCode.MODEL,
    "offline": ExitCode.MODEL,
    "server_failed": ExitCode.MODEL,
    "cluster_failed": ExitCode.RESOURCES,
    "out_of_memory": ExitCode.RESOURCES,
    "disk_full": ExitCode.RESOURCES,
    "gpu_unavailable": ExitCode.RESOURCES,
    "timeout": ExitCode.RESOURCES,
    "busy": ExitCode.RESOURCES,
    "internal": ExitCode.INTERNAL,
}


class FbragError(Exception):
    """A failure that the user can act on.

    code: a key of `EXIT_CODES`. message: what happened and where, in one line. hint: what to do about it, preferably a command.
    document: path of the document that it is about, if any.
    """

    def __init__(self, code: str, message: str, hint: str | None = None, *, document: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.document = document

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.message, self.hint), {"document": self.document}

    def as_json(self) -> dict[str, Any]:
        """Return the error as `fbrag.error/1`."""
        about = {"code": self.code, "message": self.message, "hint": self.hint, "document": self.document}
        return {"schema": "fbrag.error/1", "error": about}

    @property
    def exit_code(self) -> ExitCode:
        return EXIT_CODES[self.code]


def lacking(error: BaseException | None) -> FbragError | None:
    """Return the error to report if `error` or one of its causes means that memory or file handles ran out; None for other
    errors."""
    while error is not None:
        number = error.errno if isinstance(error, OSError) else None
        loading = str(error) if isinstance(error, ImportError | OSError) else ""  # native libraries give the reason only as text
        if isinstance(error, MemoryError) or number == errno.ENOMEM or "failed to map segment" in loading:
            return FbragError("out_of_memory", "out of memory", "use fewer chunks (--select) or a smaller model")
        if number in (errno.EMFILE, errno.ENFILE) or os.strerror(errno.EMFILE) in loading:
            return FbragError("out_of_memory", "too many open files", "raise the limit (ulimit -n), or close other programs")
        error = error.__cause__ or error.__context__
    return None


def incomplete(error: BaseException) -> FbragError | None:
    """Return the error to report if `error` means that a library is missing, as an interrupted installation leaves it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name or error.name.startswith("fbrag_cli"):
        return None
    return FbragError("usage", f"the installation of fbrag is incomplete: no module {error.name}", "repeat the installation")
