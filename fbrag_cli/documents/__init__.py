"""A path becomes a `Document`: its decoded text, and where each page begins. Knows nothing of chunks or questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Progress, silent

if TYPE_CHECKING:
    from fbrag_cli.documents.pdf import Share
    from fbrag_cli.documents.source import Source


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Page `number` (from 1) is the document's `text[start:end]` (characters)."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A heading or chapter: it holds from `start` (characters) to the next section. level: 1 for the outermost."""

    title: str
    level: int
    start: int


@dataclass(frozen=True, slots=True)
class Content:
    """What of a document takes room. text: decoded, line ends as "\\n". pages: those with text, in order; empty where the format
    has none. sections: by ascending start; empty where the format has none."""

    text: str
    pages: tuple[PageSpan, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class Extracted:
    """What the reader of a format makes of a file's bytes.

    media_type: as "text/plain". encoding: of the bytes, None where the format has none (PDF). skipped_pages: numbers of the pages
    that gave no text. warnings: one line each, with the file's name.
    """

    content: Content
    media_type: str
    encoding: str | None = None
    skipped_pages: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded document, whose text may still lie in the cache.

    path: as the user gave it ("-" for stdin). name: what citations call it ("stdin" for "-"). sha256: of the file's bytes (hex).
    language: ISO 639-1, as "en"; "" where it is not known. n_chars: of the text. content: gives the text, pages and sections.
    Otherwise as in `Extracted`.
    """

    path: str
    name: str
    media_type: str
    sha256: str
    language: str
    n_chars: int
    content: Callable[[], Content] = field(repr=False, compare=False)
    encoding: str | None = None
    skipped_pages: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: str, name: str, extracted: Extracted, sha256: str = "", language: str = "en") -> Document:
        """A document whose text is at hand."""
        return cls(
            path,
            name,
            extracted.media_type,
            sha256,
            language,
            len(extracted.content.text),
            lambda: extracted.content,
            extracted.encoding,
            extracted.skipped_pages,
            extracted.warnings,
        )

    @property
    def text(self) -> str:
        return self.content().text

    @property
    def pages(self) -> tuple[PageSpan, ...]:
        return self.content().pages

    @property
    def sections(self) -> tuple[Section, ...]:
        return self.content().sections


def load(
    path: str,
    *,
    encoding: str | None = None,
    pages: str | None = None,
    password: str | None = None,
    language: str | None = None,
    stdin: BinaryIO | None = None,
    source: Source | None = None,
    share: Share | None = None,
    progress: Progress = silent,
) -> Document:
    """Read the file `path` of any format in `formats`; "-" reads `stdin` (by default the process's own) to its end.

    The format is found by content first, by suffix second. encoding: of a text, instead of finding it out. pages: of a PDF, as
    "3-9,12". password: tried where a PDF does not open without one. language: ISO 639-1, instead of finding it out.
    source: the file's bytes, where they are at hand already. share: has other processes read some pages of a long PDF.
    progress: hears of stage "read", in pages, for a PDF.

    Raises FbragError, with `document` = `path`: doc_not_found, doc_unreadable, doc_empty, unsupported_format, pdf_encrypted,
    pdf_bad_password, pdf_no_text; usage for an unknown `encoding` or for `pages` that cannot be read or do not exist.
    """
    from fbrag_cli.documents.decoding import codec_name
    from fbrag_cli.documents.formats import PDF, find_format, read_as
    from fbrag_cli.documents.source import read_source
    from fbrag_cli.languages import detect

    # 1. What the options say is checked before anything is read.
    ranges = None
    if pages is not None:
        from fbrag_cli.documents.pdf.page_ranges import parse_ranges

        ranges = parse_ranges(pages, path)
    codec = None if encoding is None else codec_name(encoding, path)

    # 2. The bytes say what they are, whatever they are called.
    source = source or read_source(path, stdin)
    found = find_format(source)
    if found.format is PDF:
        from fbrag_cli.documents.pdf import read_pdf

        extracted = read_pdf(source, ranges=ranges, password=password, progress=progress, share=share)
    else:
        extracted = read_as(found.format, source, codec)
    text = extracted.content.text
    if not text.strip():
        raise _empty(path, source.name, len(source.data), is_text=found.format.tells is None)

    # 3. What is not as it was asked for is said.
    warnings = found.warnings + extracted.warnings
    if ranges is not None and found.format is not PDF:
        warnings += (f"{source.name} has no pages: --pages does not apply to it",)
    extracted = replace(extracted, warnings=warnings)
    return Document.of(path, source.name, extracted, sha256(source.data).hexdigest(), language or detect(text))


def _empty(path: str, name: str, n_bytes: int, *, is_text: bool) -> FbragError:
    what = "is empty" if not n_bytes else "holds only white space" if is_text else "has no text"
    hint = "see what the command before the pipe writes" if path == "-" else "name a file that has text"
    return FbragError("doc_empty", f"{name} {what}", hint, document=path)
