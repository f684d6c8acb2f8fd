"""Aligned tables of terminal text. Widths are columns of a terminal, of which a Chinese character takes two."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from fbrag_cli.text.printable import printable


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> Iterator[str]:
    """Yield a line for each row, its cells made printable, with two spaces between columns.

    right: the numbers, from 0, of the columns that are aligned on the right. All rows have the same number of cells.
    """
    safe = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*safe, strict=True)]
    for row in safe:
        cells = (padded(cell, widths[i], right=i in right) for i, cell in enumerate(row))
        yield "  ".join(cells).rstrip()


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Return `text` with spaces up to a width of `columns`, before it if it is aligned on the right."""
    spaces = " " * (columns - width_of(text))
    return spaces + text if right else text + spaces


def width_of(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    from rich.cells import cell_len

    return cell_len(text)
