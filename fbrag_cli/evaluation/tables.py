"""The tables of an evaluation report as terminal text, Markdown and JSON. The names in them are data and stay text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Literal

from fbrag_cli.text.markdown import escaped_line
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import padded, width_of

SCHEMA = "fbrag.report/1"

Unit = Literal["score", "difference", "seconds", "count", "MB"]
Lines = Sequence[Sequence[str]]  # of the cells in a column

_LABEL = 36  # columns of a label before it goes on in the next line
_NAME = 24
_LONGEST = 64  # characters of a setting
_FORMATS: dict[Unit, Callable[[float], str]] = {
    "score": lambda value: f"{100 * value:.1f}",
    "difference": lambda value: f"{100 * value:+.1f}",
    "seconds": lambda value: f"{value:.2f}" if value < 10 else f"{value:,.1f}",
    "count": lambda value: f"{value:,.0f}",
    "MB": lambda value: f"{value:,.0f}",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    name: data set, or what was counted. detail: metric, in the second line of the heading. unit: scores are 0 to 1, and shown
    times 100 as in the paper. n: number of examples in each cell that shows no other number.
    """

    name: str
    detail: str = ""
    unit: Unit = "score"
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, and how sure it is.

    low, high: 95 % interval. p95: 95th percentile, where the value is a median. p: two-sided p-value. n: number of examples.
    marked: whether it is the best of its column, or a difference whose interval excludes 0, with p below 0.05.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    p95: float | None = None
    p: float | None = None
    n: int | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report. note: how to read it. rows: a label and a cell for each column."""

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The tables of an evaluation. settings: those that all configurations share. notes: remarks on the rows, such as errors."""

    title: str
    tables: tuple[Table, ...]
    settings: Mapping[str, object]
    notes: tuple[str, ...] = ()


def as_text(report: Report, width: int) -> str:
    """Return a report as aligned text in lines of at most `width` columns of a terminal.

    A table that is wider goes on below, with its labels again.
    """
    parts = [one_line(report.title)]
    for table in report.tables:
        blocks = "\n\n".join(_text_blocks(table, width))
        parts.append("\n".join([*_wrapped(f"{table.title}. {table.note}", width), blocks]))
    parts += ["\n".join(_wrapped(one_line(line), width)) for line in [*_settings(report), *report.notes]]
    return "\n\n".join(parts) + "\n"


def as_markdown(report: Report) -> str:
    """Return a report as Markdown with the tables of GitHub."""
    parts = [f"## {_inert(report.title)}"]
    for table in report.tables:
        heading = ["", *(_inert(" ".join(_heading(column))) for column in table.columns)]
        lines = [_markdown_row(heading), "|" + "|".join([" :--- ", *(" ---: " for _ in table.columns)]) + "|"]
        for label, cells in table.rows:
            lines.append(_markdown_row([_inert(label), *map(_markdown_cell, cells, table.columns)]))
        parts += [f"### {_inert(table.title)}", "\n".join(lines), *([_inert(table.note)] if table.note else [])]
    parts += [_inert(line) for line in [*_settings(report), *report.notes]]
    return "\n\n".join(parts) + "\n"


def as_json(report: Report) -> dict[str, object]:
    """Return a report as JSON: scores from 0 to 1, seconds, MB; null where nothing was measured."""
    return {
        "schema": SCHEMA,
        "title": report.title,
        "tables": [
            {
                "name": table.name,
                "title": table.title,
                "columns": [{"name": column.name, "detail": column.detail, "unit": column.unit} for column in table.columns],
                "rows": [{"configuration": label, "cells": [asdict(cell) for cell in cells]} for label, cells in table.rows],
            }
            for table in report.tables
        ],
        "settings": dict(report.settings),
        "notes": list(report.notes),
    }


def _settings(report: Report) -> list[str]:
    if not report.settings:
        return []
    shared = ", ".join(f"{name} {one_line(str(value), _LONGEST)}" for name, value in report.settings.items())
    return [f"The same everywhere: {shared}."]


def _heading(column: Column) -> list[str]:
    return [one_line(column.name, _NAME), column.detail, f"n={column.n:,}" if column.n is not None else ""]


def _lines(cell: Cell, column: Column) -> list[str]:
    """Return the lines of a cell: the value, its interval or 95th percentile, p, and the number of examples."""
    if cell.value is None:
        return ["–"]
    shown = _FORMATS[column.unit]
    lines = [shown(cell.value)]
    if cell.low is not None and cell.high is not None:
        lines.append(f"[{shown(cell.low)}, {shown(cell.high)}]")
    if cell.p95 is not None:
        lines.append(f"p95 {shown(cell.p95)}")
    if cell.p is not None:
        lines.append("p<0.001" if cell.p < 0.001 else f"p={cell.p:.3f}")
    if cell.n != column.n and cell.n is not None:
        lines.append(f"n={cell.n:,}")
    return lines


def _markdown_cell(cell: Cell, column: Column) -> str:
    value, *rest = _lines(cell, column)
    return " ".join([f"**{value}**" if cell.marked else value, *map(_inert, rest)])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inert(text: str) -> str:
    return escaped_line(one_line(text))


def _text_blocks(table: Table, width: int) -> list[str]:
    """Return the table in blocks of as many columns as fit the width, each with the labels.

    A cell is one line where the whole table fits so, else a line for each of its numbers.
    """
    labels = [[""], *(_wrapped(one_line(label), _LABEL, ",") for label, _ in table.rows)]
    room = width - _widest(labels)
    columns = [_text_column(table, i, in_a_line=True) for i in range(len(table.columns))]
    if sum(2 + _widest(each) for each in columns) <= room:
        return ["\n".join(_block(labels, columns))]
    blocks: list[list[Lines]] = []
    for column in (_text_column(table, i) for i in range(len(table.columns))):
        if blocks and sum(2 + _widest(each) for each in (*blocks[-1], column)) <= room:
            blocks[-1].append(column)
        else:
            blocks.append([column])
    return ["\n".join(_block(labels, columns)) for columns in blocks]


def _text_column(table: Table, i: int, *, in_a_line: bool = False) -> Lines:
    """Return the lines of the heading, then of each row's cell. A mark has its own place, so that values stay aligned.

    in_a_line: whether a cell is one line.
    """
    column = table.columns[i]
    cells = [[line + " " for line in _heading(column)]]
    for _, row in table.rows:
        value, *rest = _lines(row[i], column)
        value += "*" if row[i].marked else " "
        if in_a_line and rest:
            cells.append([" ".join([value, *rest]) + " "])
        else:
            cells.append([value, *(line + " " for line in rest)])
    return cells


def _block(labels: Lines, columns: Sequence[Lines]) -> Iterator[str]:
    first, *widths = map(_widest, (labels, *columns))
    for row, cells in enumerate(zip(labels, *columns, strict=True)):
        for label, *values in zip_longest(*cells, fillvalue=""):
            if row or any(value.strip() for value in values):  # a heading has no blank lines
                aligned = (padded(value, width, right=True) for value, width in zip(values, widths, strict=True))
                yield "  ".join([padded(label, first), *aligned]).rstrip()
        if row == 0:
            yield "─" * (first + sum(2 + width for width in widths))


def _widest(column: Lines) -> int:
    return max(width_of(line) for lines in column for line in lines)


def _wrapped(text: str, width: int, between: str = " ") -> list[str]:
    """Return `text` in lines of at most `width` columns of a terminal, broken after `between` where possible."""
    from rich.cells import chop_cells

    lines: list[str] = []
    for part in text.replace(between, f"{between}\n").split("\n"):
        if lines and width_of(lines[-1] + part.rstrip()) <= width:
            lines[-1] += part
        else:
            lines += chop_cells(part, width) or [""]
    return [line.rstrip() for line in lines]
