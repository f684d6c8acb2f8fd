"""XML of untrusted documents, by lxml: no entities of its own, no network, no DTD; damage is one error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from lxml.etree import _Element

_PREFIX = re.compile(r"\{[^}]*\}")


def parse(data: bytes, damaged: Callable[[str], FbragError]) -> _Element:
    """The root of a small document, slips in its XML repaired. damaged: makes the error that is raised, from a reason."""
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
    """Tell `target` (methods start, end and data, as of lxml) of all that is in `data`."""
    from lxml import etree

    refuse_entities(data, damaged)
    parser = etree.XMLParser(target=target, resolve_entities=False, no_network=True, load_dtd=False)
    try:
        parser.feed(data)
        parser.close()
    except (etree.LxmlError, ValueError) as error:
        raise damaged(_reason(error)) from None


def refuse_entities(data: bytes, damaged: Callable[[str], FbragError]) -> None:
    """Office documents and books declare none. The NULs of UTF-16 do not hide them."""
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise damaged("its XML declares entities")


def local_name(tag: str) -> str:
    """The name of an element or attribute without its namespace."""
    return _PREFIX.sub("", tag)


def _reason(error: Exception) -> str:
    return f"its XML is broken ({' '.join(str(error).split())[:80]})"
