"""Put the lines of a page in the order in which a person reads them: each column as a whole, without the numbers of its lines.

PDFium gives lines in the order of the file, and joins what lies on one baseline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise, takewhile
from operator import attrgetter

from fbrag_cli.documents.layout import Box, reading_order
from fbrag_cli.documents.pdf.page_text import Cell, Line

_ABOVE, _BELOW = 0.75, 0.25  # parts of a line above and below its baseline, in sizes of its font
_MOST_CELLS = 20_000  # of a page
_FEWEST_NUMBERS = 5
_STEPS = (1, 2, 5, 10)  # by which line numbers rise
_ALIGNED = 0.3  # room between the edges of line numbers that are in one column, in sizes of their font
_UNEVEN = 0.2  # share by which the room between line numbers differs
_FILLED, _HALF = 0.75, 0.5  # share of the lines of prose that fill this share of their column
_SMALL = 0.25  # share of the lines of prose that begin with a small letter
_LARGE = 1.8  # size of an initial, in sizes of the line that it begins
_TOUCHING = 1.2  # room between them, in sizes of the line

_NUMBER = re.compile(r"[0-9]{1,5}").fullmatch
_INITIAL = re.compile(r"[\"'“„«‘‚(¿¡]?[^\W\d_]").fullmatch
_WORD = re.compile(r"[^\W\d_]+")
_TORN = 0.6  # share of the neighbours in the new order that are none in the file's, from which on that is not the page's order


def in_order(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a page, or parts of them, in reading order."""
    return _in_columns(_with_initials(_without_line_numbers(lines)))


# -- line numbers -------------------------------------------------------------------------------------------------------------


def _without_line_numbers(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines without the numbers that count them in the left or right margin of prose."""
    for side in (0, -1):
        numbers = {index: line.cells[side] for index, line in enumerate(lines) if line.cells and _NUMBER(line.cells[side].text)}
        for run in _counting(lines, numbers, side) if len(numbers) >= _FEWEST_NUMBERS else ():
            if _counts_prose(lines, {index: numbers[index] for index in run}, side):
                lines = [_without(line, side) if index in run else line for index, line in enumerate(lines)]
    return [line for line in lines if line.text]


def _counting(lines: Sequence[Line], numbers: Mapping[int, Cell], side: int) -> Iterator[set[int]]:
    """Yield the runs of numbers that are in one column, and rise by one or five with equal room between them."""
    aligned: list[list[int]] = []
    for edge in (attrgetter("left"), attrgetter("right")):
        by_edge = sorted(numbers, key=lambda index: (edge(numbers[index]), -lines[index].baseline))
        ends = [
            at
            for at, (one, other) in enumerate(pairwise(by_edge), 1)
            if edge(numbers[other]) - edge(numbers[one]) > _ALIGNED * lines[one].size
        ]
        aligned += [by_edge[start:end] for start, end in pairwise([0, *ends, len(by_edge)])]
    longest = max(aligned, key=len)
    column = sorted(longest, key=lambda index: -lines[index].baseline)
    run: list[int] = []
    step = room = 0.0
    for one, other in pairwise([*column, column[0]]):
        step_here = int(numbers[other].text) - int(numbers[one].text)
        room_here = lines[one].baseline - lines[other].baseline
        if run and step_here == step and abs(room_here - room) <= _UNEVEN * room:
            run.append(other)
            continue
        if len(run) >= _FEWEST_NUMBERS:
            yield set(run)
        run, step, room = ([one, other], step_here, room_here) if step_here in _STEPS and room_here > 0 else ([], 0, 0)


def _counts_prose(lines: Sequence[Line], numbers: Mapping[int, Cell], side: int) -> bool:
    """Return whether numbers are next to lines of prose: these fill their column, and continue with small letters."""
    highest, lowest = (most(lines[index].baseline for index in numbers) for most in (max, min))
    beside = [_without(line, side) if index in numbers else line for index, line in enumerate(lines)]
    beside = [line for line in beside if line.cells and lowest <= line.baseline <= highest]
    if len(beside) < _FEWEST_NUMBERS:
        return False
    left, right = min(line.cells[0].left for line in beside), max(line.cells[-1].right for line in beside)
    in_margin = (
        max(cell.right for cell in numbers.values()) < left if side == 0 else min(cell.left for cell in numbers.values()) > right
    )
    full = sum(len(line.cells) == 1 and line.cells[0].right - line.cells[0].left >= _FILLED * (right - left) for line in beside)
    small = sum(line.text[0].islower() for line in beside)
    return in_margin and full >= _HALF * len(beside) and small >= _SMALL * len(beside)


def _without(line: Line, side: int) -> Line:
    """Return a line without its first or last cell."""
    cells = line.cells[1:] if side == 0 else line.cells[:-1]
    text = line.text.removeprefix(line.cells[0].text) if side == 0 else line.text.removesuffix(line.cells[-1].text)
    return line._replace(text=text.strip(), cells=cells)


# -- initials -----------------------------------------------------------------------------------------------------------------


def _with_initials(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with each large letter at the beginning of a paragraph in the line that it begins."""
    initials = [index for index, line in enumerate(lines) if _INITIAL(line.text) and len(line.cells) == 1]
    if not initials:
        return lines
    whole, counts = list(lines), Counter(_WORD.findall(" ".join(line.text for line in lines).lower()))
    for index in initials:
        initial, (cell,) = lines[index], lines[index].cells
        next_to = [
            at
            for at, line in enumerate(whole)
            if line.cells
            and _LARGE * line.size <= initial.size
            and -_TOUCHING * line.size <= line.cells[0].left - cell.right <= _TOUCHING * line.size
            and 0 <= line.baseline - initial.baseline + line.size / 4 <= initial.size
        ]
        if next_to:
            at = max(next_to, key=lambda at: whole[at].baseline)
            line, rest = whole[at], _WORD.match(whole[at].text.lower())
            # "A ship": what follows is a word of the page, and the whole is not.
            apart = rest is not None and counts[rest[0]] > 1 and not counts[cell.text[-1:].lower() + rest[0]]
            text = f"{initial.text} {line.text}" if apart else initial.text + line.text
            first = Cell(cell.left, line.cells[0].right, text[: len(text) - len(line.text) + len(line.cells[0].text)])
            whole[at] = line._replace(text=text, cells=(first, *line.cells[1:]))
            whole[index] = initial._replace(text="")
    return [line for line in whole if line.text]


# -- columns ------------------------------------------------------------------------------------------------------------------


def _in_columns(lines: Sequence[Line]) -> list[Line]:
    """Return the lines as they are unless the file's order goes to and fro between columns."""
    places = [(index, cell) for index, line in enumerate(lines) for cell in line.cells]
    straight = (len(line.cells) == 1 for line in lines)
    if len(places) > _MOST_CELLS or (all(straight) and all(one.baseline > other.baseline for one, other in pairwise(lines))):
        return list(lines)
    order = reading_order([_box(lines[index], cell) for index, cell in places], only_columns=True)
    moved = [after for before, after in enumerate(order) if before != after]
    torn = sum(other != one + 1 for one, other in pairwise(moved))
    if torn < _TORN * len(moved) or not moved:
        return list(lines)
    parts: list[Line] = list(takewhile(lambda line: not line.cells, lines))
    last = None  # index of the line before, and of its cell
    for at in order:
        index, cell = places[at]
        line = lines[index]
        if last == (index, at - 1):
            cells = (*parts[-1].cells, cell)
            parts[-1] = line if cells == line.cells else line._replace(text=f"{parts[-1].text} {cell.text}", cells=cells)
        else:
            parts.append(line if len(line.cells) == 1 else line._replace(text=cell.text, cells=(cell,)))
        last = index, at
        if cell is line.cells[-1]:  # a line in another direction follows the line that it follows in the file
            parts += takewhile(lambda line: not line.cells, islice(lines, index + 1, None))
    return parts


def _box(line: Line, cell: Cell) -> Box:
    return Box(cell.left, -line.baseline - _ABOVE * line.size, cell.right, -line.baseline + _BELOW * line.size)
