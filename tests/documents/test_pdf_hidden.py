"""Text of PDFs that the page does not show is left out, and said; all that can be seen stays."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from pypdfium2 import PdfDocument

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.load import load
from fbrag_cli.documents.pdf import hidden_text
from tests.documents.test_pdf import page_texts, pdf_of_contents, pdf_of_objects, stream, written

PAYMENT = b"BT /F1 11 Tf 1 0 0 1 72 750 Tm (The award amount is 485,000 euros.) Tj ET "
OTHER = b"(Correction: the amount is 1 euro.) Tj"
AT = b"1 0 0 1 72 700 Tm "
BAR = b"60 690 400 30 re f "
STAYS = "The award amount is 485,000 euros."
BOTH = f"{STAYS}\nCorrection: the amount is 1 euro."
IMAGE = stream(b"\x20", b"/Type/XObject/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray")


def read(tmp_path: Path, *contents: bytes, more: tuple[bytes, ...] = (), xobjects: bytes = b"") -> Document:
    return load(written(tmp_path, pdf_of_contents(*map(stream, contents), more=list(more), xobjects=xobjects)))


HIDDEN = {
    "mode 3": b"BT /F1 11 Tf 3 Tr " + AT + OTHER + b" 0 Tr ET",
    "mode 7": b"q BT /F1 11 Tf 7 Tr " + AT + OTHER + b" ET Q",
    "half a point": b"BT /F1 0.5 Tf " + AT + OTHER + b" ET",
    "scaled to half a point": b"BT /F1 10 Tf 0.05 0 0 0.05 72 700 Tm " + OTHER + b" ET",
    "squeezed to a line": b"BT /F1 10 Tf 0.001 0 0 1 72 700 Tm " + OTHER + b" ET",
    "white on white": b"1 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "nearly white": b"0.94 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "white in CMYK": b"0 0 0 0 k BT /F1 11 Tf " + AT + OTHER + b" ET",
    "in outline": b"1 G BT /F1 11 Tf 1 Tr " + AT + OTHER + b" ET",
    "black on black": BAR + b"BT /F1 11 Tf " + AT + OTHER + b" ET",
    "blue on nearly the same blue": b"0 0 0.5 rg " + BAR + b"0 0 0.53 rg BT /F1 11 Tf " + AT + OTHER + b" ET",
    "white on a white box on a black bar": BAR + b"1 g 65 692 390 26 re f BT /F1 11 Tf " + AT + OTHER + b" ET",
    "sideways": b"1 g BT /F1 11 Tf 0 1 -1 0 72 400 Tm " + OTHER + b" ET",
}
SEEN = {
    "white on a dark bar": b"0.2 g " + BAR + b"1 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "white on a light bar": b"0.85 g " + BAR + b"1 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "white on a dark page": b"0.1 g 0 0 612 792 re f 1 g " + PAYMENT + b"BT /F1 11 Tf " + AT + OTHER + b" ET",
    "white on a bar that is a form's": b"/Bar Do 1 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "white on a picture": b"q 400 0 0 30 60 690 cm /Picture Do Q 1 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "light gray": b"0.8 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "light gray and small": b"0.87 g BT /F1 2 Tf " + AT + OTHER + b" ET",
    "yellow": b"1 1 0 rg BT /F1 11 Tf " + AT + OTHER + b" ET",
    "white with a black outline": b"1 g 0 G BT /F1 11 Tf 2 Tr " + AT + OTHER + b" ET",
    "a picture through letters": b"q BT /F1 11 Tf 7 Tr " + AT + OTHER + b" ET 400 0 0 30 60 690 cm /Picture Do Q",
    "black on a black rule": b"60 698 400 1 re f BT /F1 11 Tf " + AT + OTHER + b" ET",
    "black on a gray bar beside a black one": BAR + b"0.9 g 60 690 200 30 re f 0 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "one point": b"BT /F1 1 Tf " + AT + OTHER + b" ET",
    "one point, of a font of one point": b"BT /F1 1 Tf 11 0 0 11 72 700 Tm " + OTHER + b" ET",
}
BAR_FORM = stream(b"0.2 g " + BAR, b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]")


@pytest.mark.parametrize("how", HIDDEN)
def test_what_the_page_does_not_show_is_left_out(tmp_path: Path, how: str) -> None:
    document = read(tmp_path, PAYMENT + HIDDEN[how])
    assert document.text == STAYS
    (warning,) = document.warnings
    assert warning.endswith("hidden text on page 1")


@pytest.mark.parametrize("how", SEEN)
def test_what_can_be_seen_stays(tmp_path: Path, how: str) -> None:
    document = read(tmp_path, PAYMENT + SEEN[how], more=(IMAGE, BAR_FORM), xobjects=b"/Picture 6 0 R/Bar 7 0 R")
    assert document.text.replace(f"{STAYS}\n{STAYS}", STAYS) == BOTH
    assert document.warnings == ()


def test_hidden_text_in_a_form_and_on_a_turned_page(tmp_path: Path) -> None:
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<<%b>>"
    inner = stream(b"1 g BT /F1 11 Tf " + AT + OTHER + b" ET", form % b"/Font<</F1 3 0 R>>")
    outer = stream(b"q 0.9 0 0 0.9 0 0 cm /Inner Do Q", form % b"/XObject<</Inner 6 0 R>>")
    data = pdf_of_contents(stream(PAYMENT + b"/Outer Do"), more=[inner, outer], xobjects=b"/Outer 7 0 R")
    assert load(written(tmp_path, data)).text == STAYS
    assert load(written(tmp_path, data.replace(b"/MediaBox", b"/Rotate 90/MediaBox"))).text == STAYS
    on_a_bar = data.replace(b"/Outer Do", b"0.2 g 0 600 612 100 re f /Outer Do")
    assert "1 euro" in load(written(tmp_path, on_a_bar)).text


def test_words_stay_whole_where_something_hidden_lies_between_them(tmp_path: Path) -> None:
    content = b"BT /F1 11 Tf 72 700 Td (It costs ) Tj 1 g (never ) Tj 0 g (ten euros.) Tj ET"
    document = read(tmp_path, PAYMENT + content)
    assert " ".join(document.text.split()) == f"{STAYS} It costs ten euros."


@pytest.mark.parametrize("draw", [b"{image} {text}", b"{text} {image}"], ids=["text over the image", "text under it"])
@pytest.mark.parametrize("mode", [b"3 Tr", b"1 g"])
def test_the_words_of_a_scan_stay(tmp_path: Path, draw: bytes, mode: bytes) -> None:
    image = b"q 612 0 0 450 0 300 cm /Picture Do Q"
    text = mode + b" BT /F1 11 Tf " + AT + OTHER + b" ET"
    content = draw.replace(b"{image}", image).replace(b"{text}", text)
    document = read(tmp_path, content, more=(IMAGE,), xobjects=b"/Picture 6 0 R")
    assert document.text == "Correction: the amount is 1 euro."
    assert document.warnings == ()


def test_the_words_of_a_scan_in_strips_stay(tmp_path: Path) -> None:
    strips = b" ".join(b"q 612 0 0 100 0 %d cm /Picture Do Q" % height for height in range(0, 700, 100))
    content = strips + b" BT /F1 11 Tf 3 Tr 1 0 0 1 72 500 Tm " + OTHER + b" ET " + PAYMENT
    assert "1 euro" in read(tmp_path, content, more=(IMAGE,), xobjects=b"/Picture 6 0 R").text


def test_hidden_text_beside_an_image_that_is_small(tmp_path: Path) -> None:
    content = b"q 100 0 0 100 300 300 cm /Picture Do Q " + PAYMENT + HIDDEN["mode 3"]
    assert read(tmp_path, content, more=(IMAGE,), xobjects=b"/Picture 6 0 R").text == STAYS


def test_a_page_that_would_lose_most_of_its_words_keeps_them(tmp_path: Path) -> None:
    document = read(
        tmp_path, b"BT /F1 11 Tf 1 0 0 1 72 750 Tm (One.) Tj ET " + HIDDEN["mode 3"], PAYMENT + HIDDEN["white on white"]
    )
    assert page_texts(document) == {1: "One.\nCorrection: the amount is 1 euro.", 2: STAYS}
    kept, left_out = sorted(document.warnings)
    assert "most of the text on page 1 is hidden" in kept
    assert left_out.endswith("hidden text on page 2")


def test_text_in_a_font_that_cannot_be_drawn_here_stays(tmp_path: Path) -> None:
    font = b"<</Type/Font/Subtype/Type3/FontBBox[0 0 1 1]/FontMatrix[1 0 0 1 0 0]/CharProcs<</a 4 0 R>>/FirstChar 97/LastChar 97"
    font += b"/Widths[1]/Encoding<</Type/Encoding/Differences[97/a]>>>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R/F2 6 0 R>>>>/Contents 5 0 R>>"
    content = stream(PAYMENT.replace(b"F1", b"F2") + b"1 g BT /F1 11 Tf 72 700 Td (aaa) Tj ET")
    helvetica = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    tree = b"<</Type/Pages/Count 1/Kids[7 0 R]>>"
    objects = (b"<</Type/Catalog/Pages 2 0 R>>", tree, font, stream(b"1 0 d0"), content, helvetica, page)
    document = load(written(tmp_path, pdf_of_objects(*objects)))
    assert document.text == f"{STAYS}\naaa"
    assert document.warnings == ()


@pytest.mark.parametrize("limit", ["_MAX_PAGE_SECONDS", "_MAX_SECONDS"])
def test_pages_that_take_long_to_draw_keep_their_text(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    def count() -> int:
        page = PdfDocument(pdf_of_contents(stream(PAYMENT + HIDDEN["white on white"])))[0]
        return len(hidden_text.HiddenText().on(page))

    assert count() == 1
    monkeypatch.setattr(hidden_text, limit, 0.0)
    assert count() == 0


@pytest.mark.parametrize(
    "content",
    [
        b"1 g BT /F1 11 Tf 72 700 Td " + b"(a) Tj 0 0 Td " * 40_000 + b"ET",
        b"0 g " + b"0 0 600 700 re f BT /F1 600 Tf 1 0 0 1 9 9 Tm (a) Tj ET " * 3_000,
        b"".join(b"0.%04d g BT /F1 600 Tf 1 0 0 1 9 9 Tm (a) Tj ET " % (9_000 + number % 1_000) for number in range(4_000)),
    ],
    ids=["white letters", "black letters on black boxes", "letters in a thousand grays"],
)
def test_pages_made_to_be_slow_to_draw(tmp_path: Path, content: bytes) -> None:
    before = process_time()
    assert read(tmp_path, content, PAYMENT).text.endswith(STAYS)
    assert process_time() - before < 15
