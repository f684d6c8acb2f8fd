"""Pictures as documents: PNG, JPEG, TIFF, whose frames are pages, WebP and BMP. Pillow decodes them, in a child process only."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from PIL.Image import Image

#: Length of a picture's longer side in points, whatever its resolution: that of A4.
PICTURE_SIDE = 842.0

_MOST_PIXELS = 100_000_000  # of a frame, before it is decoded
_MOST_FRAMES = 10_000


def open_picture(source: Source) -> Image:
    """Open a picture; nothing is decoded yet. Raises FbragError doc_unreadable if it is damaged."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # `upright` has the limit
    try:
        return Image.open(BytesIO(source.data), formats=("PNG", "JPEG", "TIFF", "WEBP", "BMP"))
    except (OSError, SyntaxError, ValueError) as error:
        raise source.damaged("a picture", f"it cannot be opened ({type(error).__name__})") from None


def count_frames(source: Source, job: int = 0) -> int:
    """Return the number of frames of a picture. Raises FbragError doc_unreadable if it is damaged."""
    picture = open_picture(source)
    return min(getattr(picture, "n_frames", 1), _MOST_FRAMES) if picture.format == "TIFF" else 1


def upright(picture: Image, number: int) -> Image:
    """Return a frame (from 1) as an RGB picture on white, turned as its camera has noted.

    Raises FbragError doc_unreadable if it is too large.
    """
    from PIL import Image, ImageOps

    with suppress(EOFError):
        picture.seek(number - 1)
    if picture.width * picture.height > _MOST_PIXELS:
        what = f"it has {picture.width:,} x {picture.height:,} pixels, more than {_MOST_PIXELS // 10**6} million"
        raise FbragError("doc_unreadable", what, "make it smaller")
    turned = ImageOps.exif_transpose(picture)
    if turned.mode in ("I;16", "I", "F"):  # more than 8 bits
        turned = ImageOps.autocontrast(turned.point(lambda value: value / 256).convert("L"))
    if "A" in turned.getbands() or "transparency" in turned.info:
        turned = turned.convert("RGBA")
        ground = Image.new("RGBA", turned.size, "white")
        turned = Image.alpha_composite(ground, turned)
    return turned.convert("RGB")
