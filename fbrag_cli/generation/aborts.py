"""What is reported where llama.cpp ends the process. This module imports nothing of it."""

from __future__ import annotations

import sys
from collections.abc import Callable

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

#: Reports an error for the last time, from any thread. The process ends afterwards.
Report = Callable[[FbragError], object]


def print_error(error: FbragError) -> None:
    """Print the error, and its hint, on stderr."""
    print(f"error: {one_line(error.message)}", file=sys.stderr, flush=True)
    if error.hint:
        print(f"hint: {one_line(error.hint)}", file=sys.stderr, flush=True)


class Aborts:
    """The failed checks of llama.cpp, which end the process. report: receives the error; a program may set its own."""

    def __init__(self) -> None:
        self.report: Report = print_error


aborts = Aborts()  # a process ends once
