"""Read a page of a PDF as lines with their heights, in reading order, within limits of time and size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import isfinite, nan
from time import thread_time
from typing import TYPE_CHECKING, Any

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.pdf.columns import Place, reads_as_prose, two_columns
from fbrag_cli.documents.pdf.page_text import PageLines, clean_line

if TYPE_CHECKING:
    from pypdf import PageObject

_LEAN = 1e-3  # that upright text may have
_BLEED = 12.0  # points
_FEWEST = 0.25  # share of a page's text that lies on the page, if its box can be trusted

# A page of a thousand bytes can ask pypdf for hours and gigabytes: forms in forms, long texts that it copies at each step.
_MAX_SECONDS = 10.0  # of processor time
_MAX_CHARACTERS = 5_000_000
_OPERATORS = 256  # between two readings of the clock, each of which costs as much as a simple operator


class PageTooLargeError(BaseException):
    """A page exceeds a limit, or is no longer needed. Not an Exception: pypdf would log it and go on with the next form."""


class Effort:
    """Count the cost of a page. Raises PageTooLargeError above a limit, and after a request of `cancellation`.

    seconds: limit of processor time.
    """

    def __init__(self, cancellation: Cancellation, seconds: float) -> None:
        self._cancellation = cancellation
        self._seconds, self._until = seconds, thread_time() + seconds
        self._operators = 0
        self._characters = 0

    def operator(self, *_: object) -> None:
        self._operators += 1
        if self._operators % _OPERATORS == 0:
            self.check()

    def check(self) -> None:
        if self._cancellation.requested:
            raise PageTooLargeError("its reading was stopped")
        if thread_time() > self._until:
            raise PageTooLargeError(f"it takes more than {self._seconds:g} s")

    def text(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > _MAX_CHARACTERS:
            raise PageTooLargeError(f"it has more than {_MAX_CHARACTERS:,} characters")


def page_lines(page: PageObject, cancellation: Cancellation) -> PageLines:
    """Return the lines of a page, without blank ones at its ends. Raises PageTooLargeError, and all that pypdf raises."""
    places: list[Place] = []
    unplaced: list[bytes] = []
    effort = Effort(cancellation, _MAX_SECONDS)

    def note(operator: bytes, _: object, cm: Sequence[float], tm: Sequence[float]) -> None:
        effort.operator()
        if operator in (b"Tj", b"TJ") and _upright(cm, tm):
            places.append(_place(cm, tm))
        elif operator in (b"Tj", b"TJ", b"'", b'"'):  # the latter two move on before they draw
            unplaced.append(operator)

    whole = _extracted(page, note, effort)
    if unplaced:
        return whole
    on_page = _on_page(page)
    inside = [place for place in places if on_page(place)]
    columns = two_columns(inside)
    cut = _FEWEST * len(places) <= len(inside) < len(places)  # as of a page that was cut from a spread, with the text of both
    if (not cut and columns is None) or _has_forms(page):
        return whole
    if cut:
        whole = replace(_extracted(page, partial(_leave_only, on_page), effort), cut=True)
    elif len(inside) < len(places):
        return whole
    if columns is None:
        return whole
    keep = [lambda place, part=part: on_page(place) and columns.part(place) == part for part in range(4)]
    parts = [_extracted(page, partial(_leave_only, each), effort) for each in keep]
    if _letters(whole) != _letters(*parts) or not all(reads_as_prose(column.lines) for column in parts[1:3]):
        return whole
    # Where the left column is empty, pypdf leaves the gap to the right one as white space.
    lines = tuple(line.strip() for part in parts for line in part.lines)
    return replace(whole, lines=lines, heights=tuple(chain.from_iterable(part.heights for part in parts)))


def _leave_only(
    keep: Callable[[Place], bool], operator: bytes, operands: list[Any], cm: Sequence[float], tm: Sequence[float]
) -> None:
    """Empty the text that begins at other places than those to keep."""
    from pypdf.generic import ArrayObject

    if operator in (b"Tj", b"TJ") and operands and not keep(_place(cm, tm)):
        operands[0] = b"" if operator == b"Tj" else ArrayObject()


def _on_page(page: PageObject) -> Callable[[Place], bool]:
    """Return whether a place lies on the page that a viewer shows, or beside it by the width of a letter."""
    try:
        left, bottom, right, top = map(float, page.cropbox)
    except Exception:  # a damaged box is no reason to lose the text
        return lambda place: True
    return lambda place: left - _BLEED < place[0] < right + _BLEED and bottom - _BLEED < place[1] < top + _BLEED


def _letters(*parts: PageLines) -> Counter[str]:
    return Counter("".join("".join(line.split()) for part in parts for line in part.lines))


def _has_forms(page: PageObject) -> bool:
    """Return whether the page draws forms with their own text, whose places are not places on the page."""
    try:
        resources: Any = page["/Resources"].get_object()
        return "/XObject" in resources and any(
            form.get_object()["/Subtype"] == "/Form" for form in resources["/XObject"].get_object().values()
        )
    except Exception:  # damaged: leave it as it is
        return True


def _place(cm: Sequence[float], tm: Sequence[float]) -> Place:
    return tm[4] * cm[0] + tm[5] * cm[2] + cm[4], tm[4] * cm[1] + tm[5] * cm[3] + cm[5]


def _upright(cm: Sequence[float], tm: Sequence[float]) -> bool:
    return abs(tm[0] * cm[1] + tm[1] * cm[3]) < _LEAN and all(map(isfinite, _place(cm, tm)))


def _extracted(page: PageObject, visit: Callable[..., None], effort: Effort) -> PageLines:
    """Return the page's lines. visit: called with each operator and its operands before execution; may change the operands."""
    pieces: list[tuple[str, float]] = []
    lower, upper = _extent(page)

    def take(text: str, cm: Sequence[float], tm: Sequence[float], *_: object) -> None:
        effort.text(text)
        pieces.append((text, _place(cm, tm)[1] - lower if _upright(cm, tm) else nan))

    try:
        text = page.extract_text(visitor_operand_before=visit, visitor_text=take)
    except MemoryError:
        raise
    except Exception:
        if pieces:
            raise
        text = page.extract_text()  # without a visitor, pypdf does not parse figures, which may be damaged or too large
    if "".join(piece for piece, _ in pieces) != text:
        pieces = [(text, nan)]
    return _with_heights(pieces, upper - lower)


def _extent(page: PageObject) -> tuple[float, float]:
    """Return the lower and upper edge of the page; nan if the page does not have them."""
    try:
        return float(page.cropbox.bottom), float(page.cropbox.top)
    except Exception:  # a damaged box is no reason to lose the text
        return nan, nan


def _with_heights(pieces: Sequence[tuple[str, float]], page_height: float) -> PageLines:
    lines: list[str] = [""]
    heights: list[float] = [nan]
    for piece, height in pieces:
        for position, part in enumerate(piece.replace("\r\n", "\n").replace("\r", "\n").split("\n")):
            if position:
                lines.append("")
                heights.append(nan)
            if part and not lines[-1].strip():
                heights[-1] = height
            lines[-1] += part
    cleaned = [clean_line(line) for line in lines]
    written = [index for index, line in enumerate(cleaned) if line.strip()]
    if not written:
        return PageLines()
    kept = slice(written[0], written[-1] + 1)
    return PageLines(tuple(cleaned[kept]), tuple(heights[kept]), page_height)
