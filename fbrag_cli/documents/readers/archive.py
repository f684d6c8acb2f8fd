"""Read a zip (a book, an office document) as named parts in memory. Stated sizes are not trusted: unpacked bytes count."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO

from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

#: Bytes that the parts of one document may unpack to. The longest books have a few million; a bomb has no end.
MAX_UNPACKED = 64_000_000

_PIECE = 1 << 20  # bytes
_ENCRYPTED = 0x1


class Archive:
    """The parts of a document that is a zip. kind: its name in messages, as "an EPUB book".

    Raises FbragError doc_unreadable, here or when a part is read: not a zip, damaged, encrypted, or a bomb.
    """

    def __init__(self, source: Source, kind: str) -> None:
        self._source, self._kind = source, kind
        self._left = MAX_UNPACKED
        try:
            self._zip = zipfile.ZipFile(BytesIO(source.data))
        except Exception as error:  # zipfile raises half a dozen types for a hostile zip
            raise self.damaged(_reason(error)) from None

    def names(self) -> list[str]:
        return self._zip.namelist()

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str) -> bytes:
        """Return the bytes of part `name`. Raises FbragError doc_unreadable if there is none."""
        if name not in self:
            raise self.damaged(f"it has no {name}")
        info = self._zip.getinfo(name)
        if info.flag_bits & _ENCRYPTED:
            raise FbragError(
                "doc_unreadable",
                f"{self._source.name} is {self._kind} in an encrypted zip",
                "unpack it with its password and pack it again without one",
                document=self._source.path,
            )
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others cannot be unpacked with a limit
            raise self.damaged(f"{name} is packed by method {info.compress_type}")
        pieces = []
        try:
            with self._zip.open(info) as part:
                while piece := part.read(min(_PIECE, self._left + 1)):
                    pieces.append(piece)
                    self._left -= len(piece)
                    if self._left < 0:
                        raise self._bomb()
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, OverflowError, NotImplementedError, ValueError) as error:
            raise self.damaged(f"{name}: {_reason(error)}") from None
        return b"".join(pieces)

    def damaged(self, reason: str) -> FbragError:
        return self._source.damaged(self._kind, reason)

    def _bomb(self) -> FbragError:
        what = f"{self._source.name} is {self._kind} that unpacks to more than {MAX_UNPACKED // 1_000_000} MB of text"
        return FbragError("doc_unreadable", what, "name a text version of it, or its parts", document=self._source.path)


def packed(parts: Mapping[str, bytes]) -> BytesIO:
    """Return the parts as a new zip, whose sizes are true: for libraries that unpack it without a limit."""
    package = BytesIO()
    with zipfile.ZipFile(package, "w", zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    package.seek(0)
    return package


def _reason(error: Exception) -> str:
    return one_line(str(error), 100) or type(error).__name__
