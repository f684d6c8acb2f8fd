"""Read a rich text document (RTF)."""

from __future__ import annotations

import codecs
import re
from dataclasses import replace

from fbrag_cli.documents.decoding.encoding import without_surrogates
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.readers.blocks import content_of
from fbrag_cli.documents.readers.rtf_body import Body
from fbrag_cli.documents.source import Source
from fbrag_cli.text.printable import counted

_MEDIA_TYPE = "application/rtf"
_CODE_PAGE = re.compile(rb"\\ansicpg(\d{1,5})(?!\d)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_HEAD = 1000  # bytes in which a document names its code page


def read_rtf(source: Source, codec: str | None = None) -> Extracted:
    """Read a rich text document. Sections are its paragraphs with an outline level (headings).

    codec: encoding of bytes where the document names no code page; None for cp1252. Any bytes are a document: nothing is raised.
    """
    codec = codec or _code_page(source.data)
    body = Body(_escaped(source.data, codec), codec)
    blocks = [replace(each, text=without_surrogates(each.text), prefix=without_surrogates(each.prefix)) for each in body.read()]
    content = content_of(blocks)
    warnings: tuple[str, ...] = ()
    if n_lost := content.text.count("\ufffd"):
        warnings = (f"{source.name} has {n_lost} characters that its code page does not have, read as \ufffd",)
    left_out = tuple(counted(count, thing) for thing, count in body.left_out.items())
    comments = tuple(map(without_surrogates, body.comments))
    return Extracted(content, _MEDIA_TYPE, warnings=warnings, left_out=left_out, comments=comments)


def _escaped(data: bytes, codec: str) -> bytes:
    """Write the characters beyond ASCII as "\\'83\\'5c": their second byte may be a backslash or a brace."""
    if data.isascii() or codec.startswith("cp125"):
        return data
    text = data.decode(codec, "surrogateescape")
    escaped = _NOT_ASCII.sub(lambda found: "".join(f"\\'{byte:02x}" for byte in found[0].encode(codec, "surrogateescape")), text)
    return escaped.encode(codec, "surrogateescape")


def _code_page(data: bytes) -> str:
    """Return the code page that a document names, if Python has it; otherwise cp1252."""
    found = _CODE_PAGE.search(data[:_HEAD])
    try:
        return codecs.lookup(f"cp{int(found[1])}").name if found else "cp1252"
    except LookupError:
        return "cp1252"
