"""Layout of the lines of a text: as they stand, in columns (code, tables), or flowing (prose cut at a width)."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise

_INDENTED = 0.25  # of the lines, for columns to mean something
_WIDTHS = range(40, 121)  # characters at which people and programs cut lines of prose
_FITS = 76  # characters that a line of the page holds
_FULL = 0.8  # of the width: a line was cut if it and the next one's first word are at least this long


class LineLayout:
    """The layout of one text, judged by the lengths and the beginnings of its lines.

    kind: "lines" (line ends have a meaning), "columns" (so do the columns), "flow" (prose cut at a width that fits the page: only
    a narrow screen needs other lines), "wide" (prose cut at a greater width).
    """

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        filled = [line for line in lines if line.strip()]
        width = sorted(map(len, filled))[len(filled) * 9 // 10] if filled else 0
        if sum(line[0] in " \t" for line in filled) > _INDENTED * len(filled):
            self.kind = "columns"
        else:
            self.kind = "lines" if width not in _WIDTHS else "flow" if width <= _FITS else "wide"
        self._ends = _meant_ends(lines, _FULL * width) if self.kind in ("flow", "wide") else []

    def breaks(self, start: int, end: int) -> list[int]:
        """Return where lines in `text[start:end]` end on purpose, not because they were full, in characters from `start`.

        Empty unless the text is prose that was cut.
        """
        return [at - start for at in self._ends[bisect_left(self._ends, start) : bisect_left(self._ends, end)]]


@lru_cache(maxsize=8)
def layout_of(text: str) -> LineLayout:
    """Return the layout of a document's text, judged once."""
    return LineLayout(text)


def _meant_ends(lines: list[str], full: float) -> list[int]:
    ends, at = [], 0
    for line, following in pairwise(lines):
        at += len(line)
        word = following.partition(" ")[0]  # empty where the line is blank or indented
        if not line or not word or len(line) + 1 + len(word) < full:
            ends.append(at)
        at += 1
    return ends
