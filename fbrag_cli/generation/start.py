"""What has to be set in a process before llama_cpp is first imported. This module imports nothing of it."""

from __future__ import annotations

import os


def set_environment() -> None:
    """Set what llama.cpp's libraries read from the environment, once, when importing llama_cpp loads them.

    A user's own setting stays.
    """
    # The OpenMP threads of llama.cpp wait in a loop for microseconds only, then sleep. libgomp's default is milliseconds after
    # each operation: with two threads on two cores beside much other work a question takes three times as long with it; alone it
    # is no faster.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    # Where llama.cpp gives up, it would run gdb, which writes to stdout.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
