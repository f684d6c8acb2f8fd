"""Read a mail as its headers and all its text, with forwarded messages and attached text. Other attachments are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
from fbrag_cli.text.printable import counted_names

_MEDIA_TYPE = "message/rfc822"
_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_MAX_HEADER = 2_000  # characters: some fifty addresses
_MAX_DEPTH = 30  # parts within parts, and messages within messages
_MAX_PARTS = 2_000
_TEXTS = ("text/plain", "text/html", "text/csv", "text/markdown", "text/tab-separated-values")
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")


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


def read_mail(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read the text of a mail: of alternatives the plain text, or else the HTML. codec: its encoding, whatever it declares.

    Raises FbragError doc_unreadable if the parser fails.
    """
    texts = _Texts(source, codec, markup)
    try:
        texts.message(cast(EmailMessage, BytesParser(EmailMessage, policy=_Headers()).parsebytes(source.data)))
    except FbragError:
        raise
    except Exception as error:  # email raises all kinds of exceptions on malformed headers
        what = f"{source.name} is damaged: mail that cannot be read ({type(error).__name__})"
        raise FbragError("doc_unreadable", what, "export it again, or save its text", document=source.path) from error
    content = Content(without_surrogates("\n\n".join(texts.blocks)))
    encoding = texts.decoded[0].encoding if texts.decoded else None
    warnings = dict.fromkeys(warning for each in texts.decoded for warning in each.warnings)
    told = tuple(texts.left_out())
    return Extracted(content, _MEDIA_TYPE, encoding, warnings=tuple(warnings), left_out=told, markup=texts.markup_left_out)


class _Texts:
    """The texts of a mail, in its order. blocks: headers and texts. decoded: how each text was decoded. markup_left_out:
    number of passages of each kind that only `--markup` reads."""

    def __init__(self, source: Source, codec: str | None, markup: bool) -> None:
        self._source, self._codec, self._markup = source, codec, markup
        self.markup_left_out = Counter[str]()
        self._n_parts = 0
        self._attached: list[str] = []
        self.blocks: list[str] = []
        self.decoded: list[Decoded] = []

    def message(self, message: EmailMessage, depth: int = 0) -> None:
        """Add the headers and the text of a message."""
        headers = [f"{name}: {' '.join(str(message[name]).split())}" for name in _HEADERS if message[name]]
        if headers:
            self.blocks.append("\n".join(headers))
        self._part(message, depth)

    def _part(self, part: MIMEPart, depth: int) -> None:
        self._n_parts += 1
        kind = part.get_content_type()
        if depth > _MAX_DEPTH or self._n_parts > _MAX_PARTS:
            self._attached.append(_name(part))
        elif kind == "message/rfc822":
            for message in part.iter_parts():
                self.message(cast(EmailMessage, message), depth + 1)
        elif kind == "multipart/alternative" and (body := _body(part)) is not None:
            self._text(body)
            files = (each for each in part.walk() if each.get_filename() and not each["Content-ID"] and each is not body)
            self._attached += map(_name, files)
        elif part.is_multipart():
            for each in part.iter_parts():
                self._part(each, depth + 1)
        elif kind in _TEXTS:
            self._text(part)
        elif kind not in _SIGNATURES:
            self._attached.append(_name(part))

    def _text(self, part: MIMEPart) -> None:
        """Add the text of a part, decoded as it declares, if its bytes fit; under its name, if it is an attached file."""
        data = part.get_payload(decode=True)
        data = data if isinstance(data, bytes) else b""
        is_html = part.get_content_type() == "text/html"
        declared = part.get_content_charset() or (declared_encoding(data) if is_html else None)
        decoded = decode(Source(self._source.path, self._source.name, data), self._codec, declared=declared)
        self.decoded.append(decoded)
        text = decoded.text
        if is_html:
            page = read_page(text, self._markup)
            text = content_of(page.blocks).text
            self.markup_left_out += page.left_out
        if text := text.strip("\n"):
            self.blocks.append(f"Attached: {_name(part)}\n{text}" if part.get_filename() else text)

    def left_out(self) -> Iterator[str]:
        """Return what was not read."""
        if self._attached:
            yield counted_names(self._attached, "attachment")


def _body(part: MIMEPart) -> MIMEPart | None:
    """Return the plain text of a part with alternatives, or else the HTML, also where the plain text is blank."""
    bodies = [body for kind in ("plain", "html") if (body := part.get_body((kind,))) is not None]
    return next((body for body in bodies if str(body.get_payload(decode=False)).strip()), bodies[0] if bodies else None)


def _name(part: MIMEPart) -> str:
    return " ".join((part.get_filename() or part.get_content_type()).split())
