"""Read mail, one or a box of them, as headers and all their text, with forwarded messages and attached text.

Other attachments are named. The older messages that a mail quotes follow its own text, each once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.policy import EmailPolicy
from typing import Any, NamedTuple, cast

from fbrag_cli.documents.decoding.encoding import Decoded, decode, without_surrogates
from fbrag_cli.documents.document import Content, Extracted, Section
from fbrag_cli.documents.format_detection import SEPARATOR_OF_MAILS
from fbrag_cli.documents.formats import find_format
from fbrag_cli.documents.readers.blocks import content_of
from fbrag_cli.documents.readers.html import declared_encoding, read_page
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import counted_names, one_line, plural

_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_MAX_HEADER = 2_000  # characters: some fifty addresses
_MAX_DEPTH = 30  # parts within parts, messages within messages, and quotes within quotes
_MAX_PARTS = 2_000  # of a mail
_MAX_WARNINGS = 3  # about encodings
_TEXTS = ("text/plain", "text/html", "text/csv", "text/markdown", "text/tab-separated-values")
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")
_ESCAPED_FROM = re.compile(rb"^>(?=>*From )", re.MULTILINE)
# Above an older message: "On 3 March 2024, Ann Lee wrote:" in any language, of up to three lines; or its headers, in eight.
_MAX_ATTRIBUTION = 3
_HEADERS_OF_OLDER = re.compile(
    r"(?m)^(?:[-_]{5,}+.*+\n\s*+)?"
    r"(?P<headers>[ *]*(?:From|Von|De|Da|Van|Från|Od|Fra)\*?[ \xa0]?:.*\n"
    r"[ *]*(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado(?: el)?|Enviada(?: em)?|Fecha|Inviato|Data|Verzonden|Skickat|Sendt)\*?"
    r"[ \xa0]?:.*\n"
    r"(?:[ *]*[^\W\d_][\w -]{0,20}\*?[ \xa0]?:.*\n){0,6})"
)


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
        texts.add(source.data)
    except Exception as error:  # email raises all kinds of exceptions on malformed headers
        what = f"{source.name} is damaged: mail that cannot be read ({type(error).__name__})"
        raise FbragError("doc_unreadable", what, "export it again, or save its text", document=source.path) from error
    return texts.extracted("message/rfc822")


def read_mbox(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a box of mails (mbox), each as `read_mail` does and as a section: its subject and date.

    One that cannot be read is left out. An older message that a mail quotes, and that is in the box itself, is there once.

    Python's `mailbox` reads only files on a disk, and begins a mail at each line that begins with "From ".
    """
    texts = _Texts(source, codec, markup)
    starts = [found.end() for found in SEPARATOR_OF_MAILS.finditer(source.data)]
    ends = [*(found.start() for found in SEPARATOR_OF_MAILS.finditer(source.data)), len(source.data)][1:]
    for start, end in zip(starts, ends, strict=True):
        try:
            texts.add(_ESCAPED_FROM.sub(b"", source.data[start:end]), in_box=True)
        except Exception:  # as above
            texts.n_damaged += 1
    return texts.extracted("application/mbox")


class _Block(NamedTuple):
    """Headers, or a text, with a blank line above. title: of the mail that begins here. key: the words of a message's own text.
    older: whether it is quoted."""

    text: str
    title: str = ""
    key: str = ""
    older: bool = False


class _Texts:
    """The texts of mails, in their order. n_damaged: number of mails that could not be read."""

    def __init__(self, source: Source, codec: str | None, markup: bool) -> None:
        self._source, self._codec, self._markup = source, codec, markup
        self._n_parts = self.n_damaged = 0
        self._markup_left_out = Counter[str]()
        self._attached: list[str] = []
        self._blocks: list[_Block] = []
        self._decoded: list[Decoded] = []

    def add(self, data: bytes, *, in_box: bool = False) -> None:
        """Add a mail. in_box: whether it is a section of its own."""
        self._n_parts = 0
        self._message(cast(EmailMessage, BytesParser(EmailMessage, policy=_Headers()).parsebytes(data)), in_box=in_box)

    def extracted(self, media_type: str) -> Extracted:
        """Return all texts, each older message once and none that is there as a mail of its own."""
        parts, sections, size = [], [], 0
        seen = {block.key for block in self._blocks if not block.older}
        for block in self._blocks:
            if block.older:
                if block.key in seen:
                    continue
                seen.add(block.key)
            text = without_surrogates(block.text)
            if block.title:
                sections.append(Section(block.title, 1, size))
            parts.append(text)
            size += len(text) + 2
        left_out = [counted_names(self._attached, "attachment")] if self._attached else []
        left_out += [plural(self.n_damaged, "damaged mail")] if self.n_damaged else []
        warnings = list(dict.fromkeys(warning for each in self._decoded for warning in each.warnings))
        if len(warnings) > _MAX_WARNINGS:
            warnings[_MAX_WARNINGS:] = [f"{self._source.name}: {len(warnings) - _MAX_WARNINGS} more guesses like these"]
        return Extracted(
            Content("\n\n".join(parts), sections=tuple(sections)),
            media_type,
            self._decoded[0].encoding if self._decoded else None,
            warnings=tuple(warnings),
            left_out=tuple(left_out),
            markup=self._markup_left_out,
        )

    def _message(self, message: EmailMessage, depth: int = 0, *, in_box: bool = False) -> None:
        """Add the headers and the text of a message."""
        raw = {name.lower(): str(value) for name, value in reversed(list(message.raw_items()))}  # of several, the first
        headers = {name: " ".join(_decoded(message, name, raw.get(name.lower(), "")).split()) for name in _HEADERS}
        headers = {name: value for name, value in headers.items() if value}
        if headers:
            date = f" ({headers['Date']})" if "Date" in headers else ""
            title = one_line(headers.get("Subject") or headers.get("From") or "Mail", 200) + date if in_box else ""
            self._blocks.append(_Block("\n".join(f"{name}: {value}" for name, value in headers.items()), title))
        self._part(message, depth)

    def _part(self, part: MIMEPart, depth: int) -> None:
        self._n_parts += 1
        kind = part.get_content_type()
        if depth > _MAX_DEPTH or self._n_parts > _MAX_PARTS:
            self._attached.append(_name(part))
        elif kind == "message/rfc822":
            for message in part.iter_parts():
                self._message(cast(EmailMessage, message), depth + 1)
        elif kind == "multipart/alternative" and (body := _body(part)) is not None:
            self._text(body)
            files = (each for each in part.walk() if each.get_filename() or each.get_content_type() == "text/calendar")
            self._attached += [_name(each) for each in files if not each["Content-ID"] and each is not body]
        elif part.is_multipart():
            for each in part.iter_parts():
                self._part(each, depth + 1)
        elif kind in _TEXTS:
            self._text(part)
        elif kind not in _SIGNATURES:
            self._attached.append(_name(part))

    def _text(self, part: MIMEPart) -> None:
        """Add the text of a part, decoded as it declares, if its bytes fit; under its name, if it is an attached file.

        A part whose bytes are not text, and a file whose encoding would be a guess, is an attachment.
        """
        data = part.get_payload(decode=True)
        data = data if isinstance(data, bytes) else b""
        is_html, is_file = part.get_content_type() == "text/html", bool(part.get_filename())
        declared = part.get_content_charset() or (declared_encoding(data) if is_html else None)
        source = Source(self._source.path, self._source.name, data)
        try:
            decoded = decode(source, self._codec, declared=declared)
        except FbragError:
            decoded = None
        if decoded is None or (is_file and decoded.warnings) or not find_format(source)[0].textual:
            self._attached.append(_name(part))
            return
        self._decoded.append(decoded)
        text = decoded.text
        if is_html:
            page = read_page(text, self._markup)
            text = content_of(page.blocks).text
            self._markup_left_out += page.left_out
        if is_file:
            self._blocks += [_Block(f"Attached: {_name(part)}\n{text}")] if (text := text.strip("\n")) else []
            return
        for position, (heading, own) in enumerate(_messages(text)):
            if own.strip():
                block = f"{heading}\n{own}".strip("\n")
                self._blocks.append(_Block(block, key=" ".join(re.findall(r"\w+", own)).casefold(), older=position > 0))


def _decoded(message: EmailMessage, name: str, raw: str) -> str:
    """Return the value of a header. The parser, which takes a millisecond, is asked only for what is not plain ASCII."""
    return raw if raw.isascii() and "=?" not in raw else str(message[name])


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is above a message, and its text: the own text of a mail, then each older message that it quotes."""
    heading = ""
    for _ in range(_MAX_DEPTH):
        own, above, older = _without_older(text)
        yield heading, own.strip("\n")
        if not above:
            return
        heading, text = above, older
    yield heading, text


def _without_older(text: str) -> tuple[str, str, str]:
    """Return the own text of a message, what is above the one that it quotes, and that one; "" for both if there is none.

    A message that is answered in its midst, piece by piece, stays as it is quoted.
    """
    lines = text.split("\n")
    quoted = [i for i, line in enumerate(lines) if line.startswith(">")]
    headers = _HEADERS_OF_OLDER.search(text)
    if headers and not (quoted and quoted[0] < text.count("\n", 0, headers.start())):
        above = "\n".join(line.strip(" *") for line in headers["headers"].strip("\n").split("\n"))
        return text[: headers.start()], above, text[headers.end() :]
    if not quoted or any(line.strip() for line in lines[quoted[0] : quoted[-1]] if not line.startswith(">")):
        return text, "", ""
    end = quoted[0]
    while end and not lines[end - 1].strip():
        end -= 1
    start = end
    while start > max(0, end - _MAX_ATTRIBUTION) and lines[start - 1].strip():
        start -= 1
    above = " ".join(line.strip() for line in lines[start:end])
    if not above.endswith(":") or not any(map(str.isdigit, above)):  # a sender without a date introduces words, not a message
        return text, "", ""
    older = "\n".join(line[1:].removeprefix(" ") for line in lines[quoted[0] : quoted[-1] + 1])
    return "\n".join((*lines[:start], *lines[quoted[-1] + 1 :])), above, older


def _body(part: MIMEPart) -> MIMEPart | None:
    """Return the plain text of a part with alternatives, or else the HTML, also where the plain text is blank."""
    bodies = [body for kind in ("plain", "html") if (body := part.get_body((kind,))) is not None]
    return next((body for body in bodies if str(body.get_payload(decode=False)).strip()), bodies[0] if bodies else None)


def _name(part: MIMEPart) -> str:
    return " ".join((part.get_filename() or part.get_content_type()).split())
