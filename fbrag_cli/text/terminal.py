"""Text for a terminal: wrapped between words to its width, with styles and links. Elsewhere, the same text without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from fbrag_cli.text.printable import printable
from fbrag_cli.text.spans import Span
from fbrag_cli.text.table import width_of

#: Styles, readable on black and on white: no yellow, no cyan. The accent has one meaning: this supports the answer.
BOLD, DIM, ACCENT, ERROR = "1", "2", "35", "1;31"

_LEAST = 20  # minimum columns of text next to a margin
_STRETCH = re.compile(r"\S+")


@dataclass(slots=True)
class Styled:
    """A text built from parts, each with a style (SGR codes, "" for none) and the URL of a link."""

    text: str = ""
    _parts: list[tuple[int, int, str, str]] = field(default_factory=list)

    def add(self, text: str, style: str = "", link: str = "") -> Styled:
        """Append printable text. Return self."""
        start = len(self.text)
        self.text += text
        self._parts.append((start, len(self.text), style, link))
        return self

    def style(self, start: int, end: int, style: str) -> None:
        """Add a style to `text[start:end]`."""
        self._parts.append((start, end, style, ""))

    def painted(self, start: int = 0, end: int | None = None, *, colored: bool = True, linked: bool = True) -> str:
        """Return `text[start:end]` with control sequences for its styles (if colored) and its links (if linked)."""
        end = len(self.text) if end is None else end
        parts = [part for part in self._parts if part[0] < end and start < part[1]]
        edges = {start, end, *(edge for part in parts for edge in part[:2] if start < edge < end)}
        return "".join(self._piece(first, last, colored, linked) for first, last in pairwise(sorted(edges)))

    def lines(self, columns: int | None, *, margin: str = "", colored: bool = True, linked: bool = True) -> Iterator[str]:
        """Yield the lines, wrapped to fit `columns` (None: unchanged). margin: put before each continuation line."""
        at = 0
        for line in self.text.split("\n"):
            spans = [(at, at + len(line))] if columns is None else wrap_spans(line, at, columns, len(margin))
            for number, (start, end) in enumerate(spans):
                yield (margin if number else "") + self.painted(start, end, colored=colored, linked=linked)
            at += len(line) + 1

    def _piece(self, start: int, end: int, colored: bool, linked: bool) -> str:
        covering = [part for part in self._parts if part[0] <= start < part[1]]
        text, codes = self.text[start:end], ";".join(part[2] for part in covering if part[2])
        if colored and codes:
            text = f"\x1b[{codes}m{text}\x1b[0m"
        address = next((part[3] for part in covering if part[3]), "")
        return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if linked and address else text


def wrap_spans(line: str, at: int, columns: int, margin: int = 0) -> list[Span]:
    """Return (start, end) of the pieces of a line that fit `columns` of a terminal, with `at` added. There is at least one piece.

    A line is cut between words; only a word wider than `columns` is cut inside. A line end counts as a space. margin: number of
    columns by which all pieces but the first are narrower.
    """
    safe = printable(line).replace("\n", " ")
    if width_of(safe) <= columns:
        return [(at, at + len(line))]
    rest = max(min(columns, _LEAST), columns - margin)
    lines: list[Span] = []
    for start, end in _words(line):
        if lines and width_of(safe[lines[-1][0] : end]) <= (columns if len(lines) == 1 else rest):
            lines[-1] = (lines[-1][0], end)
        elif lines:
            lines += _cut(safe, start, end, rest)
        else:
            lines = _cut(safe, 0, end, columns)  # with the white space at the start of a line
    return [(at + start, at + end) for start, end in lines] or [(at, at)]


def wrap(text: str, columns: int | None, margin: str = "") -> str:
    """Return printable text wrapped to fit `columns` (None: unchanged). margin: put before each continuation line."""
    return "\n".join(Styled(text).lines(columns, margin=margin))


def truncate(text: str, columns: int) -> str:
    """Return a printable line, cut between words with an ellipsis if it does not fit `columns`."""
    if width_of(text) <= columns:
        return text
    _, end = wrap_spans(text, 0, max(1, columns - 2))[0]
    return text[:end].rstrip() + (" …" if text[end : end + 1].isspace() else "…")


def wrap_lines(text: str, columns: int | None, margin: str = "") -> Iterator[str]:
    """Yield the lines of printable text, wrapped to fit `columns` (None: unchanged). margin: put before each line."""
    room = None if columns is None else max(_LEAST, columns - len(margin))
    return (f"{margin}{line}".rstrip() for line in Styled(text).lines(room))


def _words(line: str) -> Iterator[Span]:
    if line.isascii():
        return (word.span() for word in _STRETCH.finditer(line))
    from fbrag_cli.text.words import word_spans  # loads tables for all scripts

    return word_spans(line)


def _cut(text: str, start: int, end: int, columns: int) -> list[Span]:
    """Return the pieces of `text[start:end]` that fit `columns`, each with at least one character."""
    from rich.cells import chop_cells

    return list(pairwise(accumulate(map(len, filter(None, chop_cells(text[start:end], columns))), initial=start)))
