"""Lines at the end of a terminal's output that change in place, and are erased without a trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from typing import TextIO

from fbrag_cli.text.table import shortened, width_of

_DIM, _END = "\x1b[2m", "\x1b[0m"


class Region:
    """Lines that are drawn over each other on `stream`, a terminal. The cursor stays at the end of the last one.

    Each line fits the terminal's width, and there are fewer lines than rows: the first one can be reached by moving up. A line
    alone needs no control sequence but the carriage return. Where a terminal was made narrower, it may have wrapped what was
    drawn before; some of that then stays above, since moving up too far would erase the output of others.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows that lines may take."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        return max(1, (columns or 80) - 1), max(1, (rows or 24) - 1)

    def draw(self, dimmed: Sequence[str], last: str) -> None:
        """Show the lines `dimmed`, and below them `last`, in place of what is shown. They are printable, and fit `size`."""
        columns, rows = self.size
        lines = [*dimmed[: rows - 1], last]
        shown = tuple(shortened(line, columns) for line in lines)
        if shown != self._shown:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(shown[:-1], self._shown[:-1], strict=False)))
            *above, status = shown[same:]
            self._stream.write(self._erasure(same) + "".join(f"{_DIM}{line}{_END}\n" for line in above) + status)
            self._stream.flush()
            self._shown = shown

    def erase(self) -> None:
        """Erase the lines; the cursor is where the first one began."""
        if self._shown:
            self._stream.write(self._erasure())
            self._stream.flush()
            self._shown = ()

    def _erasure(self, same: int = 0) -> str:
        """Return what erases all lines but the first `same`."""
        if (up := len(self._shown) - 1 - same) > 0:
            return f"\r\x1b[{up}A\x1b[J"
        return f"\r{' ' * width_of(self._shown[-1])}\r" if self._shown else ""
