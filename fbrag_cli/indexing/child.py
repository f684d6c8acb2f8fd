"""What runs in a child process: jobs within limits of time and memory, until the parent ends."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, BinaryIO, Literal, NoReturn, TypeVar

from fbrag_cli.errors import FbragError

Job = TypeVar("Job")
Result = TypeVar("Result")

_is_worker = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job has no result. kind: "timeout", "died" (its process ended or was killed) or "error" (an exception).

    reason: in words, as "it took more than 10 s". error: the exception, if it was an FbragError.
    """

    kind: Literal["timeout", "died", "error"]
    reason: str
    error: FbragError | None = None

    def about(self, path: str) -> FbragError:
        """Return the error for the user: the job's own, or doc_unreadable with the reason."""
        what = f"{path} cannot be read: {self.reason}"
        return self.error or FbragError("doc_unreadable", what, "leave it out, or convert it to plain text", document=path)


def is_worker() -> bool:
    """Return whether this process is such a child."""
    return _is_worker


def serve() -> NoReturn:
    """Run in a child: read the function and the limits from stdin, then jobs until stdin ends. Results go to stdout."""
    global _is_worker
    _is_worker = True
    requests, replies = _take_pipes()
    try:
        function, seconds, memory = pickle.load(requests)
        _limit_resources(memory)
    except Exception as fault:
        replies.write(pickle.dumps(f"{type(fault).__name__}: {fault}"))
        replies.flush()
        os._exit(1)
    replies.write(pickle.dumps(None))
    replies.flush()

    inbox: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, inbox), daemon=True).start()
    while True:
        job = inbox.get()
        _limit_time(seconds)
        reply = _reply(function, job)
        _limit_time(None)
        replies.write(reply)
        replies.flush()


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return stdin and stdout as files, and replace them with the null device for all other code."""
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    return pipes


def _receive(requests: BinaryIO, inbox: SimpleQueue[Any]) -> None:
    """Put jobs into `inbox`; end the process when stdin ends. A thread of its own notices the parent's end during a job."""
    try:
        while True:
            inbox.put(pickle.load(requests))
    finally:
        os._exit(0)


def _limit_resources(memory: int | None) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash leaves no core file
    if memory is not None:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        with suppress(OSError, ValueError):  # the system does not limit it
            resource.setrlimit(resource.RLIMIT_DATA, (memory if most == resource.RLIM_INFINITY else min(memory, most), most))


def _limit_time(seconds: float | None) -> None:
    """Have the system end this process after `seconds`, whatever it does then; None: cancel that."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds or 0)
        return
    import faulthandler

    if seconds is None:
        faulthandler.cancel_dump_traceback_later()
    else:
        faulthandler.dump_traceback_later(seconds, exit=True, file=1)


def _reply(function: Callable[[Job], Result], job: Job) -> bytes:
    try:
        return pickle.dumps(outcome_of(function, job))
    except Exception as error:  # the result is too large, or cannot be pickled
        return pickle.dumps(_error(error))


def outcome_of(function: Callable[[Job], Result], job: Job) -> Result | Failure:
    """Return the result of `function(job)`, or a Failure if it raises."""
    try:
        return function(job)
    except (Exception, SystemExit) as error:
        return _error(error)


def _error(error: BaseException) -> Failure:
    if isinstance(error, FbragError):
        return Failure("error", error.message, error)
    if isinstance(error, MemoryError):
        return Failure("error", "it takes too much memory")
    return Failure("error", f"{type(error).__name__}: {' '.join(str(error).split())}"[:200])
