"""Read a package (a book, an office document: a zip of XML parts): its parts in memory, the relations between them, their XML.

XML of untrusted documents is parsed without entities, network or DTD, and any damage is one error. Stated sizes are not trusted:
unpacked bytes count.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from lxml.etree import _Element

#: Bytes that the parts of one document may unpack to. The longest books have a few million; a bomb has no end.
MAX_UNPACKED = 64_000_000

_PIECE = 1 << 20  # bytes; of more XML at once, libxml2 refuses all beyond 10 MB
_ENCRYPTED = 0x1
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
# A declared encoding in which "<!ENTITY" may have other bytes than in ASCII, as UTF-7 and ISO-2022. NULs are removed before.
_NOT_ASCII = re.compile(
    rb"""(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?<\?xml\s[^?]*?encoding\s*=\s*["']"""
    rb"""(?!utf-?8|utf-?16|(?:us-)?ascii|iso-?8859-|windows-|koi8-|gb2312|gbk|gb18030|big5|shift_jis|euc-)""",
    re.IGNORECASE,
)


class Relation(NamedTuple):
    """A reference of one part of an Office package to another. identity: its name in the part that refers, as "rId4". kind: as
    "notesSlide". target: name of the other part."""

    identity: str
    kind: str
    target: str


class Archive:
    """The parts of a document that is a zip. kind: its name in messages, as "an EPUB book".

    Raises FbragError doc_unreadable, here or when a part is read: not a zip, damaged, encrypted, or a bomb.
    """

    def __init__(self, source: Source, kind: str) -> None:
        self._source, self._kind = source, kind
        self._left = MAX_UNPACKED
        try:
            self._zip = source.zip
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
                        size = f"{MAX_UNPACKED // 1_000_000} MB"
                        message = f"{self._source.name} is {self._kind} that unpacks to more than {size} of text"
                        hint = "name a text version of it, or its parts"
                        raise FbragError("doc_unreadable", message, hint, document=self._source.path)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, OverflowError, NotImplementedError, ValueError) as error:
            raise self.damaged(f"{name}: {_reason(error)}") from None
        return b"".join(pieces)

    def damaged(self, reason: str) -> FbragError:
        return self._source.damaged(self._kind, reason)

    def tree(self, name: str) -> _Element:
        """Return the root of part `name`, which is XML. Raises FbragError doc_unreadable."""
        return parse(self.read(name), self.damaged)

    def feed(self, name: str, target: Any) -> None:
        """Call the methods of `target` for the elements of part `name`, which is XML. Raises FbragError doc_unreadable."""
        feed(self.read(name), target, self.damaged)

    def relations(self, part: str) -> list[Relation]:
        """Return the references of `part` to others within an Office package. part: "" for the package itself."""
        folder, name = posixpath.split(part)
        relations = posixpath.join(folder, "_rels", f"{name}.rels")
        return [
            Relation(
                element.get("Id", ""), element.get("Type", "").rpartition("/")[2], resolved(folder, element.get("Target", ""))
            )
            for element in (self.tree(relations).iter("{*}Relationship") if relations in self else ())
            if element.get("TargetMode") != "External"
        ]


def resolved(folder: str, path: str) -> str:
    """Return the name in the zip of what `path` refers to in a folder of it."""
    return posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/")


# -- XML ------------------------------------------------------------------------------------------------------------------------


def parse(data: bytes, damaged: Callable[[str], FbragError]) -> _Element:
    """Parse a small document and return its root. Small faults are repaired. damaged: makes the error to raise from a reason."""
    from lxml import etree

    refuse_entities(data, damaged)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True, recover=True
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as error:
        raise damaged(_broken(error)) from None
    if root is None:
        raise damaged("its XML is broken")
    return root


def feed(data: bytes, target: Any, damaged: Callable[[str], FbragError]) -> None:
    """Call the methods start, end and data of `target` (as lxml does) for all elements and text in `data`."""
    from lxml import etree

    refuse_entities(data, damaged)
    parser = etree.XMLParser(target=target, resolve_entities=False, no_network=True, load_dtd=False)
    try:
        for start in range(0, len(data), _PIECE):
            parser.feed(data[start : start + _PIECE])
        parser.close()
    except (etree.LxmlError, ValueError) as error:
        raise damaged(_broken(error)) from None


def refuse_entities(data: bytes, damaged: Callable[[str], FbragError]) -> None:
    """Raise if the XML declares entities, or an encoding that could hide them; office documents and books do neither.

    UTF-16 and UTF-32 are searched too.
    """
    data = data.replace(b"\0", b"")
    if b"<!ENTITY" in data:
        raise damaged("its XML declares entities")
    if _NOT_ASCII.match(data):
        raise damaged("its XML declares an unusual encoding")


def theme_colors(theme: _Element | None) -> dict[str, str]:
    """Return the colors of a theme of Office by their names: lt1, dk1, accent1. theme: a:theme; None without one."""
    scheme = () if theme is None else next(theme.iter("{*}clrScheme"), ())
    colors = {each.tag.rpartition("}")[2]: each[0].get("lastClr") or each[0].get("val", "") for each in scheme if len(each)}
    return {"lt1": "FFFFFF", "dk1": "000000"} | colors


def attribute(attributes: Mapping[str, str], name: str) -> str:
    """Return an attribute whatever its namespace, of which Office has two; "" without it."""
    end = f"}}{name}"
    for key, value in attributes.items():
        if key.endswith(end) or key == name:
            return value
    return ""


def number(text: str, otherwise: int = 0, most: int = 10**9) -> int:
    """Return a number of up to nine digits; `otherwise` for any other text."""
    return min(int(text), most) if _NUMBER.fullmatch(text) else otherwise


def _broken(error: Exception) -> str:
    return f"its XML is broken ({one_line(str(error), 80)})"


def _reason(error: Exception) -> str:
    return one_line(str(error), 100) or type(error).__name__
