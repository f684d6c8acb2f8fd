"""The variables of the environment that llama.cpp and NumPy read. Imports neither."""

from __future__ import annotations

import os


def set_environment() -> None:
    """Set what the libraries of llama.cpp and NumPy read from the environment, once, when they are first imported.

    A user's own setting stays.
    """
    # The OpenMP threads of llama.cpp wait in a loop for microseconds only, then sleep. libgomp's default is milliseconds after
    # each operation: with two threads on two cores beside much other work a question takes three times as long with it; alone it
    # is no faster.
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    # So do the threads of OpenBLAS, which NumPy multiplies matrices with: for 2 ** 10 cycles. By its default they take the cores
    # from llama.cpp for tens of milliseconds after each product.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    # Where llama.cpp gives up, it would run gdb, which writes to stdout.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
