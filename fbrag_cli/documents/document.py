"""`Document`: a decoded text, with its pages, its sections and where it came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


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
