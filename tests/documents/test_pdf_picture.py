"""Pictures of PDFs' pages, and the boxes around a sentence: compared with the pixels of a sentence that is drawn in red."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from fbrag_cli.documents.pdf.boxes import Box, PageLetters, find_boxes
from fbrag_cli.documents.pdf.picture import MAX_PIXELS, MAX_WIDTH, PagePicture, Wanted, page_pictures
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.sentences import sentence_spans
from tests.documents.test_pdf import CATALOG, FONT, encrypted, pdf, pdf_of_objects, stream

LETTER = b"/MediaBox[0 0 612 792]"
SENTENCE = "The lamp was sold to Ann Lee in the spring."
Piece = tuple[float, float, str, bool]  # left edge, baseline, text, whether it is red


def page_of(pieces: Iterable[Piece], entries: bytes = LETTER, matrix: bytes = b"1 0 0 1") -> bytes:
    """A PDF of one page. matrix: of each piece of text."""
    drawn = b"\n".join(
        b"BT %b rg /F1 12 Tf %b %g %g Tm (%b) Tj ET" % (b"1 0 0" if red else b"0 0 0", matrix, x, y, text.encode("cp1252"))
        for x, y, text, red in pieces
    )
    page = b"<</Type/Page/Parent 2 0 R%b/Resources<</Font<</F1 3 0 R>>>>/Contents 5 0 R>>" % entries
    return pdf_of_objects(CATALOG, b"<</Type/Pages/Count 1/Kids[4 0 R]>>", FONT, page, stream(drawn))


def made(data: bytes, *wanted: Wanted, password: str | None = None) -> list[PagePicture | FbragError]:
    return [*page_pictures(Source("a.pdf", "a.pdf", data), wanted, password)]


def picture(data: bytes, sentence: str = SENTENCE, *, before: str = "", width: int = 612) -> PagePicture:
    (found,) = made(data, Wanted(1, width, sentence, before))
    assert isinstance(found, PagePicture), found
    return found


def pixels(png: bytes) -> tuple[int, int, int, bytes]:
    """Width, height, bytes of a pixel, and the bytes of all pixels of a PNG whose rows are not filtered."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, found = 8, dict[bytes, bytes]()
    while at < len(png):
        (size,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        found[kind] = data = png[at + 8 : at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + data),)
        at += 12 + size
    width, height, depth, color = struct.unpack(">IIBB", found[b"IHDR"][:10])
    n = {0: 1, 2: 3}[color]
    rows, step = zlib.decompress(found[b"IDAT"]), n * width + 1
    assert (depth, len(rows), {*rows[::step]}) == (8, step * height, {0})
    return width, height, n, b"".join(rows[start + 1 : start + step] for start in range(0, len(rows), step))


def red_in(found: PagePicture) -> tuple[float, ...]:
    """The box around all that is red in a picture, in points."""
    width, height, n, data = pixels(found.data)
    assert n == 3
    red = [i for i, (r, g) in enumerate(zip(data[::3], data[1::3], strict=True)) if r > g + 60]
    across, down = found.width / width, found.height / height
    columns, rows = [i % width for i in red], [i // width for i in red]
    return min(columns) * across, min(rows) * down, (max(columns) + 1) * across, (max(rows) + 1) * down


def around(boxes: Iterable[Box]) -> tuple[float, ...]:
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


BODY: list[Piece] = [
    (150, 600, "All letters of that year are in one chest.", False),
    (150, 580, SENTENCE[:24], True),
    (150, 560, SENTENCE[24:], True),
    (150, 540, "Nobody has opened it since.", False),
]


@pytest.mark.parametrize(
    ("entries", "size"),
    [
        (LETTER, (612, 792)),
        (LETTER + b"/Rotate 180", (612, 792)),
        (LETTER + b"/Rotate 270", (792, 612)),
        (LETTER + b"/CropBox[100 300 500 700]", (400, 400)),
        (LETTER + b"/CropBox[100 300 500 650]/Rotate 270", (350, 400)),
        (b"/MediaBox[-50 100 562 892]", (612, 792)),
    ],
)
def test_the_box_is_where_the_sentence_is_seen(entries: bytes, size: tuple[int, int]) -> None:
    found = picture(page_of(BODY, entries), width=2 * size[0])
    assert (found.width, found.height) == size
    assert len(found.boxes) == 2
    assert around(found.boxes) == pytest.approx(red_in(found), abs=1.5)
    assert pixels(found.data)[:2] == (2 * size[0], 2 * size[1])


@pytest.mark.parametrize(("turn", "matrix"), [(90, b"0 1 -1 0"), (270, b"0 -1 1 0")])
def test_on_a_turned_page_that_is_read_upright_each_line_has_a_box(turn: int, matrix: bytes) -> None:
    """As a wide table is set: its letters are turned, and the page turns them back."""
    lines = [(320.0 + (20 if turn == 90 else -20) * n, 400.0, text, red) for n, (_, _, text, red) in enumerate(BODY)]
    found = picture(page_of(lines, LETTER + b"/CropBox[100 100 600 700]/Rotate %d" % turn, matrix), width=1200)
    assert (found.width, found.height) == (600, 500)
    assert [box.right - box.left > 5 * (box.bottom - box.top) for box in found.boxes] == [True, True]
    assert around(found.boxes) == pytest.approx(red_in(found), abs=1.5)


@pytest.mark.parametrize("matrix", [b"0 1 -1 0", b"0 -1 1 0"])
def test_a_line_that_runs_upward_or_downward_has_one_box(matrix: bytes) -> None:
    found = picture(page_of([(300, 400, SENTENCE, True), (330, 400, "Another line.", False)], matrix=matrix))
    assert len(found.boxes) == 1
    assert tuple(found.boxes[0]) == pytest.approx(red_in(found), abs=1.5)


def test_a_sentence_of_one_column_has_no_box_in_the_other(tmp_path: Path) -> None:
    """Its lines alternate with those of the other column in the file."""
    left = ["The council met in the old hall", SENTENCE[:24], SENTENCE[24:], "and went home before the rain"]
    right = [
        "Prices of corn had been rising",
        "since the bridge was closed, as",
        "the miller had often foretold",
        "in his letters to the town.",
    ]
    pieces = [
        piece
        for n, (one, other) in enumerate(zip(left, right, strict=True))
        for piece in ((60.0, 700.0 - 14 * n, one, n in (1, 2)), (330.0, 700.0 - 14 * n, other, False))
    ]
    (tmp_path / "a.pdf").write_bytes(page_of(pieces))
    text = load(str(tmp_path / "a.pdf")).text
    assert SENTENCE.replace("Ann", "\nAnn").split() == text[text.index("The lamp") : text.index("and went")].split()
    found = picture(page_of(pieces))
    assert len(found.boxes) == 2
    assert max(box.right for box in found.boxes) < 330
    assert around(found.boxes) == pytest.approx(red_in(found), abs=1.5)


def test_the_row_of_a_table_has_one_box(tmp_path: Path) -> None:
    rows = [
        ("Year", "Tons", "Price"),
        ("1871", "412", "90 shillings"),
        ("1872", "398", "84 shillings"),
        ("1873", "401", "88 shillings"),
    ]
    pieces = [
        (x, 700.0 - 20 * n, cell, n == 2) for n, row in enumerate(rows) for x, cell in zip((72.0, 230.0, 400.0), row, strict=True)
    ]
    (tmp_path / "a.pdf").write_bytes(page_of(pieces))
    (row,) = (line for line in load(str(tmp_path / "a.pdf")).text.split("\n") if "1872" in line)
    found = picture(page_of(pieces), row)
    assert len(found.boxes) == 1
    assert tuple(found.boxes[0]) == pytest.approx(red_in(found), abs=1.5)


def test_of_a_sentence_on_two_pages_each_has_its_part() -> None:
    sentence = "The harbor office keeps all letters of that year in one iron chest which nobody opens."
    pages = pdf(
        b"Before it.\nThe harbor office keeps all letters", b"of that year in one iron chest which\nnobody opens. After it."
    )
    first, second = made(pages, Wanted(1, 0, sentence), Wanted(2, 0, sentence))
    assert isinstance(first, PagePicture)
    assert isinstance(second, PagePicture)
    assert [len(first.boxes), len(second.boxes)] == [1, 2]
    assert (first.data, second.data) == (b"", b"")


def test_what_interrupts_a_sentence_has_no_box() -> None:
    pieces = [
        (72.0, 700.0, SENTENCE[:24], True),
        (72.0, 680.0, "History of the lamps, page 7", False),
        (72.0, 660.0, SENTENCE[24:], True),
    ]
    found = picture(page_of(pieces))
    assert [round(box.bottom) for box in found.boxes] == pytest.approx([92, 132], abs=5)


@pytest.mark.parametrize(
    "sentence",
    [
        "Nobody of that name was on board the ship.",
        "Of all letters of that time none was ever found again.",
        "?!",
        "",
        "x" * 50_000,
    ],
)
def test_a_sentence_that_is_not_there_has_no_box(sentence: str) -> None:
    found = picture(page_of(BODY), sentence)
    assert found.boxes == ()
    assert pixels(found.data)[:2] == (612, 792)


def test_one_of_several_such_sentences_is_boxed() -> None:
    data = page_of([(72, 700 - 20 * n, "Paid in full.", n == 2) for n in range(4)])
    found = picture(data, "Paid in full.", before="Paid in full.\nPaid in full.\n")
    assert around(found.boxes) == pytest.approx(red_in(found), abs=1.5)
    assert picture(data, "Paid in full.").boxes[0].bottom < found.boxes[0].top


def test_hyphens_ligatures_and_capitals_do_not_matter() -> None:
    data = pdf(b"The of\001ce of the HARBOR-\nMASTER, an extra-\nordinary room, is shut.")
    assert len(picture(data, "The office of the harbormaster, an extraordinary room, is shut.").boxes) == 3


def test_a_page_without_color_is_gray_and_small() -> None:
    text = b"\n".join(b"The harbor office keeps all letters of that year in one iron chest." for _ in range(40))
    found = picture(pdf(text), width=1000)
    assert pixels(found.data)[:3] == (1000, 1295, 1)
    assert 10_000 < len(found.data) < 150_000


@pytest.mark.parametrize("box", [b"0 0 14400 14400", b"0 0 14400 3", b"0 0 3 14400", b"0 0 1 1", b"0 0 0 0", b"5 5 1 1"])
def test_a_page_of_an_odd_size_has_a_picture_within_the_limits(box: bytes) -> None:
    found = picture(page_of(BODY, b"/MediaBox[%b]" % box), width=10**9)
    width, height, _, _ = pixels(found.data)
    assert 1 <= width <= MAX_WIDTH
    assert 1 <= width * height <= 1.01 * MAX_PIXELS


def test_a_filled_field_is_seen() -> None:
    field = b"<</Type/Annot/Subtype/Widget/FT/Tx/T(name)/V(Ann)/Rect[100 600 300 640]/AP<</N 6 0 R>>/F 4>>"
    look = stream(b"0 0 200 40 re f", b"/Type/XObject/Subtype/Form/BBox[0 0 200 40]")
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Annots[5 0 R]>>"
    catalog = b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[5 0 R]>>>>"
    data = pdf_of_objects(catalog, b"<</Type/Pages/Count 1/Kids[4 0 R]>>", FONT, page, field, look)
    width, _, _, seen = pixels(picture(data).data)
    assert seen[172 * width + 200] < 50


def test_a_damaged_page_is_an_error_and_the_others_are_shown() -> None:
    broken = b"<</Type/Pages/Count 2/Kids[4 0 R 5 0 R]>>"
    data = pdf_of_objects(CATALOG, broken, FONT, b"(no page)", b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]>>")
    first, second, third = made(data, Wanted(1, 100, "x"), Wanted(2, 100, "x"), Wanted(3, 100))
    assert isinstance(second, PagePicture)
    for error in (first, third):
        assert isinstance(error, FbragError)
        assert (error.code, error.document) == ("doc_unreadable", "a.pdf")
        assert error.hint
        assert "\n" not in error.message
    (nothing,) = made(b"%PDF-1.7 nothing", Wanted(1, 100))
    assert isinstance(nothing, FbragError)
    assert nothing.code == "doc_unreadable"


def test_a_protected_page_needs_its_password() -> None:
    data = encrypted(page_of(BODY), "geheim", "owner", "AES-256")
    assert [getattr(each, "code", "") for each in made(data, Wanted(1, 100))] == ["pdf_encrypted"]
    assert [getattr(each, "code", "") for each in made(data, Wanted(1, 100), password="wrong")] == ["pdf_bad_password"]
    (found,) = made(data, Wanted(1, 612, SENTENCE), password="geheim")
    assert isinstance(found, PagePicture)
    assert around(found.boxes) == pytest.approx(red_in(found), abs=1.5)


def test_letters_of_lines_share_the_box_of_their_line() -> None:
    """As OCR gives them."""

    def lines(*lines: tuple[str, float, float, float, float]) -> PageLetters:
        return PageLetters.of_lines((text, (x, y, to_x, y, to_x, to_y, x, to_y)) for text, x, y, to_x, to_y in lines)

    page = lines(("The lamp was", 100, 10, 220, 30), ("sold to Ann Lee.", 100, 40, 260, 60), ("上", 0, 0, 9, 9))
    assert find_boxes("lamp was sold", page) == [Box(140, 10, 220, 30), Box(100, 40, 140, 60)]
    vertical = lines(("灯卖给了安", 50, 100, 70, 200), ("李", 20, 100, 40, 120))
    assert find_boxes("给了安李", vertical) == [Box(50, 140, 70, 200), Box(20, 100, 40, 120)]
    upside_down = PageLetters.of_lines([("The lamp was", (220, 30, 100, 30, 100, 10, 220, 10))])
    assert find_boxes("The lamp", upside_down) == [Box(140, 10, 220, 30)]


def test_every_sentence_of_the_novel_has_its_box(shared: Path) -> None:
    """Of its pages 40 to 59."""
    path = str(shared / "books" / "pride-and-prejudice.pdf")
    document = load(path, pages="40-59")
    spans = [(document.text[start:end], start) for start, end in sentence_spans(document.text)]
    wanted = [
        Wanted(page.number, 0, part, document.text[page.start : max(start, page.start)])
        for text, start in spans
        for page in document.pages
        if any(map(str.isalnum, part := document.text[max(start, page.start) : min(start + len(text), page.end)]))
        and start < page.end
        and start + len(text) > page.start
    ]
    found = [*page_pictures(read_source(path), wanted)]
    assert len(found) > 400
    lost = [each.sentence for each, page in zip(wanted, found, strict=True) if not (isinstance(page, PagePicture) and page.boxes)]
    assert lost == []
    tops = [page.boxes[0].top for page in found if isinstance(page, PagePicture) and page.number == 50]
    assert all(top > before - 5 for before, top in pairwise(tops)), "they follow each other down the page"
