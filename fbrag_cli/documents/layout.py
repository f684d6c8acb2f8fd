"""The order in which a person reads what lies on a page or slide: columns one after the other, and all else from top to bottom.

The rule is a recursive XY-cut that begins with the rows of the page. Rows that follow each other belong together as long as the
same room between their boxes, a gutter, runs through all of them: a heading, a figure or a footer across ends such a run. The
parts of a run between gutters are columns if they are text, whose lines fill their column. Cells of a table or a form do not:
their rows stay rows.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

_MAX_DEPTH = 8  # columns in columns
_MAX_GUTTERS = 8  # of a run; the widest are kept

# In heights of a line of text, which are those of the smaller boxes of a run:
_GUTTER = 0.3  # width of a gutter
_COLUMN = 10.0  # width of a column of single lines
_TALL = 2.0  # height of a box that holds several lines
_FEWEST, _FEW = 1.5, 2.5  # height of the text of each column, and of the longest
_APART = 1.5  # room below a header or above a footer, which do not belong to the columns
_ROW = 0.3  # room between the rows of a table of texts, more than between lines

_FILLED = 0.75  # share of the width of its column that a line of text takes
_TEXT = 0.5  # share of a column, by height, that is text
_SIDE = 0.1  # share of the width of all columns that may be one, as long as nothing is in it
_OVERLAP = 0.1  # share of a box by which it may reach into the rows above and below
_TOGETHER = 0.8  # share of the rooms in a column that all columns have, in a table of texts


class Box(NamedTuple):
    """A rectangle: a line, a part of one, or a frame of text. Its edges have any unit; y counts downwards."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top


class _Band(NamedTuple):
    """Boxes, by their index, between which no horizontal line can be drawn. top, bottom: edges of the band."""

    boxes: list[int]
    top: float
    bottom: float


_Gaps = list[tuple[float, float]]  # left and right edge of each room without boxes, from -inf to inf


def reading_order(boxes: Sequence[Box], *, only_columns: bool = False) -> list[int]:
    """Return the indices of the boxes in the order of reading, for text that is written from left to right.

    Boxes in one row are read from the left, unless they are parts of columns. only_columns: keep the given order between and in
    columns. Takes O(n log n).
    """
    return _ordered(boxes, list(range(len(boxes))), sorted if only_columns else partial(_by_rows, boxes), 0)


def _ordered(boxes: Sequence[Box], chosen: list[int], by_rows: Callable[[list[int]], list[int]], depth: int) -> list[int]:
    """Return these boxes in the order of reading. by_rows: orders boxes that are not in columns."""
    if depth == _MAX_DEPTH or len(chosen) < 2:
        return by_rows(chosen)
    bands = _bands(boxes, chosen)
    left, right = min(boxes[index].left for index in chosen), max(boxes[index].right for index in chosen)
    ordered: list[int] = []
    plain: list[int] = []  # no columns, since the last ones
    for run, gutters in _runs(boxes, bands, left, right):
        # 1. Boxes above the second column belong to the text above, whose order is the same.
        first = next((at for at, band in enumerate(run) if any(boxes[each].left > gutters[0] for each in band.boxes)), len(run))
        plain += [index for band in run[:first] for index in band.boxes]
        if not (body := run[first:]):
            continue
        columns = _columns(boxes, [index for band in body for index in band.boxes], gutters)
        if len(columns) == 1:
            plain += columns[0]
            continue
        # 2. Columns, or the rows of a table of texts, are ordered each for itself.
        ordered += by_rows(plain)
        plain = []
        for part in _texts(boxes, body, columns) or columns:
            ordered += _ordered(boxes, part, by_rows, depth + 1)
    return ordered + by_rows(plain)


def _bands(boxes: Sequence[Box], chosen: Sequence[int]) -> list[_Band]:
    """Return the bands of these boxes from top to bottom."""
    bands: list[_Band] = []
    for index in sorted(chosen, key=lambda index: boxes[index].top):
        _, top, _, bottom = boxes[index]
        reach = _OVERLAP * (bottom - top)
        top, bottom = top + reach, bottom - reach
        if bands and top < bands[-1].bottom:
            bands[-1].boxes.append(index)
            bands[-1] = bands[-1]._replace(bottom=max(bottom, bands[-1].bottom))
        else:
            bands.append(_Band([index], top, bottom))
    return bands


def _runs(boxes: Sequence[Box], bands: Sequence[_Band], left: float, right: float) -> Iterator[tuple[list[_Band], list[float]]]:
    """Yield the bands in runs that have gutters in common, and the middles of these. left, right: edges of all boxes."""
    line = _line(boxes, [index for band in bands for index in band.boxes])
    run: list[_Band] = []
    common: _Gaps = []
    for number, band in enumerate(bands):
        own = _gaps(boxes, band)
        both = _common(common, own, _GUTTER * line) if run else own
        room = band.top - run[-1].bottom if run else 0.0
        widest = max((end - start for start, end in both if -inf < start and end < inf), default=inf)
        is_edge = number in (1, len(bands) - 1)  # the row above or below may be a header or footer
        is_apart = room > _APART * line and (is_edge or room >= widest)
        has_room = widest < inf or any(min(end, right) - max(start, left) > _SIDE * (right - left) for start, end in both)
        if run and (is_apart or not has_room):
            yield run, _middles(common)
            run, both = [], own
        run.append(band)
        common = both
    if run:
        yield run, _middles(common)


def _gaps(boxes: Sequence[Box], band: _Band) -> _Gaps:
    gaps: _Gaps = []
    end = -inf
    for box in sorted(boxes[index] for index in band.boxes):
        if box.left > end:
            gaps.append((end, box.left))
        end = max(end, box.right)
    inner = sorted(gaps[1:], key=lambda gap: gap[0] - gap[1])[:_MAX_GUTTERS]
    return [*gaps[:1], *sorted(inner), (end, inf)]


def _common(some: _Gaps, others: _Gaps, least: float) -> _Gaps:
    """Return what two lists of gaps have in common, if it is as wide as `least`."""
    both = ((max(one[0], other[0]), min(one[1], other[1])) for one in some for other in others)
    return [(start, end) for start, end in both if end - start >= least][: _MAX_GUTTERS + 2]


def _middles(gaps: _Gaps) -> list[float]:
    return [(start + end) / 2 for start, end in gaps if -inf < start and end < inf] or [inf]


def _line(boxes: Sequence[Box], chosen: Sequence[int]) -> float:
    """Return the height of a line of text: that of the smaller boxes."""
    return sorted(boxes[index].height for index in chosen)[len(chosen) // 3]


def _columns(boxes: Sequence[Box], chosen: Sequence[int], gutters: Sequence[float]) -> list[list[int]]:
    """Return these boxes by columns; as a single one if they are not text in columns."""
    line = _line(boxes, chosen)
    gutters = list(gutters)
    text_height = cache(lambda column: _text_height(boxes, column, line))
    while True:
        columns: list[list[int]] = [[] for _ in range(len(gutters) + 1)]
        for index in chosen:
            columns[bisect(gutters, boxes[index].left)].append(index)
        if not gutters:
            return columns
        heights = [text_height(tuple(column)) for column in columns]
        bad = [number for number, height in enumerate(heights) if height < _FEWEST * line]
        if not bad:
            return columns if max(heights) >= _FEW * line else [list(chosen)]
        # The room after a bullet or a number does not separate columns: the narrowest gutter goes first.
        beside = {at for number in bad for at in (number - 1, number) if 0 <= at < len(gutters)}
        edges = [(min(boxes[i].left for i in column), max(boxes[i].right for i in column)) for column in columns if column]
        if len(edges) < len(columns):
            return [list(chosen)]
        del gutters[min(beside, key=lambda at: edges[at + 1][0] - edges[at][1])]


def _text_height(boxes: Sequence[Box], column: Sequence[int], line: float) -> float:
    """Return the height of all lines of a column of text; 0 if it is not text."""
    if not column:
        return 0.0
    width = max(boxes[index].right for index in column) - min(boxes[index].left for index in column)
    total = filled = 0.0
    for band in _bands(boxes, column):
        widest = max((boxes[index] for index in band.boxes), key=lambda box: box.right - box.left)
        is_text = width >= _COLUMN * line or widest.height >= _TALL * line
        total += widest.height
        filled += widest.height if is_text and widest.right - widest.left >= _FILLED * width else 0.0
    return total if filled >= _TEXT * total else 0.0


def _texts(boxes: Sequence[Box], body: Sequence[_Band], columns: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the rows of a table whose cells are texts; [] for columns. All columns have the same rooms between its rows."""
    of_columns = [[below.top - above.bottom for above, below in pairwise(_bands(boxes, column))] for column in columns]
    usual = median([room for rooms in of_columns for room in rooms] or [inf])
    least = usual + _ROW * _line(boxes, [index for band in body for index in band.boxes])
    rows = [list(body[0].boxes)]
    for above, below in pairwise(body):
        if below.top - above.bottom > least:
            rows.append([])
        rows[-1] += below.boxes
    own = max(sum(room > least for room in rooms) for rooms in of_columns)
    return rows if len(rows) > 2 and len(rows) - 1 >= _TOGETHER * own else []


def _by_rows(boxes: Sequence[Box], chosen: Sequence[int]) -> list[int]:
    """Return these boxes from top to bottom, and those in one row from left to right."""
    rows: list[list[int]] = []
    shortest = Box(0.0, -inf, 0.0, -inf)  # of the last row: next to a high box, such as an initial, there are several rows
    for index in sorted(chosen, key=lambda index: (boxes[index].top, index)):
        box = boxes[index]
        common = min(box.bottom, shortest.bottom) - max(box.top, shortest.top)
        if rows and 2 * common > min(box.height, shortest.height):
            rows[-1].append(index)
            shortest = min(box, shortest, key=lambda box: box.height)
        else:
            rows.append([index])
            shortest = box
    return [index for row in rows for index in sorted(row, key=lambda index: (boxes[index].left, index))]
