"""Find the letters that a page does not show, from what it draws, in the order of drawing.

A first look at the objects finds the texts that may be hidden. Only these are looked at closely, with what lies under and over
them: as a whole, and letter by letter where the answer may differ between their letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from ctypes import addressof, c_float, c_int, c_uint, cast
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import repeat
from math import hypot, nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pypdfium2 import PdfBitmap, PdfMatrix, PdfPage, raw

from fbrag_cli.documents.hidden import NEAR, Look, is_hidden
from fbrag_cli.documents.pdf.pdfium import address, addresses, pdfium

if TYPE_CHECKING:
    from fbrag_cli.documents.pdf.letters import Letters

_OCR = 0.5  # share of a page that images cover, and share of its letters that they hold, if these are their OCR layer
_MIN_FILLED = 3.0  # points: rules and borders hide no text
_SMALL = 2.0  # points: letters in a larger box are not too small, whatever the size of their font
_EDGE = 0.5  # points by which a letter may exceed what covers it
_CUT = 0.25  # of the smaller side of a text's box: a clip that takes less hides no letter
_CLEAR, _OPAQUE = 5, 250  # of 255
_SAME = 24  # levels by which the pixels of one color differ
_MAX_OBJECTS = 200_000  # of a page; text after them counts as hidden
_MAX_DEPTH = 8  # of forms in forms
_MAX_SEGMENTS = 1_000  # of a path; what one with more fills is unknown
_MAX_STEPS = 1_000_000  # of areas at the places of texts and letters; letters after them count as hidden
_MAX_PAIRS = 1_000_000  # of texts and areas that are compared at once
_MAX_PIXELS = 4_000_000  # of the images of a page, and of the page; the colors of others are unknown
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
_PATTERNS = _PAPER, _Paint(191, 191, 191, 255)  # PDFium says one of these of a pattern, too


@dataclass(slots=True)
class _Object:
    """A text, or an area that a path, an image or a shading fills.

    matrix: from the coordinates of its form to the page's. whole: its box. box: of a text, the part of the page where its clip
    shows it; of an area, its box as far as it is shown. paints: its colors; None if unknown. n_before: number of areas before it.

    Of texts: is_clip: whether areas are seen through it. is_cut: whether its clip may hide letters. hidden: whether all that its
    clip shows is hidden; None if its letters may differ. near: the areas at its place, each with whether it is drawn later.

    Of areas: fill: how a path is filled. edges: shape (n, 4); None of an upright rectangle. ends: boxes of these. width: of a
    line along its edges, if that is all it paints. is_certain: whether its box is all of its clip, and nothing makes it lighter.
    is_read: whether its clip and edges are known.
    """

    handle: Any
    matrix: PdfMatrix
    whole: Box
    box: Box
    n_before: int
    paints: tuple[_Paint, ...] | None = None
    is_clip: bool = False
    is_cut: bool = False
    hidden: bool | None = None
    near: list[tuple[_Object, bool]] = field(default_factory=list)
    is_image: bool = False
    fill: int = 0
    edges: np.ndarray[Any, Any] | None = None
    ends: np.ndarray[Any, Any] | None = None
    width: float = 0.0
    is_certain: bool = True
    is_read: bool = False


class HiddenText:
    """The texts of one page that may be hidden, with the areas under and over them."""

    def __init__(self, page: PdfPage) -> None:
        self._page, self._drawn_on = page, (address(page.pdf.raw), address(page.raw))
        # What PDFium writes its numbers to: making them for each object would take most of the time.
        self._sides, self._levels, self._modes = (c_float * 4)(), (c_uint * 4)(), (c_int * 2)()
        self._to_sides, self._to_levels, self._to_modes = map(addresses, (self._sides, self._levels, self._modes))
        self._left, self._steps, self._n_pixels = _MAX_OBJECTS, _MAX_STEPS, _MAX_PIXELS
        self._pixels: dict[int, np.ndarray[Any, Any] | None] = {}  # by address of an image or a text
        self._clips: dict[tuple[int, ...], tuple[Box, bool]] = {}
        self._texts: dict[int, _Object] = {}  # by address
        self._areas: list[_Object] = []
        _, handle = self._drawn_on
        self._read(pdfium.FPDFPage_CountObjects(handle), partial(pdfium.FPDFPage_GetObject, handle), _ON_PAGE, _EVERYWHERE)
        self._doubtful = self._find_doubtful()

    @property
    def is_plain(self) -> bool:
        """Whether the page has texts, none of which may be hidden."""
        return bool(self._texts) and not self._doubtful and self._left > 0

    def among(self, letters: Letters, text: str) -> set[int]:
        """Return the positions of the letters in the page's text that are hidden.

        If images cover half of the page, and hold most of its letters, these are the OCR layer of a scan,
        and count as shown.
        """
        if not self._doubtful and self._left > 0:
            return set()
        hidden: set[int] = set()
        seen = self._texts.keys() - self._doubtful.keys()
        for word in re.finditer(r"\S+", text):
            ends = {letters.address(word.start()), letters.address(word.end() - 1)}
            if len(ends) == 1 and ends <= seen:
                continue
            for position in range(*word.span()):
                key = letters.address(position)
                if (copies := self._doubtful.get(key)) is not None:
                    are_hidden = all(copy.hidden and not copy.is_cut for copy in copies)
                    if are_hidden or all(map(self._is_hidden, copies, repeat(letters.box(position)))):
                        hidden.add(position)
                elif key and key not in self._texts:  # beyond the limit
                    hidden.add(position)
        images = [area.box for area in map(self._known, self._areas) if area.is_image] if hidden else []
        whole = self._page.get_bbox()
        if sum(_area(_common(image, whole)) for image in images) >= _OCR * _area(whole):
            scanned = {at for at in hidden if any(map(partial(_overlap, letters.box(at)), images))}
            if len(scanned) >= _OCR * len("".join(text.split())):
                return hidden - scanned
        return hidden

    # -- objects -------------------------------------------------------------------------------------------------------------

    def _read(
        self, count: int, get: Callable[[int], Any], matrix: PdfMatrix, clip: Box, *, depth: int = 0, certain: bool = True
    ) -> None:
        """Read the objects of a page or a form. matrix: from its coordinates to the page's. clip, certain: of the form."""
        for index in range(min(count, self._left)):
            self._left -= 1
            handle = get(index)
            kind = pdfium.FPDFPageObj_GetType(handle)
            if kind == raw.FPDF_PAGEOBJ_FORM:
                if depth < _MAX_DEPTH:
                    inner = partial(pdfium.FPDFFormObj_GetObject, handle)
                    shown, exact = self._clip(handle, matrix)
                    self._read(
                        pdfium.FPDFFormObj_CountObjects(handle),
                        inner,
                        _matrix(handle, matrix),
                        _common(clip, shown),
                        depth=depth + 1,
                        certain=certain and exact and not pdfium.FPDFPageObj_HasTransparency(handle),
                    )
                continue
            pdfium.FPDFPageObj_GetBounds(handle, *self._to_sides)
            left, lower, right, upper = self._sides
            box: Box = left, lower, right, upper
            if matrix is not _ON_PAGE:
                box = matrix.on_rect(*box)
            if kind == raw.FPDF_PAGEOBJ_TEXT:
                shown = self._clip(handle, matrix)[0]
                shown = shown if clip is _EVERYWHERE else _common(clip, shown)
                text = self._texts[handle] = _Object(handle, matrix, box, shown, len(self._areas))
                self._judge(text)
            elif min(box[2] - box[0], box[3] - box[1]) >= _MIN_FILLED and _area(shown := _common(box, clip)):
                area = _Object(handle, matrix, box, shown, len(self._areas), is_certain=certain)
                area.is_image = kind == raw.FPDF_PAGEOBJ_IMAGE
                if kind != raw.FPDF_PAGEOBJ_PATH or self._is_painted(area):
                    self._areas.append(area)

    def _judge(self, text: _Object) -> None:
        """Set the colors of a text, and whether it is hidden by itself or its clip."""
        mode = pdfium.FPDFTextObj_GetTextRenderMode(text.handle)
        paints = [self._paint(text.handle, pdfium.FPDFPageObj_GetFillColor)] if mode in _FILLED else []
        paints += [self._paint(text.handle, pdfium.FPDFPageObj_GetStrokeColor)] if mode in _STROKED else []
        text.paints = None if None in paints else tuple(filter(None, paints))
        text.is_clip = mode == _CLIP
        text.hidden = mode == _INVISIBLE or None
        height = min(text.whole[2] - text.whole[0], text.whole[3] - text.whole[1])
        if height < _SMALL:  # as of a dot, too
            own = _matrix(text.handle, text.matrix)
            pdfium.FPDFTextObj_GetFontSize(text.handle, self._to_sides[0])
            size = abs(self._sides[0]) * min(hypot(own.a, own.b), hypot(own.c, own.d))
            text.hidden = is_hidden(Look(size=size)) or text.hidden
        is_clipped = not text.hidden and text.box is not _EVERYWHERE
        text.is_cut = is_clipped and not _holds(text.box, text.whole, max(_EDGE, _CUT * height))

    def _is_painted(self, path: _Object) -> bool:
        """Return whether a path is filled, or drawn as a thick line, and set its color."""
        pdfium.FPDFPath_GetDrawMode(path.handle, *self._to_modes)
        path.fill, is_line = self._modes[0], self._modes[1] and not self._modes[0]
        if is_line:
            own = _matrix(path.handle, path.matrix)
            pdfium.FPDFPageObj_GetStrokeWidth(path.handle, self._to_sides[0])
            path.width = self._sides[0] * hypot(own.a, own.b)
        if not path.fill and path.width < _MIN_FILLED:
            return False
        paint = self._paint(path.handle, pdfium.FPDFPageObj_GetStrokeColor if is_line else pdfium.FPDFPageObj_GetFillColor)
        path.paints = (paint,) if paint else None
        return not paint or paint[3] > _CLEAR

    def _known(self, area: _Object) -> _Object:
        """Return an area, with its clip and its edges."""
        if area.is_read:
            return area
        area.is_read = True
        shown, exact = self._clip(area.handle, area.matrix)
        area.box, area.is_certain = _common(area.box, shown), area.is_certain and exact
        if pdfium.FPDFPageObj_GetType(area.handle) == raw.FPDF_PAGEOBJ_PATH:
            n = pdfium.FPDFPath_CountSegments(area.handle)
            is_opaque = area.paints and area.paints[0][3] == 255
            if n > _MAX_SEGMENTS or (is_opaque and pdfium.FPDFPageObj_HasTransparency(area.handle)):  # a highlight
                area.paints = None
            if n <= _MAX_SEGMENTS:
                own = _matrix(area.handle, area.matrix)
                edges = list(_edges(partial(pdfium.FPDFPath_GetPathSegment, area.handle), n, own))
                if not area.fill or not _is_rectangle(edges):
                    area.edges = np.array(edges).reshape(-1, 4)
                    area.ends = np.sort(area.edges.reshape(-1, 2, 2), axis=1).reshape(-1, 4)
        return area

    def _paint(self, handle: Any, read: Callable[..., Any]) -> _Paint | None:
        if not read(handle, *self._to_levels):
            return None
        return _Paint(*self._levels)

    def _clip(self, handle: Any, matrix: PdfMatrix) -> tuple[Box, bool]:
        """Return the box of an object's clip, and whether the clip is all of it. matrix: of its form."""
        clip, shown, exact = pdfium.FPDFPageObj_GetClipPath(handle), _EVERYWHERE, True
        for path in range(pdfium.FPDFClipPath_CountPaths(clip) if clip else 0):
            n = pdfium.FPDFClipPath_CountPathSegments(clip, path)
            if not 0 < n <= _MAX_SEGMENTS:
                exact = exact and n <= 0
                continue
            # Objects of one form share their clips.
            key = pdfium.FPDFClipPath_GetPathSegment(clip, path, 0), n, id(matrix)
            if key not in self._clips:
                edges = list(_edges(partial(pdfium.FPDFClipPath_GetPathSegment, clip, path), n, matrix))
                across, up = zip(*(edge[:2] for edge in edges), strict=True) if edges else ((0.0,), (0.0,))
                self._clips[key] = (min(across), min(up), max(across), max(up)), _is_rectangle(edges)
            shown, exact = _common(shown, self._clips[key][0]), exact and self._clips[key][1]
        return shown, exact

    # -- texts that may be hidden --------------------------------------------------------------------------------------------

    def _find_doubtful(self) -> dict[int, list[_Object]]:
        """Return the texts that may be hidden, by their address, each with all texts at its place.

        Of a text that is drawn several times at one place PDFium finds one: it is hidden if all of them are.
        """
        texts = list(self._texts.values())
        if not texts or not (doubtful := self._with_signs(texts)).any():
            return {}
        copies: dict[tuple[int, ...], list[_Object]] = {}
        for text in texts:
            copies.setdefault(tuple(map(round, text.whole)), []).append(text)
        for text, is_doubtful in zip(texts, doubtful, strict=True):
            if not is_doubtful:
                text.hidden = False
            elif not text.hidden:
                self._look_closely(text)
        found = {key: copies[tuple(map(round, text.whole))] for key, text in self._texts.items()}
        return {key: copies for key, copies in found.items() if all(copy.hidden is not False or copy.is_cut for copy in copies)}

    def _with_signs(self, texts: Sequence[_Object]) -> np.ndarray[Any, Any]:
        """Return which texts may be hidden: by themselves, by their clip, by their color, or by what lies under or over them."""
        kinds = {text.paints: _shown(text.paints) for text in texts}
        numbers = {paints: number for number, paints in enumerate(kinds)}
        shown = np.array([*kinds.values()])[[numbers[text.paints] for text in texts]]  # shape (n, 2, 3)
        signs = np.array([bool(text.hidden or text.is_clip or text.is_cut) for text in texts])
        signs |= (np.abs(shown - _PAPER[0]) <= NEAR).all(axis=(1, 2))
        if not self._areas:
            return signs
        levels = np.array([area.paints[0][:3] if area.paints else (nan,) * 3 for area in self._areas])
        is_known = ~np.isnan(levels[:, 0])
        always = np.array([area.is_image or bool(area.paints and area.paints[0][3] < _OPAQUE) for area in self._areas])
        wholes, orders = np.array([text.whole for text in texts]), np.array([text.n_before for text in texts])
        rows = max(1, _MAX_PAIRS // len(self._areas))
        for start in range(0, len(texts), rows):
            left, lower, right, upper = wholes[start : start + rows].T[:, :, None]
            to_left, below, to_right, above = self._boxes.T
            at, area = np.nonzero((to_left <= right) & (left <= to_right) & (below <= upper) & (lower <= above))
            at += start
            is_near = (np.abs(shown[at] - levels[area][:, None]) <= NEAR).all(axis=2).any(axis=1)
            signs[at[always[area] | (is_known[area] & ((area >= orders[at]) | is_near))]] = True
        return signs

    @cached_property
    def _boxes(self) -> np.ndarray[Any, Any]:
        """Boxes of all areas, shape (n, 4)."""
        return np.array([area.box for area in self._areas]).reshape(-1, 4)

    @cached_property
    def _visible(self) -> np.ndarray[Any, Any]:
        """Boxes of all texts, as far as their clips show them, shape (n, 4)."""
        return np.array([_common(text.whole, text.box) for text in self._texts.values()])

    def _look_closely(self, text: _Object) -> None:
        """Set the areas at the place of a text, and if the answer is the same for all its letters, whether it is hidden."""
        shown = _common(text.whole, text.box)
        is_even = _overlap(text.whole, text.box)
        for number in np.flatnonzero(_at(self._boxes, shown))[::-1].tolist():
            self._steps -= 1
            if self._steps <= 0:
                break
            area = self._known(self._areas[number])
            is_one = self._is_even(area, text, shown)
            if (ground := self._found(area, shown) if is_one else (None, False)) is None or not _overlap(area.box, shown):
                continue
            text.near.append((area, number >= text.n_before))
            is_even = is_even and is_one
            if ground[1] and not text.is_clip:
                break  # nothing below it is seen
        text.near.reverse()
        if is_even:
            text.hidden = self._is_hidden(text, shown)

    def _is_hidden(self, text: _Object, letter: Box) -> bool:
        """Return whether a letter is hidden: by its clip, by what is drawn over it, or by its color."""
        self._steps -= 1 + len(text.near)
        if self._steps <= 0:
            return True
        if not _overlap(text.box, letter):  # a copy of it may be seen, of which PDFium finds only the letters that are not alike
            return not _at(self._visible, letter).any()
        if text.hidden is not None:
            return text.hidden
        ground: _Paint | None = _PAPER  # None: unknown
        seen_through: list[_Paint | None] = []
        for area, is_later in text.near:
            if (found := self._found(area, letter)) is None:
                continue
            paint, is_opaque = found
            if is_later and paint is None and not is_opaque:
                ground = None  # it may let the text be seen, or give it a color
            if not is_later:
                if is_opaque and paint in _PATTERNS and not area.is_image:
                    paint = (
                        self._rendered(letter) if text.paints and any(_is_lost(each, paint) for each in text.paints) else paint
                    )
                ground = paint if is_opaque or paint is None else ground and _over(paint, ground)
            elif text.is_clip:
                seen_through.append(paint)
            elif is_opaque and _holds(area.box, letter, _EDGE):
                return True
        paints: Sequence[_Paint | None] = seen_through if text.is_clip else text.paints or (None,)
        is_lost = all(_is_lost(paint, ground) for paint in paints)
        return is_lost and (text.is_clip or not any(paint in _PATTERNS for paint in paints) or self._is_drawn_so(text))

    def _is_even(self, area: _Object, text: _Object, box: Box) -> bool:
        """Return whether an area is the same for all letters of a text. box: of the text, as far as it is shown."""
        if area.ends is not None:
            around = area.width / 2
            return not _at(area.ends, (box[0] - around, box[1] - around, box[2] + around, box[3] + around)).any()
        if not _holds(area.box, box):
            return False
        part = self._part(area, box) if area.is_image else None
        if part is None or not len(part) or (np.ptp(part, axis=0) <= _SAME).all():
            return True
        is_near = (np.abs(part[:, None, :3] - _shown(text.paints)) <= NEAR).all(axis=2).any()
        return bool(part[:, 3].min() >= _OPAQUE and not is_near)

    def _found(self, area: _Object, letter: Box) -> tuple[_Paint | None, bool] | None:
        """Return the color of an area under a letter (None: unknown, or several), and whether nothing shows through it; None if
        it does not lie there."""
        x, y = (letter[0] + letter[2]) / 2, (letter[1] + letter[3]) / 2
        left, lower, right, upper = area.box
        if not (left <= x <= right and lower <= y <= upper) or (area.edges is not None and not _is_inside(x, y, area)):
            return None
        if not area.is_image:
            paint = area.paints[0] if area.paints else None
            return paint, bool(paint and paint[3] >= _OPAQUE and area.is_certain)
        if (part := self._part(area, letter)) is None:
            return None, False
        if not len(part) or part[:, 3].max() <= _CLEAR:
            return None
        is_one = (np.ptp(part, axis=0) <= _SAME).all()
        return (_Paint(*part.mean(axis=0)) if is_one else None), bool(part[:, 3].min() >= _OPAQUE and area.is_certain)

    # -- pixels --------------------------------------------------------------------------------------------------------------

    def _part(self, image: _Object, box: Box) -> np.ndarray[Any, Any] | None:
        """Return the pixels of an image in a box, shape (n, 4); None if they are unknown."""
        if (key := image.handle) not in self._pixels:
            width, height = c_uint(), c_uint()
            pdfium.FPDFImageObj_GetImagePixelSize(image.handle, addressof(width), addressof(height))
            needed = width.value * height.value + _area(image.whole)
            bitmap = None
            if needed <= self._n_pixels and not image.matrix.b and not image.matrix.c:
                self._n_pixels -= int(needed)
                bitmap = pdfium.FPDFImageObj_GetRenderedBitmap(*self._drawn_on, image.handle)
            self._pixels[key] = _pixels(bitmap)
        if (pixels := self._pixels[key]) is None:
            return None
        left, lower, right, upper = image.whole
        height, width = pixels.shape[:2]
        columns = [int((side - left) / (right - left) * width) for side in (box[0], box[2])]
        rows = [int((upper - side) / (upper - lower) * height) for side in (box[3], box[1])]
        return pixels[max(0, rows[0]) : rows[1] + 1, max(0, columns[0]) : columns[1] + 1].reshape(-1, 4).astype(np.int16)

    def _is_drawn_so(self, text: _Object) -> bool:
        """Return whether a text is drawn in the color that PDFium says, and not in a pattern."""
        if (key := text.handle) not in self._pixels:
            self._pixels[key] = _pixels(pdfium.FPDFTextObj_GetRenderedBitmap(*self._drawn_on, text.handle, 1.0))
        if (pixels := self._pixels[key]) is None:
            return True
        strong = pixels[pixels[:, :, 3] > _OPAQUE / 2][:, None, :3].astype(np.int16)
        return bool((np.abs(strong - _shown(text.paints)) <= _SAME).all(axis=2).any(axis=1).all())

    def _rendered(self, letter: Box) -> _Paint | None:
        """Return the color that most of a letter's box has on the page; None if it is unknown."""
        if self._canvas is None:
            return None
        pixels, to_pixels = self._canvas
        (left, lower), (right, upper) = (to_pixels(*corner) for corner in (letter[:2], letter[2:]))
        rows, columns = (slice(max(0, min(ends)), max(0, *ends) + 1) for ends in ((lower, upper), (left, right)))
        part = pixels[rows, columns].reshape(-1, 3)
        if not len(part):
            return None
        red, green, blue = map(float, np.median(part, axis=0))
        return _Paint(red, green, blue, 255)

    @cached_property
    def _canvas(self) -> tuple[np.ndarray[Any, Any], Callable[[float, float], tuple[int, int]]] | None:
        """The page's pixels, shape (height, width, 3), and how to find a place there; None of a page that is too large."""
        width, height = self._page.get_size()
        scale = min(1.0, sqrt(_MAX_PIXELS / max(1.0, width * height)))
        bitmap = self._page.render(scale=scale, may_draw_forms=False, draw_annots=False, rev_byteorder=True)
        return bitmap.to_numpy()[:, :, :3], bitmap.get_posconv(self._page).to_bitmap


# -- colors -------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _shown(paints: tuple[_Paint, ...] | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the first and the last color of a text on paper: red, green and blue; nan if unknown."""
    colors = [_over(paint, _PAPER)[:3] for paint in paints or ()] or [(nan,) * 3]
    return colors[0], colors[-1]


def _is_lost(paint: _Paint | None, ground: _Paint | None) -> bool:
    """Return whether letters of this color cannot be seen on this ground. None: unknown."""
    if paint is None or ground is None:
        return paint is not None and paint[3] <= _CLEAR
    own = _over(paint, ground)
    return all(abs(one - other) <= NEAR for one, other in zip(own[:3], ground[:3], strict=True))


def _over(paint: _Paint, ground: _Paint) -> _Paint:
    """Return the color of a paint over a ground."""
    share = paint[3] / 255
    red, green, blue = (share * own + (1 - share) * below for own, below in zip(paint[:3], ground[:3], strict=True))
    return _Paint(red, green, blue, 255)


def _pixels(bitmap: Any) -> np.ndarray[Any, Any] | None:
    """Return the pixels of a bitmap of PDFium: red, green, blue, opacity, shape (height, width, 4); None without opacity.

    It is freed with the last reference to it.
    """
    pixels: Any = PdfBitmap.from_raw(cast(bitmap, raw.FPDF_BITMAP)).to_numpy() if bitmap else np.empty(0)
    return pixels[:, :, [2, 1, 0, 3]] if pixels.ndim == 3 and pixels.shape[2] == 4 else None


# -- places -------------------------------------------------------------------------------------------------------------------


def _matrix(handle: Any, outer: PdfMatrix) -> PdfMatrix:
    """Return the matrix from an object's coordinates to the page's. outer: of its form."""
    own = raw.FS_MATRIX(1, 0, 0, 1, 0, 0)
    pdfium.FPDFPageObj_GetMatrix(handle, addressof(own))
    matrix = PdfMatrix.from_raw(own)
    return matrix if outer is _ON_PAGE else matrix.multiply(outer)


def _is_rectangle(edges: Sequence[Box]) -> bool:
    return len(edges) in (4, 5) and all(min(abs(x2 - x1), abs(y2 - y1)) < 0.01 for x1, y1, x2, y2 in edges)


def _edges(get: Callable[[int], Any], n: int, matrix: PdfMatrix) -> Iterator[Box]:
    """Yield the edges of a path of `n` segments, as x and y of both ends; of a curve those around it."""
    x, y = c_float(), c_float()
    to_x, to_y = addressof(x), addressof(y)
    start = last = (0.0, 0.0)
    for index in range(n):
        segment = get(index)
        pdfium.FPDFPathSegment_GetPoint(segment, to_x, to_y)
        point = matrix.on_point(x.value, y.value)
        if pdfium.FPDFPathSegment_GetType(segment) != raw.FPDF_SEGMENT_MOVETO:
            yield *last, *point
        else:
            if last != start:
                yield *last, *start
            start = point
        last = point
    if last != start:
        yield *last, *start


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
    return bool(right.sum() % 2 if area.fill == raw.FPDF_FILLMODE_ALTERNATE else (np.sign(y2 - y1) * right).sum())


def _common(one: Box, other: Box) -> Box:
    return max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _at(boxes: np.ndarray[Any, Any], box: Box) -> np.ndarray[Any, Any]:
    """Return which of the boxes, shape (n, 4), overlap a box."""
    left, lower, right, upper = boxes.T
    return np.asarray(~((left > box[2]) | (lower > box[3]) | (right < box[0]) | (upper < box[1])))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def _holds(outer: Box, inner: Box, edge: float = 0.0) -> bool:
    left, lower, right, upper = inner
    return outer[0] - edge <= left and outer[1] - edge <= lower and right <= outer[2] + edge and upper <= outer[3] + edge
