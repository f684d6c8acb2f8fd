"""`Document`: the decoded text of a file, its pages, its sections and its origin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

#: Text that only `--markup` reads, by its kinds, as warnings count it.
STRUCK, HIDDEN = "struck-out passage", "hidden passage"


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Page `number` (from 1) is the document's `text[start:end]` (characters). label: its printed number, "" if it is that."""

    number: int
    start: int
    end: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading or chapter, which lasts from `start` (characters) to the next section. level: 1 is the outermost."""

    title: str
    level: int
    start: int


#: Lines that OCR has read on a page: each with x and y of its corners, in points from the upper left corner of the page.
ScannedLines = tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class Content:
    """The large part of a document. text: decoded text, line ends as "\\n". pages: pages with text, in order; empty if the format
    has none. If the notes of a page follow a sentence that ends on the next page, both have two spans. sections: sections by
    ascending start; empty if the format has none. scanned: the lines of the pages that OCR has read, by their numbers; empty if
    the content comes from the cache, which has them by themselves."""

    text: str
    pages: tuple[PageSpan, ...] = ()
    sections: tuple[Section, ...] = ()
    scanned: Mapping[int, ScannedLines] = field(default_factory=dict, repr=False, compare=False)
    _made: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, make: Callable[..., T], *how: object) -> T:
        """Return `make(content, *how)`, computed once. It is let go with the content."""
        key = (make, *how)
        if key not in self._made:
            self._made[key] = make(self, *how)
        made: T = self._made[key]
        return made


@dataclass(frozen=True, slots=True)
class Extracted:
    """The result of a format's reader.

    media_type: media type, as "text/plain". encoding: encoding of the bytes; None if the format has none (PDF). skipped_pages:
    numbers of the pages without text. ocr_pages: numbers of those whose text was read by OCR. warnings: one line each, which
    begins with the file's name. left_out: counted things of the file that were not read, as "2 charts". comments: the readers'
    comments and notes on the text, a block of text each, as 'Comment by Ann Lee on "the price": too high'. markup: numbers of
    what was not read because only `--markup` reads it, as {"hidden passage": 2}. cut: whether a limit of time or memory left out
    text, which another run may read.
    """

    content: Content
    media_type: str
    encoding: str | None = None
    skipped_pages: tuple[int, ...] = ()
    ocr_pages: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    markup: Mapping[str, int] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A decoded document. Its text may be loaded from the cache when it is first used.

    path: path as the user gave it ("-" for stdin). name: its name in citations ("stdin" for "-"). sha256: SHA-256 of the file's
    bytes. language: ISO 639-1, as "en"; "" if unknown. n_chars: length of the text. content: returns the text, pages and
    sections. text_sha256: SHA-256 of the text in UTF-8. label: the file's name as models read it above its passages; "" for
    a file alone. name_terms: the terms of its name, and of those of its folders; of several files, each chunk holds them. The
    other fields are those of `Extracted`.
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
    ocr_pages: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    text_sha256: str = ""
    label: str = ""
    name_terms: tuple[str, ...] = ()
    cut: bool = False

    @classmethod
    def of(cls, path: str, name: str, extracted: Extracted, sha256: str = "", language: str = "en") -> Document:
        """Return a document with its text in memory. sha256: SHA-256 of the file's bytes (hex); "" if there is no file."""
        text = extracted.content.text
        return cls(
            path=path,
            name=name,
            media_type=extracted.media_type,
            sha256=sha256,
            language=language,
            n_chars=len(text),
            content=partial(itself, extracted.content),
            encoding=extracted.encoding,
            skipped_pages=extracted.skipped_pages,
            ocr_pages=extracted.ocr_pages,
            warnings=extracted.warnings,
            cut=extracted.cut,
            text_sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
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


def itself(content: Content) -> Content:
    """Return the content of a document in memory. A function of the module, so that the document can be pickled."""
    return content


def comment(author: str, on: str, text: str) -> str:
    """Return a comment, as 'Comment by Ann Lee on “the price”: too high'. author, on: "" if unknown."""
    return f"Comment{f' by {author}' if author else ''}{f' on {on}' if on else ''}: {text}"
