"""Where in a document an offset is: its line and its page, both counted from 1, and its section."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

from fbrag_cli.documents.document import Document, Section

_NEWLINE = re.compile("\n")


class LineIndex:
    """The lines of one text. Built in one pass; a lookup is a binary search."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in _NEWLINE.finditer(text))]
        self._length = len(text)

    def __len__(self) -> int:
        """How many lines; a text that ends with a line end has an empty last line, as an editor shows it."""
        return len(self._starts)

    def line_of(self, offset: int) -> int:
        """The line (from 1) of the character at `offset`, or of the text's end. Raises IndexError outside the text."""
        if not 0 <= offset <= self._length:
            raise IndexError(f"offset {offset} is outside a text of {self._length} characters")
        return bisect_right(self._starts, offset)

    def span(self, line: int) -> tuple[int, int]:
        """Start and end (characters) of `line` (from 1), without its line end. Raises IndexError if there is no such line."""
        if not 1 <= line <= len(self._starts):
            raise IndexError(f"line {line} of {len(self._starts)}")
        end = self._starts[line] - 1 if line < len(self._starts) else self._length
        return self._starts[line - 1], end


def line_index(document: Document) -> LineIndex:
    """The document's lines, computed once."""
    return _index(document.text)


@lru_cache(maxsize=64)
def _index(text: str) -> LineIndex:
    return LineIndex(text)


def line_of(document: Document, offset: int) -> int:
    """The line (from 1) of `document.text[offset]`. Raises IndexError outside the text."""
    return line_index(document).line_of(offset)


def lines_of(document: Document, start: int, end: int) -> tuple[int, int]:
    """First and last line (from 1) of `document.text[start:end]`. Raises IndexError outside the text."""
    index = line_index(document)
    return index.line_of(start), index.line_of(max(start, end - 1))


def pages_of(document: Document, start: int, end: int) -> tuple[int, int] | None:
    """First and last page number of `document.text[start:end]`; None where the document has no pages.

    The line end between two pages counts to the page before it.
    """
    if not document.pages:
        return None
    return _page_of(document, start), _page_of(document, max(start, end - 1))


def section_of(document: Document, start: int, end: int) -> Section | None:
    """The section that `document.text[start:end]` is in at its start, else the first that begins inside; None without either."""
    following = bisect_right(document.sections, start, key=lambda section: section.start)
    if following:
        return document.sections[following - 1]
    first = document.sections[0] if document.sections else None
    return first if first is not None and first.start < end else None


def _page_of(document: Document, offset: int) -> int:
    following = bisect_right(document.pages, offset, key=lambda page: page.start)
    return document.pages[max(following - 1, 0)].number
