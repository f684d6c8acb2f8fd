"""Render pages of a PDF, or the frames of a picture, with the boxes of sentences on them.

Their libraries may hang, crash or exhaust the memory on a damaged file. So a child process calls them, with the limits of the
reader of PDFs. Nothing is written to the disk.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from io import BytesIO
from math import sqrt
from typing import TYPE_CHECKING, overload

from fbrag_cli.documents.document import ScannedLines
from fbrag_cli.documents.formats import PDF, find_format
from fbrag_cli.documents.pdf.boxes import Box, PageLetters, find_boxes
from fbrag_cli.documents.pdf.pages import PageReader, damaged, reason
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.limits import memory_of_a_child
from fbrag_cli.progress import Listener
from fbrag_cli.workers import Failure, run_jobs

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

    from fbrag_cli.documents.pdf.letters import Letters

#: The largest picture: its width, its height, and its area.
MAX_WIDTH, MAX_HEIGHT, MAX_PIXELS = 2_400, 9_600, 8_000_000

_PAGE_SECONDS = 10.0  # of CPU time
_PNG = b"\x89PNG\r\n\x1a\n"
_LARGE = 400_000  # bytes, beyond which a picture is a photograph or a scan, which JPEG makes smaller
_QUALITY = 80  # of JPEG
_PARTS = 64  # of a point, to which a box is exact
_STEP = 17  # between two of the 16 shades of gray of a picture without color

# A compressed picture of these shades is a third smaller, and looks the same.
_SHADES = bytes(round(value / _STEP) * _STEP for value in range(256))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a page, whose `number` counts from 1.

    width: of its picture in pixels; 0 for no picture. sentence: the part of a sentence on this page; "" for no boxes. before: the
    text of the page before it. lines: what OCR has read on the page, as for `PageLetters.of_lines`; empty if the page has its own
    text.
    """

    number: int
    width: int = 0
    sentence: str = ""
    before: str = ""
    lines: ScannedLines = ()


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as it is shown. width, height: in points. data: its picture, PNG or JPEG; empty if none was wanted. boxes: of the
    sentence, one per line; empty if it was not found."""

    number: int
    width: float
    height: float
    data: bytes
    boxes: tuple[Box, ...]

    @property
    def media_type(self) -> str:
        return "image/png" if self.data.startswith(_PNG) else "image/jpeg"


def page_pictures(
    source: Source, wanted: Sequence[Wanted], password: str | None = None, listener: Listener | None = None
) -> Iterator[PagePicture | FbragError]:
    """Yield pages of a PDF or a picture, or the error of each that cannot be rendered, in the order of `wanted`.

    Errors: pdf_encrypted, pdf_bad_password, doc_unreadable (damaged, or without such a page), timeout. Raises the error of the
    listener's cancellation.
    """
    outcomes = run_jobs(
        _Renderer(source, password),
        wanted,
        processes=1,
        seconds=_PAGE_SECONDS,
        memory=memory_of_a_child(),
        cancellation=listener.cancellation if listener else None,
    )
    for index, outcome in outcomes:
        if not isinstance(outcome, Failure):
            yield outcome
        else:
            what = f"page {wanted[index].number} of {source.name} could not be rendered: {outcome.reason}"
            code = "timeout" if outcome.kind == "timeout" else "doc_unreadable"
            yield outcome.error or FbragError(code, what, "open the file in a PDF viewer", document=source.path)


class _Renderer:
    """Renders pages of a file, which a child process opens for its first job."""

    def __init__(self, source: Source, password: str | None) -> None:
        self._source, self._reader = source, PageReader(source, None, password)
        self._is_pdf: bool | None = None

    def __call__(self, wanted: Wanted) -> PagePicture:
        if self._is_pdf is None:
            self._is_pdf = find_format(self._source)[0] is PDF
            with suppress(Exception):  # fields are drawn with what is typed into them
                self._reader.document.init_forms() if self._is_pdf else None
        return self._page(wanted) if self._is_pdf else self._frame(wanted)

    def _page(self, wanted: Wanted) -> PagePicture:
        from pypdfium2 import PdfiumError

        document = self._reader.document
        if not 1 <= wanted.number <= len(document):
            raise damaged(self._source, f"it has no page {wanted.number}")
        try:
            with closing(document[wanted.number - 1]) as page:
                width, height = page.get_size()
                data = _rendered(page, wanted.width) if wanted.width else b""
                return PagePicture(wanted.number, width, height, data, _boxes(wanted, page))
        except PdfiumError as error:
            raise damaged(self._source, f"page {wanted.number}: {reason(error)}") from None

    def _frame(self, wanted: Wanted) -> PagePicture:
        from fbrag_cli.documents.ocr.pictures import PICTURE_SIDE, open_picture, upright

        frame = upright(open_picture(self._source), wanted.number)
        points = PICTURE_SIDE / max(frame.size)
        width, height, data = points * frame.width, points * frame.height, b""
        if wanted.width:
            scale = min(_scale(width, height, wanted.width), 1 / points)  # no picture is larger than its file
            frame = frame.resize((max(1, round(scale * width)), max(1, round(scale * height))))
            data = _encoded(frame.width, frame.height, frame.tobytes(), 3 * frame.width)
        return PagePicture(wanted.number, width, height, data, _boxes(wanted))


def _scale(width: float, height: float, wanted: int) -> float:
    """Return the pixels per point of a picture. wanted: its width in pixels, which is limited; so are its height and its area."""
    return min(min(max(wanted, 1), MAX_WIDTH) / width, MAX_HEIGHT / height, sqrt(MAX_PIXELS / (width * height)))


def _rendered(page: PdfPage, wanted: int) -> bytes:
    width, height = page.get_size()
    bitmap = page.render(scale=_scale(width, height, wanted), rev_byteorder=True, fill_color=(255, 255, 255, 255))
    with closing(bitmap):
        return _encoded(bitmap.width, bitmap.height, bytes(bitmap.buffer), bitmap.stride)


def _encoded(width: int, height: int, pixels: bytes, stride: int) -> bytes:
    """Return pixels as PNG, in gray if they have no color; or as JPEG, if that is much smaller and Pillow is installed.

    pixels: their red, green and blue bytes. stride: bytes from one row to the next.
    """
    rows = [pixels[start : start + 3 * width] for start in range(0, stride * height, stride)]
    is_gray = all(row[::3] == row[1::3] == row[2::3] for row in rows)
    lines = (b"\0" + (row[::3].translate(_SHADES) if is_gray else row) for row in rows)  # 0: bytes as they are
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if is_gray else 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b""))
    png = _PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    if len(png) > _LARGE:
        with suppress(ImportError):  # it comes with OCR
            from PIL import Image

            Image.frombytes("RGB", (width, height), b"".join(rows)).save(jpeg := BytesIO(), "JPEG", quality=_QUALITY)
            return min(png, jpeg.getvalue(), key=len)
    return png


class _Boxes(Sequence[Box]):
    """The boxes of the letters of a page as it is shown, each computed when it is asked for."""

    def __init__(self, page: PdfPage, letters: Letters) -> None:
        from pypdfium2 import PdfPosConv

        width, height = page.get_size()
        self._letters = letters
        # PDFium turns and crops to whole pixels.
        self._shown = PdfPosConv(page, (0, 0, round(width * _PARTS), round(height * _PARTS), 0))

    def __len__(self) -> int:
        return len(self._letters.text)

    @overload
    def __getitem__(self, position: int) -> Box: ...
    @overload
    def __getitem__(self, position: slice) -> list[Box]: ...
    def __getitem__(self, position: int | slice) -> Box | list[Box]:
        if isinstance(position, slice):
            return [self[each] for each in range(len(self))[position]]
        left, lower, right, upper = self._letters.box(position)
        (x, y), (to_x, to_y) = self._shown.to_bitmap(left, lower), self._shown.to_bitmap(right, upper)
        return Box(*(each / _PARTS for each in (min(x, to_x), min(y, to_y), max(x, to_x), max(y, to_y))))


def _boxes(wanted: Wanted, page: PdfPage | None = None) -> tuple[Box, ...]:
    """Return the boxes of a sentence on a page, by its own letters, or by those that OCR has read."""
    if not wanted.sentence or (page is None and not wanted.lines):
        return ()
    if wanted.lines or page is None:
        return tuple(find_boxes(wanted.sentence, PageLetters.of_lines(wanted.lines), wanted.before))
    from fbrag_cli.documents.pdf.letters import Letters

    with closing(page.get_textpage()) as textpage:
        try:
            letters = Letters(textpage)
        except MemoryError:  # too much text
            return ()
        return tuple(find_boxes(wanted.sentence, PageLetters(letters.text, _Boxes(page, letters)), wanted.before))
