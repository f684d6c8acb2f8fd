"""What llama.cpp needs of its process: variables of the environment, and enough address space. Imports nothing of it."""

from __future__ import annotations

import os
import sys

from fbrag_cli.errors import FbragError


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
    if _limited_address_space():  # each thread of OpenBLAS asks for much of it
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Where llama.cpp gives up, it would run gdb, which writes to stdout.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")


def check_address_space() -> None:
    """Raise FbragError out_of_memory where the shell's limit of address space is too small for NumPy to load.

    OpenBLAS would end the process itself, with status 1. So another process, which ends at once, tries it first.
    """
    if not _limited_address_space() or "numpy" in sys.modules:
        return
    child = os.fork()
    if child == 0:
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            import numpy  # noqa: F401

            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        what = "the limit of address space (ulimit -v) is too small to load the libraries of numbers"
        raise FbragError("out_of_memory", what, "raise it: ulimit -v unlimited")


def _limited_address_space() -> bool:
    try:
        import resource
    except ImportError:  # Windows
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
