"""`Letters`: the text of a page with the place of each letter, as PDFium finds them, and its lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import addressof, c_double
from math import hypot, inf, nan, pi
from typing import TYPE_CHECKING, Any

from pypdfium2 import raw

from fbrag_cli.documents.broken_words import SOFT_HYPHEN
from fbrag_cli.documents.decoding.encoding import without_surrogates
from fbrag_cli.documents.pdf.page_layout import in_order
from fbrag_cli.documents.pdf.page_text import Cell, Line, PageLines
from fbrag_cli.documents.pdf.pdfium import address, addresses, pdfium

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_MAX_CHARACTERS = 5_000_000
_STRAIGHT = 0.03  # radians, by which a letter may be turned
_WIDE = 0.55  # width of a letter, in sizes of its font, from which on a line may have gaps
_GAP = 1.0  # between two cells, in sizes of the font
_SMALLER = 0.85  # size of a raised or lowered piece, in sizes of what it follows
_RISE = 0.1  # of its baseline, in these sizes
_TOUCHING = 1.0  # distance from what it follows
_SPACE = 0.15

_MARK = "\ufffe"  # PDFium writes it for the hyphen of a word that is broken at a line's end, and for a glyph without a letter
_LINE = re.compile(rf"[^\r\n{_MARK}]*[^\s{_MARK}]{_MARK}?")
_DIGIT_AFTER = re.compile(r"""[0-9.,;:!?)\]"'”’»](?=( |\r\n|)([0-9][^ \r\n]{0,11}))""")


class Letters:
    """The letters of a page, by their position in its text.

    text: with `\\ufffe` for the hyphen of a word that is broken at a line's end. A character beyond U+FFFF has two positions.
    """

    def __init__(self, textpage: PdfTextPage) -> None:
        """Raises MemoryError for too much text."""
        if textpage.count_chars() > _MAX_CHARACTERS:
            raise MemoryError(f"more than {_MAX_CHARACTERS:,} characters")
        self._page = address(textpage.raw)
        self._numbers, self._matrix = (c_double * 4)(), raw.FS_MATRIX()
        self._to_numbers, self._to_matrix = addresses(self._numbers), addressof(self._matrix)
        self._origins: dict[int, tuple[float, float]] = {}
        # PDFium counts positions in units of UTF-16.
        units = textpage.get_text_range(errors="surrogatepass").encode("utf-16-le", "surrogatepass")
        self._indices = self._indices_between(0, len(units) // 2 - 1) if units else ()
        self.text = re.sub(_MARK, self._mark, "".join(map(chr, memoryview(units).cast("H"))))

    def origin(self, position: int) -> tuple[float, float]:
        """Return the place of a letter on its baseline; nan if it is unknown."""
        if (origin := self._origins.get(position)) is None:
            self._numbers[:2] = [nan, nan]
            pdfium.FPDFText_GetCharOrigin(self._page, self._indices[position], *self._to_numbers[:2])
            x, y = self._numbers[:2]
            self._origins[position] = origin = x, y
        return origin

    def address(self, position: int) -> int:
        """Return the address of the text object to which a letter belongs; 0 for white space that PDFium has added."""
        return pdfium.FPDFText_GetTextObject(self._page, self._indices[position]) or 0

    def box(self, position: int) -> tuple[float, float, float, float]:
        """Return the left, lower, right and upper edge of a letter."""
        (left, right), (lower, upper) = self._sides(position), self._numbers[2:]
        return left, lower, right, upper

    def lines(self, text: str, lower: float) -> PageLines:
        """Return the lines that are not blank of this text, or of it with spaces for some letters. lower: edge of the page."""
        signs = self._signs(text)
        letters: Any = list(text) if signs else text
        for position, sign in signs.items():
            letters[position] = sign
        # Where PDFium ends a line around a raised piece, the line continues.
        whole = {position for position in signs if text[position] in "\r\n"}
        text = "".join(" " if position in whole else letter for position, letter in enumerate(text)) if whole else text
        ends = letter_ends(text)
        turns = [self._turn(begin) for begin, _ in ends]
        # Most lines have one direction: in a table that is set sideways another than the page.
        usual = Counter(turns).most_common(1)[0][0] if turns else 0
        lines = []
        for (begin, end), turn in zip(ends, turns, strict=True):
            middle = next(at for at in range((begin + end) // 2, end + 1) if not text[at].isspace())
            size, height = self._size(middle), self.origin(begin)[1] - lower if turn == 0 else nan
            baseline, last = (self._baseline(at, turn) if turn == usual else nan for at in (begin, end))
            # Of vertical writing each letter has another baseline.
            cells = tuple(self._cells(text, letters, begin, end, size, turn)) if abs(last - baseline) <= size else ()
            line = cells[0].text if len(cells) == 1 else _clean("".join(letters[begin : end + 1]))
            lines.append(Line(line, height, size, cells, baseline if cells else nan))
        return PageLines.of(in_order(lines))

    def _mark(self, found: re.Match[str]) -> str:
        return _MARK if pdfium.FPDFText_IsHyphen(self._page, self._indices[found.start()]) == 1 else "\ufffd"

    def _indices_between(self, first: int, last: int) -> Sequence[int]:
        """Return PDFium's index of the letter at each of these positions. Both rise by one, but it omits letters."""
        begin, end = (pdfium.FPDFText_GetCharIndexFromTextIndex(self._page, position) for position in (first, last))
        if end - begin == last - first:
            return range(begin, end + 1)
        middle = (first + last) // 2
        return [*self._indices_between(first, middle), *self._indices_between(middle + 1, last)]

    def _turn(self, position: int) -> int | None:
        """Return by how many quarters, against the clock, a letter is turned; None if it is turned by another angle."""
        quarters = -pdfium.FPDFText_GetCharAngle(self._page, self._indices[position]) / (pi / 2)
        return round(quarters) % 4 if abs(quarters - round(quarters)) * (pi / 2) < _STRAIGHT else None

    def _baseline(self, position: int, turn: int | None) -> float:
        """Return how far above zero a letter's baseline is in the direction of its line."""
        x, y = self.origin(position)
        return nan if turn is None else (y, -x, -y, x)[turn]

    def _sides(self, position: int, turn: int | None = 0) -> tuple[float, float]:
        """Return the left and right edge of a letter in the direction of its line."""
        pdfium.FPDFText_GetCharBox(self._page, self._indices[position], *self._to_numbers)
        return _along(turn, *self._numbers)

    def _size(self, position: int) -> float:
        """Return the size of a letter's font, as it is drawn."""
        index = self._indices[position]
        pdfium.FPDFText_GetMatrix(self._page, index, self._to_matrix)
        return float(pdfium.FPDFText_GetFontSize(self._page, index) * hypot(self._matrix.c, self._matrix.d))

    def _cells(self, text: str, letters: Any, begin: int, end: int, size: float, turn: int | None) -> Iterator[Cell]:
        """Yield the parts of a line between which there is more room than between words."""
        left, right = self._sides(begin, turn)[0], self._sides(end, turn)[1]
        start = begin
        if right - left > _WIDE * size * (end - begin + 1) or self._has_gap(begin, end, _GAP * size, turn):
            for space in re.finditer(r"\s+", text[begin:end]):
                before, after = begin + space.start() - 1, begin + space.end()
                (_, near), (far, _) = self._sides(before, turn), self._sides(after, turn)
                if far - near > _GAP * size:
                    yield Cell(left, near, _clean("".join(letters[start : before + 1])))
                    start, left = after, far
        yield Cell(left, right, _clean("".join(letters[start : end + 1])))

    def _has_gap(self, begin: int, end: int, least: float, turn: int | None) -> bool:
        """Return whether there is so much room between two text objects of a line."""
        first = self._indices[begin]
        n_objects = pdfium.FPDFText_CountRects(self._page, first, self._indices[end] - first + 1)
        near = inf
        for number in range(n_objects if n_objects > 1 else 0):
            left, top, right, bottom = self._to_numbers
            pdfium.FPDFText_GetRect(self._page, number, left, top, right, bottom)
            x, y, to_x, to_y = self._numbers
            far, end_of_object = _along(turn, x, to_x, to_y, y)
            if far - near > least:
                return True
            near = end_of_object
        return False

    def _signs(self, text: str) -> dict[int, str]:
        """Return what to write for digits that are raised or lowered, and for what PDFium adds around them, by position.

        Otherwise 10^6 would be 106, and a note's number would become a part of the number before it.
        """
        signs: dict[int, str] = {}
        for match in _DIGIT_AFTER.finditer(text):
            before, digit = match.start(), match.end() + len(match[1])
            if self.address(before) == self.address(digit):
                continue
            size, (_, near), (far, _) = self._size(before), self._sides(before), self._sides(digit)
            baseline = self.origin(before)[1]
            rise = self.origin(digit)[1] - baseline
            if self._size(digit) > _SMALLER * size or abs(rise) < _RISE * size or abs(far - near) > _TOUCHING * size:
                continue
            if rise < 0 and not text[digit - 1].isdecimal():  # CO2 stays a word
                continue
            if match[1] and not pdfium.FPDFText_IsGenerated(self._page, self._indices[digit - 1]):
                continue
            signs |= dict.fromkeys(range(match.end(), digit), "")
            signs[digit] = f"{'^' if rise > 0 else '_'}{text[digit]}"
            end = digit + len(match[2])
            if text.startswith("\r\n", end) and end + 2 < len(text):
                x, y = self.origin(end + 2)
                room = x - self._sides(end - 1)[1]
                if abs(y - baseline) < _RISE * size and abs(room) <= _TOUCHING * size:
                    signs |= {end: "", end + 1: " " if room > _SPACE * size else ""}
        return signs


def _along(turn: int | None, left: float, right: float, lower: float, upper: float) -> tuple[float, float]:
    """Return where a box begins and ends in the direction of a line. turn: as of `Letters._turn`."""
    return ((left, right), (lower, upper), (-right, -left), (-upper, -lower))[turn or 0]


def letter_ends(text: str) -> list[tuple[int, int]]:
    """Return the positions of the first and the last letter of each line."""
    return [(line.end() - len(line[0].lstrip()), line.end() - 1) for line in _LINE.finditer(text)]


def _clean(line: str) -> str:
    """Return a line, or a part of it, as it is read: `rejoin_words` uses a soft hyphen at its end."""
    line = without_surrogates(line.strip().replace(_MARK, "-").replace("\t", " "))
    return line[:-1].replace(SOFT_HYPHEN, "") + line[-1:]
