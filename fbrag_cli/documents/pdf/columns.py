"""Find the two columns of a page whose file draws it row by row, so that it is read column by column.

Most files draw the left column before the right one, and pypdf keeps that order: nothing is done. A page is reordered
only if many rows have a piece that begins at one and the same place in the page's middle, drawn right after a piece to its left,
and if both sides read as running prose: lines of several words that go on in small letters. Tables, single columns, scripts
without small letters and pages whose text lies in forms keep the order of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median, quantiles

_MIN_ROWS = 10
_ALIGNED = 0.6  # of the rows that have both columns
_SLACK = 1.5  # points: of the places where pieces begin
_MAX_INDENT = 30.0  # points
_MIN_WIDTH = 80.0  # points: of a column, and its gutter
_SMALL_BEGINS = 0.4  # of a column's lines
_MIN_WORDS = 3  # of a column's usual line
_MAX_LENGTH = 1.5  # times the upper quartile of a column's line lengths: a longer line crosses the gutter

#: The place where a piece of text begins: x, y in points.
Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Columns:
    """Two columns. gutter: x where the right one begins. top, bottom: the first and last baseline of the rows with both."""

    gutter: float
    top: float
    bottom: float

    def part(self, place: Place) -> int:
        """Return the part of the page: 0 above the columns, 1 left, 2 right, 3 below."""
        x, y = place
        if y > self.top + 1:
            return 0
        if y < self.bottom - 1:
            return 3
        return 1 if x < self.gutter else 2


def two_columns(places: Sequence[Place]) -> Columns | None:
    """Return the columns of a page from its pieces in drawing order; None unless there are two, drawn row by row."""
    rows: dict[int, list[float]] = {}
    for x, y in places:
        rows.setdefault(round(y), []).append(x)

    # 1. Find the one place where a second piece of most rows begins.
    begins = Counter(begin for xs in rows.values() for begin in {round(x) for x in xs if x > min(xs) + 1})
    if not begins:
        return None
    gutter = begins.most_common(1)[0][0] - _SLACK
    across = [y for y, xs in rows.items() if min(xs) < gutter and any(0 < x - gutter < 2 * _SLACK for x in xs)]
    others = (count for begin, count in begins.items() if not 0 < begin - gutter < 2 * _SLACK)
    if len(across) < _MIN_ROWS or max(others, default=0) >= _ALIGNED * len(across):
        return None
    if gutter - median(min(rows[y]) for y in across) < _MIN_WIDTH:
        return None

    # 2. Extend from the first and last of these rows to neighbours that are indented or have one column only.
    top, bottom = max(across), min(across)
    distance = median(above - below for above, below in pairwise(sorted(rows, reverse=True)))
    indented = {y for y, xs in rows.items() if min(xs) < gutter and 0 <= _first_right(xs, gutter) - gutter < _MAX_INDENT}
    for y in sorted(indented):
        top = y if top < y <= top + 1.2 * distance else top
    shorter = {y for y, xs in rows.items() if max(xs) < gutter or min(xs) >= gutter}  # where one column has ended
    for y in sorted(indented | shorter, reverse=True):
        bottom = y if bottom > y >= bottom - 1.2 * distance else bottom
    inside = {y for y in rows if bottom <= y <= top}
    if not inside <= indented | shorter:
        return None  # it is drawn across the gutter

    # 3. Check that it is drawn row by row: the pen crosses the gutter on many baselines.
    drawn = [place for place in places if round(place[1]) in inside]
    crossings = sum(x < gutter <= next_x and abs(y - next_y) < 1 for (x, y), (next_x, next_y) in pairwise(drawn))
    if len(across) < _ALIGNED * len(inside & indented) or crossings < _ALIGNED * len(across):
        return None
    return Columns(gutter, float(top), float(bottom))


def _first_right(xs: Sequence[float], gutter: float) -> float:
    return min((x for x in xs if x >= gutter), default=inf)


def reads_as_prose(lines: Sequence[str]) -> bool:
    """Return whether a column's lines are running text, and none is wider than the column."""
    written = [line.strip() for line in lines if line.strip()]
    if len(written) < _MIN_ROWS:
        return False
    small = sum(line[0].islower() for line in written)
    lengths = [len(line) for line in written]
    return (
        small >= _SMALL_BEGINS * len(written)
        and median(len(line.split()) for line in written) >= _MIN_WORDS
        and max(lengths) <= _MAX_LENGTH * quantiles(lengths, n=4)[2]
    )
