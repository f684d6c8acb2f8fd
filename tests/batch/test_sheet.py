"""The sheet: what a person with a spreadsheet sees, and the file beside it, from which a run goes on."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fbrag_cli.batch.jobs import Job, Question, row_key
from fbrag_cli.batch.resume import earlier
from fbrag_cli.batch.sheet import COLUMNS, Columns, beside, is_own, open_sheet
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import versions

SETTINGS = {"method": "fb-rag", "select": 5}
OLD = "id,document,question,status,answer,answers,sources,absent,unsure,support,agreement,confidence,seconds,error,sha256\n"


def row(document: str, id: str = "1", **more: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("place", "quote", "unsupported_answer", "confidence", "unsure", "support", "agreement", "error"))
    made = {"id": id, "document": document, "question": "Who?", "status": "answered", "answer": "The mate.", "seconds": 0.5}
    shared = {"sources": [], "absent": [], "sha256": ["a" * 64], "settings": SETTINGS, "versions": versions()}
    return {**nothing, **made, **shared, **more}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.csv"


def write(path: Path, *rows: Mapping[str, Any]) -> bytes:
    with open_sheet(path) as sheet:
        for each in rows:
            sheet.write(each)
    return path.read_bytes()


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def test_what_all_rows_share_stands_once_beside_the_sheet(path: Path) -> None:
    """Excel takes a file for UTF-8 by its mark; 64 digits and settings in each row are for no reader."""
    data = write(path, row("Zoë.txt"), row("Zoë.txt", "2"), row("b.txt", sha256=["b" * 64]))
    assert data.startswith("\ufeffid,document,question,status,answer,place,quote,proposed,confidence".encode())
    assert b"aaaa" not in data
    assert b"fb-rag" not in data
    lines = [json.loads(line) for line in (path.parent / "answers.settings.jsonl").read_text("utf-8").splitlines()]
    assert [line.get("settings") for line in lines] == [SETTINGS, None, None]
    assert [(line.get("document"), line.get("sha256")) for line in lines[1:]] == [("Zoë.txt", ["a" * 64]), ("b.txt", ["b" * 64])]


def test_a_sheet_goes_on_with_its_settings_and_checksums(path: Path) -> None:
    write(path, row("a.txt"), row("none.txt", status="error", sha256=[], error={"message": "there is no file none.txt"}))
    with open_sheet(path) as sheet:
        before = earlier(sheet.rows, SETTINGS, "answers.csv")
        assert before.statuses == {row_key("a.txt", "1"): "answered", row_key("none.txt", "1"): "error"}
        before.check_read(Job(("a.txt",), Question("1", "Who?")), ["a" * 64])
        with pytest.raises(FbragError, match=r"a\.txt has changed since answers\.csv got rows of it"):
            before.check_read(Job(("a.txt",), Question("1", "Who?")), ["b" * 64])
        with pytest.raises(FbragError, match="select was 5, is 2"):
            earlier(sheet.rows, {**SETTINGS, "select": 2}, "answers.csv")


def _without(path: Path) -> None:
    beside(path).unlink()


def _empty(path: Path) -> None:
    beside(path).write_bytes(b"")


def _of_another(path: Path) -> None:
    beside(path).write_bytes(beside(path).read_bytes().replace(b"a.txt", b"b.txt"))


def _of_the_user(path: Path) -> None:
    beside(path).write_text("Dear diary\n")


def _settings_are_none(path: Path) -> None:
    beside(path).write_text('{"schema":"fbrag.sheet/1","settings":5}\n{"schema":"fbrag.sheet/1","document":[]}\n')


def _without_settings(path: Path) -> None:
    beside(path).write_bytes(beside(path).read_bytes().partition(b"\n")[2])


def _older(path: Path) -> None:
    path.write_text(OLD)


def _saved_with_semicolons(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b",", b";"))


def _column_deleted(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"quote,", b""))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_without, "answers.settings.jsonl, which says how they were made, is missing"),
        (_empty, "answers.settings.jsonl, which says how they were made, is missing or empty"),
        (_of_another, "answers.settings.jsonl is not that of"),
        (_of_the_user, "answers.settings.jsonl holds no rows of this kind"),
        (_settings_are_none, "answers.settings.jsonl is not that of"),
        (_without_settings, "it lacks a part"),
        (_older, "it lacks the columns place, quote, proposed"),
        (_saved_with_semicolons, "its columns are parted by ;"),
        (_column_deleted, "it lacks the columns quote"),
    ],
)
def test_a_sheet_that_cannot_go_on_is_refused_in_one_line_and_stays(path: Path, change: Any, told: str) -> None:
    write(path, row("a.txt"), row("c.txt"))
    change(path)
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(FbragError) as raised, open_sheet(path):
        pass
    assert raised.value.code == "usage"
    assert told in raised.value.message
    assert "\n" not in raised.value.message
    assert {each: each.read_bytes() for each in before} == before


@pytest.mark.parametrize("change", [_without, _of_another, _older, _column_deleted])
def test_a_restart_begins_anew_at_its_first_row(path: Path, change: Any) -> None:
    write(path, row("a.txt"), row("c.txt"))
    change(path)
    before = path.read_bytes()
    with open_sheet(path, restart=True) as sheet:
        assert (sheet.rows, path.read_bytes()) == ([], before)
        sheet.write(row("new.txt", settings={"method": "vanilla"}))
    with open_sheet(path) as sheet:
        (found,) = sheet.rows
    assert (found["document"], json.loads(found["settings"])["method"]) == ("new.txt", "vanilla")


def test_settings_of_a_sheet_that_was_deleted_do_not_count(path: Path) -> None:
    write(path, row("a.txt"))
    path.unlink()
    write(path, row("b.txt", settings={"method": "vanilla"}))
    assert json.loads(beside(path).read_text("utf-8").splitlines()[0])["settings"] == {"method": "vanilla"}


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_sheet_that_a_spreadsheet_has_saved_goes_on(path: Path, end: str, mark: str) -> None:
    text = write(path, row("Zoë.txt"), row("Zoë.txt", "2")).decode("utf-8-sig").replace("\n", end)
    path.write_bytes((mark + text).encode())
    data = write(path, row("Zoë.txt", "3"))
    assert data.startswith((mark + text).encode())  # what is there stays
    assert [each["id"] for each in cells(path)] == ["1", "2", "3"]
    with open_sheet(path) as sheet:
        sheet.keep(lambda each: each["id"] != "2")
    assert [each["id"] for each in cells(path)] == ["1", "3"]
    assert path.read_bytes().startswith(mark.encode() + b"id,")


def test_a_sheet_that_is_cut_anywhere_ends_as_if_it_had_not_been(path: Path) -> None:
    rows = [row("a.txt"), row("a.txt", "2", answer='"Ay",\nhe said.'), row("b.txt")]
    whole, about = write(path, *rows), beside(path).read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with open_sheet(path) as sheet:
            done = {(each["document"], each["id"]) for each in sheet.rows}
            for each in rows:
                if (each["document"], each["id"]) not in done:
                    sheet.write(each)
        assert (path.read_bytes(), beside(path).read_bytes()) == (whole, about), end


FORMULAS = ['=HYPERLINK("http://a.b","x")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", " =1", "\uff1d1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(path: Path, text: str) -> None:
    """Whatever a document, its name, a question or a model says. The row is known again when the run goes on."""
    made = row(text, text, question=text, answer=text, place=text, quote=text, unsupported_answer=text, absent=[text])
    data = write(path, made)
    assert b"=HYP" not in data.replace(b"'=HYP", b"")
    (found,) = cells(path)
    for name in ("id", "document", "question", "answer", "place", "quote", "proposed", "absent"):
        assert found[name].startswith("'"), name
    with open_sheet(path) as sheet:
        before = earlier(sheet.rows, SETTINGS, "answers.csv")
    job = Job((text,), Question(text, text))
    assert job.key in before.statuses
    before.check_jobs([job])
    before.check_read(job, ["a" * 64])


@pytest.mark.parametrize("text", ["-5", "+3.50", "-1,000.5", "12%", "-3%", "5 days", "a=b", "(+1)"])
def test_numbers_and_words_are_cells_as_they_are(path: Path, text: str) -> None:
    write(path, row("a.txt", answer=text))
    assert cells(path)[0]["answer"] == text


def test_a_name_with_an_escape_is_shown(path: Path) -> None:
    """`cat answers.csv` would obey it."""
    data = write(path, row("a\x1b[2Jb.txt", "\x1b7"))
    assert b"\x1b" not in data
    assert b"\x1b" not in beside(path).read_bytes()
    with open_sheet(path) as sheet:
        assert row_key("a\x1b[2Jb.txt", "\x1b7") in earlier(sheet.rows, SETTINGS, "answers.csv").statuses


def test_a_row_has_a_place_a_quote_and_what_was_proposed(path: Path) -> None:
    shown = row("a.docx", place="a.docx:3 (4.2)", quote="Either party may\u2026", confidence=0.8)
    declined = row("b.docx", status="not_found", answer=None, unsupported_answer="30 days")
    write(path, shown, declined)
    found = [tuple(each[name] for name in ("answer", "place", "quote", "proposed", "confidence")) for each in cells(path)]
    assert found == [("The mate.", "a.docx:3 (4.2)", "Either party may…", "", "0.8"), ("", "", "", "30 days", "")]
    assert tuple(cells(path)[0]) == COLUMNS


def test_a_stream_has_no_mark() -> None:
    """A pipe is read by other programs, as cut and sort."""
    assert Columns().head.startswith(b"id,document,")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_for_a_view_is_not_read(tmp_path: Path) -> None:
    """Reading it would wait for a writer, without end."""
    path, found = tmp_path / "page.html", list[bool]()
    os.mkfifo(path)
    look = Thread(target=lambda: found.append(is_own(path)), daemon=True)
    look.start()
    look.join(10)
    assert found == [False]
