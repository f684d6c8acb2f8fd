"""PDFs in Japanese fonts that are not embedded, of which PDFium gives no letters."""

from __future__ import annotations

from pathlib import Path

import pytest
from pypdfium2 import PdfDocument

from fbrag_cli.documents.load import load
from tests.documents.test_pdf import CATALOG, pdf_of_objects, refused, stream, written

RULES = "図書館は毎週月曜日に閉まります。本は三週間借りられます。"
ENCODINGS = {"90ms-RKSJ-V": "cp932", "UniJIS-UTF16-V": "utf-16-be", "UniJIS-UCS2-V": "utf-16-be", "UniJIS-UTF16-H": "utf-16-be"}


def japanese(encoding: str, state: bytes = b"", y: int = 700) -> bytes:
    """A page on which each sign is an object of its own, in columns of eight from the right."""
    signs = (
        b"1 0 0 1 %d %d Tm <%b> Tj" % (500 - 20 * (at // 8), y - 14 * (at % 8), sign.encode(ENCODINGS[encoding]).hex().encode())
        for at, sign in enumerate(RULES)
    )
    name = encoding.encode()
    return pdf_of_objects(
        CATALOG,
        b"<</Type/Pages/Count 1/Kids[4 0 R]>>",
        b"<</Type/Font/Subtype/Type0/BaseFont/HeiseiMin-W3-%b/Encoding/%b/DescendantFonts[6 0 R]>>" % (name, name),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 5 0 R>>",
        stream(b"BT " + state + b" /F1 12 Tf " + b" ".join(signs) + b" ET"),
        b"<</Type/Font/Subtype/CIDFontType0/BaseFont/HeiseiMin-W3/FontDescriptor 7 0 R/DW 1000"
        b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>>>",
        b"<</Type/FontDescriptor/FontName/HeiseiMin-W3/Flags 6/FontBBox[-123 -257 1001 910]/ItalicAngle 0/Ascent 709"
        b"/Descent -241/CapHeight 709/StemV 69>>",
    )


def unbroken(text: str) -> str:
    """Return the text as one line: where a Japanese font is installed, PDFium reads the signs, and each column is a line."""
    return text.replace("\n", "")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_signs_of_a_font_that_is_not_embedded_are_read(tmp_path: Path, encoding: str) -> None:
    path = written(tmp_path, japanese(encoding))
    assert unbroken(load(path).text) == RULES


def test_pdfium_gives_none_of_them() -> None:
    text = PdfDocument(japanese("90ms-RKSJ-V"))[0].get_textpage().get_text_range()
    if any(map(str.isalnum, text)):
        pytest.skip("a Japanese font is installed here")


@pytest.mark.parametrize("state", [b"3 Tr", b"1 g"])
def test_hidden_ones_are_not_read(tmp_path: Path, state: bytes) -> None:
    path = written(tmp_path, japanese("90ms-RKSJ-V", state))
    assert refused(path).code == "doc_empty"
    assert unbroken(load(path, markup=True).text) == RULES
