"""Page numbers as people write them: "3-9,12"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:([-\u2013])\s*([0-9]{1,9})?\s*)?")
_TO_THE_END = 10**9  # last page of "3-"
_EXAMPLE = "for example --pages 3-9,12"

#: First and last page, both included, from 1.
PageRange = tuple[int, int]


def parse_ranges(text: str, path: str) -> tuple[PageRange, ...]:
    """Parse page ranges as "3-9,12", or "3-" to the last page. path: of the document, for the error. Raises FbragError usage."""
    ranges = []
    for part in text.split(","):
        if (match := _RANGE.fullmatch(part)) is None:
            raise FbragError("usage", f"--pages: {part.strip()!r} is not a page or a range of pages", _EXAMPLE, document=path)
        first = int(match[1])
        last = int(match[3]) if match[3] else _TO_THE_END if match[2] else first
        if first > last:
            raise FbragError("usage", f"--pages: {first}-{last} runs backwards", f"--pages {last}-{first}", document=path)
        ranges.append((first, last))
    return tuple(ranges)


def numbers_within(ranges: Sequence[PageRange] | None, n_pages: int, source: Source) -> list[int]:
    """Return the page numbers in `ranges` (None: all), in the document's order, each once.

    Raises FbragError usage if one is outside 1 to `n_pages`.
    """
    if ranges is None:
        return list(range(1, n_pages + 1))
    ranges = [(first, max(first, n_pages) if last == _TO_THE_END else last) for first, last in ranges]
    for first, last in ranges:
        if first < 1 or last > n_pages:
            missing = (0, 0) if first < 1 else (max(first, n_pages + 1), last)
            within = (max(first, 1), min(last, n_pages))
            own = f"its pages are 1-{n_pages}" if n_pages > 1 else "its only page is 1"
            message = f"--pages: {source.name} has no {_said(*missing)}; {own}"
            left = format_ranges(range(within[0], within[1] + 1) if within[0] <= within[1] else range(1, n_pages + 1))
            raise FbragError("usage", message, f"--pages {left}", document=source.path)
    return sorted({number for first, last in ranges for number in range(first, last + 1)})


def _said(first: int, last: int) -> str:
    """Return pages in words: "page 4", or "pages 4-9"."""
    return f"page {first}" if first == last else f"pages {first}-{last}"


def format_ranges(numbers: Iterable[int]) -> str:
    """Format ascending numbers as --pages takes them: 3, 4, 5, 9 is "3-5,9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
