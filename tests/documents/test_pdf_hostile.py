"""PDFs that are damaged, or made to hang or to exhaust whoever reads them."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from fbrag_cli.documents.pdf import reader
from fbrag_cli.documents.pdf.page_ranges import format_ranges, numbers_within, parse_ranges
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from tests.documents.test_pdf import (
    CATALOG,
    FONT,
    page_texts,
    pdf,
    pdf_of_contents,
    pdf_of_objects,
    refused,
    shown,
    stream,
    written,
)

PAGE = b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>"
FORM_OF_ITSELF = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 8 0 R>>>>"
WORDS = shown(b"words")
FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Filter/FlateDecode/Resources<</Font<</F1 3 0 R>>>>"


def flate(data: bytes) -> bytes:
    return zlib.compress(data, 9)


def kids(children: bytes, count: int, more: bytes = b"") -> bytes:
    return b"<</Type/Pages/Count %d/Kids[%b]%b>>" % (count, children, more)


@pytest.mark.parametrize(
    "data",
    [
        pdf_of_objects(CATALOG, kids(b"3 0 R", 1, b"/Parent 3 0 R"), kids(b"2 0 R", 1, b"/Parent 2 0 R")),
        pdf(*[b"page %d" % number for number in range(20)])[:3000],
        pdf(*[b"page %d" % number for number in range(20)])[:-40],
    ],
    ids=["two nodes of the page tree hold each other", "half of it", "without its last lines"],
)
def test_files_of_which_nothing_can_be_read(tmp_path: Path, data: bytes) -> None:
    error = refused(written(tmp_path, data))
    assert error.code == "doc_unreadable"
    assert "qpdf" in str(error.hint)


@pytest.mark.parametrize(
    "data",
    [
        pdf_of_objects(CATALOG, kids(b"3 0 R", 1), PAGE % 2, b"<</Length 4 0 R>>\nstream\nBT ET\nendstream", FONT),
        pdf_of_contents(stream(flate(b"0" * 100_000_000), b"/Filter/FlateDecode")),
        pdf_of_contents(stream(flate(flate(b"0" * 200_000_000)), b"/Filter[/FlateDecode/FlateDecode]")),
    ],
    ids=["a length is its own stream", "bomb", "bomb in a bomb"],
)
def test_files_whose_page_draws_nothing(tmp_path: Path, data: bytes) -> None:
    assert refused(written(tmp_path, data)).code == "pdf_no_text"


@pytest.mark.parametrize(
    "data",
    [
        pdf(b"words").replace(b"/Count 1", b"/Count 999999999"),
        pdf(b"words").replace(b"/Size 6", b"/Size 999999999999"),
        pdf(b"words").replace(b"/MediaBox[0 0 612 792]", b"/MediaBox[(a) /b 6 7]"),
        pdf(b"words").replace(b"/MediaBox[0 0 612 792]", b"/MediaBox null"),
        pdf_of_objects(CATALOG, kids(b"3 0 R", 1, b"/Parent 6 0 R"), PAGE % 2, WORDS, FONT, b"<</Type/Pages/Parent 2 0 R>>"),
        pdf_of_objects(CATALOG, kids(b"3 0 R", 1), PAGE % 3, WORDS, FONT),
        pdf(b"words").replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev -5"),
        pdf(b"words").replace(b"xref\n0 6\n", b"xref\n0 999999999\n"),
    ],
    ids=[
        "huge count of pages",
        "huge size",
        "odd page size",
        "no page size",
        "parents in a ring",
        "a page is its own parent",
        "previous table before the file",
        "a billion objects",
    ],
)
def test_oddities_that_cost_no_word(tmp_path: Path, data: bytes) -> None:
    document = load(written(tmp_path, data))
    assert document.text == "words"
    assert document.warnings == ()


def test_a_ring_in_the_page_tree_costs_itself(tmp_path: Path) -> None:
    document = load(written(tmp_path, pdf_of_objects(CATALOG, kids(b"3 0 R 2 0 R", 2), PAGE % 2, WORDS, FONT)))
    assert page_texts(document) == {1: "words"}
    assert "page 2 could not be read" in document.warnings[0]


def test_a_page_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_SECONDS", 1.0)
    monkeypatch.setattr(reader, "_MAX_SECONDS_PER_MB", 0.0)
    document = load(written(tmp_path, pdf_of_objects(CATALOG, kids(b"3 0 R " * 200_000, 200_000), PAGE % 2, WORDS, FONT)))
    assert document.text.startswith("words\nwords")
    assert "were not read: the document takes more than 1 s of CPU time; --pages " in document.warnings[0]


def test_a_table_of_objects_that_goes_on_with_itself(tmp_path: Path) -> None:
    data = pdf(b"words")
    table = data.rindex(b"xref\n0")
    assert load(written(tmp_path, data.replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev %d" % table))).text == "words"


HEAVY = stream(flate(b"BT /F1 12 Tf 14 TL 72 720 Td " + b"(abcdefghij) Tj T* " * 1_000_000 + b"ET"), b"/Filter/FlateDecode")


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (HEAVY, b""),
        (stream(b"/X Do " * 5_000), stream(flate(b"BT /F1 12 Tf (%b) Tj ET" % (b"a" * 20_000)), FORM)),
        (stream(b"/X Do"), stream(b"/X Do /X Do", FORM_OF_ITSELF)),
    ],
    ids=["a long text", "a form thousands of times", "a form that draws itself twice"],
)
def test_a_page_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, form: bytes) -> None:
    monkeypatch.setattr(reader, "_PAGE_SECONDS", 2.0)
    data = pdf_of_contents(content, shown(b"two"), more=[form], xobjects=b"/X 8 0 R")
    document = load(written(tmp_path, data))
    assert page_texts(document) == {2: "two"}
    assert any("page 1 was not read: " in warning for warning in document.warnings)


def test_a_page_that_takes_too_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "memory_of_a_child", lambda: 150_000_000)
    document = load(written(tmp_path, pdf_of_contents(shown(b"one"), HEAVY, shown(b"three"))))
    assert page_texts(document) == {1: "one", 3: "three"}
    assert "page 2 was not read: the process that read it was killed" in document.warnings[0]


def test_a_document_of_slow_pages_alone_is_not_said_to_be_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_PAGE_SECONDS", 2.0)
    with pytest.raises(FbragError, match=r"paper\.pdf was not read: it took more than 2 s of CPU time"):
        load(written(tmp_path, pdf_of_contents(HEAVY)))


# --pages


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3-9,12", [3, 4, 5, 6, 7, 8, 9, 12]),
        ("12,3", [3, 12]),
        ("4-4", [4]),
        (" 2 - 3 , 3–5 ", [2, 3, 4, 5]),
        ("007", [7]),
        ("18-", [18, 19, 20]),
        ("2,19–", [2, 19, 20]),
    ],
)
def test_pages_as_people_write_them(text: str, numbers: list[int]) -> None:
    assert numbers_within(parse_ranges(text, "a.pdf"), 20, Source("a.pdf", "a.pdf", b"")) == numbers
    assert parse_ranges(format_ranges(numbers), "a.pdf")


@pytest.mark.parametrize("text", ["", ",", "-", "-3", "3--5", "3,", "a", "1.5", "3 5", "9-3", "1-2-3", "²", "9" * 4300])
def test_what_is_no_pages(text: str) -> None:
    with pytest.raises(FbragError) as caught:
        parse_ranges(text, "a.pdf")
    assert caught.value.code == "usage"
    assert "--pages" in str(caught.value.hint)
