"""Remove running headers, footers and page numbers, which would interrupt a document's sentences.

A line is one of them only if all of the following holds. If the page's geometry is unknown, no line is:

1. It lies in the page's margin: in its upper or lower sixth, among the outermost three baselines, with more room to the rest
   than lines have between them; and it is among the first or last lines in reading order.
2. It is the same as on other pages, or the same but for a page number at its begin or end that counts with the pages. A number
   after less than three words, as in "Question 3", is taken for one only where others, alone or before the words, count so.
3. It has the same height (within 2 points) on several pages: on four, each at most four pages from the last, because chapters and
   left and right pages have their own; on three, if a number counts with them; on two, if a longer run has this height.

The first of a run of lines with words stays, so that no text is lost. Documents of less than five pages are left as they are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from statistics import median

from fbrag_cli.documents.pdf.page_text import PageLines

_MIN_PAGES = 5
_MAX_LINES = 3  # of a header or footer
_MARGIN = 1 / 6  # of the page's height: LaTeX's own page numbers stand at a tenth, its headers at an eighth
_MIN_GAPS = 5  # distances that a page needs to have its own usual distance
_MAX_LENGTH = 200  # characters
_ROOM = 1.3  # of the usual distance between lines
_SAME_HEIGHT = 2.0  # points
_MAX_GAP = 4  # pages: a left page's header is missing where a chapter begins
_MIN_RUN = 4  # pages
_MIN_COUNTED_RUN = 3  # pages
_MIN_SETTLED_RUN = 2  # pages
_MIN_WORDS = 3  # next to a number at a line's end, if no other line shows that pages are counted in this way

_PAGE = r"\b(?:pages?|pg?|seite|s|página|pág|pagina|pag|strona|str|стр)\b"
_NUMBER_FIRST = re.compile(rf"\W*(?:{_PAGE}\W*|第\W*)?([0-9]{{1,5}})(?![0-9])(.*)")
_NUMBER_LAST = re.compile(rf"(.*?)({_PAGE}\W*)?(?<![0-9])([0-9]{{1,5}})\W*")
_WORDS = re.compile(r"[^\W\d_]+")
_COUNTING = re.compile(rf"{_PAGE}|\b(?:of|von|de|sur|di|van|из|z)\b|第|页|頁|ページ|쪽")


@dataclass(frozen=True, slots=True)
class PageParts:
    """The lines of a page. above, below: running lines at its begin and end that stay. body: all other lines, at least one, of
    which `first` is the first one's index on the page."""

    above: tuple[str, ...]
    body: tuple[str, ...]
    below: tuple[str, ...]
    first: int = 0


def without_running_lines(numbers: Sequence[int], pages: Sequence[PageLines]) -> list[PageParts]:
    """Remove all running lines but the first of each kind. numbers: numbers of the pages, ascending; no page is blank."""
    running = _running(numbers, pages) if len(pages) >= _MIN_PAGES else {}
    kept = _firsts(running)
    return [_parts(page, running, kept, index) for index, page in enumerate(pages)]


@dataclass(frozen=True, slots=True)
class _MarginLine:
    """One way to read a line in a margin.

    key: what is the same on all pages of a run: side, text, and the difference between its page number and the page's own (None
    without such a number). words: their number, without "page" and "of". strong: the number is surely no part of the text.
    """

    page: int  # index
    line: int  # index
    height: float
    key: tuple[str, str, int | None]
    words: int
    strong: bool = True

    @property
    def counted(self) -> bool:
        return self.key[2] is not None


#: (index of the page, index of the line) -> the reading by which it is a running line.
_Running = dict[tuple[int, int], _MarginLine]


def _running(numbers: Sequence[int], pages: Sequence[PageLines]) -> _Running:
    groups: dict[tuple[str, str, int | None], list[_MarginLine]] = defaultdict(list)
    spacing = _spacing(pages)
    for index, (number, page) in enumerate(zip(numbers, pages, strict=True)):
        for reading in _readings(index, number, page, spacing):
            groups[reading.key].append(reading)

    running: _Running = {}
    # 1. Accept long runs, and numbers that surely count pages.
    for readings in groups.values():
        for run in _runs(readings):
            enough = _MIN_COUNTED_RUN if run[0].counted else _MIN_RUN
            if len(run) >= enough and (run[0].strong or run[0].words >= _MIN_WORDS):
                _accept(run, running)
    # 2. Accept shorter runs at the height of long ones, and numbers that count as others do.
    settled = {(reading.key[0], round(reading.height)) for reading in running.values()}
    counts = {reading.key[2] for reading in running.values() if reading.counted and reading.strong}
    counted_pages = {reading.page for reading in running.values() if reading.counted}
    for readings in groups.values():
        for run in _runs(readings):
            side, height = run[0].key[0], round(run[0].height)
            if not {(side, height + near) for near in (-1, 0, 1)} & settled or len(run) < _MIN_SETTLED_RUN:
                continue
            if run[0].strong or (run[0].key[2] in counts and not counted_pages & {reading.page for reading in run}):
                _accept(run, running)
    return running


def _accept(run: Iterable[_MarginLine], running: _Running) -> None:
    for reading in run:
        running.setdefault((reading.page, reading.line), reading)


def _spacing(pages: Sequence[PageLines]) -> float:
    """Return the usual distance between the lines of these pages in points; 0 if unknown."""
    gaps = [gap for page in pages for gap in _gaps(sorted(_heights(page), reverse=True))]
    return median(gaps) if gaps else 0.0


def _heights(page: PageLines) -> list[float]:
    return [height for line, height in zip(page.lines, page.heights, strict=True) if line and not isnan(height)]


def _gaps(heights: Sequence[float]) -> Iterator[float]:
    for above, below in pairwise(heights):
        if above - below > _SAME_HEIGHT:
            yield above - below


def _readings(index: int, number: int, page: PageLines, spacing: float) -> Iterator[_MarginLine]:
    heights = _heights(page)
    written = [line for line, text in enumerate(page.lines) if text]
    if not spacing or not page.height > 0 or 2 * len(heights) < len(written):
        return
    outer = {*written[:_MAX_LINES], *written[-_MAX_LINES:]}
    own = list(_gaps(sorted(heights, reverse=True)))
    usual = max(spacing, median(own)) if len(own) >= _MIN_GAPS else spacing
    for side, sign, limit in (("top", -1.0, page.height * (_MARGIN - 1)), ("bottom", 1.0, page.height * _MARGIN)):
        edge = _edge(sorted({sign * height for height in heights}), usual * _ROOM)
        for line in sorted(outer):
            if edge is not None and sign * page.heights[line] <= min(edge, limit) and len(page.lines[line]) <= _MAX_LENGTH:
                yield from _of_line(index, line, number, page, side)


def _edge(outward: Sequence[float], room: float) -> float | None:
    """Return the innermost baseline of the margin, from baselines counted from the page's edge; None if there is no margin."""
    n_lines = 0
    for outer, inner in pairwise(outward):
        n_lines += inner - outer > _SAME_HEIGHT
        if inner - outer > room:
            return outer
        if n_lines == _MAX_LINES:
            return None
    return None


def _of_line(index: int, line: int, number: int, page: PageLines, side: str) -> Iterator[_MarginLine]:
    text = " ".join(page.lines[line].casefold().split())
    height = page.heights[line]
    n_words = len(_WORDS.findall(_COUNTING.sub("", text)))
    if n_words:
        yield _MarginLine(index, line, height, (side, text, None), n_words)
    if match := _NUMBER_FIRST.fullmatch(text):
        yield _MarginLine(index, line, height, (side, f"# {match[2].strip()}", int(match[1]) - number), n_words)
    if (match := _NUMBER_LAST.fullmatch(text)) and match[1].strip():
        key = (side, f"{match[1].strip()} #", int(match[3]) - number)
        yield _MarginLine(index, line, height, key, n_words, strong=bool(match[2]))


def _runs(readings: Sequence[_MarginLine]) -> Iterator[list[_MarginLine]]:
    """Split readings with one key where the height changes, and where pages between uncounted lines are missing."""
    run: list[_MarginLine] = []
    for reading in readings:
        far = not reading.counted and run and reading.page - run[-1].page > _MAX_GAP
        if run and (far or abs(reading.height - run[0].height) > _SAME_HEIGHT):
            yield run
            run = []
        if not run or reading.page != run[-1].page:
            run.append(reading)
    if run:
        yield run


def _firsts(running: _Running) -> set[tuple[int, int]]:
    """Return the first line of each kind, if it has words."""
    firsts: dict[tuple[str, str, int | None], tuple[int, int]] = {}
    for place in sorted(running):
        firsts.setdefault(running[place].key, place)
    return {place for place in firsts.values() if running[place].words}


def _parts(page: PageLines, running: _Running, kept: set[tuple[int, int]], index: int) -> PageParts:
    lines = range(len(page.lines))
    first = next((line for line in lines if page.lines[line] and (index, line) not in running), None)
    if first is None:  # a page of nothing but a header and a number keeps them
        return PageParts((), page.lines, ())
    last = next(line for line in reversed(lines) if page.lines[line] and (index, line) not in running)

    def stays(begin: int, end: int) -> tuple[str, ...]:
        return tuple(page.lines[line] for line in range(begin, end) if (index, line) in kept)

    return PageParts(stays(0, first), page.lines[first : last + 1], stays(last + 1, len(page.lines)), first)
