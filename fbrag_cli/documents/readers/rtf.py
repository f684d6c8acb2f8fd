"""Read a rich text document (RTF). striprtf reads its control words, code pages and Unicode escapes."""

from __future__ import annotations

import codecs
import re

from fbrag_cli.documents.decoding.encoding import without_surrogates
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

_MEDIA_TYPE = "application/rtf"
_CODE_PAGE = re.compile(rb"\\ansicpg(\d{1,5})(?!\d)")
_HEAD = 1000  # bytes in which a document names its code page
_FONT_TABLE = re.compile(r"{[^{}]*\\fonttbl")
_BRACE = re.compile(r"\\[\\{}]|([{}])")
_FONT = re.compile(r"\\f(\d{1,9})(?!\d)|\\fcharset(\d{1,9})(?!\d)")
_CELL, _ROW = "\x1f", "\x1e"  # mark the end of a cell and of a row
_MARKS = str.maketrans(_CELL + _ROW, "  ")
# What striprtf would join, drop or write in another way than our other readers. An escaped backslash comes first.
_REWRITTEN = re.compile(r"\\\\|(?:\\\*)?\\(par|sect|page|cell|nestcell|row|nestrow|footnote|field)(?![a-zA-Z])")
_REWRITING = {
    **{"par": r"\par\par", "sect": r"\par\par", "page": r"\par\par"},
    **{"cell": f" {_CELL}", "nestcell": f" {_CELL}", "row": f" {_ROW}", "nestrow": f" {_ROW}"},
    "footnote": r"\tab",  # a note's text stays at its reference
    "field": r"\field ",  # otherwise striprtf looks for links, and its time grows with the square of a line's length
}
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def read_rtf(source: Source, codec: str | None = None) -> Extracted:
    """Read a rich text document. Empty lines separate paragraphs, tabs the cells of tables.

    codec: encoding of bytes where the document names no code page; None for cp1252. Raises FbragError doc_unreadable for damage.
    """
    from striprtf.striprtf import rtf_to_text

    codec = codec or _code_page(source.data)
    try:
        prepared = _REWRITTEN.sub(_rewrite, _plain_font_table(source.data.decode(codec, "replace").translate(_MARKS)))
        text = rtf_to_text(prepared, encoding=codec, errors="replace")
    except Exception as error:  # striprtf does not catch errors of int() and chr() on hostile numbers
        reason = one_line(f"{type(error).__name__}: {error}", 100)
        what = f"{source.name} is damaged: a rich text document that cannot be read ({reason})"
        raise FbragError("doc_unreadable", what, "get a new copy of it", document=source.path) from error
    text = without_surrogates(text).replace("\r", "\n").replace("\u00ad", "").replace("\u00a0", " ")
    text = "\n".join("\t".join(_cells(row)) for row in text.split(_ROW))
    lines = (line.rstrip() for line in text.split("\n"))
    text = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
    warnings: tuple[str, ...] = ()
    if n_lost := text.count("\ufffd"):
        warnings = (f"{source.name} has {n_lost} characters that its code page does not have, read as \ufffd",)
    return Extracted(Content(text), _MEDIA_TYPE, warnings=warnings)


def _code_page(data: bytes) -> str:
    """Return the code page that a document names, if Python has it; otherwise cp1252."""
    found = _CODE_PAGE.search(data[:_HEAD])
    try:
        return codecs.lookup(f"cp{int(found[1])}").name if found else "cp1252"
    except LookupError:
        return "cp1252"


def _cells(row: str) -> list[str]:
    *cells, after = row.split(_CELL)
    return [cells[0].rstrip(), *(cell.strip() for cell in cells[1:]), after.lstrip(" ")] if cells else [row]


def _rewrite(found: re.Match[str]) -> str:
    return _REWRITING[found[1]] if found[1] else found[0]


def _plain_font_table(text: str) -> str:
    """Reduce the font table in `text` to numbers and character sets, which is all that striprtf uses.

    On a hostile table, the time of striprtf's patterns grows with the cube of its length.
    """
    start = _FONT_TABLE.search(text)
    if start is None:
        return text
    depth, end = 1, len(text)
    for brace in _BRACE.finditer(text, start.end()):
        depth += {"{": 1, "}": -1}.get(brace[1], 0)
        if depth == 0:
            end = brace.end()
            break
    charsets: dict[str, str] = {}
    font = "0"
    for found in _FONT.finditer(text, start.end(), end):
        font = found[1] or font
        if found[2]:
            charsets.setdefault(font, found[2])
    entries = "".join(f"\\f{font}\\fcharset{charset} x;\n" for font, charset in charsets.items())
    return f"{text[: start.start()]}{{\\fonttbl {entries}}}{text[end:]}"
