"""Renders the tables of a method (`trace.Table`): as text, as JSON, and next to the chunks that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fbrag_cli.corpus import Passage
from fbrag_cli.render.passages import place
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import align_columns, shorten, width_of
from fbrag_cli.text.terminal import truncate, wrap_lines
from fbrag_cli.trace import Cell, Table, Trace

_FIRST_WORDS = 60  # columns of the beginning of a text, at most
_WANTED = 30  # columns of the first words, for which others make room
_LEAST = 12  # columns of the place and of the first words in the narrowest terminal
_PLACE = 20  # columns of a longer place, if the first words have no room otherwise
_SECTION = re.compile(r"(\d+) \(.*\)$")  # of a place, after its lines


def own_tables(trace: Trace) -> list[Table]:
    """Return the tables that are shown apart from the chunks."""
    return [table for table in trace.tables if not table.beside_chunks]


def chunk_table(trace: Trace) -> Table | None:
    """Return the table whose cells are shown with the chunks; None if the ranks by the forward lookup are shown there."""
    return next((table for table in trace.tables if table.beside_chunks), None)


def rows_of(table: Table) -> list[tuple[str, ...]]:
    """Return the header, then the cells of each row: its number first, its place and its first words last."""
    shown = [i for i, column in enumerate(table.columns) if column.header is not None]
    rows = [(table.unit, *(table.columns[i].header or "" for i in shown), "location", "starts with")]
    for number, (row, passage) in enumerate(zip(table.rows, table.passages, strict=True), 1):
        rows.append((f"{number}", *(_text(row[i]) for i in shown), place(passage), first_words(passage)))
    return rows


def lines_of(table: Table, columns: int | None = None, common: str = "") -> Iterator[str]:
    """Yield the rows as aligned text, and the note. columns, common: as for `fitted`."""
    yield from fitted(rows_of(table), columns, common)
    if table.note:
        yield from wrap_lines(table.note, columns)


def first_words(text: Passage) -> str:
    """Return the first words of a passage as one printable line."""
    return truncate(one_line(text.text[: 8 * _FIRST_WORDS]), _FIRST_WORDS)


def fitted(rows: Sequence[tuple[str, ...]], columns: int | None, common: str, spare: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a table, of which the place and the first words are the last two columns, the others numbers.

    columns: of the terminal; None off one. A table that is too wide gives up these, one after the other: the `common` beginning
    of all places, the columns with a heading of `spare`, sections of places, gaps, and the first words.
    """
    right = range(len(rows[0]) - 2)
    if columns is None or _width(rows) <= columns:
        return align_columns(rows, right)
    rows = [rows[0], *((*row[:-2], row[-2].removeprefix(common).lstrip(": "), row[-1]) for row in rows[1:])]
    for heading in spare:
        if heading in rows[0] and _room(rows, columns) < min(_WANTED, max(width_of(row[-1]) for row in rows)):
            at = rows[0].index(heading)
            rows = [(*row[:at], *row[at + 1 :]) for row in rows]
    right = range(len(rows[0]) - 2)
    gap = 2 if _room(rows, columns) >= 2 * _LEAST else 1
    where, first = max(width_of(row[-2]) for row in rows), _room(rows, columns, gap)
    if first < _LEAST:
        room = columns - _width([row[:-2] for row in rows], gap) - gap
        return align_columns([(*row[:-2], _short_place(row[-2], max(_LEAST, room))) for row in rows], right, gap=gap)
    if where > _PLACE:
        where = min(where, max(_PLACE, _PLACE + first - _WANTED))
        first = _room(rows, columns, gap, where)
    return align_columns([(*row[:-2], _short_place(row[-2], where), truncate(row[-1], first)) for row in rows], right, gap=gap)


def _width(rows: Sequence[tuple[str, ...]], gap: int = 2) -> int:
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + gap * (len(widths) - 1)


def _room(rows: Sequence[tuple[str, ...]], columns: int, gap: int = 2, where: int = _PLACE) -> int:
    """Return the columns that are left for the first words, where places are cut to `where` columns."""
    return columns - _width([(*row[:-2], _short_place(row[-2], where)) for row in rows], gap) - gap


def _short_place(where: str, columns: int) -> str:
    """Return a place cut to `columns`: without its section, then without the beginning of its path."""
    if width_of(where) > columns:
        where = _SECTION.sub(r"\1", where)
    return shorten(where, columns, at_start=True)


def cells_by_chunk(table: Table) -> dict[int, tuple[str, ...]]:
    """Return the cells of each row as text, by the position of its chunk."""
    return {passage.position: tuple(map(_text, row)) for passage, row in zip(table.passages, table.rows, strict=True)}


def records(table: Table) -> list[tuple[int, dict[str, Any]]]:
    """Return the position of the chunk and the cells by name, for JSON, of each row."""
    names = [column.name for column in table.columns]
    return [
        (passage.position, dict(zip(names, map(_value, row), strict=True)))
        for passage, row in zip(table.passages, table.rows, strict=True)
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
