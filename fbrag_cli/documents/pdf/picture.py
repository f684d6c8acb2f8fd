"""Render pages of a PDF as PNG, with the boxes of sentences on them.

PDFium may hang, crash or exhaust the memory on a damaged file. So a child process does it, with the limits of the reader of PDFs.
Nothing is written to the disk.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, overload

from fbrag_cli.documents.pdf.boxes import Box, PageLetters, find_boxes
from fbrag_cli.documents.pdf.pages import PageReader, damaged, reason
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.limits import memory_of_a_child
from fbrag_cli.progress import Listener
from fbrag_cli.workers import Failure, run_jobs

if TYPE_CHECKING:
    from pypdfium2 import PdfBitmap, PdfPage

    from fbrag_cli.documents.pdf.letters import Letters

#: The largest picture: its width, its height, and its area.
MAX_WIDTH, MAX_HEIGHT, MAX_PIXELS = 2_400, 9_600, 8_000_000

_PAGE_SECONDS = 10.0  # of CPU time
_PARTS = 64  # of a point, to which a box is exact
_STEP = 17  # between two of the 16 shades of gray of a picture without color

# A compressed picture of these shades is a third smaller, and looks the same.
_SHADES = bytes(round(value / _STEP) * _STEP for value in range(256))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a page, whose `number` counts from 1. width: of its picture in pixels; 0 for no picture. sentence: the
    part of a sentence on this page; "" for no boxes. before: the text of the page before it."""

    number: int
    width: int = 0
    sentence: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as it is shown. width, height: in points. png: its picture; empty if none was wanted. boxes: of the sentence, one
    per line; empty if it was not found."""

    number: int
    width: float
    height: float
    png: bytes
    boxes: tuple[Box, ...]


def page_pictures(
    source: Source, wanted: Sequence[Wanted], password: str | None = None, listener: Listener | None = None
) -> Iterator[PagePicture | FbragError]:
    """Yield pages of a PDF, or the error of each that cannot be rendered, in the order of `wanted`.

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
    """Renders pages of a PDF, which a child process opens for its first job."""

    def __init__(self, source: Source, password: str | None) -> None:
        self._source, self._reader = source, PageReader(source, None, password)
        self._is_open = False

    def __call__(self, wanted: Wanted) -> PagePicture:
        from pypdfium2 import PdfiumError

        document = self._reader.document
        if not self._is_open:
            self._is_open = True
            with suppress(PdfiumError):  # fields are drawn with what is typed into them
                document.init_forms()
        if not 1 <= wanted.number <= len(document):
            raise damaged(self._source, f"it has no page {wanted.number}")
        try:
            with closing(document[wanted.number - 1]) as page:
                width, height = page.get_size()
                boxes = _boxes(page, wanted) if wanted.sentence else ()
                return PagePicture(wanted.number, width, height, _png(page, wanted.width) if wanted.width else b"", boxes)
        except PdfiumError as error:
            raise damaged(self._source, f"page {wanted.number}: {reason(error)}") from None


def _png(page: PdfPage, wanted: int) -> bytes:
    """Return the picture of a page. wanted: its width in pixels, which is limited; so are its height and its area."""
    width, height = page.get_size()
    scale = min(min(max(wanted, 1), MAX_WIDTH) / width, MAX_HEIGHT / height, sqrt(MAX_PIXELS / (width * height)))
    bitmap = page.render(scale=scale, rev_byteorder=True, fill_color=(255, 255, 255, 255))
    with closing(bitmap):
        return encoded(bitmap.width, bitmap.height, _rows(bitmap))


def _rows(bitmap: PdfBitmap) -> list[bytes]:
    """Return the rows of a bitmap, each as its red, green and blue bytes."""
    data, stride = bytes(bitmap.buffer), bitmap.stride
    return [data[start : start + 3 * bitmap.width] for start in range(0, stride * bitmap.height, stride)]


def encoded(width: int, height: int, rows: Sequence[bytes]) -> bytes:
    """Return rows of pixels as PNG, in gray if they have no color. rows: the red, green and blue bytes of the pixels of each."""
    is_gray = all(row[::3] == row[1::3] == row[2::3] for row in rows)
    lines = (b"\0" + (row[::3].translate(_SHADES) if is_gray else row) for row in rows)  # 0: bytes as they are
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if is_gray else 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


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


def _boxes(page: PdfPage, wanted: Wanted) -> tuple[Box, ...]:
    """Return the boxes of a sentence on a page; none if the page has too much text."""
    from fbrag_cli.documents.pdf.letters import Letters

    with closing(page.get_textpage()) as textpage:
        try:
            letters = Letters(textpage)
        except MemoryError:
            return ()
        return tuple(find_boxes(wanted.sentence, PageLetters(letters.text, _Boxes(page, letters)), wanted.before))
