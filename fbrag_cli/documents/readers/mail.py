"""Read a mail as its main headers and its text. Attachments are named in a warning, but not read."""

from __future__ import annotations

from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.policy import EmailPolicy
from typing import Any, cast

from fbrag_cli.documents.decoding.encoding import Decoded, decode, without_surrogates
from fbrag_cli.documents.document import Content, Extracted
from fbrag_cli.documents.readers.blocks import content_of
from fbrag_cli.documents.readers.html import declared_encoding, read_page
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

_MEDIA_TYPE = "message/rfc822"
_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_MAX_HEADER = 2_000  # characters: some fifty addresses
_MAX_NAMED = 5  # attachments


class _Headers(EmailPolicy):
    """Cuts long headers: the parser's time grows with the square of their length. Malformed ones stay as they are written."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value if len(value) <= _MAX_HEADER else value[:_MAX_HEADER] + " …"

    def header_fetch_parse(self, name: str, value: str) -> Any:
        try:
            return super().header_fetch_parse(name, value)
        except Exception:  # email raises all kinds of exceptions on malformed addresses
            return value


def read_mail(source: Source, codec: str | None = None) -> Extracted:
    """Read the plain text part of a mail, or else its HTML part. codec: its encoding, whatever it declares.

    Raises FbragError doc_unreadable if the parser fails.
    """
    try:
        message = cast(EmailMessage, BytesParser(EmailMessage, policy=_Headers()).parsebytes(source.data))
        headers = [f"{name}: {' '.join(str(message[name]).split())}" for name in _HEADERS if message[name]]
        part = message.get_body(("plain", "html"))
        body, decoded = ("", None) if part is None else _body(source, part, codec)
        attached = [_name(attachment) for attachment in message.iter_attachments()]
    except FbragError:
        raise
    except Exception as error:  # email raises all kinds of exceptions on malformed headers
        what = f"{source.name} is damaged: mail that cannot be read ({type(error).__name__})"
        raise FbragError("doc_unreadable", what, "export it again, or save its text", document=source.path) from error
    text = "\n\n".join(part for part in ("\n".join(headers), body.strip("\n")) if part)
    warnings = _warnings(source, attached)
    if decoded is None:
        return Extracted(Content(without_surrogates(text)), _MEDIA_TYPE, warnings=warnings)
    return Extracted(Content(without_surrogates(text)), _MEDIA_TYPE, decoded.encoding, warnings=decoded.warnings + warnings)


def _body(source: Source, part: MIMEPart, codec: str | None) -> tuple[str, Decoded]:
    """Return the text of `part`, and how it was decoded: as it declares, if its bytes fit."""
    data = part.get_payload(decode=True)
    data = data if isinstance(data, bytes) else b""
    is_html = part.get_content_type() == "text/html"
    declared = part.get_content_charset() or (declared_encoding(data) if is_html else None)
    decoded = decode(Source(source.path, source.name, data), codec, declared=declared)
    return (content_of(read_page(decoded.text).blocks).text if is_html else decoded.text), decoded


def _name(attachment: MIMEPart) -> str:
    return " ".join((attachment.get_filename() or attachment.get_content_type()).split())


def _warnings(source: Source, attached: list[str]) -> tuple[str, ...]:
    if not attached:
        return ()
    more = f" and {len(attached) - _MAX_NAMED} more" if len(attached) > _MAX_NAMED else ""
    return (f"{source.name}: not read, because attached: {', '.join(attached[:_MAX_NAMED])}{more}",)
