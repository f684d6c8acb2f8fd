"""Read an OpenDocument text with its headings, lists, tables, notes, formulas, headers and comments, without deleted passages."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from functools import partial

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.archive import Archive
from fbrag_cli.documents.readers.blocks import Block, content_of
from fbrag_cli.documents.readers.odt_body import Body
from fbrag_cli.documents.readers.xml import feed, parse
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import counted

_MEDIA_TYPE = "application/vnd.oasis.opendocument.text"
_CONTENT, _STYLES = "content.xml", "styles.xml"
_MANIFEST = "META-INF/manifest.xml"
_MAX_OBJECTS = 5000


def read_odt(source: Source, codec: str | None = None) -> Extracted:
    """Read an .odt (a zip) or .fodt (one XML file). Its headings are the sections.

    codec: not used, because XML declares its encoding. Raises FbragError doc_unreadable: damaged, encrypted, a bomb.
    """
    if source.data.startswith(b"PK"):
        archive = Archive(source, "an OpenDocument text")
        refuse_encrypted(source, archive)
        body = Body(_Objects(archive).read)
        if _STYLES in archive:
            feed(archive.read(_STYLES), body, archive.damaged)
        feed(archive.read(_CONTENT), body, archive.damaged)
    else:
        body = Body(lambda _: [])
        feed(source.data, body, partial(source.damaged, "an OpenDocument text"))
    left_out = tuple(counted(count, thing) for thing, count in body.left_out.items())
    return Extracted(content_of(body.blocks()), _MEDIA_TYPE, left_out=left_out, comments=tuple(body.comments))


def refuse_encrypted(source: Source, archive: Archive) -> None:
    """Raise FbragError doc_unreadable if a document of OpenDocument needs a password."""
    if _MANIFEST not in archive:
        return
    if next(parse(archive.read(_MANIFEST), archive.damaged).iter("{*}encryption-data"), None) is not None:
        what = f"{source.name} is encrypted with a password"
        raise FbragError("doc_unreadable", what, "open it in LibreOffice and save it without a password", document=source.path)


class _Objects:
    """The formulas and charts in a document, each of which is a document by itself."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._read: set[str] = set()

    def read(self, path: str) -> list[Block]:
        """Return the text of an object, once. path: its folder, as "./Object 1"."""
        name = posixpath.normpath(posixpath.join("/", path, _CONTENT)).lstrip("/")
        if name not in self._archive or name in self._read or len(self._read) >= _MAX_OBJECTS:
            return []
        self._read.add(name)
        inside = Body(lambda _: [])
        with suppress(FbragError):  # the text around a damaged object is worth reading
            feed(self._archive.read(name), inside, self._archive.damaged)
            return inside.blocks()
        return []
