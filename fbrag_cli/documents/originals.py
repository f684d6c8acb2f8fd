"""`Originals`: opens the files of documents again, if they are as they were when they were read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from fbrag_cli.documents.document import Document, ScannedLines
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line


def _on_disk(document: Document) -> None:
    """Say of each document that it is a file."""


def _no_lines(document: Document, number: int) -> ScannedLines:
    """Say of each page that OCR has not read it."""
    return ()


@dataclass(frozen=True, slots=True)
class Originals:
    """The files of a collection.

    password: opens PDFs that are encrypted. scanned: returns the lines that OCR has read on a page, if they are still known.
    uploaded: returns the bytes of a document that is only in memory, and None for one that is a file; raises FbragError
    doc_not_found for one that was let go.
    """

    password: str | None = field(default=None, repr=False)
    scanned: Callable[[Document, int], ScannedLines] = field(default=_no_lines, repr=False, compare=False)
    uploaded: Callable[[Document], Source | None] = field(default=_on_disk, repr=False, compare=False)

    def open(self, document: Document) -> Source:
        """Return the file of a document. Raises FbragError: doc_not_found if it has changed since it was read, or was stdin, and
        as `read_source`."""
        if (source := self.uploaded(document)) is not None:
            return source
        name = one_line(document.name)
        if document.path == "-":
            raise FbragError("doc_not_found", f"{name} was read from a pipe, and is not kept", "name a file", document="-")
        source = read_source(document.path)
        if sha256(source.data).hexdigest() != document.sha256:
            what = f"{name} has changed since it was read"
            raise FbragError("doc_not_found", what, "ask the question again", document=document.path)
        return source
