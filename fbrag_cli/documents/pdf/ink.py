"""Whether a page shows more than its letters, as a scan does, text in outlines, and a font without a table of letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

#: Letters of a page from which on its text is taken for whole.
ENOUGH_LETTERS = 100

_SCALE = 36 / 72  # pixels a point
_DARKER = 40  # of 255: distance of ink from the paper
_FEWEST = 8  # pixels of ink: less than a word of small print
_AROUND = 2.0  # points around a letter that are its own
_EDGE = 0.1  # share of a page
_COVERED = 0.5  # share of a page that a scan covers

Box = tuple[float, float, float, float]


def has_ink(page: PdfPage, letters: Sequence[Box]) -> bool:
    """Return whether anything is drawn on a page but its letters. letters: left, lower, right and upper edge of each."""
    import numpy as np  # most documents need none of it

    bitmap = page.render(scale=_SCALE, grayscale=True, may_draw_forms=False, draw_annots=False)
    pixels = bitmap.to_numpy().reshape(bitmap.height, bitmap.width).astype(np.int16)
    ink = np.abs(pixels - int(np.median(pixels))) > _DARKER
    position = bitmap.get_posconv(page)
    for left, lower, right, upper in letters:
        corners = [position.to_bitmap(x, y) for x, y in ((left - _AROUND, lower - _AROUND), (right + _AROUND, upper + _AROUND))]
        (across, to_across), (down, to_down) = (sorted(max(0, at) for at in side) for side in zip(*corners, strict=True))
        ink[down : to_down + 1, across : to_across + 1] = False
    return int(ink.sum()) >= _FEWEST


def are_at_edge(page: PdfPage, letters: Sequence[Box]) -> bool:
    """Return whether all letters of a page are near its edges, as those of a stamp are. letters: as of `has_ink`."""
    left, lower, right, upper = page.get_bbox()
    near, low = _EDGE * (right - left), _EDGE * (upper - lower)
    return all(to_y < lower + low or y > upper - low or to_x < left + near or x > right - near for x, y, to_x, to_y in letters)


def is_covered(page: PdfPage) -> bool:
    """Return whether a picture covers most of a page, as in a scan whose text was added by OCR."""
    from pypdfium2 import raw

    width, height = page.get_width(), page.get_height()
    for image in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, lower, right, upper = image.get_bounds()
        if (right - left) * (upper - lower) >= _COVERED * width * height:
            return True
    return False
