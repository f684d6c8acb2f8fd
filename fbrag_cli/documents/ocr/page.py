"""`OcrPage`: what OCR has read on a page, as the lines that a page of a PDF has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import atan2, cos, sin
from statistics import median
from typing import Any

from fbrag_cli.documents.document import ScannedLines
from fbrag_cli.documents.ocr.engine import OcrLine, mean_score, turned
from fbrag_cli.documents.pdf.page_layout import in_order
from fbrag_cli.documents.pdf.page_text import Cell, Line, PageLines

_LEAST_SCORE = 0.5  # lines with a lower one are not text, or cannot be read
_POOR_SCORE = 0.96  # mean score of a page of which one word in ten is wrong or more
_SIZE = 0.83  # size of the font, in heights of the box of a line: 14.4 points for 12
_BASELINE = 0.3  # height of the baseline above the lower edge of that box, in its heights
_ONE_LINE = 0.5  # distance of two baselines of one line, in sizes of the font
_LONG = 0.5  # width of a line that shows how much the page is turned, in widths of the longest
_GAP = 0.85  # between two cells, in sizes of the font: boxes reach beyond their letters

# Spaces that the engine loses: between two sentences, before a year, and between a day and a month.
_LOST_SPACE = re.compile(
    r"(?<=[^\W\d_]{2}[.!?])(?=[^\W\d_]{2})|(?<=[^\W\d_]{2})(?=(?:1\d|20)\d\d\b)|(?:(?<=\b\d)|(?<=\b\d\d))(?=[^\W\d_]{3})"
)


@dataclass(frozen=True, slots=True)
class OcrPage:
    """The lines of text on a page, with their corners in points from the page's upper left corner.

    height: height of the page in points, as it was read. turn: quarters by which it was turned clockwise to be read. n_dropped:
    number of lines whose score was too low.
    """

    lines: tuple[OcrLine, ...] = ()
    width: float = 0.0
    height: float = 0.0
    turn: int = 0
    n_dropped: int = 0

    @classmethod
    def of(cls, lines: Sequence[OcrLine], width: float, height: float, turn: int) -> OcrPage:
        kept = tuple(line for line in lines if line.score >= _LEAST_SCORE and line.text.strip())
        return cls(kept, width, height, turn, len(lines) - len(kept))

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> OcrPage:
        """Raises ValueError, TypeError or KeyError for what `as_json` has not made."""
        lines = tuple(OcrLine(str(text), float(score), tuple(map(float, corners))) for text, score, corners in record["lines"])
        return cls(lines, *(record[name] for name in ("width", "height", "turn", "n_dropped")))

    def as_json(self) -> dict[str, Any]:
        lines = [(line.text, round(line.score, 3), [round(at, 1) for at in line.corners]) for line in self.lines]
        return {"lines": lines} | {name: getattr(self, name) for name in ("width", "height", "turn", "n_dropped")}

    @property
    def n_letters(self) -> int:
        return sum(sum(map(str.isalnum, line.text)) for line in self.lines)

    @property
    def is_poor(self) -> bool:
        """Whether many words may be wrong or missing."""
        return mean_score(self.lines) < _POOR_SCORE or self.n_dropped > len(self.lines)

    @property
    def scanned_lines(self) -> ScannedLines:
        return tuple((line.text, line.corners) for line in self.lines)

    def page_lines(self) -> PageLines:
        """Return the lines in reading order, in the form that those of a PDF have."""
        placed = sorted(map(_placed, self._upright()), key=lambda line: -line.baseline)
        page = PageLines.of(in_order([_joined(row) for row in _rows(placed)]))
        return replace(page, height=self.height if self.turn % 2 == 0 else self.width)

    def _upright(self) -> Iterator[OcrLine]:
        """Yield the lines with their corners on the page as it is read: turned, straight, and y measured from its lower edge."""
        width, height = (self.width, self.height) if self.turn % 2 == 0 else (self.height, self.width)
        lines = [line._replace(corners=turned(line.corners, self.turn, self.width, self.height)) for line in self.lines]
        slope = _slope([line.corners for line in lines])
        for line in lines:
            points = zip(line.corners[::2], line.corners[1::2], strict=True)
            yield line._replace(corners=tuple(at for x, y in points for at in _straight(x, y, slope, width, height)))


def _straight(x: float, y: float, slope: float, width: float, height: float) -> tuple[float, float]:
    """Return a place on a page whose lines rise or fall, as if they were straight; y counts upwards from the lower edge."""
    x, y = x - width / 2, y - height / 2
    return x * cos(slope) + y * sin(slope) + width / 2, height / 2 + x * sin(slope) - y * cos(slope)


def _slope(lines: Sequence[tuple[float, ...]]) -> float:
    """Return the angle by which lines fall to the right. lines: the corners of each."""
    widths = [at[2] - at[0] for at in lines]
    least = _LONG * max(widths, default=0.0)
    return median(
        [atan2(at[3] - at[1], at[2] - at[0]) for at, width in zip(lines, widths, strict=True) if width >= least] or [0.0]
    )


def _placed(line: OcrLine) -> Line:
    """Return a line that has one cell."""
    left, upper_left, right, upper_right, _, lower_right, _, lower_left = line.corners
    upper, lower = (upper_left + upper_right) / 2, (lower_left + lower_right) / 2
    baseline = lower + _BASELINE * (upper - lower)
    text = _LOST_SPACE.sub(_space, line.text.strip())
    return Line(text, baseline, _SIZE * (upper - lower), (Cell(left, right, text),), baseline)


def _space(found: re.Match[str]) -> str:
    at, text = found.start(), found.string
    if text[at].isdecimal():
        return " " if text[at - 1].islower() else ""
    small = text[at + 1 if text[at - 1].isdecimal() else at - 2]
    return " " if text[at].isupper() and small.islower() else ""


def _rows(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the lines, which come from top to bottom, in groups that are on one baseline, each from left to right."""
    row: list[Line] = []
    for line in lines:
        if row and row[0].baseline - line.baseline > _ONE_LINE * min(line.size, row[0].size):
            yield sorted(row, key=lambda part: part.cells[0].left)
            row = []
        row.append(line)
    if row:
        yield sorted(row, key=lambda part: part.cells[0].left)


def _joined(row: Sequence[Line]) -> Line:
    """Return the parts of one line as a line; those without much room between them are one cell."""
    size = median(part.size for part in row)
    cells = [row[0].cells[0]]
    for before, part in pairwise(row):
        cell = part.cells[0]
        if cell.left - before.cells[0].right > _GAP * size:
            cells.append(cell)
        else:
            cells[-1] = Cell(cells[-1].left, cell.right, f"{cells[-1].text} {cell.text}")
    baseline = median(part.baseline for part in row)
    return Line(" ".join(cell.text for cell in cells), baseline, size, tuple(cells), baseline)
