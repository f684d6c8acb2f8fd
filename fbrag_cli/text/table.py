"""Aligned tables of terminal text. Widths are columns of a terminal, of which a Chinese character takes two."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from typing import TextIO

from fbrag_cli.text.printable import one_line


def align_columns(rows: Sequence[Sequence[str]], right: Container[int] = (), *, gap: int = 2) -> Iterator[str]:
    """Yield a line for each row, its cells made one printable line each, with `gap` spaces between columns.

    right: the numbers, from 0, of the columns that are aligned on the right. All rows have the same number of cells.
    """
    safe = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*safe, strict=True)]
    for row in safe:
        spaces = (" " * (width - width_of(cell)) for width, cell in zip(widths, row, strict=True))
        cells = (space + cell if i in right else cell + space for i, (cell, space) in enumerate(zip(row, spaces, strict=True)))
        yield (" " * gap).join(cells).rstrip()


def width_of(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, columns: int, *, at_start: bool = False) -> str:
    """Return `text` cut to a width of `columns` with an ellipsis, at its end or at its start."""
    from rich.cells import set_cell_size

    if width_of(text) <= columns:
        return text
    if at_start:
        return "…" + set_cell_size(text[::-1], columns - 1).rstrip()[::-1]
    return set_cell_size(text, columns - 1).rstrip() + "…"


def columns_of(stream: TextIO) -> int | None:
    """Return the columns of the terminal that `stream` is, or COLUMNS; None off a terminal, and where nobody knows them."""
    if not stream.isatty():
        return None
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
