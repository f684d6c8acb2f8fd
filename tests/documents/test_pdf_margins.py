"""Running headers, footers and page numbers of PDFs, which are drawn here at the places where typesetters put them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.load import load
from fbrag_cli.documents.pdf.page_text import PageLines
from fbrag_cli.documents.pdf.running_lines import without_running_lines
from tests.documents.test_pdf import pdf_of_contents, stream

TOP, BOTTOM = 750.0, 40.0
SENTENCES = "The clerk wrote letter {0} of the case and sealed it\nbefore noon on a day of rain, as was the habit of house {1}."


def drawn(*lines: tuple[float, str]) -> bytes:
    """A content stream with these lines, each at a height in points."""
    return stream(b" ".join(b"BT /F1 12 Tf 1 0 0 1 72 %.1f Tm (%b) Tj ET" % (height, text.encode()) for height, text in lines))


def body(number: int, n_lines: int = 30, above: float = 14.0) -> list[tuple[float, str]]:
    """Lines of text that no other page has, from 700 points down."""
    texts = [SENTENCES.format(chr(97 + index % 26) * 3, chr(97 + number % 26) * 4) for index in range(n_lines)]
    lines = "\n".join(texts).split("\n")[:n_lines]
    return [(700 - above * index, f"{line}") for index, line in enumerate(lines)]


Furniture = Callable[[int], Sequence[tuple[float, str]]]


def made(tmp_path: Path, n_pages: int, furniture: Furniture, *, after: bool = False, n_lines: int = 30) -> Document:
    """A document whose page n has `furniture(n)` before its body in the file, or after it."""
    pages = []
    for number in range(1, n_pages + 1):
        margin = list(furniture(number))
        pages.append(drawn(*(body(number, n_lines) + margin if after else margin + body(number, n_lines))))
    path = tmp_path / "book.pdf"
    path.write_bytes(pdf_of_contents(*pages))
    return load(str(path))


def pages_with(document: Document, words: str) -> list[int]:
    return [page.number for page in document.pages if words in document.text[page.start : page.end]]


def without(n_pages: int, tmp_path: Path) -> str:
    return made(tmp_path, n_pages, lambda number: []).text


# What goes


@pytest.mark.parametrize("after", [False, True], ids=["drawn before the body", "drawn after it"])
def test_a_running_title_stays_once_and_page_numbers_go(tmp_path: Path, after: bool) -> None:
    document = made(tmp_path, 12, lambda n: [(TOP, "The Letters of Smith"), (BOTTOM, f"- {n} -")], after=after)
    assert pages_with(document, "The Letters of Smith") == [1]
    assert document.text.replace("The Letters of Smith\n", "") == without(12, tmp_path)


@pytest.mark.parametrize(
    "footer", ["{n}", "Page {n} of 12", "{n}/12", "Seite {n} von 12", "[{n}]", "p. {n}"], ids=lambda footer: footer.split("{")[0]
)
def test_page_numbers_however_they_are_written(tmp_path: Path, footer: str) -> None:
    document = made(tmp_path, 12, lambda n: [(BOTTOM, footer.format(n=n))])
    assert document.text == without(12, tmp_path)


def test_a_page_number_in_chinese(tmp_path: Path) -> None:
    body = tuple(f"正文的第{letter}行" for letter in "一二三四五六七八")
    heights = (*(700.0 - 14 * index for index in range(8)), 40.0)
    pages = [PageLines((*body, f"第 {number} 页"), heights, 792) for number in range(1, 9)]
    for part in without_running_lines(list(range(1, 9)), pages):
        assert (part.above, part.body, part.below) == ((), body, ())


def test_left_and_right_pages_have_titles_of_their_own_and_chapters_change(tmp_path: Path) -> None:
    chapters = {1: "Chapter 1. Rain", 2: "Chapter 2. Snow", 3: "Chapter 3. Thaw"}

    def furniture(number: int) -> list[tuple[float, str]]:
        chapter = (number - 1) // 10 + 1
        if number % 10 == 1:  # a chapter's first page has its number at the bottom
            return [(BOTTOM, f"{number + 4}")]
        return [(TOP, f"{number + 4} The Letters of Smith" if number % 2 == 0 else f"{chapters[chapter]} {number + 4}")]

    document = made(tmp_path, 30, furniture)
    assert pages_with(document, "The Letters of Smith") == [2]
    assert pages_with(document, "Chapter 1. Rain") == [3]
    assert pages_with(document, "Chapter 2. Snow") == [13]
    assert pages_with(document, "Chapter 3. Thaw") == [23]
    assert not [line for line in document.text.split("\n") if line.isdigit()]


def test_a_header_of_two_lines(tmp_path: Path) -> None:
    document = made(tmp_path, 8, lambda n: [(TOP + 10, "Smith and Sons"), (TOP - 3, f"Annual Report 2020, page {n}")])
    assert pages_with(document, "Smith and Sons") == [1]
    assert pages_with(document, "Annual Report") == [1]


def test_a_word_goes_on_past_the_header_on_the_page_where_it_begins(tmp_path: Path) -> None:
    pages = []
    for number in range(1, 9):
        lines = body(number)
        lines[0] = (lines[0][0], "ple of how a page begins, wide as the others are.")
        lines[-1] = (lines[-1][0], "and it was an exam-")
        pages.append(drawn((TOP, "The Letters of Smith"), *lines, (BOTTOM, str(number))))
    path = tmp_path / "book.pdf"
    path.write_bytes(pdf_of_contents(*pages))
    document = load(str(path))
    texts = [document.text[page.start : page.end] for page in document.pages]
    for text, following in pairwise(texts):
        assert text.endswith("and it was an example")
        assert following.startswith("of how a page begins")
    assert texts[-1].endswith("exam-")


def test_a_word_goes_on_past_a_header_that_stays_and_a_blank_page(tmp_path: Path) -> None:
    plate = drawn()
    pages = [drawn(*body(1), (60, "it was an exam-")), plate, drawn((700, "ple of a page"), *[(h - 14, t) for h, t in body(3)])]
    path = tmp_path / "book.pdf"
    path.write_bytes(pdf_of_contents(*pages))
    whole = load(str(path))
    assert "it was an example\nof a page" in whole.text
    assert whole.skipped_pages == (2,)
    assert "it was an exam-\nple of a page" in load(str(path), pages="1,3").text


# What stays


@pytest.mark.parametrize("n_pages", [1, 2, 3, 4])
def test_short_documents_are_left_as_they_are(tmp_path: Path, n_pages: int) -> None:
    document = made(tmp_path, n_pages, lambda n: [(TOP, "The Letters of Smith"), (BOTTOM, str(n))])
    assert pages_with(document, "The Letters of Smith") == list(range(1, n_pages + 1))


def test_a_refrain_stays(tmp_path: Path) -> None:
    refrain = "and miles to go before I sleep"
    document = made(tmp_path, 10, lambda n: [(700 - 14 * (10 + n), refrain)], after=True, n_lines=10)  # after stanzas' empty line
    assert pages_with(document, refrain) == list(range(1, 11))
    for below in (10, 11):  # right after the stanza, and after an empty line
        document = made(tmp_path, 10, lambda n, below=below: [(700 - 14 * below, refrain)], after=True, n_lines=10)  # type: ignore[misc]
        assert pages_with(document, refrain) == list(range(1, 11))


def test_the_header_of_a_table_that_goes_on_for_pages_stays(tmp_path: Path) -> None:
    document = made(tmp_path, 10, lambda n: [(714, "Name Quantity Price")])
    assert pages_with(document, "Name Quantity Price") == list(range(1, 11))
    two = made(tmp_path, 10, lambda n: [(TOP, "Name Quantity Price")] if n in (4, 5) else [])
    assert pages_with(two, "Name Quantity Price") == [4, 5]


@pytest.mark.parametrize("heading", ["Day {n}", "Question {n}", "Figure {n}", "Lesson plan {n}", "Table {n}: results"])
def test_headings_that_count_are_not_page_numbers(tmp_path: Path, heading: str) -> None:
    document = made(tmp_path, 12, lambda n: [(TOP, heading.format(n=n + 1)), (BOTTOM, str(n + 1))])
    for number in range(1, 13):
        assert heading.format(n=number + 1) in document.text


def test_numbers_that_do_not_count_with_the_pages_stay(tmp_path: Path) -> None:
    years = [1815, 1790, 1803, 1999, 1801, 1650, 1066, 1492, 1776, 2001]
    document = made(tmp_path, 10, lambda n: [(BOTTOM, str(years[n - 1]))])
    assert [year for year in years if str(year) in document.text] == years


def test_a_line_that_stands_at_other_heights_is_none(tmp_path: Path) -> None:
    document = made(tmp_path, 10, lambda n: [(TOP - 3.0 * n, "Dear Sir")], n_lines=20)
    assert pages_with(document, "Dear Sir") == list(range(1, 11))


def test_a_page_of_nothing_but_its_header_keeps_it(tmp_path: Path) -> None:
    pages = [drawn((TOP, "The Letters of Smith"), *(body(n) if n != 5 else [])) for n in range(1, 11)]
    path = tmp_path / "book.pdf"
    path.write_bytes(pdf_of_contents(*pages))
    document = load(str(path))
    assert [page.number for page in document.pages] == list(range(1, 11))
    assert pages_with(document, "The Letters of Smith") == [1, 5]


def test_every_page_is_its_span(tmp_path: Path) -> None:
    document = made(tmp_path, 12, lambda n: [(TOP, "The Letters of Smith"), (BOTTOM, str(n))])
    for page in document.pages:
        text = document.text[page.start : page.end]
        assert chr(97 + page.number % 26) * 4 in text
        assert text == text.strip()
    for page, following in pairwise(document.pages):
        assert document.text[page.end : following.start] == "\n"
