"""Ctrl-C, SIGTERM and the time limit. Each stops the work within a second, also inside llama.cpp."""

from __future__ import annotations

import os
import signal
from types import FrameType

from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.generation.cancellation import Cancellation


class Terminated(BaseException):
    """The process received SIGTERM."""


def handle_signals(cancellation: Cancellation) -> None:
    """Turn signals into requests to stop. A second Ctrl-C ends the process at once."""

    def interrupted(signum: int, frame: FrameType | None) -> None:
        if cancellation.requested:
            os._exit(ExitCode.INTERRUPTED)
        cancellation.interrupt(KeyboardInterrupt())

    def terminated(signum: int, frame: FrameType | None) -> None:
        cancellation.interrupt(Terminated())

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, terminated)


def limit_time(seconds: float, cancellation: Cancellation) -> None:
    """Stop the work with FbragError `timeout` after `seconds` of wall time. On Windows, without timers, nothing happens."""
    if not hasattr(signal, "setitimer"):
        return

    def expired(signum: int, frame: FrameType | None) -> None:
        cancellation.interrupt(
            FbragError("timeout", f"no answer within {seconds:g} s", "allow more (--timeout), or read less (--recall, --select)")
        )

    signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
