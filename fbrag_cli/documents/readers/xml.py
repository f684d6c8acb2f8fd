"""Parse XML of untrusted documents with lxml: without entities, network or DTD. Any damage is one error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from lxml.etree import _Element

_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_PIECE = 1 << 20  # bytes; of more at once, libxml2 refuses all beyond 10 MB
# A declared encoding in which "<!ENTITY" may have other bytes than in ASCII, as UTF-7 and ISO-2022. NULs are removed before.
_NOT_ASCII = re.compile(
    rb"""(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?<\?xml\s[^?]*?encoding\s*=\s*["']"""
    rb"""(?!utf-?8|utf-?16|(?:us-)?ascii|iso-?8859-|windows-|koi8-|gb2312|gbk|gb18030|big5|shift_jis|euc-)""",
    re.IGNORECASE,
)


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
        raise damaged(_reason(error)) from None
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
        raise damaged(_reason(error)) from None


def refuse_entities(data: bytes, damaged: Callable[[str], FbragError]) -> None:
    """Raise if the XML declares entities, or an encoding that could hide them; office documents and books do neither.

    UTF-16 and UTF-32 are searched too.
    """
    data = data.replace(b"\0", b"")
    if b"<!ENTITY" in data:
        raise damaged("its XML declares entities")
    if _NOT_ASCII.match(data):
        raise damaged("its XML declares an unusual encoding")


class Names(dict[str, str]):
    """Names of elements with the prefix of their namespace, as "w:p", by their names in lxml. prefixes: by namespace."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._prefixes = prefixes

    def __missing__(self, tag: str) -> str:
        namespace, _, name = tag[1:].rpartition("}")
        self[tag] = found = self._prefixes.get(namespace, "?:") + name
        return found


def attribute(attributes: Mapping[str, str], name: str) -> str:
    """Return an attribute whatever its namespace, of which Office has two; "" without it."""
    for key, value in attributes.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


def number(text: str, otherwise: int = 0, most: int = 10**9) -> int:
    """Return a number of up to nine digits; `otherwise` for any other text."""
    return min(int(text), most) if _NUMBER.fullmatch(text) else otherwise


def _reason(error: Exception) -> str:
    return f"its XML is broken ({one_line(str(error), 80)})"
