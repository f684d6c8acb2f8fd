"""Ctrl-C, SIGTERM, SIGHUP and the time limit.

Each stops the work within a second, even inside llama.cpp on a CPU. A GPU first reads the tokens it was given (512 or fewer).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import ExitCode, FbragError


class Terminated(BaseException):
    """The process received SIGTERM, or SIGHUP because its terminal was closed. exit_code: 128 plus the signal's number."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.exit_code = ExitCode(128 + signum)


def handle_signals(cancellation: Cancellation) -> None:
    """Turn signals into requests to stop. A second Ctrl-C ends the process at once."""

    def interrupted(signum: int, frame: FrameType | None) -> None:
        if cancellation.requested:
            os._exit(ExitCode.INTERRUPTED)
        cancellation.interrupt(KeyboardInterrupt())

    def terminated(signum: int, frame: FrameType | None) -> None:
        cancellation.interrupt(Terminated(signum))

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, terminated)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored: nohup
        signal.signal(signal.SIGHUP, terminated)


@contextmanager
def ctrl_c(press: Callable[[], object]) -> Iterator[None]:
    """Make Ctrl-C call `press` in the main thread until the block ends, instead of stopping the process."""
    before = signal.signal(signal.SIGINT, lambda signum, frame: press())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def too_late(seconds: float) -> FbragError:
    """Return the error for work that exceeds its time limit."""
    return FbragError("timeout", f"timed out after {seconds:g} s", "raise --timeout")


def limit_time(seconds: float | None, cancellation: Cancellation) -> ExitStack:
    """Stop the work with FbragError `timeout` after `seconds` of wall time, None for no limit; on Windows at its next check.

    The time runs from now until the block of the returned context manager ends: closing what the work used is not limited.
    """
    limit = ExitStack()
    if seconds is None:
        return limit
    error = too_late(seconds)
    if not hasattr(signal, "setitimer"):
        limit.callback(cancellation.after(seconds, error).cancel)
        return limit

    def expired(signum: int, frame: FrameType | None) -> None:
        cancellation.interrupt(error)

    signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    limit.callback(signal.setitimer, signal.ITIMER_REAL, 0)
    return limit
