"""Recognise each format by its bytes. The tests are cheap, for every file goes through them first."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import partial
from io import BytesIO
from struct import unpack_from
from typing import TYPE_CHECKING

from fbrag_cli.documents.source import Source

if TYPE_CHECKING:
    from olefile import OleFileIO

_HEAD = 4096  # bytes
_ZIP = b"PK\x03\x04"
_LONGEST_NAME = 100  # bytes that are read of an entry's name: hostile ones overlap, and those that are looked for are short
_PDF = b"%PDF-"
_PDF_LATER = re.compile(rb"[^\t -~]%PDF-\d")
_AT_ONCE = re.compile(rb"(?:\xef\xbb\xbf)?(?:%PDF-|<(?:!d|\?xml|h))", re.IGNORECASE)
_MANIFEST = "META-INF/manifest.xml"
_MANIFEST_HEAD = 65_536  # bytes that are read of it
_ROOT_ENTRY = re.compile(r"<[\w:.-]*file-entry\s[^<>]*?full-path\s*=\s*[\"']/[\"'][^<>]*>")
_MEDIA_TYPE = re.compile(r"media-type\s*=\s*[\"']([\w.+/-]+)[\"']")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # a compound file: of Office before 2007, of Outlook, or encrypted
_WORKBOOKS = ("workbook", "book")  # streams of Excel 97 to 2003, and of Excel 5 and 95
_MAX_OLE = 200_000_000  # bytes: olefile copies its table for each piece of it; no document has that many
_OLE_HEAD = 512  # bytes
_SHIFTS = (9, 12)
_IN_HEADER = 109  # sectors of the table that the header names
OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

_LEADING = r"(?:\s|<!--(?:(?!-->).)*-->|<\?xml[^>]*\?>)*"
_HTML = re.compile(_LEADING + r"<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL)
_FLAT = re.compile(r"\s*(?=<[?!o]).*?<office:document\s[^>]*opendocument\.(text|spreadsheet|presentation|graphics)\b", re.DOTALL)
_VTT = re.compile(r"WEBVTT(?:[ \t\n]|$)")
_SRT = re.compile(r"\s*\d+[ \t]*\n\d{1,3}:\d\d:\d\d[,.]\d{1,3}[ \t]*-->[ \t]*\d{1,3}:\d\d:\d\d[,.]\d")
_JSON = re.compile(r"\s*(?:\{\s*\"|\[\s*[\[{\"\d-])")
_XML = re.compile(r"\s*<(?:\?xml|svg)\b")
_HEADER_FIELD = re.compile(r"([!-9;-~]+):[ \t]?.*\n(?:[ \t]+\S.*\n)*")
_OF_MAIL = {"message-id", "received", "mime-version", "return-path", "delivered-to", "dkim-signature"}

#: Between the mails of a box: "From ann@example.org Mon Jan  1 10:00:00 2024".
SEPARATOR_OF_MAILS = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]{0,200}?\d\d?:\d\d[^\n]{0,100}\n(?=[!-9;-~]+:|>?From )")


def is_pdf(source: Source) -> bool:
    """Return whether a file begins as a PDF, or has a PDF's header at the beginning of a later line (after junk) and objects."""
    return source.data.startswith(_PDF) or (_PDF_LATER.search(source.data[:1024]) is not None and b"endobj" in source.data)


def is_picture(marks: tuple[bytes, ...], source: Source) -> bool:
    """Return whether a file begins with one of these bytes."""
    return source.data.startswith(marks)


def is_webp(source: Source) -> bool:
    return source.data[:4] == b"RIFF" and source.data[8:12] == b"WEBP"


def is_bmp(source: Source) -> bool:
    """Return whether a file begins as a bitmap: "BM", and the length of its second header, which is one of a few."""
    return source.data[:2] == b"BM" and source.data[14:18] in {bytes((n, 0, 0, 0)) for n in (12, 40, 52, 56, 64, 108, 124)}


is_png, is_jpeg, is_tiff = (
    partial(is_picture, marks) for marks in ((b"\x89PNG\r\n\x1a\n",), (b"\xff\xd8\xff",), (b"II*\0", b"MM\0*"))
)


def begins_at_once(data: bytes) -> bool:
    """Return whether `data` has the mark of a PDF or of an HTML page at its first byte, not below a line of text or a comment."""
    return _AT_ONCE.match(data) is not None


def is_epub(source: Source) -> bool:
    """Return whether a file is a book, and no layout of InDesign, which has the same container."""
    if media_type_of(source) == "application/epub+zip":
        return True
    names = _names(source)
    return "META-INF/container.xml" in names and "designmap.xml" not in names


def _is_office(part: str, source: Source) -> bool:
    """Return whether a file is a zip of Microsoft Office with a part whose name begins so."""
    names = _names(source)
    return "[Content_Types].xml" in names and any(name.startswith(part) for name in names)


is_docx = partial(_is_office, "word/")
is_xlsx = partial(_is_office, "xl/workbook.xml")
is_pptx = partial(_is_office, "ppt/presentation.xml")


def is_xls(source: Source) -> bool:
    """Return whether a file is an Excel workbook of before 2007, and no other document that holds one."""
    return not root_names(source.data).isdisjoint(_WORKBOOKS)


def is_ods(source: Source) -> bool:
    return media_type_of(source).startswith(OPEN_DOCUMENT + "spreadsheet") or flat_kind_of(source.data) == "spreadsheet"


def is_odt(source: Source) -> bool:
    if source.data.startswith(_ZIP):
        kind = media_type_of(source).removeprefix(OPEN_DOCUMENT)
        return kind.startswith("text") and kind != "text-master"
    return flat_kind_of(source.data) == "text"


def flat_kind_of(data: bytes) -> str:
    """Return the kind of OpenDocument that is one XML file, as "text" or "presentation"; "" for other files."""
    found = _FLAT.match(_head(data))
    return found[1] if found else ""


def is_notebook(source: Source) -> bool:
    data = source.data
    return data[:_HEAD].lstrip().startswith(b"{") and b'"nbformat"' in data[:_HEAD] + data[-_HEAD:] and b'"cell_type"' in data


def is_rtf(source: Source) -> bool:
    return source.data.startswith(b"{\\rtf")


def _begins_with(pattern: re.Pattern[str], source: Source) -> bool:
    return pattern.match(_head(source.data)) is not None


is_vtt = partial(_begins_with, _VTT)
is_srt = partial(_begins_with, _SRT)
is_html = partial(_begins_with, _HTML)
is_json = partial(_begins_with, _JSON)
is_xml = partial(_begins_with, _XML)


def is_mail(source: Source) -> bool:
    """Return whether a file begins with header fields up to an empty line, among them "From" and one that only mail has. A log
    may have lines that look like two of them."""
    head, names, at = _head(source.data), set(), 0
    while field := _HEADER_FIELD.match(head, at):
        names.add(field[1].lower())
        at = field.end()
    is_at_end = head.startswith("\n", at) or "\n" not in head[at:]
    return is_at_end and len(names) > 2 and "from" in names and not names.isdisjoint(_OF_MAIL)


def is_mbox(source: Source) -> bool:
    return SEPARATOR_OF_MAILS.match(source.data) is not None


def media_type_of(source: Source) -> str:
    """Return the media type that a zip of OpenDocument or EPUB declares; "" for others.

    It is in the entry "mimetype", which is the first one unless another program packed the file again, or in the manifest.
    """
    data = source.data
    if not data.startswith(_ZIP):
        return ""
    if data.startswith(b"mimetype", 30) and not int.from_bytes(data[8:10], "little"):
        start = 38 + int.from_bytes(data[28:30], "little")
        return data[start : start + _LONGEST_NAME].split(b"PK", 1)[0].decode("latin-1").strip()
    try:
        if "mimetype" in source.zip.NameToInfo:
            with source.zip.open("mimetype") as entry:
                return entry.read(_LONGEST_NAME).decode("latin-1").strip()
        with source.zip.open(_MANIFEST) as entry:
            root = _ROOT_ENTRY.search(entry.read(_MANIFEST_HEAD).decode("utf-8", "replace"))
    except Exception:  # zipfile raises half a dozen types for a hostile zip
        return ""
    declared = _MEDIA_TYPE.search(root[0]) if root else None
    return declared[1] if declared else ""


def _names(source: Source) -> Iterable[str]:
    """Return the names in a zip. If its directory is lost, they come from the headers of the entries."""
    data = source.data
    if not data.startswith(_ZIP):
        return ()
    try:
        return source.zip.NameToInfo
    except Exception:  # zipfile raises half a dozen types for a hostile zip
        return frozenset(
            data[header.end() : header.end() + min(int.from_bytes(header[1], "little"), _LONGEST_NAME)].decode("utf-8", "replace")
            for header in re.finditer(rb"PK\x03\x04.{22}(..)..", data, re.DOTALL)
        )


def _head(data: bytes) -> str:
    """Return the beginning as text, with line ends as "\\n". Only its ASCII characters can be relied on."""
    for mark, encoding in _BOMS.items():
        if data.startswith(mark):
            head = data[len(mark) : len(mark) + 2 * _HEAD].decode(encoding, "replace")
            break
    else:
        head = data[:_HEAD].decode("latin-1")
    return head.replace("\r\n", "\n").replace("\r", "\n")


def root_names(data: bytes) -> frozenset[str]:
    """Return the names of the entries at the root of a compound file, in lower case. Of another file, none."""
    file = _ole(data)
    return frozenset() if file is None else frozenset(entry.name.lower() for entry in file.root.kids)


def workbook_head(data: bytes) -> bytes:
    """Return the first bytes of the workbook in a compound file; none without one."""
    file = _ole(data)
    name = None if file is None else next((each for each in _WORKBOOKS if file.exists(each)), None)
    if file is None or name is None:
        return b""
    try:
        return bytes(file.openstream(name).read(_OLE_HEAD))
    except Exception:  # as below
        return b""


def _ole(data: bytes) -> OleFileIO | None:
    from olefile import OleFileIO

    if not data.startswith(OLE) or not _OLE_HEAD <= len(data) <= _MAX_OLE:
        return None
    (shift,), (n_tables,) = unpack_from("<H", data, 30), unpack_from("<I", data, 44)
    size = 1 << shift if shift in _SHIFTS else 0  # bytes of a sector
    if not size or n_tables > _IN_HEADER + 2 * len(data) // (size * size // 4):  # olefile would believe it, and read for hours
        return None
    try:
        return OleFileIO(BytesIO(data))
    except Exception:  # olefile raises half a dozen types for a damaged file
        return None
