"""The printed numbers of pages (/PageLabels): what a question means, and what a citation says, next to the sheet of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.batch.row import _place as place_in_a_table
from fbrag_cli.corpus import Passage
from fbrag_cli.documents.document import Document
from fbrag_cli.documents.load import load
from fbrag_cli.documents.named_places import named_places
from fbrag_cli.render.as_json import place_of
from fbrag_cli.render.explain_text import numbered
from fbrag_cli.render.passages import link, place, place_within
from tests.documents.test_pdf import DRAWN, pdf, pdf_of_contents, shown, written

LABELS = b"/PageLabels<</Nums[0<</S/r>>4<</S/D>>9<</P(A-)/S/D>>11<</P(Cover)>>]>>"  # i-iv, 1-5, A-1, A-2, Cover


def labelled(tmp_path: Path, labels: bytes = LABELS) -> Document:
    data = pdf(*[b"the text of sheet %d" % number for number in range(1, 13)])
    return load(written(tmp_path, data.replace(b"/Type/Catalog", b"/Type/Catalog" + labels)))


def passage(document: Document, first: int, last: int) -> Passage:
    start, end = (next(page for page in document.pages if page.number == number) for number in (first, last))
    return Passage(0, document, start.start, end.end)


@pytest.mark.parametrize(
    ("question", "sheet"),
    [
        ("What does page 3 say?", 7),
        ("Was steht auf Seite 5?", 9),
        ("What is on page iii?", 3),
        ("What is on page III?", 3),
        ("What is on page 11?", 11),  # no page has it printed
    ],
)
def test_a_question_names_the_printed_page(tmp_path: Path, question: str, sheet: int) -> None:
    document = labelled(tmp_path)
    assert [document.text[slice(*span)] for span in named_places(question, document)] == [f"the text of sheet {sheet}"]


def test_without_labels_a_question_names_the_sheet(tmp_path: Path) -> None:
    document = labelled(tmp_path, b"")
    assert {page.label for page in document.pages} == {""}
    assert [document.text[slice(*span)] for span in named_places("page 3", document)] == ["the text of sheet 3"]
    assert place(passage(document, 3, 4)).endswith("paper.pdf pp. 3-4")
    assert place_of(passage(document, 3, 4))["page_label"] is None


@pytest.mark.parametrize(
    ("first", "last", "said", "label"),
    [
        (1, 1, "p. i (sheet 1)", "i"),
        (7, 8, "pp. 3-4 (sheets 7-8)", "3-4"),
        (4, 5, "pp. iv-1 (sheets 4-5)", "iv-1"),
        (10, 10, "p. A-1 (sheet 10)", "A-1"),
        (12, 12, "p. Cover (sheet 12)", "Cover"),
    ],
)
def test_a_citation_says_both(tmp_path: Path, first: int, last: int, said: str, label: str) -> None:
    cited = passage(labelled(tmp_path), first, last)
    assert place(cited).endswith(f"paper.pdf {said}")
    assert place_within(cited) == said
    assert link(cited).endswith(f"#page={first}")
    record = place_of(cited)
    assert (record["page"], record["last_page"], record["page_label"]) == (first, last, label)
    assert place_in_a_table(record).endswith(said.replace("pp.", "p."))


def test_pages_of_the_text_are_named_with_both(tmp_path: Path) -> None:
    lines = list(numbered(labelled(tmp_path)))
    assert lines[12] == "--- page 3 (sheet 7)"


def test_options_and_warnings_count_sheets(tmp_path: Path) -> None:
    data = pdf_of_contents(shown(b"one"), shown(b"two"), DRAWN, shown(b"four")).replace(
        b"/Type/Catalog", b"/Type/Catalog" + LABELS
    )
    document = load(written(tmp_path, data), pages="2-4")
    assert [(page.number, page.label) for page in document.pages] == [(2, "ii"), (4, "iv")]
    assert "page 3 is scanned and not read;" in document.warnings[0]


@pytest.mark.parametrize("labels", [b"/PageLabels 5", b"/PageLabels<</Nums[0 0]>>", b"/PageLabels<</Nums[0<</P(\033[31m\n)>>]>>"])
def test_odd_labels_cost_nothing(tmp_path: Path, labels: bytes) -> None:
    document = labelled(tmp_path, labels)
    assert len(document.pages) == 12
    assert "\033" not in place(passage(document, 1, 1))
    assert "\n" not in place(passage(document, 1, 1))
