"""The tables of an evaluation report as terminal text, Markdown and JSON. The names in them are data and stay text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from fbrag_cli.text.markdown import escaped_line
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import padded, width_of

SCHEMA = "fbrag.report/1"

Unit = Literal["score", "difference", "seconds", "count", "MB"]

_LABEL = 36  # columns of a label before it goes on in the next line
_NAME = 24
_FOLD = 64  # characters of a word before it is broken
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

    name: the data set, or what was counted. detail: the metric, in the second line of the heading. unit: scores are 0 to 1 and
    shown times 100, as in the paper. n: the number of examples of each cell that shows no other number.
    """

    name: str
    detail: str = ""
    unit: Unit = "score"
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value, and how sure it is.

    low, high: the 95 % interval. p95: the 95th percentile where the value is the median. p: two-sided. n: the number of
    examples. marked: the best of its column, or a difference whose interval excludes 0, with p below 0.05.
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
    parts += [
        "\n".join([*_wrapped(f"{table.title}. {table.note}", width), *_text_blocks(table, width)]) for table in report.tables
    ]
    parts += ["\n".join(_wrapped(one_line(line), width)) for line in [*_settings(report), *report.notes]]
    return "\n\n".join(parts) + "\n"


def as_markdown(report: Report) -> str:
    """Return a report as Markdown with the tables of GitHub."""
    parts = [f"## {_inert(report.title)}"]
    for table in report.tables:
        lines = [
            "| " + " | ".join(["", *(_inert(" ".join(_heading(column))) for column in table.columns)]) + " |",
            "|" + "|".join([" :--- ", *(" ---: " for _ in table.columns)]) + "|",
        ]
        lines += [
            f"| {_inert(label)} | "
            + " | ".join(_markdown_cell(cell, column) for cell, column in zip(cells, table.columns, strict=True))
            + " |"
            for label, cells in table.rows
        ]
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
    return ["The same everywhere: " + ", ".join(f"{name} {_value(value)}" for name, value in report.settings.items()) + "."]


def _value(value: object) -> str:
    return one_line(str(value), _FOLD)


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


def _inert(text: str) -> str:
    return escaped_line(one_line(text))


def _text_blocks(table: Table, width: int) -> Iterator[str]:
    labels = [_wrapped(one_line(label), _LABEL, ",") for label, _ in table.rows]
    first = max((width_of(line) for lines in labels for line in lines), default=0)
    columns = [_text_column(table, i) for i in range(len(table.columns))]
    start = 0
    while start < len(columns):
        end, taken = start, first
        while end < len(columns) and (end == start or taken + 2 + _widest(columns[end]) <= width):
            taken += 2 + _widest(columns[end])
            end += 1
        yield "\n".join(_block([[""] * 3, *labels], first, columns[start:end]))
        start = end
        if start < len(columns):
            yield ""


def _text_column(table: Table, i: int) -> list[list[str]]:
    """Return the lines of the heading, then of each row's cell. A mark has its own place, so that values stay aligned."""
    column = table.columns[i]
    cells = [[line + " " for line in _heading(column)]]
    for _, row in table.rows:
        value, *rest = _lines(row[i], column)
        cells.append([value + ("*" if row[i].marked else " "), *(line + " " for line in rest)])
    return cells


def _block(labels: Sequence[Sequence[str]], first: int, columns: Sequence[Sequence[Sequence[str]]]) -> Iterator[str]:
    blank = {line for line in range(3) if not any(column[0][line].strip() for column in columns)}
    for row, label in enumerate(labels):
        cells = [column[row] for column in columns]
        for line in range(max(map(len, [label, *cells]))):
            if row == 0 and line in blank:
                continue
            text = padded(_at(label, line), first)
            for column, cell in zip(columns, cells, strict=True):
                text += "  " + padded(_at(cell, line), _widest(column), right=True)
            yield text.rstrip()
        if row == 0:
            yield "─" * (first + sum(2 + _widest(column) for column in columns))


def _at(lines: Sequence[str], line: int) -> str:
    return lines[line] if line < len(lines) else ""


def _widest(column: Sequence[Sequence[str]]) -> int:
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
