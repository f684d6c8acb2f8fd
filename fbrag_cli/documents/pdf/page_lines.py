"""Read a page of a PDF as lines with their heights, in reading order."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from ctypes import byref, c_double
from math import cos, nan
from typing import TYPE_CHECKING

from fbrag_cli.documents.pdf.page_text import PageLines, clean_line

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_UPRIGHT = 0.9995  # cosine of the angle of a letter
_BLEED = 12.0  # points
_FEWEST = 0.25  # share of a page's letters that lie on the page, if its box can be trusted
_MAX_CHARACTERS = 5_000_000

_MARK = "\ufffe"  # PDFium writes it for the hyphen of a word that is broken at a line's end, and for a glyph without a letter
_LINE = re.compile(rf"[^\r\n{_MARK}]*[^\s{_MARK}]{_MARK}?")


class PageTooLargeError(Exception):
    """A page has too much text."""


def page_lines(page: PdfPage) -> PageLines:
    """Return the lines of a page, without blank ones. Raises PageTooLargeError, and PdfiumError for a damaged page."""
    from pypdfium2 import raw

    left, lower, right, upper = map(float, page.get_bbox())
    with closing(page.get_textpage()) as letters:
        if letters.count_chars() > _MAX_CHARACTERS:
            raise PageTooLargeError(f"it has more than {_MAX_CHARACTERS:,} characters")

        def index(position: int) -> int:
            return int(raw.FPDFText_GetCharIndexFromTextIndex(letters, position))

        def place(position: int) -> tuple[float, float]:
            x, y = c_double(nan), c_double(nan)
            raw.FPDFText_GetCharOrigin(letters, index(position), byref(x), byref(y))
            return x.value, y.value

        def on_page(position: int) -> bool:
            x, y = place(position)
            return bool(left - _BLEED < x < right + _BLEED and lower - _BLEED < y < upper + _BLEED)

        def height(position: int) -> float:
            upright = cos(raw.FPDFText_GetCharAngle(letters, index(position))) > _UPRIGHT
            return place(position)[1] - lower if upright else nan

        def mark(found: re.Match[str]) -> str:
            return _MARK if raw.FPDFText_IsHyphen(letters, index(found.start())) == 1 else "\ufffd"

        # PDFium counts positions in units of UTF-16.
        units = letters.get_text_range(errors="surrogatepass").encode("utf-16-le", "surrogatepass")
        whole = re.sub(_MARK, mark, "".join(map(chr, memoryview(units).cast("H"))))
        text = whole if all(on_page(end) for begin_end in _ends(whole) for end in begin_end) else _inside(whole, on_page)
        heights = tuple(height(begin) for begin, _ in _ends(text))
    lines = tuple(clean_line(line[0].strip().replace(_MARK, "-")) for line in _LINE.finditer(text))
    return PageLines(lines, heights, upper - lower, cut=text != whole)


def _ends(text: str) -> list[tuple[int, int]]:
    """Return the positions of the first and the last letter of each line."""
    return [(line.end() - len(line[0].lstrip()), line.end() - 1) for line in _LINE.finditer(text)]


def _inside(text: str, on_page: Callable[[int], bool]) -> str:
    """Return the text with spaces for letters outside of the page: one that was cut from a spread may hold the text of both.

    If hardly any letter lies on the page, its box is not trusted, and the text stays as it is.
    """
    places = [position for position, letter in enumerate(text) if not letter.isspace()]
    outside = {position for position in places if not on_page(position)}
    if len(places) - len(outside) < _FEWEST * len(places):
        return text
    return "".join(" " if position in outside else letter for position, letter in enumerate(text))
