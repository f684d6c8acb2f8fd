"""Find the letters that a page does not show, from what it draws, in the order of drawing.

Nothing is rendered but images under or over letters that may have their color.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from ctypes import addressof, byref, c_float, c_int, c_uint
from dataclasses import dataclass
from functools import lru_cache, partial
from math import hypot
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pypdfium2 import PdfBitmap, PdfMatrix, PdfPage, raw

from fbrag_cli.documents.hidden import Color, Look, is_hidden

if TYPE_CHECKING:
    from fbrag_cli.documents.pdf.letters import Letters

_OCR = 0.5  # share of a page that images cover, and share of its letters that they hold, if these are their OCR layer
_MIN_FILLED = 3.0  # points: rules and borders hide no text
_SMALL = 2.0  # points: letters in a larger box are not too small, whatever the size of their font
_EDGE = 0.5  # points by which a letter may exceed what covers it
_CLEAR, _OPAQUE = 5, 250  # of 255
_SAME = 24  # levels by which the pixels of one color differ
_MAX_OBJECTS = 200_000  # of a page; text after them counts as hidden
_MAX_DEPTH = 8  # of forms in forms
_MAX_SEGMENTS = 1_000  # of a path; what one with more fills is unknown
_MAX_STEPS = 200_000  # of areas at the places of letters; letters after them count as hidden
_MAX_PIXELS = 4_000_000  # of the images of a page; the colors of others are unknown
_INVISIBLE, _CLIP = 3, 7  # modes
_FILLED, _STROKED = (0, 2, 4, 6), (1, 2, 5, 6)

Box = tuple[float, float, float, float]  # left, lower, right, upper, in points
_EVERYWHERE: Box = (-1e9, -1e9, 1e9, 1e9)
_ON_PAGE = PdfMatrix()


class _Paint(NamedTuple):
    """Levels from 0 to 255."""

    red: float
    green: float
    blue: float
    opacity: float


_PAPER = _Paint(255, 255, 255, 255)


@dataclass(slots=True)
class _Object:
    """A text, or an area that a path, an image or a shading fills.

    matrix: from the coordinates of its form to the page's. box: as far as its clip shows it. paints: its colors; None if unknown.
    hidden: whether a text is invisible or too small. edges: of an area, shape (n, 4); None of an upright rectangle. width: of a
    line along its edges, if that is all it paints. is_certain: whether its box is all of its clip, and nothing makes it lighter.
    near: of a text, the numbers of the areas at its place, in the order of drawing.
    """

    handle: Any
    matrix: PdfMatrix
    box: Box
    paints: tuple[_Paint, ...] | None = None
    hidden: bool = False
    is_clip: bool = False
    is_image: bool = False
    whole: Box | None = None
    edges: np.ndarray[Any, Any] | None = None
    even_odd: bool = False
    width: float = 0.0
    is_certain: bool = True
    near: np.ndarray[Any, Any] | None = None


class HiddenText:
    """The texts of one page that may be hidden, with the areas under and over them."""

    def __init__(self, page: PdfPage) -> None:
        self._page = page
        # What PDFium writes its numbers to: making them for each object would take most of the time.
        self._sides, self._levels, self._modes = [c_float() for _ in "lbrt"], [c_uint() for _ in "rgba"], [c_int(), c_int()]
        self._to_sides, self._to_levels, self._to_modes = (
            tuple(map(byref, each)) for each in (self._sides, self._levels, self._modes)
        )
        self._left, self._steps, self._n_pixels = _MAX_OBJECTS, _MAX_STEPS, _MAX_PIXELS
        self._pixels: dict[int, np.ndarray[Any, Any] | None] = {}  # by address of an image
        self._texts: dict[int, tuple[int, Box, _Object]] = {}  # by address, with the number of areas before, and all of its box
        self._areas: list[_Object] = []
        self._read(raw.FPDFPage_CountObjects(page), partial(raw.FPDFPage_GetObject, page), _ON_PAGE, _EVERYWHERE)
        self._boxes = np.array([area.box for area in self._areas]).reshape(-1, 4)
        self._shown = np.array([_common(box, text.box) for _, box, text in self._texts.values()]).reshape(-1, 4)
        self._doubtful = self._find_doubtful()

    def among(self, letters: Letters, text: str) -> set[int]:
        """Return the positions of the letters in the page's text that are hidden.

        If images cover half of the page, and hold most of its letters, these are the OCR layer of a scan,
        and count as shown.
        """
        if not self._doubtful and self._left > 0:
            return set()
        inked = [position for position, letter in enumerate(text) if not letter.isspace()]
        hidden: dict[int, Box] = {}
        for position in inked:
            key = letters.address(position)
            if (doubtful := self._doubtful.get(key)) is not None:
                box = letters.box(position)
                if all(self._is_hidden(*each, box) for each in doubtful):
                    hidden[position] = box
            elif key and key not in self._texts:  # beyond the limit
                hidden[position] = _EVERYWHERE
        images = [each.box for each in self._areas if each.is_image] if hidden else []
        whole = self._page.get_bbox()
        if sum(_area(_common(image, whole)) for image in images) >= _OCR * _area(whole):
            scanned = {at for at, box in hidden.items() if any(_overlap(box, image) for image in images)}
            if len(scanned) >= _OCR * len(inked):
                return hidden.keys() - scanned
        return set(hidden)

    # -- objects -------------------------------------------------------------------------------------------------------------

    def _read(
        self, count: int, get: Callable[[int], Any], matrix: PdfMatrix, clip: Box, *, depth: int = 0, certain: bool = True
    ) -> None:
        """Read the objects of a page or a form. matrix: from its coordinates to the page's. clip, certain: of the form."""
        for index in range(min(count, self._left)):
            self._left -= 1
            handle = get(index)
            kind = raw.FPDFPageObj_GetType(handle)
            if kind == raw.FPDF_PAGEOBJ_FORM:
                if depth < _MAX_DEPTH:
                    inner = partial(raw.FPDFFormObj_GetObject, handle)
                    shown, exact = _clip(handle, matrix)
                    self._read(
                        raw.FPDFFormObj_CountObjects(handle),
                        inner,
                        _matrix(handle).multiply(matrix),
                        _common(clip, shown),
                        depth=depth + 1,
                        certain=certain and exact and not raw.FPDFPageObj_HasTransparency(handle),
                    )
                continue
            raw.FPDFPageObj_GetBounds(handle, *self._to_sides)
            box = matrix.on_rect(*(side.value for side in self._sides))
            if kind == raw.FPDF_PAGEOBJ_TEXT:
                text = _Object(handle, matrix, _common(clip, _clip(handle, matrix)[0]))
                self._texts[address(handle)] = len(self._areas), box, text
                self._judge(text, box)
            elif min(box[2] - box[0], box[3] - box[1]) >= _MIN_FILLED:
                shown, exact = _clip(handle, matrix)
                area = _Object(handle, matrix, _common(box, _common(clip, shown)), is_certain=certain and exact)
                area.is_image = kind == raw.FPDF_PAGEOBJ_IMAGE
                if _area(area.box) and (kind != raw.FPDF_PAGEOBJ_PATH or self._is_painted(area)):
                    self._areas.append(area)

    def _judge(self, text: _Object, box: Box) -> None:
        """Set the colors of a text, and whether it is hidden by itself. box: of all of it."""
        mode = raw.FPDFTextObj_GetTextRenderMode(text.handle)
        paints = [self._paint(text.handle, raw.FPDFPageObj_GetFillColor)] if mode in _FILLED else []
        paints += [self._paint(text.handle, raw.FPDFPageObj_GetStrokeColor)] if mode in _STROKED else []
        text.paints = None if None in paints else tuple(paint for paint in paints if paint)
        text.is_clip = mode == _CLIP
        text.hidden = mode == _INVISIBLE
        if min(box[2] - box[0], box[3] - box[1]) < _SMALL:  # as of a dot, too
            own = _matrix(text.handle).multiply(text.matrix)
            raw.FPDFTextObj_GetFontSize(text.handle, self._to_sides[0])
            size = abs(self._sides[0].value) * min(hypot(own.a, own.b), hypot(own.c, own.d))
            text.hidden |= is_hidden(Look(size=size))

    def _is_painted(self, path: _Object) -> bool:
        """Return whether a path is filled, or drawn as a thick line, and set its color and its edges."""
        raw.FPDFPath_GetDrawMode(path.handle, *self._to_modes)
        fill, is_line = self._modes[0].value, self._modes[1].value and not self._modes[0].value
        own = _matrix(path.handle).multiply(path.matrix)
        if is_line:
            raw.FPDFPageObj_GetStrokeWidth(path.handle, self._to_sides[0])
            path.width = self._sides[0].value * hypot(own.a, own.b)
        paint = self._paint(path.handle, raw.FPDFPageObj_GetStrokeColor if is_line else raw.FPDFPageObj_GetFillColor)
        if (is_line and path.width < _MIN_FILLED) or not (fill or is_line) or (paint and paint[3] <= _CLEAR):
            return False
        is_blended = paint and paint[3] == 255 and raw.FPDFPageObj_HasTransparency(path.handle)  # as a highlight
        n = raw.FPDFPath_CountSegments(path.handle)
        path.paints = (paint,) if paint and not is_blended and n <= _MAX_SEGMENTS else None
        path.even_odd = fill == raw.FPDF_FILLMODE_ALTERNATE
        if n <= _MAX_SEGMENTS:
            edges = list(_edges(partial(raw.FPDFPath_GetPathSegment, path.handle), n, own))
            path.edges = None if fill and _is_rectangle(edges) else np.array(edges).reshape(-1, 4)
        return True

    def _paint(self, handle: Any, read: Callable[..., Any]) -> _Paint | None:
        if not read(handle, *self._to_levels):
            return None  # a pattern
        return _Paint(*(level.value for level in self._levels))

    # -- texts that may be hidden --------------------------------------------------------------------------------------------

    def _find_doubtful(self) -> dict[int, list[tuple[int, _Object]]]:
        """Return the texts that may be hidden, by their address, with the number of areas before them.

        Of a text that is drawn several times at one place PDFium finds one: it is hidden if all of them are.
        """
        copies: dict[tuple[int, ...], list[tuple[int, _Object]]] = {}
        found: dict[int, list[tuple[int, _Object]]] = {}
        for key, (n_before, box, text) in self._texts.items():
            text.near = np.flatnonzero(_at(self._boxes, box))
            at_place = copies.setdefault(tuple(map(round, box)), [])
            at_place.append((n_before, text))
            near = ((self._areas[number], number >= n_before) for number in text.near.tolist())
            if text.hidden or text.is_clip or not _holds(text.box, box, _EDGE) or _may_be_hidden(text, near):
                found[key] = at_place
        return found

    def _is_hidden(self, n_before: int, text: _Object, letter: Box) -> bool:
        """Return whether a letter is hidden: by itself, by its clip, by what is drawn over it, or by its color. n_before: number
        of areas before its text."""
        if text.hidden or self._steps <= 0:
            return True
        if not _overlap(text.box, letter):  # a copy of it may be seen, of which PDFium finds only the letters that are not alike
            return not _at(self._shown, letter).any()
        ground: _Paint | None = _PAPER  # None: unknown
        seen_through: list[_Paint | None] = []
        assert text.near is not None
        for number in text.near[_at(self._boxes[text.near], letter)].tolist():
            area, is_later = self._areas[number], number >= n_before
            self._steps -= 1
            if (found := self._found(area, letter)) is None:
                continue
            paint, is_opaque = found
            if is_later and paint is None and not is_opaque:
                ground = None  # it may let the text be seen, or give it a color
            if not is_later:
                ground = paint if is_opaque or paint is None else ground and _over(paint, ground)
            elif text.is_clip:
                seen_through.append(paint)
            elif is_opaque and _holds(area.box, letter, _EDGE):
                return True
        paints: Sequence[_Paint | None] = seen_through if text.is_clip else [None] if text.paints is None else text.paints
        if not text.is_clip and ground is not None and all(paint is not None and _is_near(paint, _PAPER) for paint in paints):
            paints = self._drawn(text)  # PDFium says white of a pattern
        return all(_is_lost(paint, ground) for paint in paints)

    def _found(self, area: _Object, letter: Box) -> tuple[_Paint | None, bool] | None:
        """Return the color of an area under a letter (None: unknown, or several), and whether nothing shows through it; None if
        it does not lie there."""
        x, y = (letter[0] + letter[2]) / 2, (letter[1] + letter[3]) / 2
        if not _holds(area.box, (x, y, x, y)) or (area.edges is not None and not _is_inside(x, y, area)):
            return None
        if not area.is_image:
            paint = area.paints[0] if area.paints else None
            return paint, bool(paint and paint[3] >= _OPAQUE and area.is_certain)
        if (key := address(area.handle)) not in self._pixels:
            self._pixels[key] = self._rendered(area)
        if (pixels := self._pixels[key]) is None:
            return None, False
        left, lower, right, upper = area.box if area.whole is None else area.whole
        height, width = pixels.shape[:2]
        columns = [int((side - left) / (right - left) * width) for side in (letter[0], letter[2])]
        rows = [int((upper - side) / (upper - lower) * height) for side in (letter[3], letter[1])]
        part = pixels[max(0, rows[0]) : rows[1] + 1, max(0, columns[0]) : columns[1] + 1].reshape(-1, 4)
        if not len(part) or part[:, 3].max() <= _CLEAR:
            return None
        is_one = (np.ptp(part, axis=0) <= _SAME).all()
        return (_Paint(*part.mean(axis=0)) if is_one else None), bool(part[:, 3].min() >= _OPAQUE and area.is_certain)

    def _drawn(self, text: _Object) -> Sequence[_Paint | None]:
        """Return the colors of a white text, as it is drawn; of a pattern they are unknown."""
        if (key := address(text.handle)) not in self._pixels:
            bitmap = raw.FPDFTextObj_GetRenderedBitmap(self._page.pdf, self._page, text.handle, 1.0)
            self._pixels[key] = _pixels(bitmap) if bitmap else None
        pixels = self._pixels[key]
        strong = None if pixels is None else pixels[pixels[:, :, 3] > _OPAQUE / 2][:, :3]
        return [None] if strong is not None and len(strong) and strong.min() < _PAPER.red - _SAME else text.paints or ()

    def _rendered(self, image: _Object) -> np.ndarray[Any, Any] | None:
        """Return the pixels of an image as it lies on its page: red, green, blue, opacity, shape (height, width, 4)."""
        width, height = c_uint(), c_uint()
        raw.FPDFImageObj_GetImagePixelSize(image.handle, byref(width), byref(height))
        raw.FPDFPageObj_GetBounds(image.handle, *self._to_sides)
        left, lower, right, upper = (side.value for side in self._sides)
        image.whole = image.matrix.on_rect(left, lower, right, upper)
        needed = width.value * height.value + (right - left) * (upper - lower)
        is_blended = False
        if needed > self._n_pixels or image.matrix.b or image.matrix.c or is_blended:
            return None
        self._n_pixels -= int(needed)
        if not (bitmap := raw.FPDFImageObj_GetRenderedBitmap(self._page.pdf, self._page, image.handle)):
            return None
        return _pixels(bitmap)


def address(handle: Any) -> int:
    """Return the address of an object of PDFium; 0 for none."""
    return addressof(handle.contents) if handle else 0


# -- colors -------------------------------------------------------------------------------------------------------------------


def _may_be_hidden(text: _Object, near: Iterator[tuple[_Object, bool]]) -> bool:
    """Return whether a text may have the color of what lies under it, or lie under something. near: areas at its place, each with
    whether it is drawn later."""
    shown = [_over(paint, _PAPER) for paint in text.paints or ()]
    if shown and all(_is_near(paint, _PAPER) for paint in shown):
        return True
    for area, is_later in near:
        paint = area.paints and area.paints[0]
        if area.is_image or (paint and (is_later or paint[3] < _OPAQUE or any(_is_near(each, paint) for each in shown))):
            return True
    return False


def _is_lost(paint: _Paint | None, ground: _Paint | None) -> bool:
    """Return whether letters of this color cannot be seen on this ground. None: unknown."""
    if paint is None or ground is None:
        return paint is not None and paint[3] <= _CLEAR
    return _is_near(_over(paint, ground), ground)


@lru_cache(maxsize=4096)
def _is_near(own: _Paint, ground: _Paint) -> bool:
    return is_hidden(Look(color=Color(*map(round, own[:3])), ground=Color(*map(round, ground[:3]))))


def _over(paint: _Paint, ground: _Paint) -> _Paint:
    """Return the color of a paint over a ground."""
    share = paint[3] / 255
    red, green, blue = (share * own + (1 - share) * below for own, below in zip(paint[:3], ground[:3], strict=True))
    return _Paint(red, green, blue, 255)


def _pixels(bitmap: Any) -> np.ndarray[Any, Any] | None:
    """Return the pixels of a bitmap of PDFium, and free it: red, green, blue, opacity, shape (height, width, 4); None without
    opacity."""
    with closing(PdfBitmap.from_raw(bitmap)) as found:
        pixels = found.to_numpy()
        return np.array(pixels[:, :, [2, 1, 0, 3]], np.float32) if pixels.ndim == 3 and pixels.shape[2] == 4 else None


# -- places -------------------------------------------------------------------------------------------------------------------


def _matrix(handle: Any) -> PdfMatrix:
    matrix = raw.FS_MATRIX(1, 0, 0, 1, 0, 0)
    raw.FPDFPageObj_GetMatrix(handle, byref(matrix))
    return PdfMatrix.from_raw(matrix)


def _clip(handle: Any, matrix: PdfMatrix) -> tuple[Box, bool]:
    """Return the box of an object's clip, and whether the clip is all of it. matrix: of its form."""
    clip, shown, exact = raw.FPDFPageObj_GetClipPath(handle), _EVERYWHERE, True
    for path in range(raw.FPDFClipPath_CountPaths(clip) if clip else 0):
        n = raw.FPDFClipPath_CountPathSegments(clip, path)
        if 0 < n <= _MAX_SEGMENTS:
            edges = list(_edges(partial(raw.FPDFClipPath_GetPathSegment, clip, path), n, matrix))
            across, up = zip(*(edge[:2] for edge in edges), strict=True) if edges else ((0.0,), (0.0,))
            shown = _common(shown, (min(across), min(up), max(across), max(up)))
            exact = exact and _is_rectangle(edges)
        exact = exact and n <= _MAX_SEGMENTS
    return shown, exact


def _is_rectangle(edges: Sequence[Box]) -> bool:
    return len(edges) in (4, 5) and all(min(abs(x2 - x1), abs(y2 - y1)) < 0.01 for x1, y1, x2, y2 in edges)


def _edges(get: Callable[[int], Any], n: int, matrix: PdfMatrix) -> Iterator[tuple[float, float, float, float]]:
    """Yield the edges of a path of `n` segments, as x and y of both ends; curves become three edges."""
    x, y = c_float(), c_float()
    to_x, to_y = byref(x), byref(y)
    start = last = (0.0, 0.0)
    curve: list[tuple[float, float]] = []
    for index in range(n):
        segment = get(index)
        raw.FPDFPathSegment_GetPoint(segment, to_x, to_y)
        point = matrix.on_point(x.value, y.value)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            if last != start:
                yield *last, *start
            start = last = point
            continue
        points = [point]
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            curve.append(point)
            if len(curve) < 3:
                continue
            points, curve = [_on_curve((last, *curve), share) for share in (1 / 3, 2 / 3, 1.0)], []
        for following in points:
            yield *last, *following
            last = following
    if last != start:
        yield *last, *start


def _on_curve(points: tuple[tuple[float, float], ...], share: float) -> tuple[float, float]:
    rest = 1 - share
    weights = rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3
    x, y = (sum(weight * point[axis] for weight, point in zip(weights, points, strict=True)) for axis in (0, 1))
    return x, y


def _is_inside(x: float, y: float, area: _Object) -> bool:
    """Return whether a point lies in what a path paints: near its edges, or if a line to the right leaves it."""
    assert area.edges is not None
    x1, y1, x2, y2 = area.edges.T
    if area.width:
        length = np.maximum((x2 - x1) ** 2 + (y2 - y1) ** 2, 1e-9)
        along = np.clip(((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length, 0, 1)
        return bool((np.hypot(x1 + along * (x2 - x1) - x, y1 + along * (y2 - y1) - y) <= area.width / 2).any())
    crossed = (y1 > y) != (y2 > y)
    right = crossed & (x1 + (y - y1) * (x2 - x1) / np.where(y1 == y2, 1, y2 - y1) > x)
    return bool(right.sum() % 2 if area.even_odd else (np.sign(y2 - y1) * right).sum())


def _common(one: Box, other: Box) -> Box:
    return max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _at(boxes: np.ndarray[Any, Any], box: Box) -> np.ndarray[Any, Any]:
    """Return which of the boxes, shape (n, 4), overlap a box."""
    apart = (boxes[:, :2] > box[2:]).any(axis=1) | (boxes[:, 2:] < box[:2]).any(axis=1)
    return np.asarray(~apart)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def _holds(outer: Box, inner: Box, edge: float = 0.0) -> bool:
    return all(one - edge <= two for one, two in zip(outer[:2], inner[:2], strict=True)) and all(
        two <= one + edge for one, two in zip(outer[2:], inner[2:], strict=True)
    )
