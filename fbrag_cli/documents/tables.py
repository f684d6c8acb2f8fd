"""The tables in a document: what is read above their rows (a unit, header rows), and where a cell ends.

A table is found in the text as it is displayed, in every format: in rows with tabs, in CSV, in Markdown.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise, takewhile
from math import inf
from pathlib import PurePath
from typing import NamedTuple

from fbrag_cli.documents.document import Content, Document

_SHEETS = ("spreadsheetml.sheet", "opendocument.spreadsheet", "vnd.ms-excel")
_LAID_OUT = (
    "wordprocessingml.document",
    "presentationml.presentation",
    "opendocument.text",
    "text/html",
    "epub+zip",
    "rfc822",
    "mbox",
)
_MARKDOWN = ("text/markdown", "application/x-ipynb+json")
_RECORDS = ("application/json", "application/xml")  # a line for each value, and a blank one between two records
_MAX_HEADER = 600  # characters; a longer row would crowd out what it names
_SAMPLE = 20  # rows that say how many columns a table has, among which the header is
_MIN_LINES = 10  # of a text that is a table by its lines alone
_MIN_ROWS = 3  # of a table that has a header
_MAX_BETWEEN = 3  # lines between the rows of a PDF's table, on two pages
_MAX_HEADER_ROWS = 3
_MAX_ABOVE = 3  # lines above a table that may state its unit
_LONGEST_UNIT = 200  # characters of a line, or of a sentence of a longer one, that states one
_MOST = 0.6  # share of the cells of a column that tell what is in it, and of the columns that a full row has
_CSV = (".csv", ".tsv")
_SEPARATORS = {"\t": 1, ";": 2, "|": 2, ",": 3}  # with the fewest in each line of a such a text
_ROWS = re.compile(r"(?:^[^\n]*\t[^\n]*(?:\n|\Z))+", re.MULTILINE)
_RULE = re.compile(r"^[ |:\-]+\n", re.MULTILINE)  # of a table of Markdown, below its header
_RECORD = re.compile(r"\s*[\[{(]|.*\)[;,]\s*$")  # a line of JSON, or of what is inserted into a database
_BAR = re.compile(r"(?<=\S)\|(?=\S)")  # between two cells without spaces
_YEAR = re.compile(r"(?:19|20)\d\d")
_LABEL = r"(?:[^\W\d][^\t\n]*|(?:19|20)\d\d|)"
_LABELS = re.compile(rf"^{_LABEL}(?:\t{_LABEL}){{2,}}$", re.MULTILINE)  # a row without a number
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_MAGNITUDE = (
    r"(?:thousands?|millions?|billions?|tsd\.?|tausend|mio\.?|millionen|mrd\.?|milliarden|milliers|milliards|miles|millones"
    r"|migliaia|milioni|miliardi|milhares|milh[oõ]es|duizend(?:en)?|miljoen(?:en)?|mln|mld|tys\.)"
)
_CURRENCY = r"(?:euros?|eur|usd|us dollars?|dollars?|chf|franken|francs|gbp|pounds|jpy|yen|sek|nok|dkk|kronor|pln|[€$£¥]|us\$)"
_MEASURE = r"(?:per ?cent|prozent|%|tonn?e?s?|kg|km|mwh|gwh|kwh|litres|liters|hectares|hours|units)"
# A line that states in what the figures below it are: "in thousands of euros", "amounts in USD million", "(000s)".
_UNIT = (  # compiled at the first table
    rf"\b(?:in|en|em|i|w) (?:{_CURRENCY} ?)?{_MAGNITUDE}(?!\w)|(?:[(\s]|^)(?:{_CURRENCY} ?)?['’]?000s?(?: ?{_CURRENCY})?\)"
    rf"|\b{_CURRENCY} {_MAGNITUDE}(?!\w)|(?:単位|单位|單位) ?[:：]|\b(?:units?|currency|einheit|währung|unité|unidad|unità) ?:"
    rf"|\b(?:amounts|figures|values|prices|all|angaben|beträge|werte|montants|chiffres|importes|valori|bedragen)\b[^.]{{0,60}}?"
    rf"\b(?:in|en) (?:{_CURRENCY}|{_MEASURE})(?!\w)|^\(?(?:all )?(?:in|en) (?:{_CURRENCY}|{_MEASURE})\)?$"
)


class Table(NamedTuple):
    """A table of a document: its rows are `text[start:end]` (characters). header: what is read above them: the lines above the
    table that state a unit, and its header rows, joined by column to one row; "" if it has neither. apart: the header row as in
    `cells_apart`, without units."""

    start: int
    end: int
    header: str
    apart: str


def header_of(document: Document, start: int, *, apart: bool = False) -> str:
    """Return the header of the table in whose rows `start` (characters) is; "" above them and elsewhere. apart: as in
    `cells_apart`."""
    return header_in(tables_of(document), start, apart=apart)


def header_in(tables: Sequence[Table], start: int, *, apart: bool = False) -> str:
    """Return the header of the one of `tables` in whose rows `start` is; "" if there is none. apart: as in `cells_apart`."""
    table = _at(tables, start)
    return "" if table is None else table.apart if apart else table.header


def _at(tables: Sequence[Table], offset: int) -> Table | None:
    following = bisect_right(tables, offset, key=lambda table: table.start)
    return tables[following - 1] if following and offset < tables[following - 1].end else None


def tables_of(document: Document) -> tuple[Table, ...]:
    """Return the tables of a document, in order; computed once. Most documents have none."""
    form = form_of(document)
    return document.content().once(_tables, form) if form else ()


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
    if separator_of(document) or document.media_type in _RECORDS:
        return lambda offset: True
    tables = tables_of(document)
    return (lambda offset: _at(tables, offset) is not None) if tables else None


def cells_apart(document: Document) -> str:
    """Return the text of a document with a space instead of each separator that alone is between two cells of a row.

    Its words are those that are counted and compared: of "M1,2026,811.7" three, where the text has one. It is as long as the
    text, and the text itself in most documents. As for `csv`, a separator in quotes belongs to its cell: "1,234" is a number.
    """
    form = form_of(document)
    return document.content().once(_cells_apart, form) if form in ("pipes", "csv", "lines") else document.text


def _cells_apart(content: Content, form: str) -> str:
    if form == "pipes":
        return _bars_apart(content)
    separator = content.once(_separator, form == "csv")
    return _apart(content.text, separator) if separator.strip() else content.text


def _apart(text: str, separator: str) -> str:
    sign = re.escape(separator)
    between = rf"(?<=\S){sign}(?=\S)"
    if '"' not in text:
        return re.sub(between, " ", text)
    quoted = rf'(?<![^\n{sign}]) *"[^"]*(?:""[^"]*)*(?:"|\Z)'  # a cell that begins with a quote, up to the next single one
    return re.sub(f"{quoted}|{between}", lambda found: " " if found[0] == separator else found[0], text)


def _bars_apart(content: Content) -> str:
    text, end = content.text, 0
    parts = []
    for table in content.once(_tables, "pipes"):
        parts += [text[end : table.start], _BAR.sub(" ", text[table.start : table.end])]
        end = table.end
    return "".join((*parts, text[end:]))


def _tables(content: Content, form: str) -> tuple[Table, ...]:
    text = content.text
    match form:
        case "sheets":
            starts = [section.start for section in content.sections]  # of each sheet, with its name
            sheets = (_stacked(text, _parted(text, *span, "\t")) for span in pairwise((*starts, len(text))))
            return tuple(chain.from_iterable(sheets))
        case "pipes":
            return tuple(_of_pipes(text))
        case "csv" | "lines":
            separator = content.once(_separator, form == "csv")
            return tuple(_stacked(text, _parted(text, 0, len(text), separator), separator)) if separator else ()
    rows = (found.span() for found in (_ROWS.finditer(text) if "\t" in text else ()))  # in which only cells are separated by tabs
    return tuple(_stacked(text, rows, most_between=_MAX_BETWEEN if form == "pages" else -1))


def _parted(text: str, start: int, end: int, separator: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of `text[start:end]` between its rows without a cell."""
    for empty in re.compile(rf"^[ {re.escape(separator)}]*\n", re.MULTILINE).finditer(text, start, end):
        if empty.start() > start:
            yield start, empty.start()
        start = empty.end()
    if start < end:
        yield start, end


def _stacked(text: str, parts: Iterable[tuple[int, int]], separator: str = "\t", most_between: float = inf) -> Iterator[Table]:
    """Yield the tables in the parts of a text, in order. One that has no header of its own continues the table before, also if
    `most_between` lines, such as the headers and footers of pages, are between them."""
    table = None
    for part in parts:
        for start, end in _by_headers(text, *part) if separator == "\t" else (part,):
            candidate, is_sure = _table(text, start, end, separator)
            if table is not None and not (candidate and is_sure) and text.count("\n", table.end, start) <= most_between:
                table = table._replace(end=end)
                continue
            if table is not None:
                yield table
            table = candidate
    if table is not None:
        yield table


def _by_headers(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of rows without an empty one between, each of which but the first begins with a header of its own.

    Such a row has names above numbers, and the row before it is a title, or it begins as the first header or is not as wide as
    the row before it.
    """
    first = _cells(text[start : _line_end(text, start, end)], "\t")[0]
    head = max((last for _, last in islice(_lines(text, start, end), _MAX_HEADER_ROWS)), default=end)  # the first header's rows
    for row in _LABELS.finditer(text, head, end):
        above = _cells(text[text.rfind("\n", start, row.start() - 1) + 1 : row.start() - 1], "\t")
        below = _cells(text[row.end() + 1 : _line_end(text, row.end() + 1, end)], "\t")
        cells = _cells(row[0], "\t")
        n_above = _n_filled(above)
        is_apart = n_above == 1 or ("number" in map(_kind, above) and (cells[0] == first or n_above != _n_filled(cells)))
        if is_apart and sum(name != "" and _kind(cell) == "number" for name, cell in zip(cells, below, strict=False)) > 1:
            yield start, row.start()
            start = row.start()
    yield start, end


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
        units = _units(text, rule.start() - len(header) - 1)
        yield Table(rule.end(), end, "\n".join((*units, header)), _BAR.sub(" ", header))


def separator_of(document: Document) -> str:
    """Return what is between the cells of a document that is a table as a whole, as in CSV; "" for any other."""
    form = form_of(document)
    return document.content().once(_separator, form == "csv") if form in ("csv", "lines") else ""


def _separator(content: Content, is_table: bool) -> str:
    text = content.text
    lines = list(islice(_lines(text, 0, len(text)), _SAMPLE))
    if not is_table and lines and _RECORD.match(text[slice(*lines[0])]):
        return ""
    alike = {}  # by separator: how many lines have equally many of it
    for separator, fewest in _SEPARATORS.items():
        counts = Counter(text.count(separator, *line) for line in lines)
        alike[separator] = max((n for count, n in counts.items() if count >= (1 if is_table else fewest)), default=0)
    separator = max(alike, key=lambda each: alike[each])
    return separator if alike[separator] and (is_table or _MIN_LINES <= alike[separator] == len(lines)) else ""


def _table(text: str, start: int, end: int, separator: str = "\t") -> tuple[Table | None, bool]:
    """Return `text[start:end]` as a table, and whether it has names above numbers; None if it has too few rows or columns.

    Its header is the first full row, if that names what is below it; the rows above it whose cells span several of its columns;
    and those below it that name parts of the same columns.
    """
    rows = [
        (first, last, _cells(text[first : min(last, first + _MAX_HEADER)], separator))
        for first, last in islice(_lines(text, start, end), _SAMPLE)
    ]
    widest = max((_n_filled(cells) for _, _, cells in rows), default=0)
    if widest < 2 or len(rows) < 2:
        return None, False
    cells = [each for _, _, each in rows]
    top = bottom = next(at for at, row in enumerate(cells) if _n_filled(row) >= max(2, _MOST * widest))
    names, numbers = _named(cells, top)
    n_rows = len(rows) - top
    if names and (n_rows >= _MIN_ROWS or numbers > 1) and rows[top][1] - rows[top][0] <= _MAX_HEADER:
        while bottom - top + 1 < _MAX_HEADER_ROWS and bottom + 2 < len(rows) and _goes_below(cells, bottom):
            bottom += 1
        while top and bottom - top + 1 < _MAX_HEADER_ROWS and _spans(cells[top - 1], cells[top]):
            top -= 1
        header = text[slice(*rows[bottom][:2])]
        if top < bottom and len(joined := _joined(cells[top : bottom + 1], separator)) <= _MAX_HEADER:
            header = joined
        start = rows[bottom][1] + 1
    elif len(rows) < _MIN_ROWS:
        return None, False
    else:
        header, top, start = "", 0, rows[0][0]
    units = _units(text, rows[top][0])
    apart = _apart(header, separator) if separator.strip() else header
    return Table(start, end, "\n".join(filter(None, (*units, header))), apart), bool(header) and numbers > 0


def _named(rows: Sequence[Sequence[str]], at: int) -> tuple[bool, int]:
    """Return whether a row names the columns of those below it, and how many of its names are above numbers."""
    row = rows[at]
    for_it = against = numbers = 0
    for column, cell in enumerate(row):
        below = [each[column] for each in rows[at + 1 :] if column < len(each) and each[column]]
        if not cell or not below:
            continue
        kinds = Counter(map(_kind, below))
        kind, n = kinds.most_common(1)[0]
        own = _kind(cell)
        if n < _MOST * len(below):
            continue
        is_year = _YEAR.fullmatch(cell) is not None
        if cell in below or (own == "number" and not is_year):
            against += 1
        elif kind == "number":
            is_named = not is_year or sum(map(bool, map(_YEAR.fullmatch, below))) < _MOST * len(below)
            for_it, against, numbers = for_it + is_named, against + (not is_named), numbers + is_named
        elif kind == "code":
            for_it += own == "text"
            against += own == "code" and cell[:1] == below[0][:1]
        else:
            signs = set.intersection(*({sign for sign in each if not (sign.isalnum() or sign.isspace())} for each in below))
            is_longer = len(min(below, key=len)) > 2 * len(cell)
            for_it += is_year or is_longer or len(below) >= 4 * len(set(below)) or not signs <= set(cell)
    filled = [cell for cell in row if cell]
    return for_it > against and sum(map(is_name, filled)) >= 0.75 * len(filled), numbers


def _goes_below(rows: Sequence[Sequence[str]], at: int) -> bool:
    """Return whether the row below row `at` of a header is part of it: it has names, in other columns or of parts of them."""
    above, row = rows[at], rows[at + 1]
    is_part = not row[0] or row[0] == above[0]
    return is_part and _n_filled(row) > 1 and _named(rows, at + 1)[0]


def _spans(above: Sequence[str], row: Sequence[str]) -> bool:
    """Return whether the row above one of a header is part of it: of names, fewer than this has, which are above several."""
    filled = [cell for cell in above if cell]
    is_part = not above[0] or not row[0] or above[0] == row[0] or len(filled) > 2
    return is_part and any(above[1:]) and len(filled) < _n_filled(row) and all(map(is_name, filled))


def _joined(rows: Sequence[Sequence[str]], separator: str) -> str:
    """Return the rows of a header as one: "2023 Plan" for Plan below 2023. A name lasts to the next one in its row if there are
    other names below it."""
    width = max(map(len, rows))
    padded = [[*row, *[""] * (width - len(row))] for row in rows]
    names: list[list[str]] = [[] for _ in range(width)]
    for at, row in enumerate(padded):
        lasting = ""
        for column, cell in enumerate(row):
            below = {other[column] for other in padded[at + 1 :]} - {""}
            if cell or not below:
                lasting = cell if below - {cell} else ""
            text = cell or lasting
            if text and names[column][-1:] != [text]:
                names[column].append(text)
    cells = [" ".join(each) for each in names]
    return separator.join(f'"{cell}"' if separator in cell else cell for cell in cells)


def _units(text: str, start: int) -> list[str]:
    """Return what states a unit, such as "in thousands of euros", in the lines directly above `start`; of a long line, its
    sentences."""
    above = [line.strip() for line in text[max(0, start - _MAX_ABOVE * _MAX_HEADER) : start].split("\n") if line.strip()]
    near = takewhile(lambda line: "\t" not in line, reversed(above[-_MAX_ABOVE:]))
    found = (each for line in [*near][::-1] for each in ([line] if len(line) <= _LONGEST_UNIT else _SENTENCE.split(line)))
    return [each for each in found if len(each) <= _LONGEST_UNIT and re.search(_UNIT, each, re.IGNORECASE)]


def _n_filled(cells: Sequence[str]) -> int:
    return sum(map(bool, cells))


def _kind(cell: str) -> str:
    """Return whether a cell is a "number", with or without a unit, a "code" (A-1150, CHF 318.40) or "text"; "" if empty."""
    if not any(map(str.isdecimal, cell)):
        return "text" if cell else ""
    return "code" if cell[0].isalpha() else "number"


def _cells(line: str, separator: str) -> list[str]:
    """Return the cells of a row, at least one."""
    cells = line.split(separator)
    if separator != "\t":
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=separator), [""])
    return [cell.strip() for cell in cells]


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line of `text[start:end]` that is not blank."""
    while start < end:
        last = _line_end(text, start, end)
        if text[start:last].strip():
            yield start, last
        start = last + 1


def _line_end(text: str, start: int, end: int) -> int:
    """Return the end of the line at `start`, in which `end` may be."""
    found = text.find("\n", start, end)
    return end if found < 0 else found


def is_name(cell: str) -> bool:
    """Return whether a cell, not empty, can name a column: it has a letter and does not begin with a digit, or it is a year."""
    return bool(_YEAR.fullmatch(cell)) or (not cell[0].isdecimal() and any(map(str.isalpha, cell)))
