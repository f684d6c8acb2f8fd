"""Formats that fbrag does not read: how their bytes begin, and a command that turns them into text or PDF."""

from __future__ import annotations

from dataclasses import dataclass

from fbrag_cli.documents.format_detection import OLE, OPEN_DOCUMENT, flat_kind_of, media_type_of, root_names
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

_TO_PDF = "libreoffice --headless --convert-to pdf {file}"
_UNLOCK = "open it in Office or LibreOffice and save it without a password"
_UNPACK = "unpack it, then name the files in it"
_TRANSCRIPT = "name a text file with its transcript"
_ZIP = b"PK\x03\x04"
_OTHER = "name a text, PDF, HTML, EPUB or Office file; to see what this one is: file {file}"
_PICTURE = "magick {file} page.png, and name that file"
_IWORK = "open it in Pages, Numbers or Keynote and export it as PDF"


@dataclass(frozen=True, slots=True)
class Magic:
    """The mark of a format: `mark` at byte `offset`, and `inside` (if given) anywhere. hint: a command; {file} is the path."""

    mark: bytes
    kind: str
    hint: str
    offset: int = 0
    inside: bytes = b""

    def fits(self, data: bytes) -> bool:
        return data.startswith(self.mark, self.offset) and self.inside in data


# Documents of OpenOffice and LibreOffice, by the beginning of their media type. The first that fits counts.
_OPEN_OFFICE = {
    OPEN_DOCUMENT + "presentation": "an OpenDocument presentation (odp)",
    OPEN_DOCUMENT + "graphics": "an OpenDocument drawing (odg)",
    OPEN_DOCUMENT: "an OpenDocument document of another kind (odf, odc, odb, odm)",
    "application/vnd.sun.xml.": "a document of OpenOffice 1 (sxw, sxc, sxi)",
}
# Documents of other programs in a compound file, by an entry at its root. The first that fits counts.
_COMPOUND = {
    "EncryptedPackage": ("an Office document with a password", _UNLOCK),
    "__properties_version1.0": ("a mail of Outlook (msg)", "msgconvert {file}, or in Outlook: File, Save as, .eml"),
    "WordDocument": ("an old Office document (doc)", _TO_PDF),
    "PowerPoint Document": ("an old Office document (ppt)", _TO_PDF),
    "\x05HwpSummaryInformation": ("a document of Hangul (hwp)", "open it in Hangul and save it as docx or PDF"),
    "": ("an old Office document, or one of another program", _TO_PDF),
}

# Each is too long or too odd to begin a text. The first that fits counts: formats within a zip come before zip.
_MAGICS = (
    Magic(_ZIP, "an Excel workbook in binary form (xlsb)", _TO_PDF, inside=b"xl/workbook.bin"),
    Magic(_ZIP, "an iWork document (pages, numbers, key)", _IWORK, inside=b"Index/Document.iwa"),
    Magic(_ZIP, "an iWork document (pages, numbers, key)", _IWORK, inside=b"Index.zip"),
    Magic(_ZIP, "a zip archive", _UNPACK),
    Magic(b"PK\x05\x06", "an empty zip archive", _UNPACK),
    Magic(b"%!PS-Adobe", "a PostScript document", "ps2pdf {file} out.pdf"),
    Magic(b"BOOKMOBI", "a Kindle book (mobi)", "ebook-convert {file} out.txt", offset=60),
    Magic(b"<?xml ", "a FictionBook (fb2)", "ebook-convert {file} out.txt", inside=b"<FictionBook"),
    Magic(b"AT&TFORM", "a DjVu document", 'djvutxt {file} | fbrag ask - "…"'),
    Magic(b"\x1f\x8b", "compressed (gzip)", 'gzip -dc {file} | fbrag ask - "…"'),
    Magic(b"BZh91AY&SY", "compressed (bzip2)", 'bzip2 -dc {file} | fbrag ask - "…"'),
    Magic(b"\xfd7zXZ\x00", "compressed (xz)", 'xz -dc {file} | fbrag ask - "…"'),
    Magic(b"\x28\xb5\x2f\xfd", "compressed (zstd)", 'zstd -dc {file} | fbrag ask - "…"'),
    *(Magic(mark, "a 7z or rar archive", _UNPACK) for mark in (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")),
    Magic(b"ustar", "a tar archive", _UNPACK, offset=257),
    Magic(b"GIF8", "an image (GIF)", _PICTURE),
    Magic(b"jP  \r\n\x87\n", "an image (JPEG 2000)", _PICTURE, offset=4),
    *(Magic(mark, "an image of a phone or camera (HEIC, AVIF)", _PICTURE, offset=4) for mark in (b"ftyphei", b"ftypavif")),
    *(
        Magic(mark, "audio or video", _TRANSCRIPT)
        for mark in (b"ID3\x03", b"ID3\x04", b"OggS\x00", b"\x1aE\xdf\xa3", b"fLaC\x00")
    ),
    *(Magic(mark, "audio or video", _TRANSCRIPT, offset=8) for mark in (b"WAVEfmt ", b"AVI LIST")),
    Magic(b"ftyp", "audio or video", _TRANSCRIPT, offset=4, inside=b"\x00\x00\x00"),
    Magic(b"SQLite format 3\x00", "an SQLite database", 'sqlite3 {file} .dump | fbrag ask - "…"'),
    Magic(b"GGUF", "a GGUF model", _OTHER, inside=b"\x00\x00\x00"),
)


def refuse_known(source: Source) -> None:
    """Raise FbragError unsupported_format if the bytes are of a known format that is not read."""
    if source.data.startswith(OLE):
        names = root_names(source.data)
        kind, hint = next(
            about
            for name, about in _COMPOUND.items()
            if (name.lower() in names if names else name.encode("utf-16-le") in source.data) or not name
        )
        raise _unsupported(source, f"{source.name} is {kind}, which is not read", hint)
    media_type = media_type_of(source) or OPEN_DOCUMENT * bool(kind := flat_kind_of(source.data)) + kind
    for beginning, kind in _OPEN_OFFICE.items():
        if media_type.startswith(beginning):
            raise _unsupported(source, f"{source.name} is {kind}, which is not read", _TO_PDF)
    for magic in _MAGICS:
        if magic.fits(source.data):
            raise _unsupported(source, f"{source.name} is {magic.kind}, which is not read", magic.hint)


def binary(source: Source) -> FbragError:
    """Return the error for bytes that are neither text nor a known format."""
    if source.path.lower().endswith(".pdf"):
        what = f'{source.name} is not a PDF in spite of its name: it has no "%PDF-" header'
        return FbragError("doc_unreadable", what, "get a new copy of it", document=source.path)
    return _unsupported(source, f"{source.name} is not text: it seems to be binary data", _OTHER)


def _unsupported(source: Source, what: str, hint: str) -> FbragError:
    return FbragError("unsupported_format", what, hint.format(file=source.shell_path), document=source.path)
