"""Read a workbook (Excel, OpenDocument) through calamine: sheets are the sections, a row is a line, of values not formulas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from functools import partial, reduce
from io import BytesIO
from itertools import chain
from struct import unpack_from
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.format_detection import OLE, workbook_head
from fbrag_cli.documents.readers.blocks import Block, MarkupText, extracted
from fbrag_cli.documents.readers.drawing import comments_of, names_of_authors, parts_named, read_drawing
from fbrag_cli.documents.readers.odt import refuse_encrypted
from fbrag_cli.documents.readers.package import MAX_UNPACKED, Archive, Relation, packed, refuse_entities
from fbrag_cli.documents.readers.package import number as parsed
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_ODS = "application/vnd.oasis.opendocument.spreadsheet"
_XLS = "application/vnd.ms-excel"
_WITHOUT_CELLS = ("xl/charts", "xl/drawings", "xl/externalLinks", "xl/media", "xl/pivot", "customXml/", "Object ", "Pictures/")
_WORKBOOK = "xl/workbook.xml"
_SHEETS = "xl/worksheets/"
_CELL = re.compile(rb"<c((?:\s(?!t=)[^<>]*?)?(?: t=\"n\")?[^<>]*?)>\s*<v>([^<]*)</v>")
_MAX_SHEET = 500_000_000  # bytes of its values
_VALUE = 24  # bytes of one in calamine
_GAP = re.compile(rb">\s+(?=</?(?:table|office):)")
_FORMAT = re.compile(rb'<numFmt [^<>]*?formatCode="([^"]*)"[^<>]*>')
_NUMBER = re.compile(rb'numFmtId="(\d+)"')
_LITERAL = re.compile(rb"&quot;.*?&quot;|[\\\\_*].", re.DOTALL)  # of a format: quoted, escaped, or as wide as a sign
_STYLE = re.compile(rb"<xf\b[^<>]*>")
_SHARE = re.compile(rb'office:value-type="percentage"([^<>]*?)office:value="([^"]*)"')
# What lies on the sheets of OpenDocument, which calamine does not give.
_NOT_READ = {b"<draw:object ": "embedded object", b"<draw:text-box": "text frame", b"<office:annotation ": "comment"}
_SHARED = re.compile(rb't="s"[^<>]*>\s*<v>(\d{1,9})<')
_FAR = re.compile(rb'r="(?:[A-Z]{3}\d|[A-Z]{2}\d{5})')
_FILLED = re.compile(rb'<c [^<>]*?r="([A-Z]{1,3})(\d{1,12})"[^<>]*(?<!/)>(?!</c>)')
_FILEPASS = 0x2F
_MAX_ROWS = 1 << 20  # of a sheet; a number beyond that is a lie, and calamine would count up to it
_ROWS_MERGED = re.compile(rb'number-rows-spanned="(?!1")')
_COVERED = "{*}covered-table-cell"
_Range = tuple[tuple[int, int], tuple[int, int]]
_LONGEST_MERGED = 300  # characters of a cell that is repeated in each of its rows
_HALF_SECOND = timedelta(milliseconds=500)
_EXACT_INTEGERS = 2**53  # below, a float holds every integer


def read_spreadsheet(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a workbook: of each sheet its name as a heading, its rows, cells separated by tabs, and the text of its drawings.

    Empty rows are one empty line. Hidden sheets are left out. codec: not used. Raises FbragError doc_unreadable: damaged,
    encrypted, a bomb.
    Memory follows the corners of a sheet's used area, so that a hostile file ends the process: read it in one with limits.
    """
    from python_calamine import PasswordError

    try:
        if _is_encrypted(source.data):
            raise PasswordError
        package = _WorkbookFile(source)
        try:
            return _WorkbookReading(source, package, markup).read(package.file())
        except FbragError:
            raise
        except Exception:
            if not package.repair():
                raise
            return _WorkbookReading(source, package, markup).read(package.file())
    except PasswordError:
        what = f"{source.name} is encrypted with a password"
        hint = "open it in Excel and save it without a password"
        raise FbragError("doc_unreadable", what, hint, document=source.path) from None
    except FbragError:
        raise
    except Exception as error:  # calamine has a dozen exceptions for damaged files
        raise source.damaged("a spreadsheet", f"it cannot be read ({one_line(str(error), 100)})") from None


class _WorkbookFile:
    """The file of a workbook. media_type: as "text/plain". archive: its parts; None before 2007. cells: the parts with cells."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.archive: Archive | None = None
        self.cells: dict[str, bytes] = {}
        self.media_type = _XLS
        if source.data.startswith(b"PK"):
            self.archive = archive = Archive(source, "a spreadsheet")
            refuse_encrypted(source, archive)
            names = (name for name in archive.names() if name == "mimetype" or name.endswith((".xml", ".rels")))
            self.cells = {name: archive.read(name) for name in names if not name.startswith(_WITHOUT_CELLS)}
            for data in self.cells.values():
                refuse_entities(data, archive.damaged)
            self.media_type = _ODS if "content.xml" in self.cells else _XLSX
            self._refuse_large()
            self._write_percentages()
        elif not source.data.startswith(OLE):  # OpenDocument as one XML file
            refuse_entities(source.data, partial(source.damaged, "a spreadsheet"))
            self.cells = {"mimetype": _ODS.encode(), "content.xml": _GAP.sub(b">", source.data), "META-INF/manifest.xml": b"<m/>"}
            self.media_type = _ODS

    def _refuse_large(self) -> None:
        """Raise where calamine, which holds a sheet as a rectangle of values, would take more memory than a sheet is worth.

        A string that many cells share is copied for each of them, and a cell in a far corner makes all cells between.
        """
        strings = next((data for name, data in self.cells.items() if name.lower().endswith("sharedstrings.xml")), b"")
        longest = max(map(len, strings.split(b"<si")), default=0)
        for name, data in self.cells.items():
            if not name.startswith(_SHEETS):
                continue
            if data.count(b't="s"') * longest > _MAX_SHEET and _shared(strings, data) > _MAX_SHEET:
                raise _too_large(self._source, f"a spreadsheet of more than {_MAX_SHEET // 1_000_000} MB of text")
            rows, columns = _extent(data)
            if rows * columns * _VALUE > _MAX_SHEET:
                raise _too_large(self._source, f"a sheet of {rows:,} rows and {columns:,} columns")

    def _write_percentages(self) -> None:
        """Make texts of percentages, as "2.5%", which calamine gives as 0.025."""
        if (content := self.cells.get("content.xml")) is not None:
            self.cells["content.xml"] = _SHARE.sub(_as_share, content)
        styles = self.cells.get("xl/styles.xml", b"")
        named = (_NUMBER.search(each[0]) for each in _FORMAT.finditer(styles) if b"%" in _LITERAL.sub(b"", each[1]))
        percent = {b"9", b"10", *(found[1] for found in named if found)}
        formats = map(_NUMBER.search, _STYLE.findall(styles.partition(b"<cellXfs")[2].partition(b"</cellXfs>")[0]))
        numbers = [str(at).encode() for at, found in enumerate(formats) if found and found[1] in percent]
        if numbers:
            cell = re.compile(
                rb'(<c [^<>]*?)\bs="(?:%s)"([^<>]*)>(<f[^<>]*/>|<f[^<>]*>[^<>]*</f>)?<v>([-+.\deE]+)</v>' % b"|".join(numbers)
            )
            self.cells |= {name: cell.sub(_as_percentage, data) for name, data in self.cells.items() if name.startswith(_SHEETS)}

    def file(self) -> BytesIO:
        """Return the file as calamine gets it: a zip with true sizes and without the parts that hold no cells."""
        return packed(self.cells) if self.cells else BytesIO(self._source.data)

    def repair(self) -> bool:
        """Change what calamine refuses a workbook for. Return whether there is any of it.

        Numbers that are none become texts. White space between the elements of OpenDocument, which some programs write, goes.
        """
        repaired = {name: _CELL.sub(_as_text, data) for name, data in self.cells.items() if name.startswith(_SHEETS)}
        if "content.xml" in self.cells:
            repaired["content.xml"] = _GAP.sub(b">", self.cells["content.xml"])
        changed = any(data != self.cells[name] for name, data in repaired.items())
        self.cells |= repaired
        return changed

    def has(self, kind: str) -> bool:
        """Return whether a part refers to one of a kind, as "drawing"."""
        return any(kind.encode() in data for name, data in self.cells.items() if name.endswith(".rels"))

    def sheets(self) -> tuple[list[list[Relation]], dict[str, str]]:
        """Return the relations of each sheet in their order, and the names of those who comment; only of xlsx."""
        archive = self.archive
        if archive is None or _WORKBOOK not in archive or not any(map(self.has, ("drawing", "omments"))):
            return [], {}
        linked = archive.relations(_WORKBOOK)
        sheets = parts_named(archive, _WORKBOOK, "{*}sheet", linked)
        return [archive.relations(name) for name in sheets], names_of_authors(archive, linked)


def _too_large(source: Source, reason: str) -> FbragError:
    hint = "name a text version of it (csv), or its parts"
    return FbragError("doc_unreadable", f"{source.name} is too large: {reason}", hint, document=source.path)


def _shared(strings: bytes, sheet: bytes) -> int:
    """Return the bytes of the shared strings, counted for each cell of `sheet` that has them."""
    lengths = [len(each) for each in strings.split(b"<si")[1:]]
    numbers = Counter(int(found[1]) for found in _SHARED.finditer(sheet))
    return sum(lengths[number] * n for number, n in numbers.items() if number < len(lengths))


def _extent(sheet: bytes) -> tuple[int, int]:
    """Return the rows and columns between the filled cells of a sheet; (0, 0), which takes no time, if they can be but few."""
    if _FAR.search(sheet) is None:
        return 0, 0
    cells = _FILLED.findall(sheet)
    columns = set(map(_number_of, {column for column, _ in cells})) or {0}
    numbers = [int(row) for _, row in cells] or [0]
    return max(numbers) - min(numbers) + 1, max(columns) - min(columns) + 1


def _number_of(column: bytes) -> int:
    """Return the number of a column, from 1: 28 for AB."""
    return reduce(lambda number, letter: 26 * number + letter - 64, column, 0)


def _as_percentage(cell: re.Match[bytes]) -> bytes:
    before, after, _, value = cell.groups()
    if b" t=" in before + after:
        return cell[0]
    with suppress(ValueError):
        return b'%s t="str"%s><v>%s</v>' % (before, after, _percent(value))
    return cell[0]


def _as_share(cell: re.Match[bytes]) -> bytes:
    with suppress(ValueError):
        return b'office:value-type="string"%soffice:string-value="%s"' % (cell[1], _percent(cell[2]))
    return cell[0]


def _percent(value: bytes) -> bytes:
    number = float(value) * 100
    return format(round(number, 3) or number, ".15g").encode() + b"%"  # a sheet shows two digits, and keeps fifteen


def _as_text(cell: re.Match[bytes]) -> bytes:
    attributes, value = cell.groups()
    with suppress(ValueError):
        float(value)
        return cell[0]
    return b'<c%s t="str"><v>%s</v>' % (attributes.replace(b' t="n"', b""), value)


def _is_encrypted(data: bytes) -> bool:
    """Return whether a workbook of before 2007 has a record FILEPASS among its first ones, which calamine may overlook."""
    head, at = workbook_head(data), 0
    while at + 4 <= len(head):
        kind, length = unpack_from("<HH", head, at)
        if kind == _FILEPASS:
            return True
        at += 4 + length
    return False


class _WorkbookReading:
    """One reading of a workbook: its blocks, and what is counted meanwhile."""

    def __init__(self, source: Source, package: _WorkbookFile, markup: bool) -> None:
        self._source, self._package = source, package
        self._length = 0  # of the rows, in characters
        self._left_out, self._markup = Counter[str](), MarkupText(markup)
        self._comments: list[str] = []
        self._merged_cells = _merged_in(package.cells.get("content.xml", b""))

    def read(self, file: BytesIO) -> Extracted:
        from python_calamine import CalamineWorkbook

        with CalamineWorkbook.from_filelike(file) as workbook:
            blocks = list(self._blocks(workbook))
        for mark, name in _NOT_READ.items():
            if count := self._package.cells.get("content.xml", b"").count(mark):
                self._left_out[name] += count
        return extracted(blocks, self._package.media_type, self._left_out, self._markup, self._comments)

    def _blocks(self, workbook: CalamineWorkbook) -> Iterator[Block]:
        """Yield the name of each sheet that has text, its rows, and the text of its drawings."""
        from python_calamine import SheetTypeEnum, SheetVisibleEnum

        archive = self._package.archive
        linked, authors = self._package.sheets()
        for number, about in enumerate(workbook.sheets_metadata):
            if about.visible is not SheetVisibleEnum.Visible:
                self._left_out["hidden sheet"] += 1
                continue
            name = " ".join(about.name.split()) or f"Sheet {number + 1}"
            blocks = self._rows(workbook, number) if about.typ is SheetTypeEnum.WorkSheet else iter(())
            if archive and number < len(linked):
                blocks = chain(blocks, self._drawings(archive, linked[number]))
                self._comments += comments_of(archive, linked[number], name, authors)
            if (first := next(blocks, None)) is not None:
                yield Block(name, level=1)
                yield first
                yield from blocks

    def _rows(self, workbook: CalamineWorkbook, number: int) -> Iterator[Block]:
        sheet = workbook.get_sheet_by_index(number)
        if sheet.end is not None and sheet.end[0] >= _MAX_ROWS:
            raise self._source.damaged("a spreadsheet", f"it cannot be read (a sheet has a row {sheet.end[0] + 1:,})")
        ranges = self._merged_cells[number] if number < len(self._merged_cells) else sheet.merged_cell_ranges or ()
        merged = _MergedCells(ranges, sheet.start[1] if sheet.start else 0)
        n_empty = 0
        for at, cells in enumerate(sheet.iter_rows()):
            row = "\t".join(merged.filled(at, [*map(written, cells)])).rstrip()
            n_empty += not row
            if row:
                self._length += len(row)
                yield Block(row, group=f"rows {n_empty}")
            if self._length > MAX_UNPACKED:
                raise _too_large(self._source, f"a spreadsheet of more than {MAX_UNPACKED // 1_000_000} MB of text")

    def _drawings(self, archive: Archive, linked: list[Relation]) -> Iterator[Block]:
        """Yield the text boxes, charts and diagrams that lie on a sheet. linked: its relations."""
        for each in linked:
            if each.kind == "drawing" and each.target in archive:
                inside = archive.relations(each.target)
                yield from read_drawing(archive, each.target, inside, self._left_out, self._markup).builder.blocks()


def _merged_in(content: bytes) -> list[list[_Range]]:
    """Return the merged cells of each sheet of OpenDocument, which calamine does not give; nothing if no rows are merged."""
    from lxml import etree

    found: list[list[_Range]] = []
    if not _ROWS_MERGED.search(content):
        return found
    row = column = 0
    events = etree.iterparse(BytesIO(content), events=("start",), tag=("{*}table", "{*}table-row", "{*}table-cell", _COVERED))
    with suppress(etree.LxmlError):
        for _, element in events:
            given = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
            match element.tag.rpartition("}")[2]:
                case "table":
                    found.append([])
                    row = 0
                case "table-row":
                    row, column = row + parsed(given.get("number-rows-repeated", ""), 1), 0
                case _:
                    n_rows, n_columns = (parsed(given.get(f"number-{of}-spanned", ""), 1) for of in ("rows", "columns"))
                    if n_rows > 1 and found:
                        found[-1].append(((row - 1, column), (row + n_rows - 2, column + n_columns - 1)))
                    column += parsed(given.get("number-columns-repeated", ""), 1)
            element.clear()
    return found


class _MergedCells:
    """The cells of a sheet that are merged over several rows. ranges: (row, column) of the first and of the last cell of each.
    start: the first column that has a cell, with which the rows begin."""

    def __init__(self, ranges: Iterable[_Range], start: int) -> None:
        self._begun: dict[int, list[tuple[int, int]]] = {}  # by the first row: column, and last row
        self._open: dict[int, tuple[int, str]] = {}  # by the column: last row, and text
        for (top, left), (bottom, _) in ranges:
            if top < bottom:
                self._begun.setdefault(top, []).append((left - start, bottom))

    def filled(self, row: int, cells: list[str]) -> list[str]:
        """Return the cells of the next row, each that a cell above is merged over with the text of that one; but not of a long
        one, and not in an empty row."""
        for column, (last, said) in [*self._open.items()] if any(cells) else ():
            if row > last:
                del self._open[column]
            elif not cells[column]:
                cells[column] = said
        for column, last in self._begun.pop(row, ()):
            if 0 <= column < len(cells) and 0 < len(cells[column]) <= _LONGEST_MERGED:
                self._open[column] = last, cells[column]
        return cells


def written(value: object) -> str:
    """Return a cell's value as a person writes it: 3, 0.25, 2024-05-17, 14:30, TRUE."""
    match value:
        case str():
            return " ".join(value.split())
        case bool():
            return str(value).upper()
        case int() | float():
            whole = float(value).is_integer() and abs(value) < _EXACT_INTEGERS
            return str(int(value)) if whole else format(value, ".15g")  # 0.1 + 0.2 is 0.3
        case datetime():
            with suppress(OverflowError):  # in the last half second of the year 9999
                value += _HALF_SECOND
            value = value.replace(microsecond=0)
            return value.isoformat(" ", "seconds" if value.second else "minutes")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat("seconds" if value.second else "minutes")
        case timedelta():
            minutes, seconds = divmod(abs(round(value.total_seconds())), 60)
            sign = "-" if value < timedelta() else ""
            return f"{sign}{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
    return str(value)
