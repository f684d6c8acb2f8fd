"""Text as it is."""

from __future__ import annotations

from fbrag_cli.documents.decoding import decode
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.source import Source


def read_plain(source: Source, codec: str | None = None) -> Extracted:
    """The text, without sections. codec: its encoding, instead of finding it. Raises FbragError as `decoding.decode`."""
    decoded = decode(source, codec)
    return Extracted(Content(decoded.text), "text/plain", decoded.encoding, warnings=decoded.warnings)
