"""Environment variables for llama.cpp and NumPy. Imports neither."""

from __future__ import annotations

import os


def set_environment() -> None:
    """Set environment variables that the libraries of llama.cpp and NumPy read once, when they are first imported.

    The user's own values are kept.
    """
    # The OpenMP threads of llama.cpp busy-wait only for microseconds, then sleep. libgomp's default is milliseconds after each
    # operation: on two cores with much other work, a question then takes three times as long; on an idle machine it is no faster.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    # The threads of OpenBLAS, NumPy's matrix library, busy-wait for 2 ** 10 cycles. By default they would take the cores from
    # llama.cpp for tens of milliseconds after each product.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    # When llama.cpp aborts, it would run gdb, which writes to stdout.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
