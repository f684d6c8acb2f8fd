"""What llama.cpp needs of its process: variables of the environment, and who reports that it aborts. Imports nothing of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line


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


def print_error(error: FbragError) -> None:
    """Print the error, and its hint, on stderr."""
    print(f"error: {one_line(error.message)}", file=sys.stderr, flush=True)
    if error.hint:
        print(f"hint: {one_line(error.hint)}", file=sys.stderr, flush=True)


class Aborts:
    """The failed checks of llama.cpp, which end the process.

    report: receives the error, from any thread, before the process ends. A program may set its own.
    """

    def __init__(self) -> None:
        self.report: Callable[[FbragError], object] = print_error


aborts = Aborts()  # a process ends once
