"""Scans, made of pages that PDFium draws with its own fonts."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pypdfium2 import PdfDocument, raw

from tests.documents.test_pdf import CATALOG, FONT, pdf_of_contents, pdf_of_objects, stream

Gray = NDArray[np.uint8]  # (height, width)

WIDTH, HEIGHT = 612, 792  # points
_DPI = 150


class Sheet(NamedTuple):
    """A page of a PDF. content: of its stream, above the picture that covers it, if any. fonts: more of them, as entries."""

    content: bytes = b""
    picture: Gray | None = None
    fonts: bytes = b""


def lines(*texts: str, x: float = 72, y: float = 700, leading: float = 24, size: int = 14, font: str = "F1") -> bytes:
    """Return the content of a page with lines of text."""
    pieces = (f"BT /{font} {size} Tf {x:g} {y - leading * i:g} Td ({text}) Tj ET" for i, text in enumerate(texts))
    return "\n".join(pieces).encode("cp1252")


def picture_of(content: bytes, dpi: int = _DPI) -> Gray:
    """Return a page with this content as a picture."""
    document = PdfDocument(pdf_of_contents(stream(content)))
    bitmap = document[0].render(scale=dpi / 72, grayscale=True)
    drawn: Gray = bitmap.to_numpy().reshape(bitmap.height, bitmap.width).copy()
    document.close()
    return drawn


def scan_of(content: bytes, quarters: int = 0) -> Sheet:
    """Return a page that is a picture of this content, turned by so many quarters."""
    return Sheet(picture=np.ascontiguousarray(np.rot90(picture_of(content), quarters)))


def pdf_of_sheets(*sheets: Sheet, more: Sequence[bytes] = ()) -> bytes:
    """Return a PDF. more: its objects from number 4 on."""
    objects = [CATALOG, b"", FONT, *more]
    kids = []
    for sheet in sheets:
        content, width, height, resources = sheet.content, WIDTH, HEIGHT, b""
        if sheet.picture is not None:
            rows, columns = sheet.picture.shape
            width, height = (WIDTH, HEIGHT) if columns < rows else (HEIGHT, WIDTH)
            about = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode"
            objects.append(_stream(zlib.compress(sheet.picture.tobytes()), about % (columns, rows)))
            resources = b"/XObject<</P %d 0 R>>" % len(objects)
            content = b"q %d 0 0 %d 0 0 cm /P Do Q\n" % (width, height) + content
        objects.append(stream(content))
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Resources<</Font<</F1 3 0 R%b>>%b>>/Contents %d 0 R>>"
        objects.append(page % (width, height, sheet.fonts, resources, len(objects)))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(kids), b" ".join(kids))
    return pdf_of_objects(*objects)


def _stream(data: bytes, entries: bytes) -> bytes:
    return b"<<%b/Length %d>>\nstream\n%b\nendstream" % (entries, len(data), data)


def outlines(text: str, x: float, y: float, size: float = 14) -> bytes:
    """Return the content of a page on which the outlines of letters are filled: there is no text."""
    document = PdfDocument(pdf_of_contents(stream(lines(text))))
    page = document[0]
    font = raw.FPDFTextObj_GetFont(next(iter(page.get_objects())).raw)
    pieces, at = [], x
    advance = ctypes.c_float()
    for letter in text:
        pieces.append(f"q {size} 0 0 {size} {at:.2f} {y:.2f} cm {_path(font, letter)} Q")
        raw.FPDFFont_GetGlyphWidth(font, ord(letter), size, advance)
        at += advance.value
    document.close()
    return "\n".join(pieces).encode()


def font_of_pictures(text: str) -> tuple[list[bytes], bytes]:
    """Return the objects of a Type 3 font from number 4 on, whose codes from 1 on draw the letters of a text, and the codes of
    the text. Nothing says which letters they are."""
    document = PdfDocument(pdf_of_contents(stream(lines(text))))
    page = document[0]
    font = raw.FPDFTextObj_GetFont(next(iter(page.get_objects())).raw)
    letters, advance, widths, glyphs = sorted({*text}), ctypes.c_float(), [], []
    for letter in letters:
        raw.FPDFFont_GetGlyphWidth(font, ord(letter), 1, advance)
        widths.append(f"{advance.value:.3f}")
        glyphs.append(stream(f"{advance.value:.3f} 0 d0 {_path(font, letter)}".encode()))
    document.close()
    names = " ".join(f"/g{number}" for number in range(1, len(letters) + 1))
    procs = " ".join(f"/g{number} {4 + number} 0 R" for number in range(1, len(letters) + 1))
    about = (
        f"<</Type/Font/Subtype/Type3/FontBBox[0 -1 1 1]/FontMatrix[1 0 0 1 0 0]/Encoding<</Differences[1 {names}]>>"
        f"/CharProcs<<{procs}>>/FirstChar 1/LastChar {len(letters)}/Widths[{' '.join(widths)}]>>"
    )
    codes = "".join(f"{letters.index(letter) + 1:02X}" for letter in text)
    return [about.encode(), *glyphs], codes.encode()


def _path(font: object, letter: str) -> str:
    """Return what fills a letter of 1 point."""
    path, said = raw.FPDFFont_GetGlyphPath(font, ord(letter), 1), []
    x, y = ctypes.c_float(), ctypes.c_float()
    curve: list[str] = []
    for index in range(raw.FPDFGlyphPath_CountGlyphSegments(path)):
        segment = raw.FPDFGlyphPath_GetGlyphPathSegment(path, index)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point, kind = f"{x.value:.3f} {y.value:.3f}", raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            curve.append(point)
            if len(curve) == 3:
                said.append(f"{' '.join(curve)} c")
                curve = []
        else:
            said.append(f"{point} {'m' if kind == raw.FPDF_SEGMENT_MOVETO else 'l'}")
        if raw.FPDFPathSegment_GetClose(segment):
            said.append("h")
    return " ".join([*said, "f"]) if said else ""
