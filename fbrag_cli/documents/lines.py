"""Find the line, the page (both counted from 1) and the section of an offset in a document."""

from __future__ import annotations

import re
from bisect import bisect_right

from fbrag_cli.documents.document import Content, Document, Section

_NEWLINE = re.compile("\n")


class LineIndex:
    """The line starts of one text. Building it takes one pass, a lookup a binary search."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in _NEWLINE.finditer(text))]
        self._length = len(text)

    def __len__(self) -> int:
        """Return the number of lines. A text that ends with a line end has an empty last line, as in an editor."""
        return len(self._starts)

    def line_of(self, offset: int) -> int:
        """Return the line (from 1) of the character at `offset`, or of the text's end. Raises IndexError outside the text."""
        if not 0 <= offset <= self._length:
            raise IndexError(f"offset {offset} is outside a text of {self._length} characters")
        return bisect_right(self._starts, offset)

    def span(self, line: int) -> tuple[int, int]:
        """Return start and end (characters) of `line` (from 1), without its line end. Raises IndexError for other lines."""
        if not 1 <= line <= len(self._starts):
            raise IndexError(f"line {line} of {len(self._starts)}")
        end = self._starts[line] - 1 if line < len(self._starts) else self._length
        return self._starts[line - 1], end


def line_index(document: Document) -> LineIndex:
    """Return the document's line starts, computed once."""
    return document.content().once(_index)


def _index(content: Content) -> LineIndex:
    return LineIndex(content.text)


def line_of(document: Document, offset: int) -> int:
    """Return the line (from 1) of `document.text[offset]`. Raises IndexError outside the text."""
    return line_index(document).line_of(offset)


def lines_of(document: Document, start: int, end: int) -> tuple[int, int]:
    """Return the first and last line (from 1) of `document.text[start:end]`. Raises IndexError outside the text."""
    index = line_index(document)
    return index.line_of(start), index.line_of(max(start, end - 1))


def pages_of(document: Document, start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last page number of `document.text[start:end]`; None if the document has no pages.

    None also for comments, which follow the last page. The line end between two pages belongs to the page before it.
    """
    if not document.pages or start > document.pages[-1].end:
        return None
    first, last = (bisect_right(document.pages, at, key=lambda page: page.start) for at in (start, max(start, end - 1)))
    numbers = [page.number for page in document.pages[max(first - 1, 0) : max(last, 1)]]
    return min(numbers), max(numbers)


def page_label(document: Document, pages: tuple[int, int]) -> str | None:
    """Return the printed numbers of the first and last page as "iv" or "3-4"; None if they are those of `pages`."""
    labels = {page.number: page.label for page in document.pages if page.label and page.number in pages}
    return _from_to(*(labels.get(number) or str(number) for number in pages)) if labels else None


def page_name(pages: tuple[int, int], label: str | None) -> str:
    """Return the name of pages: "12", "11-12", or with printed numbers "3-4 (sheets 11-12)". label: as of `page_label`."""
    first, last = pages
    sheets = _from_to(str(first), str(last))
    return sheets if label is None else f"{label} ({'sheet' if first == last else 'sheets'} {sheets})"


def _from_to(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def section_of(document: Document, start: int, end: int) -> Section | None:
    """Return the section at the start of `document.text[start:end]`, or else the first that begins inside; None without one."""
    following = bisect_right(document.sections, start, key=lambda section: section.start)
    if following:
        return document.sections[following - 1]
    first = document.sections[0] if document.sections else None
    return first if first is not None and first.start < end else None
