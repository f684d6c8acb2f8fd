"""Notes at the foot of a page, and the sentence that goes on with the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.lines import pages_of
from fbrag_cli.documents.load import load
from tests.documents.test_pdf import pdf_of_contents, stream, written

Line = tuple[float, float, str]  # size, height, text

TEXT: list[Line] = [(11, 760 - 15 * index, f"The club sold boat number {index} at the market in autumn.") for index in range(8)]
NOTES: list[Line] = [(8, 60, "* Adopted from a thesis of 1988."), (8, 50, "It has no second edition.")]


def read(tmp_path: Path, *pages: list[Line]) -> Document:
    show = b"BT /F1 %g Tf 1 0 0 1 72 %g Tm (%b) Tj ET"
    contents = [stream(b"\n".join(show % (size, height, text.encode()) for size, height, text in page)) for page in pages]
    return load(written(tmp_path, pdf_of_contents(*contents)))


def where(document: Document, words: str) -> tuple[int, int] | None:
    start = document.text.index(words)
    return pages_of(document, start, start + len(words))


def test_a_note_follows_the_sentence_that_it_would_interrupt(tmp_path: Path) -> None:
    first = [*TEXT, (11.0, 600.0, "The steps that were to be ana-"), *NOTES]
    second = [(11.0, 760.0, "lysed are the sale, the tax and the"), (11.0, 745.0, "mooring. It costs 75 euros."), *TEXT[2:]]
    document = read(tmp_path, first, second)
    assert document.text.split("\n")[8:13] == [
        "The steps that were to be analysed",
        "are the sale, the tax and the",
        "mooring.",
        "* Adopted from a thesis of 1988.",
        "It has no second edition.",
    ]
    assert where(document, "to be analysed") == (1, 1)
    assert where(document, "the tax and the\nmooring.") == (2, 2)
    assert where(document, "Adopted from a thesis") == (1, 1)
    assert where(document, "It costs 75 euros.") == (2, 2)
    assert where(document, "analysed\nare the sale") == (1, 2)
    assert where(document, "mooring.\n* Adopted from") == (1, 2)
    assert where(document, document.text) == (1, 2)


def test_notes_on_each_page_of_a_long_text(tmp_path: Path) -> None:
    pages = []
    for number in range(1, 7):
        body: list[Line] = [(11, 745 - 15 * index, f"Boat {number}{index} was sold in autumn.") for index in range(8)]
        rest = [(11.0, 760.0, f"sold by the house of letter {number}. A word.")] if number > 1 else []
        note = [(8.0, 60.0, f"{number} See the book of the year 190{number}.")]
        pages.append([*rest, *body, (11.0, 600.0, f"In the year {number} all of them were"), *note, (11.0, 30.0, f"{number}")])
    text = " ".join(read(tmp_path, *pages).text.split())
    for number in range(1, 6):
        end = f"all of them were sold by the house of letter {number + 1}. {number} See the book of the year 190{number}. A word."
        assert end in text
    assert text.endswith("In the year 6 all of them were 6 See the book of the year 1906.")


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ("The club has no boat any more.", "it was said."),
        ("The club and the", "The Mooring"),
        ("A list of boats", "Boat one"),
    ],
)
def test_a_note_that_interrupts_nothing_stays_where_it_is(tmp_path: Path, last: str, first: str) -> None:
    document = read(tmp_path, [*TEXT, (11.0, 600.0, last), *NOTES], [(11.0, 760.0, first), *TEXT[2:]])
    assert f"{last}\n{NOTES[0][2]}\n{NOTES[1][2]}\n{first}" in document.text
    assert [page.number for page in document.pages] == [1, 2]


def test_small_text_above_and_pages_between(tmp_path: Path) -> None:
    sentence = (11.0, 600.0, "The steps that were to be")
    rest = [(11.0, 760.0, "taken are few. The end."), *TEXT[2:]]
    small_first = read(tmp_path, [*NOTES, *TEXT, sentence], rest)
    assert "were to be\ntaken are few." in small_first.text
    blank_between = read(tmp_path, [*TEXT, sentence, *NOTES], [], rest)
    assert "were to be\ntaken are few.\n* Adopted" in blank_between.text
    assert where(blank_between, "Adopted") == (1, 1)
    assert where(blank_between, "taken are") == (3, 3)
