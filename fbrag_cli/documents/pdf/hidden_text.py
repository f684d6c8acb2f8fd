"""Find the text that a page does not show: drawn invisibly, too small to be seen, or in the color of what lies under it.

Whether a color can be seen depends on all that is drawn, so a page is rendered with the doubtful text and without it. That takes
longer than to read it: only text that is nearly white, or over an area of nearly its own color, is doubtful.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from ctypes import addressof, byref, c_float, c_int, c_uint
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil, hypot, sqrt
from time import monotonic
from typing import TYPE_CHECKING, Any

from pypdfium2 import PdfBitmap, PdfMatrix, PdfPage, raw

if TYPE_CHECKING:
    import numpy as np

_MIN_CONTRAST = 1.2  # of a color that can be told from another, in one of red, green and blue: yellow on white is seen
_MIN_SIZE = 1.0  # points
_MIN_SHARE = 0.01  # of a text's box: one letter in a box of a long line covers more
_OCR = 0.5  # share of a page that images cover if text in them is its OCR layer
_MIN_FILLED = 3.0  # points: rules and borders hide no text
_WHITE = (255, 255, 255, 255)

_MAX_OBJECTS = 50_000  # of a page
_MAX_DEPTH = 8  # of forms in forms
_MAX_PAIRS = 200_000  # of texts and what may lie under them
_SCALE = 2.0  # pixels of a point
_MAX_PIXELS = 3_000_000
_MAX_PAGE_SECONDS = 3.0  # for rendering; text that is not decided then is kept
_MAX_SECONDS = 20.0  # for all pages of a document

_INVISIBLE, _CLIP = 3, 7  # modes
_FILLED, _STROKED = (0, 2, 4, 6), (1, 2, 5, 6)

_Box = tuple[float, float, float, float]  # left, lower, right, upper
_Color = tuple[int, int, int, int]  # red, green, blue, opacity: 0 to 255


@dataclass(slots=True)
class _Text:
    """A piece of text.

    is_tiny: whether it is too small to be seen. colors: of its inside and its outline, those that are drawn; None for patterns.
    """

    handle: Any
    box: _Box
    mode: int
    is_tiny: bool
    colors: tuple[_Color, ...] | None


class HiddenText:
    """Finds the text that the pages of one document do not show.

    Text in images that cover half of its page is the OCR layer of a scan, and counts as shown.
    """

    def __init__(self) -> None:
        self._seconds = _MAX_SECONDS  # that are left for rendering

    def on(self, page: PdfPage) -> frozenset[int]:
        """Return the addresses of the text objects that a page does not show. The page cannot be rendered after that."""
        drawn = _Drawn(page)
        texts, whole = drawn.texts, page.get_bbox()
        if sum(_area(_common(image, whole)) for image in drawn.images) >= _OCR * _area(whole):
            texts = [text for text in texts if not any(_overlap(text.box, image) for image in drawn.images)]

        hidden = [text for text in texts if text.mode == _INVISIBLE or text.is_tiny]
        if doubtful := _doubtful([text for text in texts if text.mode != _INVISIBLE and not text.is_tiny], drawn.filled):
            began = monotonic()
            hidden += _unseen(page, doubtful, began + min(_MAX_PAGE_SECONDS, self._seconds))
            self._seconds -= monotonic() - began
        return frozenset(address(text.handle) for text in hidden)


def address(handle: Any) -> int:
    """Return the address of an object of PDFium; 0 for none."""
    return addressof(handle.contents) if handle else 0


class _Drawn:
    """Reads the texts of a page, its images, and the areas that it fills with a color; also those in its forms."""

    def __init__(self, page: PdfPage) -> None:
        self.texts: list[_Text] = []
        self.images: list[_Box] = []
        self.filled: list[tuple[_Box, _Color]] = []
        # What PDFium writes its numbers to: making them for each object would take most of the time.
        self._sides = [c_float() for _ in range(4)]
        self._levels = [c_uint() for _ in range(4)]
        self._modes = [c_int() for _ in range(2)]
        self._to_sides, self._to_levels, self._to_modes = (
            tuple(map(byref, each)) for each in (self._sides, self._levels, self._modes)
        )
        self._left = _MAX_OBJECTS
        self._read(raw.FPDFPage_CountObjects(page), partial(raw.FPDFPage_GetObject, page), None)

    def _read(self, count: int, get: Callable[[int], Any], matrix: PdfMatrix | None, depth: int = 0) -> None:
        """Read the objects of a page or a form. matrix: of the form, from its coordinates to the page's; None for the page."""
        for index in range(min(count, self._left)):
            self._left -= 1
            handle = get(index)
            kind = raw.FPDFPageObj_GetType(handle)
            if kind == raw.FPDF_PAGEOBJ_TEXT:
                self.texts.append(self._text(handle, matrix))
            elif kind != raw.FPDF_PAGEOBJ_FORM:
                self._read_area(handle, kind, matrix)
            elif depth < _MAX_DEPTH:
                inside = _matrix(handle) if matrix is None else _matrix(handle).multiply(matrix)
                self._read(raw.FPDFFormObj_CountObjects(handle), partial(raw.FPDFFormObj_GetObject, handle), inside, depth + 1)

    def _text(self, handle: Any, matrix: PdfMatrix | None) -> _Text:
        mode = raw.FPDFTextObj_GetTextRenderMode(handle)
        box = self._box(handle, matrix)
        colors = [self._color(handle, raw.FPDFPageObj_GetFillColor)] if mode in _FILLED else []
        colors += [self._color(handle, raw.FPDFPageObj_GetStrokeColor)] if mode in _STROKED else []
        known = [color for color in colors if color is not None]
        is_tiny = False
        if min(box[2] - box[0], box[3] - box[1]) < 2 * _MIN_SIZE:  # as of a dot, too
            own = _matrix(handle) if matrix is None else _matrix(handle).multiply(matrix)
            raw.FPDFTextObj_GetFontSize(handle, self._to_sides[0])
            is_tiny = abs(self._sides[0].value) * min(hypot(own.a, own.b), hypot(own.c, own.d)) < _MIN_SIZE
        return _Text(handle, box, mode, is_tiny, tuple(known) if len(known) == len(colors) else None)

    def _read_area(self, handle: Any, kind: int, matrix: PdfMatrix | None) -> None:
        box = self._box(handle, matrix)
        if min(box[2] - box[0], box[3] - box[1]) < _MIN_FILLED:
            return
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            self.images.append(box)
        elif kind == raw.FPDF_PAGEOBJ_PATH:
            raw.FPDFPath_GetDrawMode(handle, *self._to_modes)
            if self._modes[0].value and (color := self._color(handle, raw.FPDFPageObj_GetFillColor)) is not None:
                self.filled.append((box, color))

    def _box(self, handle: Any, matrix: PdfMatrix | None) -> _Box:
        raw.FPDFPageObj_GetBounds(handle, *self._to_sides)
        one, two, three, four = self._sides
        box = one.value, two.value, three.value, four.value
        return box if matrix is None else matrix.on_rect(*box)

    def _color(self, handle: Any, read: Callable[..., Any]) -> _Color | None:
        if not read(handle, *self._to_levels):
            return None  # a pattern
        red, green, blue, opacity = self._levels
        return red.value, green.value, blue.value, opacity.value


def _matrix(handle: Any) -> PdfMatrix:
    matrix = raw.FS_MATRIX(1, 0, 0, 1, 0, 0)
    raw.FPDFPageObj_GetMatrix(handle, byref(matrix))
    return PdfMatrix.from_raw(matrix)


def _common(one: _Box, other: _Box) -> _Box:
    return max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])


def _area(box: _Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# -- colors -------------------------------------------------------------------------------------------------------------------


def _doubtful(texts: Sequence[_Text], filled: Sequence[tuple[_Box, _Color]]) -> list[_Text]:
    """Return the texts that may have the color of what lies under them. filled: areas."""
    under: dict[tuple[_Color, ...], list[_Box]] = {}  # by colors of a text: areas of nearly the same color
    found, n_left = [], _MAX_PAIRS
    for text in texts:
        if text.colors is None or not _area(text.box):
            continue
        if text.colors not in under:
            under[text.colors] = [box for box, color in filled if n_left > 0 and _is_near(text.colors, color)]
            n_left -= len(filled)
        n_left -= len(under[text.colors])
        is_over = n_left > 0 and any(_overlap(text.box, box) for box in under[text.colors])
        if is_over or text.mode == _CLIP or _is_near(text.colors, _WHITE):
            found.append(text)
    return found


@lru_cache(maxsize=4096)
def _is_near(colors: tuple[_Color, ...], under: _Color) -> bool:
    return not any(_is_seen(own, below, color[3]) for color in colors for own, below in zip(color[:3], under[:3], strict=True))


def _is_seen(own: int, below: int, opacity: int) -> bool:
    """Return whether one of red, green and blue (0 to 255) can be told from the same of what lies below it."""
    shown = own * opacity / 255 + below * (1 - opacity / 255)
    one, other = _luminance(shown), _luminance(below)
    return bool(max(one, other) >= _MIN_CONTRAST * min(one, other))


def _luminance(level: Any) -> Any:
    return (level / 255) ** 2.2 + 0.05  # as WCAG defines the contrast of colors


# -- rendering ----------------------------------------------------------------------------------------------------------------


def _unseen(page: PdfPage, doubtful: Sequence[_Text], until: float) -> Iterator[_Text]:
    """Yield the texts without which the page looks the same, and would not in another color. until: time at which to stop."""
    # 1. Render the part of the page that has the texts, with them and without them.
    canvas = _Canvas(page, [text.box for text in doubtful])
    if not canvas.width or not canvas.height or (shown := canvas.rendered(until)) is None:
        return
    for text in doubtful:
        raw.FPDFPageObj_SetIsActive(text.handle, False)
    if (bare := canvas.rendered(until)) is None:
        return

    # 2. Draw those that are not seen in a strong color.
    unseen = []
    for text in doubtful:
        part = canvas.part(text.box)
        if monotonic() < until and bare[part].size and not _is_drawn(text, shown[part], bare[part]):
            unseen.append((text, part))
            level = 0 if bare[part].mean() > 127 else 255
            for write in (raw.FPDFPageObj_SetFillColor, raw.FPDFPageObj_SetStrokeColor):
                write(text.handle, level, level, level, 255)
            raw.FPDFPageObj_SetIsActive(text.handle, True)
    if not unseen or (strong := canvas.rendered(until)) is None:
        return

    # 3. Those that are still not seen stay: their font is missing here, or something lies over them.
    for text, part in unseen:
        if text.mode == _CLIP or (strong[part] != bare[part]).any(axis=2).mean() >= _MIN_SHARE:
            yield text


def _is_drawn(text: _Text, shown: np.ndarray[Any, Any], bare: np.ndarray[Any, Any]) -> bool:
    """Return whether a text is seen. shown, bare: pixels of its box with it and without it, shape (height, width, 3)."""
    if text.mode == _CLIP:  # a picture may be seen through it
        return bool(_differ(shown.min(axis=(0, 1)), shown.max(axis=(0, 1))).any())
    changed = (shown != bare).any(axis=2)  # in part, at the edges of letters
    differ = _differ(shown, bare) | (changed & _differ_from(text.colors or (), bare))
    return bool(differ.mean() >= _MIN_SHARE)


class _Canvas:
    """The part of a page that has some boxes, in pixels."""

    def __init__(self, page: PdfPage, boxes: Sequence[_Box]) -> None:
        self._page = page
        width, height = page.get_size()
        scale = min(_SCALE, sqrt(_MAX_PIXELS / max(1.0, width * height)))
        self._whole = max(1, ceil(width * scale)), max(1, ceil(height * scale))
        places = [self._pixels(box) for box in boxes]
        self._left, self._top = min(place[0] for place in places), min(place[1] for place in places)
        self.width = max(0, max(place[2] for place in places) - self._left)
        self.height = max(0, max(place[3] for place in places) - self._top)

    def _pixels(self, box: _Box) -> tuple[int, int, int, int]:
        """Return the left, top, right and bottom pixel of a box, right and bottom excluded, on the page."""
        x, y = c_int(), c_int()
        corners = []
        for corner in (box[:2], box[2:]):
            raw.FPDF_PageToDevice(self._page, 0, 0, *self._whole, 0, *corner, byref(x), byref(y))
            corners.append((x.value, y.value))
        (left, right), (top, bottom) = map(sorted, zip(*corners, strict=True))
        width, height = self._whole
        return min(max(0, left), width), min(max(0, top), height), max(0, min(width, right + 1)), max(0, min(height, bottom + 1))

    def part(self, box: _Box) -> tuple[slice, slice]:
        """Return the rows and columns of a box."""
        left, top, right, bottom = self._pixels(box)
        return slice(top - self._top, max(top, bottom) - self._top), slice(left - self._left, max(left, right) - self._left)

    def rendered(self, until: float) -> np.ndarray[Any, Any] | None:
        """Return the pixels, shape (height, width, 3); None if they are not ready at the time `until`."""
        pause = raw.IFSDK_PAUSE(version=1)
        pause.NeedToPauseNow = dict(raw.IFSDK_PAUSE._fields_)["NeedToPauseNow"](lambda _: monotonic() > until)
        with closing(PdfBitmap.new_native(self.width, self.height, raw.FPDFBitmap_BGR)) as bitmap:
            bitmap.fill_rect((255, 255, 255, 255), 0, 0, self.width, self.height)
            place = -self._left, -self._top, *self._whole
            status = raw.FPDF_RenderPageBitmap_Start(bitmap, self._page, *place, 0, 0, byref(pause))
            raw.FPDF_RenderPage_Close(self._page)
            return bitmap.to_numpy()[:, :, ::-1].copy() if status == raw.FPDF_RENDER_DONE else None


def _differ(one: Any, other: Any) -> Any:
    """Return whether colors can be told from each other. one, other: 0 to 255, shape (…, 3)."""
    import numpy as np

    one, other = _luminances()[one], _luminances()[other]
    return (np.maximum(one, other) >= _MIN_CONTRAST * np.minimum(one, other)).any(axis=-1)


def _differ_from(colors: tuple[_Color, ...], under: Any) -> Any:
    """Return whether one of `colors` can be told from each color of `under`, shape (pixels, 3)."""
    return sum(_differ(_shown_over(color)[under, (0, 1, 2)], under) for color in colors) > 0


@lru_cache(maxsize=1)
def _luminances() -> Any:
    import numpy as np

    return _luminance(np.arange(256, dtype=np.float32))


@lru_cache(maxsize=256)
def _shown_over(color: _Color) -> Any:
    """Return the levels of red, green and blue that are shown where `color` lies over each of 256 levels, shape (256, 3)."""
    import numpy as np

    share, below = color[3] / 255, np.arange(256)[:, None]
    return np.rint(share * np.array(color[:3]) + (1 - share) * below).astype(np.uint8)
