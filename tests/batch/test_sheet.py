"""The sheet: what a person with a spreadsheet sees. It is made from the file of rows beside it."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fbrag_cli.batch.row import BOM, COLUMNS, cell, check_sheet, is_own, line, row_line, rows_of
from fbrag_cli.errors import FbragError

ROWS = '{"schema":"fbrag.row/1"}\n'
HEAD = ",".join(COLUMNS) + "\n"


def row(document: str, id: str = "1", **more: Any) -> dict[str, Any]:
    nothing = dict.fromkeys("location quote unsupported_answer confidence low_confidence uncited support agreement error".split())
    made = {"id": id, "document": document, "question": "Who?", "status": "answered", "answer": "The mate.", "seconds": 0.5}
    return {**nothing, **made, "sources": [], "missing_terms": [], **more}


def cells(*rows: dict[str, Any]) -> list[dict[str, str]]:
    text = line(COLUMNS) + "".join(map(row_line, rows))
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.csv"


@pytest.mark.parametrize("left", [None, ""])
@pytest.mark.parametrize("mark", ["", BOM])
def test_a_sheet_without_its_rows_is_refused_unless_it_is_restarted(path: Path, left: str | None, mark: str) -> None:
    path.write_text(f"{mark}{HEAD}1,a.txt\n", "utf-8")
    if left is not None:
        rows_of(str(path)).write_text(left)
    with pytest.raises(FbragError, match=r"answers\.jsonl is missing or empty") as raised:
        check_sheet(str(path), restart=False)
    assert raised.value.code == "usage"
    assert "--restart" in str(raised.value.hint)
    check_sheet(str(path), restart=True)
    rows_of(str(path)).write_text(ROWS)
    check_sheet(str(path), restart=False)


def test_a_sheet_without_rows_needs_none(path: Path) -> None:
    check_sheet(str(path), restart=False)
    for text in ("", BOM + HEAD, HEAD):
        path.write_text(text, "utf-8")
        check_sheet(str(path), restart=False)


OTHERS = ["Dear diary,\n", HEAD.replace(",", ";"), HEAD.replace("quote,", ""), HEAD.replace("\n", ",my notes\n"), "PK\x03\x04"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("text", OTHERS)
def test_a_file_that_is_no_sheet_is_never_replaced(path: Path, text: str, restart: bool) -> None:
    """It may hold a person's notes."""
    path.write_text(text, "utf-8")
    rows_of(str(path)).write_text(ROWS)
    with pytest.raises(FbragError, match="is not a CSV of fbrag batch") as raised:
        check_sheet(str(path), restart=restart)
    assert (raised.value.code, raised.value.hint) == ("usage", "use another -o FILE")


FORMULAS = ['=HYPERLINK("http://a.b","x")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", " =1", "\n=1", "\uff1d1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(text: str) -> None:
    """Whatever a document, its name, a question or a model says."""
    (found,) = cells(
        row(text, text, question=text, answer=text, location=text, quote=text, unsupported_answer=text, missing_terms=[text])
    )
    for name in ("id", "document", "question", "answer", "location", "quote", "unsupported_answer", "missing_terms"):
        assert found[name] == f"'{text}", name
    assert cell(cell(text)) == cell(text)


@pytest.mark.parametrize("text", ["-5", "+3.50", "-1,000.5", "12%", "-3%", "5 days", "a=b", "(+1)", 'He said "no",\nand went.'])
def test_numbers_and_words_are_cells_as_they_are(text: str) -> None:
    assert cells(row("a.txt", answer=text))[0]["answer"] == text


def test_a_name_with_an_escape_is_shown() -> None:
    """`cat answers.csv` would obey it."""
    assert "\x1b" not in row_line(row("a\x1b[2Jb.txt", "\x1b7"))


def test_names_that_are_no_utf_8_stay_apart() -> None:
    names = [cell(os.fsdecode(name)) for name in (b"caf\xe8.txt", b"caf\xe9.txt")]
    assert len(set(names)) == 2
    assert all(name.encode() for name in names)


def test_a_row_has_a_place_a_quote_and_what_was_proposed() -> None:
    shown = row("a.docx", location="a.docx:3 (4.2)", quote="Either party may\u2026", confidence=0.8)
    declined = row("b.docx", status="not_found", answer=None, unsupported_answer="30 days")
    found = [
        tuple(each[name] for name in ("answer", "location", "quote", "unsupported_answer", "confidence"))
        for each in cells(shown, declined)
    ]
    assert found == [("The mate.", "a.docx:3 (4.2)", "Either party may…", "", "0.8"), ("", "", "", "30 days", "")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_for_a_view_is_not_read(tmp_path: Path) -> None:
    """Reading it would wait for a writer, without end."""
    path, found = tmp_path / "page.html", list[bool]()
    os.mkfifo(path)
    look = Thread(target=lambda: found.append(is_own(path)), daemon=True)
    look.start()
    look.join(10)
    assert found == [False]
