"""Text of PDFs that the page does not show is left out, and said; all that can be seen stays."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from pypdfium2 import PdfDocument

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.load import load
from fbrag_cli.documents.pdf import hidden_text
from fbrag_cli.documents.pdf.letters import Letters
from tests.documents.test_pdf import page_texts, pdf_of_contents, refused, stream, written

PAYMENT = b"BT /F1 11 Tf 1 0 0 1 72 750 Tm (The award amount is 485,000 euros.) Tj ET "
OTHER = b"(Correction: the amount is 1 euro.) Tj"
AT = b"1 0 0 1 72 700 Tm "
BAR = b"60 690 400 30 re f "
STAYS = "The award amount is 485,000 euros."
BOTH = f"{STAYS}\nCorrection: the amount is 1 euro."
_GRAY = b"/Type/XObject/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray"
IMAGE, WHITE_IMAGE, BLACK_IMAGE = (stream(level, _GRAY) for level in (b"\x20", b"\xff", b"\x05"))


def read(tmp_path: Path, *contents: bytes, more: tuple[bytes, ...] = (), xobjects: bytes = b"") -> Document:
    return load(written(tmp_path, pdf_of_contents(*map(stream, contents), more=list(more), xobjects=xobjects)))


HIDDEN = {
    "mode 3": b"BT /F1 11 Tf 3 Tr " + AT + OTHER + b" 0 Tr ET",
    "mode 7": b"q BT /F1 11 Tf 7 Tr " + AT + OTHER + b" ET Q",
    "half a point": b"BT /F1 0.5 Tf " + AT + OTHER + b" ET",
    "scaled to half a point": b"BT /F1 10 Tf 0.05 0 0 0.05 72 700 Tm " + OTHER + b" ET",
    "squeezed to a line": b"BT /F1 10 Tf 0.001 0 0 1 72 700 Tm " + OTHER + b" ET",
    "white on white": b"1 g BT /F1 11 Tf " + AT + OTHER + b" ET",
    "nearly white": b"0.96 g BT /F1 11 Tf " + AT + OTHER + b" ET",
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
    assert warning.endswith("not read: 1 hidden passage (--markup reads them)")
    assert load(str(tmp_path / "paper.pdf"), markup=True).text.split() == BOTH.split()


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
    content = strips + b" BT /F1 11 Tf 3 Tr 1 0 0 1 72 500 Tm " + OTHER + b" ET BT /F1 11 Tf 72 750 Td (Page 4) Tj ET"
    assert "1 euro" in read(tmp_path, content, more=(IMAGE,), xobjects=b"/Picture 6 0 R").text


def test_hidden_text_beside_an_image_that_is_small(tmp_path: Path) -> None:
    content = b"q 100 0 0 100 300 300 cm /Picture Do Q " + PAYMENT + HIDDEN["mode 3"]
    assert read(tmp_path, content, more=(IMAGE,), xobjects=b"/Picture 6 0 R").text == STAYS


def test_hidden_text_is_left_out_however_much_of_it_there_is(tmp_path: Path) -> None:
    more = b"BT /F1 11 Tf 72 750 Td (One.) Tj ET "
    document = read(tmp_path, more + HIDDEN["mode 3"], PAYMENT + HIDDEN["white on white"])
    assert page_texts(document) == {1: "One.", 2: STAYS}
    (warning,) = document.warnings
    assert warning.endswith("not read: 2 hidden passages (--markup reads them)")


def test_a_document_of_hidden_text_alone(tmp_path: Path) -> None:
    error = refused(written(tmp_path, pdf_of_contents(stream(HIDDEN["white on white"]))))
    assert (error.code, error.hint) == ("doc_empty", "add --markup, which reads them")
    assert "has no text but hidden passages" in error.message


@pytest.mark.parametrize("opaque", [b"1 g", b"0 g"], ids=["a white image", "a black image"])
def test_an_image_of_one_pixel_over_the_page_exempts_nothing(tmp_path: Path, opaque: bytes) -> None:
    image = BLACK_IMAGE if opaque == b"0 g" else WHITE_IMAGE
    page = b"q 612 0 0 792 0 0 cm /Picture Do Q " + (b"1 g " if opaque == b"0 g" else b"0 g ")
    for how in (b"3 Tr ", opaque + b" "):
        content = page + PAYMENT + b"BT /F1 11 Tf " + how + b"1 0 0 1 72 600 Tm (Never.) Tj ET"
        document = read(tmp_path, content, more=(image,), xobjects=b"/Picture 6 0 R")
        assert document.text == STAYS, how
        assert "1 hidden passage" in document.warnings[0]


def test_what_is_drawn_over_hides_text(tmp_path: Path) -> None:
    text = b"BT /F1 11 Tf " + AT + OTHER + b" ET "
    assert read(tmp_path, PAYMENT + text + b"0 g " + BAR).text == STAYS
    assert (
        read(tmp_path, PAYMENT + text + b"q 400 0 0 30 60 690 cm /Picture Do Q", more=(IMAGE,), xobjects=b"/Picture 6 0 R").text
        == STAYS
    )
    for seen in (
        text + b"60 698 400 1 re f",  # a line through it
        text + b"q 60 690 2 30 re W n " + BAR + b"Q",  # a bar of which only a small part is shown
        text + b"1 g " + BAR + b"0 g " + text,  # written again
        text + b"q 600 0 m 0 0 l 600 800 l f Q",  # a triangle beside it
    ):
        assert read(tmp_path, PAYMENT + seen).text == BOTH, seen


def test_text_outside_of_its_clip_is_hidden(tmp_path: Path) -> None:
    text = b"BT /F1 11 Tf " + AT + OTHER + b" ET "
    assert read(tmp_path, PAYMENT + b"q 10 10 20 20 re W n " + text + b"Q").text == STAYS
    assert read(tmp_path, PAYMENT + b"q 10 10 590 780 re W n " + text + b"Q").text == BOTH


def test_the_ground_is_what_is_painted_not_the_box_around_it(tmp_path: Path) -> None:
    white, frame = b"1 g BT /F1 11 Tf " + AT + OTHER + b" ET ", b"0 g 0 0 612 792 re 20 20 572 752 re f* "
    assert read(tmp_path, PAYMENT + frame + white).text == STAYS
    assert read(tmp_path, PAYMENT + frame + b"BT /F1 11 Tf " + AT + OTHER + b" ET").text == BOTH
    disc = b"0 g 160 700 m 160 860 370 860 370 700 c 370 540 160 540 160 700 c f "
    short = b"1 g BT /F1 11 Tf 1 0 0 1 220 700 Tm (Sold out) Tj ET"
    assert read(tmp_path, PAYMENT.replace(b"750", b"500") + disc + short).text.endswith("Sold out")


_REDS = b"<</FunctionType 2/Domain[0 1]/C0[.5 0 0]/C1[0 0 .5]/N 1>>"
_SHADING = b"/ShadingType 2/ColorSpace/DeviceRGB/Coords[60 0 460 0]/Function" + _REDS
PATTERNS = {
    "a gradient": b"<</Type/Pattern/PatternType 2/Shading<<%b>>>>" % _SHADING,
    "tiles": stream(
        b".8 0 0 rg 0 0 5 5 re f 0 0 .6 rg 5 5 5 5 re f 0 .3 0 rg 0 5 5 5 re f .3 0 .3 rg 5 0 5 5 re f",
        b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 10 10]/XStep 10/YStep 10/Resources<<>>",
    ),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("color", [b"1 g", b"0.75 g", b"0 g"], ids=["white", "gray", "black"])
def test_text_on_a_pattern_is_seen(tmp_path: Path, color: bytes, pattern: str) -> None:
    content = PAYMENT + b"/Pattern cs /P scn " + BAR + color + b" BT /F1 11 Tf " + AT + OTHER + b" ET"
    data = pdf_of_contents(stream(content), more=[PATTERNS[pattern]])
    assert load(written(tmp_path, data.replace(b"/Resources<<", b"/Resources<</Pattern<</P 6 0 R>>"))).text == BOTH


def test_white_text_on_a_white_box_is_hidden_also_under_text_that_is_seen(tmp_path: Path) -> None:
    page = b"0.2 g 0 0 612 792 re f 1 g 60 690 400 30 re f BT /F1 11 Tf " + AT + b"(Never read this line here) Tj ET "
    document = read(tmp_path, page + b"0 g BT /F1 11 Tf 1 0 0 1 73 701 Tm (The award is 4 euros) Tj ET")
    assert "award" in document.text
    assert "Never" not in document.text


def test_letters_of_one_text_differ(tmp_path: Path) -> None:
    """A text of which a part lies on a bar, under one, or outside of its clip."""
    text = b"BT /F1 11 Tf 1 0 0 1 72 700 Tm (aaaaaaaaaa bbbbbbbbbb cccccccccc) Tj ET "
    for content in (
        b"1 g 0 g 0 690 125 30 re f 1 g " + text,  # white, on black up to the first space
        text + b"0.5 g 130 690 400 30 re f",
        b"q 0 690 128 30 re W n " + text + b"Q",
        b"q 300 0 0 30 130 690 cm /Picture Do Q 5 g 0.02 g " + text,
    ):
        found = read(tmp_path, PAYMENT + content, more=(BLACK_IMAGE,), xobjects=b"/Picture 6 0 R").text
        assert "aaaaaaaaa" in found, content
        assert "bbbbbbbbb" not in found, content
        assert "c" not in found.removeprefix(STAYS), content


@pytest.mark.parametrize("state", [b"/ca 0.5", b"/BM/Multiply"])
def test_what_can_be_seen_through_hides_nothing(tmp_path: Path, state: bytes) -> None:
    text = b"BT /F1 11 Tf " + AT + OTHER + b" ET "
    data = pdf_of_contents(stream(PAYMENT + text + b"/G gs 1 1 0 rg " + BAR))
    data = data.replace(b"/Resources<<", b"/Resources<</ExtGState<</G<<%b>>>>" % state)
    assert load(written(tmp_path, data)).text == BOTH


def test_text_that_is_transparent_is_hidden(tmp_path: Path) -> None:
    data = pdf_of_contents(stream(PAYMENT + b"/G gs BT /F1 11 Tf " + AT + OTHER + b" ET "))
    assert load(written(tmp_path, data.replace(b"/Resources<<", b"/Resources<</ExtGState<</G<</ca 0>>>>"))).text == STAYS


def test_a_page_of_more_objects_than_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PdfDocument(pdf_of_contents(stream(PAYMENT + b"1 0 0 rg 0 0 9 9 re f " * 50 + HIDDEN["white on white"])))[0]
    letters = Letters(page.get_textpage())
    found = hidden_text.HiddenText(page).among(letters, letters.text)
    for limit in ("_MAX_OBJECTS", "_MAX_STEPS"):
        monkeypatch.setattr(hidden_text, limit, 20)
        assert hidden_text.HiddenText(page).among(letters, letters.text) == found


@pytest.mark.parametrize(
    "content",
    [
        b"1 g BT /F1 11 Tf 72 700 Td " + b"(a) Tj 0 0 Td " * 40_000 + b"ET",
        b"0 g " + b"0 0 600 700 re f BT /F1 600 Tf 1 0 0 1 9 9 Tm (a) Tj ET " * 3_000,
        b"/G gs " + b"0 0 600 700 re f " * 6_000 + b"1 g BT /F1 11 Tf 72 700 Td (never) Tj ET ",
        b"".join(b"0.%04d g BT /F1 600 Tf 1 0 0 1 9 9 Tm (a) Tj ET " % (9_000 + number % 1_000) for number in range(4_000)),
    ],
    ids=[
        "white letters",
        "black letters on black boxes",
        "white letters on boxes that are transparent",
        "letters in a thousand grays",
    ],
)
def test_pages_made_to_be_slow_to_draw(tmp_path: Path, content: bytes) -> None:
    before = process_time()
    assert read(tmp_path, content, PAYMENT).text.endswith(STAYS)
    assert process_time() - before < 15
