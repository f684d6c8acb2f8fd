"""Parse XML of untrusted documents with lxml: without entities, network or DTD. Any damage is one error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from lxml.etree import _Element

_PREFIX = re.compile(r"\{[^}]*\}")


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
        parser.feed(data)
        parser.close()
    except (etree.LxmlError, ValueError) as error:
        raise damaged(_reason(error)) from None


def refuse_entities(data: bytes, damaged: Callable[[str], FbragError]) -> None:
    """Raise if the XML declares entities; office documents and books declare none. UTF-16 is searched too."""
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise damaged("its XML declares entities")


def local_name(tag: str) -> str:
    """Return the name of an element or attribute without its namespace."""
    return _PREFIX.sub("", tag)


def _reason(error: Exception) -> str:
    return f"its XML is broken ({' '.join(str(error).split())[:80]})"
