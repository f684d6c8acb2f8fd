"""Renders the tables of a method (`trace.Table`): as text, as JSON, and beside the chunks that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fbrag_cli.render.passages import place
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import aligned
from fbrag_cli.trace import Cell, Table, Trace

_FIRST_WORDS = 60  # characters


def own_tables(trace: Trace) -> list[Table]:
    """Return the tables that stand by themselves."""
    return [table for table in trace.told if not table.beside_chunks]


def beside(trace: Trace) -> Table | None:
    """Return the table whose cells stand beside the chunks; None where the forward lookup does."""
    return next((table for table in trace.told if table.beside_chunks), None)


def rows_of(table: Table) -> list[tuple[str, ...]]:
    """Return the header, then the cells of each row: its number first, its place and its first words last."""
    shown = [i for i, column in enumerate(table.columns) if column.header is not None]
    rows = [(table.unit, *(table.columns[i].header or "" for i in shown), "place", "first words")]
    for number, (row, excerpt) in enumerate(zip(table.rows, table.excerpts, strict=True), 1):
        first_words = one_line(excerpt.text[: 8 * _FIRST_WORDS], _FIRST_WORDS)
        rows.append((f"{number}", *(_text(row[i]) for i in shown), place(excerpt.narrowed), first_words))
    return rows


def lines_of(table: Table) -> Iterator[str]:
    """Yield the rows as aligned text, and the note."""
    rows = rows_of(table)
    yield from aligned(rows, range(len(rows[0]) - 2))  # all but the place and the first words are numbers
    if table.note:
        yield table.note


def cells_by_chunk(table: Table) -> dict[int, tuple[str, ...]]:
    """Return the cells of each row as text, by the position of its chunk."""
    return {excerpt.chunk.position: tuple(map(_text, row)) for excerpt, row in zip(table.excerpts, table.rows, strict=True)}


def records(table: Table) -> list[tuple[int, dict[str, Any]]]:
    """Return the position of the chunk and the cells by name, for JSON, of each row."""
    names = [column.name for column in table.columns]
    return [
        (excerpt.chunk.position, dict(zip(names, map(_value, row), strict=True)))
        for excerpt, row in zip(table.excerpts, table.rows, strict=True)
    ]


def _text(cell: Cell) -> str:
    if isinstance(cell, Mapping):
        return ", ".join(f"{name} {_text(value)}" for name, value in cell.items())
    if isinstance(cell, bool):
        return "*" if cell else ""
    return "-" if cell is None else f"{cell:.2f}"


def _value(cell: Cell) -> Any:
    if isinstance(cell, Mapping):
        return {name: _value(value) for name, value in cell.items()}
    return round(cell, 4) if isinstance(cell, float) else cell
