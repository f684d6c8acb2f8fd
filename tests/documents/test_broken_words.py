"""Words broken at line ends of plain text are joined if the text shows that they are one word; other hyphens stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.broken_words import rejoin_lines
from tests.documents.making import written

_OCR = """The conveyance of goods is paid. The al-
lowance for a journey by rail is nine
shillings, and no allow-
ance is paid for tobacco. An allowance for the lodg-
ing is eleven shillings. The lodging is to be
shown by a bill. Who travels by mo-
tor car has the same. A motor is no long-term
expense, and a self-made one is none.
"""


def test_a_word_that_is_whole_elsewhere_is_joined(tmp_path: Path) -> None:
    document = written(tmp_path, "The fee of the har-\nbor is due. The harbor is open.\n", "a.txt")
    assert document.text == "The fee of the harbor\nis due. The harbor is open.\n"


def test_a_text_that_breaks_words_has_all_of_them_joined_on_its_lines() -> None:
    text = rejoin_lines(_OCR + "The con-\nsignment is late.\n")
    for whole in ("The allowance\nfor", "no allowance\nis", "the lodging\nis", "by motor\ncar", "The consignment\nis late"):
        assert whole in text
    assert text.count("\n") == _OCR.count("\n") + 2
    assert "long-term" in text
    assert "self-made" in text


@pytest.mark.parametrize(
    "text",
    [
        "The har-\nbor is due.",  # nothing shows that it is one word
        "well-\nknown people are well-known, and wellknown",
        "Haupt-\nund Nebensatz",
        "- one\n- two -\nthree",
        "Anna-\nMaria and AnnaMaria",
        "har-\n\nbor of the harbor",
        "har-\n  bor of the harbor is indented",
        "a table\thar-\nbor of the harbor",
        "har-\nbor",
    ],
)
def test_other_hyphens_stay(text: str) -> None:
    assert rejoin_lines(text) == text


@pytest.mark.parametrize("name", ["a.py", "a.csv", "a.tsv", "a.log", "a.yaml", "a.md", "a.sh"])
def test_code_and_rows_stay_as_written(tmp_path: Path, name: str) -> None:
    text = "The fee of the har-\nbor is due. The harbor is open.\n"
    assert written(tmp_path, text, name).text == text
