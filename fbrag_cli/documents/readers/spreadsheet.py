"""Read a workbook (Excel, OpenDocument) through calamine: sheets are the sections, a row is a line, of values not formulas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from io import BytesIO
from struct import unpack_from
from typing import TYPE_CHECKING

from fbrag_cli.documents.compound_file import root_names
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.archive import MAX_UNPACKED, Archive, packed
from fbrag_cli.documents.readers.blocks import Block, content_of
from fbrag_cli.documents.readers.odt import refuse_encrypted
from fbrag_cli.documents.readers.xml import refuse_entities
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_ODS = "application/vnd.oasis.opendocument.spreadsheet"
_XLS = "application/vnd.ms-excel"
_WITHOUT_CELLS = ("xl/charts", "xl/drawings", "xl/externalLinks", "xl/media", "xl/pivot", "customXml/", "Object ", "Pictures/")
_FILEPASS = 0x2F
_MAX_ROWS = 1 << 20  # of a sheet; a number beyond that is a lie, and calamine would count up to it
_HALF_SECOND = timedelta(milliseconds=500)
_EXACT_INTEGERS = 2**53  # below, a float holds every integer


def read_spreadsheet(source: Source, codec: str | None = None) -> Extracted:
    """Read a workbook: of each sheet its name as a heading, then its rows, cells separated by tabs, without the empty ones.

    codec: not used. Raises FbragError doc_unreadable: damaged, encrypted, a bomb. Memory follows the corners of a sheet's used
    area, so that a hostile file ends the process: read it in one with limits.
    """
    from python_calamine import CalamineWorkbook, PasswordError

    try:
        if _is_encrypted(source.data):
            raise PasswordError
        media_type, package = _package(source)
        with CalamineWorkbook.from_filelike(package) as workbook:
            blocks = list(_blocks(source, workbook))
    except PasswordError:
        what = f"{source.name} is encrypted with a password"
        hint = "open it in Excel and save it without a password"
        raise FbragError("doc_unreadable", what, hint, document=source.path) from None
    except FbragError:
        raise
    except Exception as error:  # calamine has a dozen exceptions for damaged files
        raise source.damaged("a spreadsheet", f"it cannot be read ({one_line(str(error), 100)})") from None
    return Extracted(content_of(blocks), media_type)


def _package(source: Source) -> tuple[str, BytesIO]:
    """Return the media type, and the file as calamine gets it: a zip with true sizes and without the parts that hold no cells."""
    if not source.data.startswith(b"PK"):
        return _XLS, BytesIO(source.data)
    archive = Archive(source, "a spreadsheet")
    refuse_encrypted(source, archive)
    names = (name for name in archive.names() if name == "mimetype" or name.endswith((".xml", ".rels")))
    parts = {name: archive.read(name) for name in names if not name.startswith(_WITHOUT_CELLS)}
    for data in parts.values():
        refuse_entities(data, archive.damaged)
    return (_ODS if "content.xml" in parts else _XLSX), packed(parts)


def _is_encrypted(data: bytes) -> bool:
    """Return whether a workbook of before 2007 has a record FILEPASS among its first ones, which calamine may overlook."""
    names = root_names(data)
    head, at = names.get("workbook", b"") or names.get("book", b""), 0
    while at + 4 <= len(head):
        kind, length = unpack_from("<HH", head, at)
        if kind == _FILEPASS:
            return True
        at += 4 + length
    return False


def _blocks(source: Source, workbook: CalamineWorkbook) -> Iterator[Block]:
    """Yield the name of each sheet that has text, and its rows."""
    from python_calamine import SheetTypeEnum

    length = 0
    for number, about in enumerate(workbook.sheets_metadata):
        if about.typ is not SheetTypeEnum.WorkSheet:
            continue
        sheet = workbook.get_sheet_by_index(number)
        if sheet.end is not None and sheet.end[0] >= _MAX_ROWS:
            raise source.damaged("a spreadsheet", f"it cannot be read (a sheet has a row {sheet.end[0] + 1:,})")
        rows = 0
        for cells in sheet.iter_rows():
            row = "\t".join(map(written, cells)).rstrip()
            if row and not rows:
                yield Block(" ".join(about.name.split()) or f"Sheet {number + 1}", level=1)
            if row:
                rows, length = rows + 1, length + len(row)
                yield Block(row, group="rows")
            if length > MAX_UNPACKED:
                what = f"{source.name} is too large: a spreadsheet of more than {MAX_UNPACKED // 1_000_000} MB of text"
                raise FbragError("doc_unreadable", what, "name a text version of it (csv), or its parts", document=source.path)


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
