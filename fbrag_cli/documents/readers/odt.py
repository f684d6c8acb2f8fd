"""Read an OpenDocument text with its headings, lists, tables and notes, without deleted passages."""

from __future__ import annotations

import re
from functools import partial

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.blocks import BlockBuilder, content_of
from fbrag_cli.documents.readers.xml import feed, local_name, parse
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

_MEDIA_TYPE = "application/vnd.oasis.opendocument.text"
_CONTENT = "content.xml"
_MANIFEST = "META-INF/manifest.xml"

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
# Deleted passages, comments, and copies of what is shown elsewhere.
_SKIPPED = frozenset(
    {
        *(_TEXT + name for name in ("tracked-changes", "ruby-text", "table-of-content-source", "alphabetical-index-source")),
        *(_OFFICE + name for name in ("annotation", "forms", "meta", "styles", "automatic-styles", "master-styles", "scripts")),
        *(_OFFICE + name for name in ("settings", "font-face-decls", "binary-data")),
    }
)
_PARAGRAPHS = frozenset((_TEXT + "p", _TEXT + "h"))
_GROUPS = frozenset((_TEXT + "list", _TABLE + "table"))
_ITEMS = {_TEXT + "list-item": "- ", _TEXT + "list-header": ""}
_CELLS = frozenset((_TABLE + "table-cell", _TABLE + "covered-table-cell"))
_MAX_LEVEL = 10
_MAX_SPACES = 100


def read_odt(source: Source, codec: str | None = None) -> Extracted:
    """Read an .odt (a zip) or .fodt (one XML file). Its headings are the sections.

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    target = _Target()
    if source.data.startswith(b"PK"):
        archive = Archive(source, "an OpenDocument text")
        refuse_encrypted(source, archive)
        feed(archive.read(_CONTENT), target, archive.damaged)
    else:
        feed(source.data, target, partial(source.damaged, "an OpenDocument text"))
    return Extracted(content_of(target.builder.blocks()), _MEDIA_TYPE)


def refuse_encrypted(source: Source, archive: Archive) -> None:
    """Raise FbragError doc_unreadable if a document of OpenDocument needs a password."""
    if _MANIFEST not in archive:
        return
    for entry in parse(archive.read(_MANIFEST), archive.damaged).iter("{*}encryption-data"):
        what = f"{source.name} is encrypted with a password ({local_name(entry.tag)} in its manifest)"
        raise FbragError("doc_unreadable", what, "open it in LibreOffice and save it without a password", document=source.path)


class _Target:
    """The target of lxml's parser: it is called with each element and text, in the document's order."""

    def __init__(self) -> None:
        self.builder = BlockBuilder()
        self._skipped_depth = 0
        self._levels: list[int] = []  # one for each open paragraph (0) or heading; text outside of them is white space
        self._notes = 0  # the number of open ones: their text stays in the line that refers to them

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipped_depth or tag in _SKIPPED:
            self._skipped_depth += 1
            return
        builder = self.builder
        if tag in _PARAGRAPHS:
            is_heading = tag == _TEXT + "h" and not self._notes
            self._levels.append(_count(attributes.get(_TEXT + "outline-level"), _MAX_LEVEL) if is_heading else 0)
            self._begin_paragraph()
        elif tag == _TEXT + "s":
            builder.text(" " * _count(attributes.get(_TEXT + "c"), _MAX_SPACES))
        elif tag == _TEXT + "tab":
            builder.text(" ")
        elif tag == _TEXT + "line-break":
            builder.line_break()
        elif tag == _TEXT + "note":
            self._notes += 1
            builder.text(" [")
        elif self._notes:
            pass
        elif tag in _GROUPS:
            builder.begin_group()
        elif tag in _ITEMS:
            builder.begin_item(_ITEMS[tag])
        elif tag == _TABLE + "table-row":
            builder.begin_row()
        elif tag in _CELLS:
            builder.begin_cell()

    def end(self, tag: str) -> None:
        if self._skipped_depth:
            self._skipped_depth -= 1
            return
        builder = self.builder
        if tag in _PARAGRAPHS:
            if not self._notes:
                builder.end_block()
            self._levels.pop()
            builder.level = self._levels[-1] if self._levels else 0
        elif tag == _TEXT + "note":
            self._notes -= 1
            builder.text("]")
        elif self._notes:
            pass
        elif tag in _ITEMS:
            builder.end_item()
        elif tag == _TABLE + "table-row":
            builder.end_row()
        elif tag in _CELLS:
            builder.end_cell()

    def _begin_paragraph(self) -> None:
        if self._notes:
            self.builder.text(" ")
        else:
            self.builder.end_block()
            self.builder.level = self._levels[-1]

    def data(self, data: str) -> None:
        if self._levels and not self._skipped_depth:
            self.builder.text(data)

    def close(self) -> None:
        pass


def _count(text: str | None, most: int) -> int:
    return min(int(text), most) if text and re.fullmatch(r"\d{1,9}", text) else 1
