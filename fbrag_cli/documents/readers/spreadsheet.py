"""Read a workbook (Excel, OpenDocument): sheets are the sections, a row is a line, cells are read as they are displayed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from io import BytesIO
from struct import unpack_from
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import HIDDEN, Extracted
from fbrag_cli.documents.format_detection import OLE, workbook_head
from fbrag_cli.documents.hidden import WHITE, Color, Look, is_hidden, parse_color
from fbrag_cli.documents.readers.blocks import Block, MarkupText, extracted
from fbrag_cli.documents.readers.cell_formats import BUILT_IN, shown, shown_text, written
from fbrag_cli.documents.readers.drawing import comments_of, names_of_authors, parts_named, read_drawing
from fbrag_cli.documents.readers.nested import Target
from fbrag_cli.documents.readers.odt import refuse_encrypted
from fbrag_cli.documents.readers.package import MAX_UNPACKED, Archive, Relation, feed, number, theme_colors
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line, plural

if TYPE_CHECKING:
    from lxml.etree import _Element

_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_ODS = "application/vnd.oasis.opendocument.spreadsheet"
_XLS = "application/vnd.ms-excel"
_WORKBOOK = "xl/workbook.xml"
# What lies on the sheets of OpenDocument and is not read.
_NOT_READ = {b"<draw:object ": "embedded object", b"<draw:text-box": "text frame", b"<office:annotation ": "comment"}
_NOT_READ[b"<draw:image "] = "picture"
_FILEPASS = 0x2F
_MAX_ROWS = 1 << 20  # of a sheet
_MAX_COLUMNS = 1 << 14
_LONGEST_MERGED = 300  # characters of a cell that is repeated in each of its rows
_MAX_MERGED = 1_000_000  # characters that are repeated so
_TRUE = ("1", "true")
_INDEXED = {"0": "000000", "1": "FFFFFF", "8": "000000", "9": "FFFFFF", "65": "FFFFFF"}  # colors by number; only white matters
_THEME = ("lt1", "dk1", "lt2", "dk2", "accent1", "accent2", "accent3", "accent4", "accent5", "accent6", "hlink", "folHlink")

_Range = tuple[int, int, int, int]  # first row and column, last row and column; from 0


def read_spreadsheet(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a workbook: of each sheet its name as a heading, its rows, cells separated by tabs, and the text of its drawings.

    Values are written in the formats of their cells; in a workbook of before 2007, whose formats are not read, as they are. Empty
    rows are one empty line. What is hidden is left out without `markup`. codec: not used. Raises FbragError doc_unreadable:
    damaged, encrypted, a bomb. Damage to a workbook of before 2007 can end the process: read it in one with limits.
    """
    reading = _Reading(source, MarkupText(markup))
    if source.data.startswith(OLE):
        return reading.extracted(_of_xls(reading), _XLS)
    archive = Archive(source, "a spreadsheet") if source.data.startswith(b"PK") else None
    if archive is None or "content.xml" in archive:
        return reading.extracted(_of_ods(reading, archive), _ODS)
    return reading.extracted(_of_xlsx(reading, archive), _XLSX)


@dataclass
class _Sheet:
    """A sheet. name: "" for none. rows: by their number, the text of each cell by its column; a hidden row is empty. merged: the
    cells that are merged over several rows. linked: relations of its part. hidden_columns: those that take no room."""

    name: str = ""
    rows: dict[int, dict[int, str]] = field(default_factory=dict)
    merged: list[_Range] = field(default_factory=list)
    linked: list[Relation] = field(default_factory=list)
    hidden_columns: set[int] = field(default_factory=set)


class _Reading:
    """One reading of a workbook, and what is counted meanwhile. n_formulas: number of those that have no value."""

    def __init__(self, source: Source, markup: MarkupText) -> None:
        self.source, self.markup = source, markup
        self.left_out = Counter[str]()
        self.comments: list[str] = []
        self.n_formulas = 0
        self._length = 0  # of the text, in characters

    def extracted(self, blocks: Iterator[Block], media_type: str) -> Extracted:
        result = extracted([*blocks], media_type, self.left_out, self.markup, self.comments)
        if self.n_formulas:
            formulas = f"{plural(self.n_formulas, 'formula')} without a value (open and save the file in a spreadsheet program)"
            result = replace(result, left_out=(*result.left_out, formulas))
        return result

    def count(self, n: int) -> None:
        """Count characters of text. Raises FbragError doc_unreadable for too many."""
        self._length += n
        if self._length > MAX_UNPACKED:
            reason = f"{self.source.name} is too large: a spreadsheet of more than {MAX_UNPACKED // 1_000_000} MB of text"
            raise FbragError("doc_unreadable", reason, "name a text version of it (csv), or its parts", document=self.source.path)

    def leaves_out(self, kind: str, n: int = 1) -> bool:
        """Return whether something hidden is not read, and count it. kind: "hidden sheet", for one."""
        if not self.markup.is_read:
            self.markup.left_out[kind] += n
        return not self.markup.is_read

    def blocks(self, sheet: _Sheet, at: int, drawings: Iterable[Block] = ()) -> Iterator[Block]:
        """Yield the name of a sheet that has text, its rows, and the text of its drawings. at: its place, from 0."""
        rows = [*self._lines(sheet), *drawings]
        if rows:
            yield Block(" ".join(sheet.name.split()) or f"Sheet {at + 1}", level=1)
            yield from rows

    def _lines(self, sheet: _Sheet) -> Iterator[Block]:
        _fill(sheet)
        hidden = sorted(sheet.hidden_columns)
        used = {column for row in sheet.rows.values() for column in row}
        places = {column: column - bisect_left(hidden, column) for column in used}
        first, before, n_empty = min(places.values(), default=0), 0, 0
        for at in sorted(sheet.rows):
            n_empty += at > before + 1
            before = at
            row = {places[column]: text for column, text in sheet.rows[at].items()}
            last = max(row, default=first - 1)
            self.count(last - first)  # tabs
            if row:
                yield Block("\t".join([row.get(place, "") for place in range(first, last + 1)]), group=f"rows {n_empty}")


def _fill(sheet: _Sheet) -> None:
    """Give each cell that one above is merged over the text of that one; but not of a long one, and not in an empty row."""
    numbers = sorted(sheet.rows)
    n_filled = 0  # characters
    for top, left, bottom, _ in sheet.merged:
        said = sheet.rows.get(top, {}).get(left, "")
        if not 0 < len(said) <= _LONGEST_MERGED:
            continue
        for at in numbers[bisect_left(numbers, top + 1) : bisect_left(numbers, bottom + 1)]:
            n_filled += len(said)
            if sheet.rows[at] and n_filled <= _MAX_MERGED:
                sheet.rows[at].setdefault(left, said)


# -- Excel, from 2007 on -------------------------------------------------------------------------------------------------------


def _of_xlsx(reading: _Reading, archive: Archive) -> Iterator[Block]:
    refuse_encrypted(reading.source, archive)
    linked = archive.relations(_WORKBOOK)
    parts = {each.kind: each.target for each in reversed(linked) if each.target in archive}
    workbook = archive.tree(_WORKBOOK)
    strings = _Strings()
    if "sharedStrings" in parts:
        archive.feed(parts["sharedStrings"], strings)
    theme = archive.tree(parts["theme"]) if "theme" in parts else None
    styles = _styles(archive.tree(parts["styles"]), _theme_colors(theme)) if "styles" in parts else {}
    from_1904 = any(each.get("date1904") in _TRUE for each in workbook.iter("{*}workbookPr"))
    authors = names_of_authors(archive, linked)
    targets = parts_named(archive, _WORKBOOK, "{*}sheet", linked)
    if not targets:
        raise archive.damaged("it has no sheets")
    for at, (element, target) in enumerate(zip(workbook.iter("{*}sheet"), targets, strict=True)):
        is_sheet_hidden = element.get("state", "visible") != "visible"
        if (is_sheet_hidden and reading.leaves_out("hidden sheet")) or target not in archive:
            continue
        cells = _Cells(reading, strings.found, styles, from_1904)
        cells.sheet.name, cells.sheet.linked = element.get("name", ""), archive.relations(target)
        archive.feed(target, cells)
        cells.finish([each.get("ref", "") for each in _tables_on(archive, cells.sheet.linked)])
        drawings = _drawings(reading, archive, cells.sheet.linked)
        yield from reading.blocks(cells.sheet, at, drawings)
        reading.comments += comments_of(archive, cells.sheet.linked, " ".join(cells.sheet.name.split()), authors)


def _tables_on(archive: Archive, linked: Iterable[Relation]) -> Iterator[_Element]:
    return (archive.tree(each.target) for each in linked if each.kind == "table" and each.target in archive)


def _drawings(reading: _Reading, archive: Archive, linked: Iterable[Relation]) -> Iterator[Block]:
    """Yield the text boxes, charts and diagrams that lie on a sheet. linked: its relations."""
    for relation in linked:
        if relation.kind == "drawing" and relation.target in archive:
            inside = archive.relations(relation.target)
            yield from read_drawing(archive, relation.target, inside, reading.left_out, reading.markup).blocks()


@dataclass(frozen=True)
class _Style:
    """A style of cells. code: its format. is_white: whether its text cannot be seen, unless the cell has another ground than its
    own."""

    code: str = "General"
    is_white: bool = False


_PLAIN = _Style()


def _styles(root: _Element, theme: dict[str, str]) -> dict[str, _Style]:
    """Return the styles of cells by the numbers that cells give them."""
    codes = {each.get("numFmtId"): each.get("formatCode", "") for each in root.iter("{*}numFmt")}
    fonts = [each for group in root.iterchildren("{*}fonts") for each in group]
    fills = [each for group in root.iterchildren("{*}fills") for each in group]
    styles = []
    for cell_format in (each for group in root.iterchildren("{*}cellXfs") for each in group):
        identity = cell_format.get("numFmtId", "0")
        code = codes.get(identity) or BUILT_IN.get(number(identity), "General")
        font, fill = (_chosen(group, cell_format.get(name, "0")) for group, name in ((fonts, "fontId"), (fills, "fillId")))
        pattern = None if fill is None else fill.find("{*}patternFill")
        kind = "none" if fill is None or (pattern is not None and not pattern.get("patternType")) else "gradient"
        kind = pattern.get("patternType", kind) if pattern is not None else kind
        ground = _color(pattern.find("{*}fgColor"), theme) if pattern is not None and kind == "solid" else None
        size = font.find("{*}sz") if font is not None else None
        look = Look(
            size=float(number(size.get("val", "11").partition(".")[0], 11)) if size is not None else None,
            color=_color(font.find("{*}color"), theme) if font is not None else None,
            ground=ground,
            on_picture=kind != "none" and ground is None,
        )
        styles.append(_Style(code, is_hidden(look)))
    return {str(at): style for at, style in enumerate(styles)}


def _chosen(group: list[_Element], at: str) -> _Element | None:
    return group[number(at)] if number(at) < len(group) else None


def _theme_colors(theme: _Element | None) -> dict[str, str]:
    """Return the colors of a theme by the numbers that styles give them."""
    named = theme_colors(theme)
    return {str(at): named.get(name, "") for at, name in enumerate(_THEME)}


def _color(element: _Element | None, theme: dict[str, str]) -> Color | None:
    """Return a color of a style; None for an unknown one."""
    if element is None or element.get("auto") in _TRUE:
        return None
    text = element.get("rgb", "")[-6:] or theme.get(element.get("theme", ""), "") or _INDEXED.get(element.get("indexed", ""), "")
    color = parse_color(text)
    try:
        tint = float(element.get("tint", "0"))
    except ValueError:
        tint = 0.0
    if color is None or not tint:
        return color
    return Color(*(min(255, max(0, round(level + (255 - level) * tint if tint > 0 else level * (1 + tint)))) for level in color))


class _Strings(Target):
    """The target of lxml's parser for the strings that cells share. Readings of Chinese characters are left out."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._parts: list[str] = []
        self._is_text, self._depth = False, 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        self._depth += name == "rPh"
        self._is_text = name == "t" and not self._depth

    def data(self, data: str) -> None:
        if self._is_text:
            self._parts.append(data)

    def end(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        self._is_text = False
        self._depth -= name == "rPh"
        if name == "si":
            self.found.append(" ".join("".join(self._parts).split()))
            self._parts = []


class _Cells(_Strings):
    """The target of lxml's parser for a sheet."""

    def __init__(self, reading: _Reading, strings: list[str], styles: dict[str, _Style], from_1904: bool) -> None:
        super().__init__()
        self.sheet = _Sheet()
        self._reading, self._strings, self._styles, self._from_1904 = reading, strings, styles, from_1904
        self._row, self._column = -1, -1
        self._row_is_hidden = False
        self._cell: dict[str, str] = {}
        self._has_formula = False
        self._n_said = 0  # characters since the row before
        self._white: list[tuple[int, int, str]] = []  # cells whose text cannot be seen if nothing else colors their ground
        self._colored: list[str] = []  # ranges that may have another ground

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag[tag.rfind("}") + 1 :]
        self._is_text = name in ("v", "t") and not self._depth
        match name:
            case "v":
                pass
            case "c":
                letters = attributes.get("r", "").rstrip("0123456789")
                self._column = _column(letters) if letters else self._column + 1
                self._cell, self._parts, self._has_formula = attributes, [], False
            case "row":
                self._reading.count(self._n_said)
                self._n_said = 0
                self._row = number(attributes.get("r", ""), self._row + 2) - 1
                self._column = -1
                self._row_is_hidden = attributes.get("hidden") in _TRUE and self._reading.leaves_out("hidden row")
                if self._row_is_hidden:
                    self.sheet.rows[self._row] = {}
            case "col" if attributes.get("hidden") in _TRUE:
                first, last = (number(attributes.get(key, ""), 1, _MAX_COLUMNS) for key in ("min", "max"))
                if self._reading.leaves_out("hidden column", max(0, last - first + 1)):
                    self.sheet.hidden_columns |= {*range(first - 1, last)}
            case "f":
                self._has_formula = True
            case "mergeCell" if span := _range(attributes.get("ref", "")):
                self.sheet.merged.append(span)
            case "conditionalFormatting":
                self._colored += attributes.get("sqref", "").split()
            case "rPh":
                self._depth += 1

    def end(self, tag: str) -> None:
        name = tag[tag.rfind("}") + 1 :]
        self._is_text = False
        if name == "c" and not self._row_is_hidden and self._column not in self.sheet.hidden_columns:
            self._add("".join(self._parts))
        elif name == "rPh":
            self._depth -= 1

    def _add(self, value: str) -> None:
        kind, style = self._cell.get("t", "n"), self._styles.get(self._cell.get("s", "0"), _PLAIN)
        text = self._shown(value, kind, style.code)
        if style.is_white or (not text and value.strip(" 0.") and kind == "n"):  # its format hides a number
            text = text or value
            self._white.append((self._row, self._column, text))
        if text:
            self._n_said += len(text)
            self.sheet.rows.setdefault(self._row, {})[self._column] = text
        elif self._has_formula and not value and kind != "str":
            self._reading.n_formulas += 1

    def _shown(self, value: str, kind: str, code: str) -> str:
        """Return a value as its cell shows it."""
        match kind:
            case "n" if value:
                with suppress(ValueError):
                    return shown(float(value), code, from_1904=self._from_1904)
            case "s":
                at = number(value.strip(), -1)
                value = self._strings[at] if 0 <= at < len(self._strings) else ""
            case "b":
                return {"1": "TRUE", "0": "FALSE"}.get(value.strip(), value)
            case "d":
                value = value.replace("T00:00:00", "").replace("T", " ")
        value = " ".join(value.split())
        return shown_text(value, code) if value and code not in ("General", "@") else value

    def finish(self, tables: Iterable[str]) -> None:
        """Leave out the cells that cannot be seen. tables: ranges of tables, whose styles may color their ground."""
        colored = [*filter(None, map(_range, (*tables, *self._colored)))]
        for row, column, text in self._white:
            is_seen = any(top <= row <= bottom and left <= column <= right for top, left, bottom, right in colored)
            if is_seen or column not in self.sheet.rows.get(row, {}):  # or hidden with its row
                continue
            if not self._reading.markup.read(text, HIDDEN).strip():
                del self.sheet.rows[row][column]


@lru_cache(maxsize=_MAX_COLUMNS)
def _column(letters: str) -> int:
    """Return the number of a column, from 0: 27 for AB."""
    return min(reduce(lambda count, letter: 26 * count + ord(letter) - 64, letters[-4:].upper(), 0) - 1, _MAX_COLUMNS)


def _range(reference: str) -> _Range | None:
    """Return the range that "B4:C9" names; None for no range."""
    corners = reference.replace("$", "").split(":")
    cells = []
    for corner in (corners[0], corners[-1]):
        letters = corner.rstrip("0123456789")
        if not letters.isascii() or not letters.isalpha() or letters == corner:
            return None
        cells += [number(corner[len(letters) :], 1) - 1, _column(letters)]
    return cells[0], cells[1], cells[2], cells[3]


# -- OpenDocument --------------------------------------------------------------------------------------------------------------


def _of_ods(reading: _Reading, archive: Archive | None) -> Iterator[Block]:
    """Read a package, or without one the file as a whole, which is XML."""
    target = _OpenSheets(reading)
    if archive is None:
        content = reading.source.data
        feed(content, target, partial(reading.source.damaged, "a spreadsheet"))
    else:
        refuse_encrypted(reading.source, archive)
        if "styles.xml" in archive:
            archive.feed("styles.xml", target)
        content = archive.read("content.xml")
        feed(content, target, archive.damaged)
    for mark, name in _NOT_READ.items():
        if count := content.count(mark):
            reading.left_out[name] += count
    for at, sheet in enumerate(target.sheets):
        yield from reading.blocks(sheet, at)


@dataclass
class _OpenStyle:
    """A style of OpenDocument. parent: its name. hides: whether a sheet with it is hidden. is_varied: whether a condition may
    change it."""

    parent: str = ""
    color: Color | None = None
    ground: Color | None = None
    hides: bool = False
    is_varied: bool = False


class _OpenSheets(Target):
    """The target of lxml's parser for a workbook of OpenDocument, and for its styles."""

    def __init__(self, reading: _Reading) -> None:
        self.sheets: list[_Sheet] = []
        self._reading = reading
        self._styles: dict[str, _OpenStyle] = {}
        self._style = _OpenStyle()
        self._sheet: _Sheet | None = None  # the open one, unless it is hidden
        self._row = self._column = self._n_columns = 0
        self._n_rows = 1  # in which the open row is repeated
        self._row_is_hidden = False
        self._cells: dict[int, str] = {}
        self._styles_of_columns: dict[int, str] = {}
        self._cell: dict[str, str] | None = None
        self._parts: list[str] = []
        self._depth = 0  # of elements in a cell whose text is not that of the cell
        self._n_paragraphs = self._open_paragraphs = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if self._depth or (self._cell is not None and name in ("annotation", "frame", "custom-shape", "g", "ruby-text")):
            self._depth += 1
            return
        given = {key.rpartition("}")[2]: value for key, value in attributes.items()}
        match name:
            case "table" if self._cell is None:
                self._begin_sheet(given)
            case "table-column":
                self._begin_column(given)
            case "table-row" if self._cell is None:
                self._begin_row(given)
            case "table-cell" | "covered-table-cell":
                self._cell, self._parts, self._n_paragraphs = given, [], 0
            case "p" | "h" if self._cell is not None:
                self._parts.append(" ")
                self._n_paragraphs += 1
                self._open_paragraphs += 1
            case "s" | "tab" | "line-break":
                self._parts.append(" ")
            case _:
                self._read_style(name, given)

    def data(self, data: str) -> None:
        if self._open_paragraphs and not self._depth:
            self._parts.append(data)

    def end(self, tag: str) -> None:
        if self._depth:
            self._depth -= 1
            return
        match tag.rpartition("}")[2]:
            case "table" if self._cell is None:
                self._sheet = None
            case "table-row" if self._cell is None and self._sheet is not None:
                if self._cells or self._row_is_hidden:
                    rows = range(self._row, self._row + min(self._n_rows, _MAX_ROWS))
                    self._reading.count(sum(map(len, self._cells.values())) * len(rows))
                    self._sheet.rows |= {at: dict(self._cells) for at in (rows if self._cells else rows[:1])}
                self._row += self._n_rows
            case "table-cell" | "covered-table-cell" if self._cell is not None:
                self._end_cell(self._cell)
                self._cell = None
            case "p" | "h" if self._open_paragraphs:
                self._open_paragraphs -= 1

    def _read_style(self, name: str, given: dict[str, str]) -> None:
        match name:
            case "style":
                self._style = self._styles[given.get("name", "")] = _OpenStyle(given.get("parent-style-name", ""))
            case "map":
                self._style.is_varied = True
            case "table-properties":
                self._style.hides = given.get("display") == "false"
            case "table-cell-properties":
                self._style.ground = parse_color(given.get("background-color", ""))
            case "text-properties":
                self._style.color = parse_color(given.get("color", ""))

    def _begin_column(self, given: dict[str, str]) -> None:
        first = self._n_columns
        self._n_columns = min(first + number(given.get("number-columns-repeated", ""), 1), _MAX_COLUMNS)
        columns = range(first, self._n_columns)
        self._styles_of_columns |= dict.fromkeys(columns, given.get("default-cell-style-name", ""))
        if self._sheet is not None and _is_collapsed(given) and self._reading.leaves_out("hidden column", len(columns)):
            self._sheet.hidden_columns |= {*columns}

    def _begin_sheet(self, given: dict[str, str]) -> None:
        style = self._styles.get(given.get("style-name", ""), _OpenStyle())
        self._row = self._n_columns = 0
        self._styles_of_columns = {}
        self._sheet = None
        if not style.hides or not self._reading.leaves_out("hidden sheet"):
            self._sheet = _Sheet(given.get("name", ""))
            self.sheets.append(self._sheet)

    def _begin_row(self, given: dict[str, str]) -> None:
        self._n_rows = number(given.get("number-rows-repeated", ""), 1)
        self._column, self._cells = 0, {}
        is_hidden = self._sheet is not None and _is_collapsed(given)
        self._row_is_hidden = is_hidden and self._reading.leaves_out("hidden row", self._n_rows)

    def _end_cell(self, given: dict[str, str]) -> None:
        n_columns = number(given.get("number-columns-repeated", ""), 1, _MAX_COLUMNS)
        columns = range(self._column, min(self._column + n_columns, _MAX_COLUMNS))
        self._column += n_columns
        if self._sheet is None or self._row_is_hidden:
            return
        n_rows = number(given.get("number-rows-spanned", ""), 1, _MAX_ROWS)
        if n_rows > 1 and columns:
            self._sheet.merged.append((self._row, columns[0], self._row + n_rows - 1, columns[0]))
        text = " ".join("".join(self._parts).split()) if self._n_paragraphs else _value(given)
        if not text:
            self._reading.n_formulas += "formula" in given and not self._n_paragraphs and "value-type" not in given
            return
        for column in columns:
            if column in self._sheet.hidden_columns:
                continue
            style = given.get("style-name") or self._styles_of_columns.get(column, "")
            if said := self._reading.markup.read(text, HIDDEN if self._is_hidden(style) else "").strip():
                self._reading.count(len(said))
                self._cells[column] = said

    def _is_hidden(self, name: str) -> bool:
        """Return whether text in a style cannot be seen. name: that of the style."""
        color = ground = None
        for _ in range(10):  # parents
            style = self._styles.get(name)
            if style is None:
                break
            if style.is_varied:
                return False
            color, ground, name = color or style.color, ground or style.ground, style.parent
        return color is not None and is_hidden(Look(color=color, ground=ground or WHITE))


def _is_collapsed(given: dict[str, str]) -> bool:
    """Return whether a row or column is hidden, or filtered away."""
    return given.get("visibility") in ("collapse", "filter")


def _value(given: dict[str, str]) -> str:
    """Return the value of a cell without a displayed text."""
    if "value" in given:
        with suppress(ValueError):
            return shown(float(given["value"]), "0.##%" if given.get("value-type") == "percentage" else "General")
    if "date-value" in given:
        return given["date-value"].replace("T", " ")
    names = ("value", "time-value", "string-value", "boolean-value")
    return " ".join(next((given[name] for name in names if name in given), "").split())


# -- Excel, before 2007 --------------------------------------------------------------------------------------------------------


def _of_xls(reading: _Reading) -> Iterator[Block]:
    from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

    source = reading.source
    try:
        if _is_encrypted(source.data):
            raise PasswordError
        with CalamineWorkbook.from_filelike(BytesIO(source.data)) as workbook:
            for at, about in enumerate(workbook.sheets_metadata):
                if about.visible is not SheetVisibleEnum.Visible and reading.leaves_out("hidden sheet"):
                    continue
                sheet = _Sheet(about.name)
                if about.typ is SheetTypeEnum.WorkSheet:
                    cells = workbook.get_sheet_by_index(at)
                    top, left = cells.start or (0, 0)
                    for row, values in enumerate(cells.iter_rows(), top):
                        texts = {column: text for column, value in enumerate(values, left) if (text := written(value))}
                        reading.count(sum(map(len, texts.values())))
                        if texts:
                            sheet.rows[row] = texts
                    sheet.merged = [(*first, *last) for first, last in cells.merged_cell_ranges or () if first[0] < last[0]]
                yield from reading.blocks(sheet, at)
    except PasswordError:
        message = f"{source.name} is encrypted with a password"
        hint = "open it in Excel and save it without a password"
        raise FbragError("doc_unreadable", message, hint, document=source.path) from None
    except FbragError:
        raise
    except Exception as error:  # calamine has a dozen exceptions for damaged files
        raise source.damaged("a spreadsheet", f"it cannot be read ({one_line(str(error), 100)})") from None


def _is_encrypted(data: bytes) -> bool:
    """Return whether a workbook of before 2007 has a record FILEPASS among its first ones, which calamine may overlook."""
    head, at = workbook_head(data), 0
    while at + 4 <= len(head):
        kind, length = unpack_from("<HH", head, at)
        if kind == _FILEPASS:
            return True
        at += 4 + length
    return False
