"""The tables in a document: the header row of each, with which a chunk that begins below it is read, and where a cell ends."""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple

from fbrag_cli.documents.document import Document

_SHEETS = ("spreadsheetml.sheet", "opendocument.spreadsheet", "vnd.ms-excel")
_LAID_OUT = ("wordprocessingml.document", "presentationml.presentation", "opendocument.text", "text/html", "epub+zip", "rfc822")
_MARKDOWN = ("text/markdown", "application/x-ipynb+json")
_CACHED = 16  # texts, which stay in memory
_MAX_HEADER = 600  # characters; a longer row would crowd out what it names
_SAMPLE = 20  # rows that say how many columns a table has, among which the header is
_MIN_LINES = 10  # of a text that is a table by its lines alone
_MIN_ROWS = 3  # of a table that has a header
_MAX_BETWEEN = 3  # lines between the rows of a PDF's table, on two pages
_CSV = (".csv", ".tsv")
_SEPARATORS = {"\t": 1, ";": 2, "|": 2, ",": 3}  # with the fewest in each line of a such a text
_ROWS = re.compile(r"(?:^[^\n]*\t[^\n]*(?:\n|\Z))+", re.MULTILINE)
_RULE = re.compile(r"^[ |:\-]+\n", re.MULTILINE)  # of a table of Markdown, below its header
_RECORD = re.compile(r"\s*[\[{(]|.*\)[;,]\s*$")  # a line of JSON, or of what is inserted into a database
_BAR = re.compile(r"(?<=\S)\|(?=\S)")  # between two cells without spaces
_YEAR = re.compile(r"(?:19|20)\d\d")


class Table(NamedTuple):
    """A table with a header row: its rows are `text[start:end]` of a document (characters), `header` is above them. apart: the
    header as in `cells_apart`."""

    start: int
    end: int
    header: str
    apart: str


def header_of(document: Document, start: int, *, apart: bool = False) -> str:
    """Return the header row of the table in whose rows `start` (characters) is; "" above them and elsewhere. apart: as in
    `cells_apart`."""
    return header_in(tables_of(document), start, apart=apart)


def header_in(tables: Sequence[Table], start: int, *, apart: bool = False) -> str:
    """Return the header row of the one of `tables` in whose rows `start` is; "" if there is none. apart: as in `cells_apart`."""
    following = bisect_right(tables, start, key=lambda table: table.start)
    table = tables[following - 1] if following else None
    if table is None or start >= table.end:
        return ""
    return table.apart if apart else table.header


def tables_of(document: Document) -> tuple[Table, ...]:
    """Return the tables of a document that have a header row, in order; computed once. Most documents have none."""
    form = form_of(document)
    starts = tuple(section.start for section in document.sections) if form == "sheets" else ()
    return _tables(document.text, form, starts) if form else ()


def form_of(document: Document) -> str:
    """Return how the tables of a document are written, as "csv"; "" for a format without tables.

    It belongs into the key of what is cached of a text and its headers: the same text has other tables in another format.
    """
    if document.media_type == "application/pdf":
        return "pages"
    if document.media_type.endswith(_SHEETS):
        return "sheets"
    if document.media_type.endswith(_LAID_OUT):
        return "rows"
    if document.media_type in _MARKDOWN:
        return "pipes"
    if document.media_type == "text/plain":
        return "csv" if PurePath(document.name).suffix.lower() in _CSV else "lines"
    return ""


def in_rows(document: Document) -> Callable[[int], bool] | None:
    """Return what says whether an offset is in the rows of a table, where a chunk ends with a row; None if there are none."""
    if _separator_of(document):
        return lambda offset: True
    tables = tables_of(document)
    return (lambda offset: header_in(tables, offset) != "") if tables else None


def cells_apart(document: Document) -> str:
    """Return the text of a document with a space instead of each separator that alone is between two cells of a row.

    Its words are those that are counted and compared: of "M1,2026,811.7" three, where the text has one. It is as long as the
    text, and the text itself in most documents. As for `csv`, a separator in quotes belongs to its cell: "1,234" is a number.
    """
    if form_of(document) == "pipes":
        return _bars_apart(document.text)
    separator = _separator_of(document)
    return _apart(document.text, separator) if separator.strip() else document.text


@lru_cache(maxsize=_CACHED)
def _apart(text: str, separator: str) -> str:
    sign = re.escape(separator)
    between = rf"(?<=\S){sign}(?=\S)"
    if '"' not in text:
        return re.sub(between, " ", text)
    quoted = rf'(?<![^\n{sign}]) *"[^"]*(?:""[^"]*)*(?:"|\Z)'  # a cell that begins with a quote, up to the next single one
    return re.sub(f"{quoted}|{between}", lambda found: " " if found[0] == separator else found[0], text)


@lru_cache(maxsize=_CACHED)
def _bars_apart(text: str) -> str:
    parts, end = [], 0
    for table in _tables(text, "pipes", ()):
        parts += [text[end : table.start], _BAR.sub(" ", text[table.start : table.end])]
        end = table.end
    return "".join((*parts, text[end:]))


@lru_cache(maxsize=_CACHED)
def _tables(text: str, form: str, starts: tuple[int, ...]) -> tuple[Table, ...]:
    """Return the tables of a text. starts: where each sheet begins, with its name."""
    match form:
        case "sheets":
            ends = (*starts[1:], len(text))
            return tuple(table for start, end in zip(starts, ends, strict=True) for table in _table(text, start, end))
        case "rows":  # in which only cells are separated by tabs
            rows = _ROWS.finditer(text) if "\t" in text else ()
            return tuple(table for each in rows for table in _table(text, *each.span()))
        case "pages":
            return tuple(_of_pages(text)) if "\t" in text else ()
        case "pipes":
            return tuple(_of_pipes(text))
    return tuple(_of_lines(text, form == "csv"))


def _of_pages(text: str) -> Iterator[Table]:
    """Yield the tables of a PDF, whose rows have tabs. Headers and footers of pages may lie between the rows of one."""
    table = None
    for rows in _ROWS.finditer(text):
        found = next(_table(text, *rows.span()), None)
        if table is not None and text.count("\n", table.end, rows.start()) <= _MAX_BETWEEN and not _is_new(text, found):
            table = table._replace(end=rows.end())
            continue
        if table is not None:
            yield table
        table = found
    if table is not None:
        yield table


def _is_new(text: str, table: Table | None) -> bool:
    if table is None:
        return False
    lines = islice(_lines(text, table.start, table.end), _MIN_ROWS)
    below = [cell for line in lines for cell in _cells(text[slice(*line)], "\t")]
    return differs_from(_cells(table.header, "\t"), below)


def _of_pipes(text: str) -> Iterator[Table]:
    """Yield the tables of Markdown: a header, a line of hyphens and bars, and rows, all of them with bars."""
    end = 1  # of the table before: a rule among its rows begins no other; nor does one without a line above it
    for rule in _RULE.finditer(text):
        header = text[text.rfind("\n", 0, max(0, rule.start() - 1)) + 1 : max(0, rule.start() - 1)]
        if rule.start() < end or not ("|" in rule[0] and "-" in rule[0] and "|" in header and len(header) <= _MAX_HEADER):
            continue
        end = rule.end()
        for first, last in _lines(text, rule.end(), len(text)):
            if first > end + 1 or text.find("|", first, last) < 0:
                break
            end = last
        yield Table(rule.end(), end, header, _BAR.sub(" ", header))


def _of_lines(text: str, is_table: bool) -> Iterator[Table]:
    """Yield the table that a whole text is, as in CSV. is_table: whether its name says so; otherwise its first lines must."""
    if separator := _separator(text, is_table):
        yield from _table(text, 0, len(text), separator)


def _separator_of(document: Document) -> str:
    """Return what is between the cells of a document that is a table as a whole, as in CSV; "" for any other."""
    form = form_of(document)
    return _separator(document.text, form == "csv") if form in ("csv", "lines") else ""


@lru_cache(maxsize=_CACHED)
def _separator(text: str, is_table: bool) -> str:
    lines = list(islice(_lines(text, 0, len(text)), _SAMPLE))
    if not is_table and lines and _RECORD.match(text[slice(*lines[0])]):
        return ""
    alike = {}  # by separator: how many lines have equally many of it
    for separator, fewest in _SEPARATORS.items():
        counts = Counter(text.count(separator, *line) for line in lines)
        alike[separator] = max((n for count, n in counts.items() if count >= (1 if is_table else fewest)), default=0)
    separator = max(alike, key=lambda each: alike[each])
    return separator if alike[separator] and (is_table or _MIN_LINES <= alike[separator] == len(lines)) else ""


def _table(text: str, start: int, end: int, separator: str = "\t") -> Iterator[Table]:
    """Yield `text[start:end]` as a table, if one of its first rows is a header: as wide as the others, and of names."""
    rows = [
        (first, last, _cells(text[first : min(last, first + _MAX_HEADER)], separator))
        for first, last in islice(_lines(text, start, end), _SAMPLE)
    ]
    widest = max((len(cells) for _, _, cells in rows), default=0)
    if widest < 2 or len(rows) < _MIN_ROWS:
        return
    first, last, cells = next(row for row in rows if len(row[2]) >= max(2, 0.6 * widest))
    names = sum(map(is_name, cells))
    if last - first <= _MAX_HEADER and names >= 0.75 * len(cells) and not all(map(_YEAR.fullmatch, cells)):
        header = text[first:last]
        yield Table(last + 1, end, header, _apart(header, separator) if separator.strip() else header)


def _cells(line: str, separator: str) -> list[str]:
    """Return the cells of a row that are not empty."""
    cells = line.split(separator)
    if separator != "\t":
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=separator), [])
    return [cell.strip() for cell in cells if cell.strip()]


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line of `text[start:end]` that is not blank."""
    while start < end:
        last = text.find("\n", start, end)
        last = end if last < 0 else last
        if text[start:last].strip():
            yield start, last
        start = last + 1


def is_name(cell: str) -> bool:
    """Return whether a cell, not empty, can name a column: it has a letter and does not begin with a digit, or it is a year."""
    return bool(_YEAR.fullmatch(cell)) or (not cell[0].isdecimal() and any(map(str.isalpha, cell)))


def differs_from(header: Sequence[str], below: Sequence[str]) -> bool:
    """Return whether a row of names is surely a header: cells below it begin with digits, and none of its own do but years."""
    if not any(cell[0].isdecimal() for cell in header):
        return any(cell[0].isdecimal() for cell in below)
    return not all(map(is_name, below))
