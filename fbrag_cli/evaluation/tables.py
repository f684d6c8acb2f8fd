"""Draws the tables of an evaluation report as terminal text, Markdown and JSON. Names in them are data, and are escaped."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from fbrag_cli.text.markdown import escaped_line
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Drawn

SCHEMA = "fbrag.report/1"

Unit = Literal["score", "difference", "seconds", "count", "MB"]

_LABEL = 36  # columns after which a label is wrapped
_NAME = 24
_LONGEST = 64  # characters of a setting
_LONGEST_CELL = 120  # characters of a question or an answer
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

    name: dataset, or the quantity. detail: metric, in the second line of the heading. unit: scores are 0 to 1, and shown times
    100 as in the paper. n: number of examples in each cell without its own number.
    """

    name: str
    detail: str = ""
    unit: Unit = "score"
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value with its uncertainty.

    low, high: 95% interval. p95: 95th percentile, if the value is a median. p: two-sided p-value. n: number of examples. marked:
    whether it is the best in its column, or a difference whose interval excludes 0 and whose p is below 0.05.
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
    """A table of a report. note: how to read it. rows: a label and one cell per column."""

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its right answer. replies: what each configuration answers, after "+" if that is right and "-" if not."""

    question: str
    gold: str
    replies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The tables of an evaluation. settings: those that all configurations share. notes: remarks on the rows, such as errors.
    verdicts: which configuration is better, a sentence each. asked: the questions, and `labels` of the configurations."""

    title: str
    tables: tuple[Table, ...]
    settings: Mapping[str, object]
    notes: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()


def as_text(report: Report, width: int) -> str:
    """Return a report as aligned text in lines of up to `width` terminal columns.

    A wider table continues below, with its labels repeated.
    """
    from rich.console import Console
    from rich.text import Text

    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, legacy_windows=False)
    for line in report.verdicts or [report.title]:
        console.print(Text(one_line(line)))
    if report.asked:
        console.print()
        console.print(_questions(report))
    for table in report.tables:
        console.print()
        console.print(Text(f"{table.title}. {table.note}"))
        for part in _parts(table, console):
            console.print()
            console.print(part)
    for line in [*_settings(report), *report.notes]:
        console.print()
        console.print(Text(one_line(line)))
    return "\n".join(map(str.rstrip, text.getvalue().split("\n")))


def _questions(report: Report) -> Drawn:
    """Return the questions down and the configurations across."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("Question", "Right answer", *report.labels):
        drawn.add_column(Text(one_line(name)), overflow="fold")
    for each in report.asked:
        cells = (each.question, each.gold, *each.replies)
        drawn.add_row(*(Text(one_line(cell, _LONGEST_CELL)) for cell in cells))
    return drawn


def _parts(table: Table, console: Console) -> Iterator[Drawn]:
    """Yield the table in parts, each with as many columns as fit the width.

    A cell is one line if the whole table then fits, else one line per number.
    """
    n = len(table.columns)
    if _width(whole := _drawn(table, 0, n, " "), console) <= console.width:
        yield whole
        return
    start = 0
    while start < n:
        end = start + 1
        while end < n and _width(_drawn(table, start, end + 1, "\n"), console) <= console.width:
            end += 1
        yield _drawn(table, start, end, "\n")
        start = end


def _drawn(table: Table, start: int, end: int, between: str) -> Drawn:
    """Return the columns from `start` to `end`. between: separator of the numbers in a cell."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    drawn.add_column("", max_width=_LABEL, overflow="fold")
    for column in table.columns[start:end]:
        drawn.add_column(Text("\n".join(filter(None, _heading(column)))), justify="right", no_wrap=True)
    for label, cells in table.rows:
        shown = zip(cells[start:end], table.columns[start:end], strict=True)
        numbers = (Text("*" * cell.marked + between.join(_lines(cell, column))) for cell, column in shown)
        drawn.add_row(Text(one_line(label)), *numbers)
    return drawn


def _width(drawn: Drawn, console: Console) -> int:
    """Return the number of terminal columns that a table would take."""
    from rich.measure import Measurement

    return Measurement.get(console, console.options.update(width=100_000), drawn).maximum


def as_markdown(report: Report) -> str:
    """Return a report as Markdown with GitHub tables."""
    parts = [f"## {_inert(report.title)}", *map(_inert, report.verdicts)]
    if report.asked:
        lines = [_markdown_row([*map(_inert, ("Question", "Right answer", *report.labels))])]
        lines.append("|" + " :--- |" * (2 + len(report.labels)))
        for each in report.asked:
            texts = (each.question, each.gold, *each.replies)
            lines.append(_markdown_row([_inert(one_line(text, _LONGEST_CELL)) for text in texts]))
        parts.append("\n".join(lines))
    for table in report.tables:
        heading = ["", *(_inert(" ".join(_heading(column))) for column in table.columns)]
        lines = [_markdown_row(heading), "|" + "|".join([" :--- ", *(" ---: " for _ in table.columns)]) + "|"]
        for label, cells in table.rows:
            shown = []
            for cell, column in zip(cells, table.columns, strict=True):
                value, *rest = _lines(cell, column)
                shown.append(" ".join([f"**{value}**" if cell.marked else value, *map(_inert, rest)]))
            lines.append(_markdown_row([_inert(label), *shown]))
        parts += [f"### {_inert(table.title)}", "\n".join(lines), *([_inert(table.note)] if table.note else [])]
    parts += [_inert(line) for line in [*_settings(report), *report.notes]]
    return "\n\n".join(parts) + "\n"


def as_json(report: Report) -> dict[str, object]:
    """Return a report as JSON: scores from 0 to 1, seconds, MB; null if not measured."""
    return {
        "schema": SCHEMA,
        "title": report.title,
        "verdicts": list(report.verdicts),
        "questions": [
            {"question": each.question, "gold": each.gold, "replies": dict(zip(report.labels, each.replies, strict=True))}
            for each in report.asked
        ],
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
    return [f"Common settings: {shared}."]


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


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inert(text: str) -> str:
    return escaped_line(one_line(text))
