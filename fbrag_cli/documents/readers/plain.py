"""Read plain text and source code as they are."""

from __future__ import annotations

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.source import Source


def read_plain(source: Source, codec: str | None = None) -> Extracted:
    """Read plain text. codec: its encoding; None to detect it. Raises FbragError as `decode`."""
    decoded = decode(source, codec)
    return Extracted(Content(decoded.text), "text/plain", decoded.encoding, warnings=decoded.warnings)
