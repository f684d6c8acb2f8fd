"""Finds a sentence among the letters of a page, and the boxes around it, one for each line.

Places are in points from the top left corner of the page as it is shown. Letters come from PDFium or from OCR.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from math import hypot
from typing import NamedTuple
from unicodedata import normalize

_DECIDING = 20  # letters of the longest part of a sentence, for it to be on a page without the rest; or half of its letters
_LEAST = 12  # letters of each other part
_LEAST_OF_SHORT = 4  # letters, if they are half of the sentence
_MOST_COMPARED = 20_000  # letters of a page and of a sentence, beyond which only a whole sentence is found
_SAME_LINE = 0.4  # height that two letters of a line share, in heights of the lower one


class Box(NamedTuple):
    """A box on a page, in points from the top left corner."""

    left: float
    top: float
    right: float
    bottom: float

    def joined(self, other: Box) -> Box:
        """Return the smallest box around both."""
        return Box(*map(min, self[:2], other[:2]), *map(max, self[2:], other[2:]))

    @property
    def turned(self) -> Box:
        """The box with its axes exchanged, so that vertical lines are handled as horizontal ones."""
        return Box(self.top, self.left, self.bottom, self.right)


@dataclass(frozen=True, slots=True)
class PageLetters:
    """The text of a page, and the box of each of its characters; those of white space are not read."""

    text: str
    boxes: Sequence[Box]

    @classmethod
    def of_lines(cls, lines: Iterable[tuple[str, Sequence[float]]]) -> PageLetters:
        """Return the letters of lines, which share the longer side of their line evenly.

        lines: the text of each, and its corners, x and y, from its upper left one on clockwise, as its letters are set.
        """
        texts, boxes = list[str](), list[Box]()
        for text, corners in lines:
            texts.append(f"{text}\n")
            boxes += _divided(corners, len(text) + 1)
        return cls("".join(texts), boxes)


def find_boxes(sentence: str, page: PageLetters, before: str = "") -> list[Box]:
    """Return a box for each line of a sentence on a page; empty if it is not there.

    Only letters and digits are compared, without case: spaces, hyphens, line ends and punctuation may differ. If the page has
    only a part of the sentence, or something interrupts it, the parts that are long enough get boxes. before: the text of the
    page before the sentence, which tells the places of a repeated sentence apart.
    """
    (sought, _), (letters, positions) = _letters(sentence), _letters(page.text)
    if not sought:
        return []
    at = letters.find(sought)
    for _ in range(_letters(before)[0].count(sought) if at >= 0 else 0):
        if (following := letters.find(sought, at + len(sought))) < 0:
            break
        at = following
    spans = [(at, at + len(sought))] if at >= 0 else _parts(sought, letters)
    return [box for start, end in spans for box in _boxes_of(page, [*dict.fromkeys(positions[start:end])])]


def _boxes_of(page: PageLetters, positions: Sequence[int]) -> list[Box]:
    """Return a box for each line of letters at these positions, with the punctuation at either end."""
    lines = _lines([page.boxes[each] for each in positions])
    for line, position, step in ((0, positions[0], -1), (-1, positions[-1], 1)):
        while 0 <= (position := position + step) < len(page.text) and _is_punctuation(page.text[position]):
            box, near = page.boxes[position], min(lines[line].right - lines[line].left, lines[line].bottom - lines[line].top)
            if _gap(box, lines[line]) > near:
                break
            lines[line] = lines[line].joined(box)
    return lines


def _is_punctuation(character: str) -> bool:
    return not (character.isalnum() or character.isspace()) and character.isprintable()


def _gap(box: Box, other: Box) -> float:
    """Return the room between two boxes, in the direction in which it is larger."""
    across = max(box.left - other.right, other.left - box.right)
    return max(across, box.top - other.bottom, other.top - box.bottom)


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text, folded, and the position of each in it."""
    kept: list[str] = []
    positions: list[int] = []
    for position, character in enumerate(text):
        for letter in normalize("NFKC", character).casefold():
            if letter.isalnum():
                kept.append(letter)
                positions.append(position)
    return "".join(kept), positions


def _parts(sought: str, letters: str) -> list[tuple[int, int]]:
    """Return where the parts of a sentence are among the letters of a page, in order; the longest part decides."""
    if max(len(sought), len(letters)) > _MOST_COMPARED:
        return []
    matcher = SequenceMatcher(None, sought, letters, autojunk=False)
    least = min(_LEAST, max(_LEAST_OF_SHORT, (len(sought) + 1) // 2))

    def within(start: int, end: int, low: int, high: int) -> Iterator[tuple[int, int]]:
        if min(end - start, high - low) < least:
            return
        part = matcher.find_longest_match(start, end, low, high)
        if part.size >= least:
            yield from within(start, part.a, low, part.b)
            yield part.b, part.b + part.size
            yield from within(part.a + part.size, end, part.b + part.size, high)

    parts = [*within(0, len(sought), 0, len(letters))]
    longest = max((end - start for start, end in parts), default=0)
    return parts if longest >= min(_DECIDING, (len(sought) + 1) // 2) else []


def _lines(boxes: Sequence[Box]) -> list[Box]:
    """Return one box for each line of letters. Lines run as most letters follow each other, horizontally or vertically."""
    steps = [(abs(b.left - a.left), abs(b.top - a.top)) for a, b in pairwise(boxes)]
    if 2 * sum(down > along for along, down in steps) > len(steps):
        return [line.turned for line in _rows([box.turned for box in boxes])]
    return _rows(boxes)


def _rows(boxes: Iterable[Box]) -> list[Box]:
    """Return horizontal lines of letters, in either direction of writing."""
    rows: list[Box] = []
    for box in boxes:
        if rows:
            row = rows[-1]
            shared = min(box.bottom, row.bottom) - max(box.top, row.top)
            if shared >= _SAME_LINE * min(box.bottom - box.top, row.bottom - row.top):
                rows[-1] = row.joined(box)
                continue
        rows.append(box)
    return rows


def _divided(corners: Sequence[float], n: int) -> Iterator[Box]:
    """Yield the boxes of the letters of a line, and of the line end after them. corners: as for `PageLetters.of_lines`."""
    x, y, to_x, to_y, below_to_x, below_to_y, below_x, below_y = corners
    if hypot(below_x - x, below_y - y) > hypot(to_x - x, to_y - y):  # they are set one below the other
        to_x, to_y, below_x, below_y = below_x, below_y, to_x, to_y
    for i in range(n):
        ends = [min(each / max(n - 1, 1), 1.0) for each in (i, i + 1)]
        across = [at + end * (to - at) for at, to in ((x, to_x), (below_x, below_to_x)) for end in ends]
        down = [at + end * (to - at) for at, to in ((y, to_y), (below_y, below_to_y)) for end in ends]
        yield Box(min(across), min(down), max(across), max(down))
