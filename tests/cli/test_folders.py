"""Folders and several files as a user gives them. `--dry-run` reads and plans; one test asks the 135M model."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path
from unicodedata import normalize

import pytest

from tests.conftest import Run

SHORT = ("--set", "recall=2", "--select", "2", "--samples", "2", "--chunk-words", "60", "--set", "forward-tokens=24")
FAST = (*SHORT, "--max-tokens", "16", "--small", "smollm2-135m", "-m", "smollm2-135m")
QUESTION = "Who keeps the lighthouse?"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "a.txt").write_text("The lighthouse is kept by Agnes Moor.\n" + "The sea was grey that day. " * 60)
    (folder / "b.md").write_text("# Harbour\n\nThe harbour master is Tom Reed.\n\n# Mill\n\nThe mill stands still.\n")
    (folder / "deep" / "er" / "c.txt").write_text("The baker's name is Ulla Brandt.\n")
    (folder / "page.html").write_text("<title>Well</title><p>The well is <b>dry</b>.</p>")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0 no text")
    (folder / ".hidden.txt").write_text("hidden")
    return folder


def planned(done_stdout: str) -> int:
    found = re.match(r"(\d+) documents?, ", done_stdout)
    assert found, done_stdout
    return int(found[1])


def test_a_folder_is_read_recursively_without_what_is_hidden_or_unknown(fbrag: Run, notes: Path) -> None:
    done = fbrag("ask", notes, QUESTION, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert planned(done.stdout) == 4
    assert done.stderr == "warning: 1 file was not read: 1 .jpg (--include '*' reads every type)\n"


def test_the_plan_has_no_plural_for_one(fbrag: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Lamp")
    done = fbrag("ask", tmp_path / "a.txt", QUESTION, "--dry-run", "--samples", "1")
    assert done.stdout == "1 document, 1 word, 1 chunk: 1 to retrieve, 1 forward sample, 1 to select\n"


@pytest.mark.parametrize(
    ("options", "n_documents"), [(("--include", "*.txt"), 2), (("--exclude", "deep/"), 3), (("--exclude", "*.md"), 3)]
)
def test_include_and_exclude(fbrag: Run, notes: Path, options: tuple[str, ...], n_documents: int) -> None:
    assert planned(fbrag("ask", notes, QUESTION, "--dry-run", *options).stdout) == n_documents


def test_every_door_takes_names_in_another_normal_form(fbrag: Run, tmp_path: Path) -> None:
    folder = tmp_path / normalize("NFD", "Verträge")
    folder.mkdir()
    (folder / normalize("NFD", "Größe.txt")).write_text("The boat is 12 meters long.\n")
    (folder / normalize("NFD", "Fragen für alle.txt")).write_text("How long is the boat?\n")
    (folder / normalize("NFD", "Einträge.toml")).write_text('format = "json"\n')
    (folder / "jobs.csv").write_text("document,question\nVerträge/Größe.txt,How long is the boat?\n")
    about = ("--method", "vanilla", "--max-tokens", "2", "--large", "smollm2-135m")

    assert "12 meters" in fbrag("text", "Verträge/Größe.txt").stdout
    assert "the question is missing" in fbrag("ask", "Verträge", "Verträge/Größe.txt").stderr
    plan = fbrag("ask", "Verträge", QUESTION, "--dry-run", "--include", "Grö*", "--config", "Verträge/Einträge.toml")
    assert json.loads(plan.stdout)["documents"] == 1
    done = fbrag("batch", "--pairs", "Verträge/jobs.csv", *about, "-o", "Verträge/out.jsonl")
    (row,) = map(json.loads, (folder / "out.jsonl").read_text().splitlines())
    assert (row["document"], row["status"] != "error") == ("Verträge/Größe.txt", True), done.stderr
    done = fbrag("batch", "--pairs", "Verträge/jobs.csv", *about, "-o", "Verträge/Größe.txt")
    assert (done.returncode, "would be overwritten" in done.stderr) == (2, True)
    done = fbrag("batch", "Verträge", "--include", "*.txt", "-Q", "Verträge/Fragen für alle.txt", *about)
    assert len(done.stdout.splitlines()) == 1, "the file of questions is no document"


def test_git_ignored_files_are_left_out(fbrag: Run, notes: Path) -> None:
    (notes / ".git").mkdir()
    (notes / ".gitignore").write_text("deep/\n*.html\n")
    assert planned(fbrag("ask", notes, QUESTION, "--dry-run").stdout) == 2


def test_the_files_of_other_types_are_told_on_every_way(fbrag: Run, tmp_path: Path) -> None:
    """A club's folder, whose answer is in a file without a suffix."""
    folder = tmp_path / "club"
    folder.mkdir()
    (folder / "minutes.md").write_text("The rules are in the file of the rules. Dogs were talked about for an hour.\n")
    (folder / "rules").write_text("Dogs may be brought on weekdays after five, on the lead.\n")
    (folder / "news.log.1").write_text("2026-01-09 dog of Mr. Fenn found in boat Heron\n")
    for name in ("old rules.doc", "letter.msg", "fees.numbers"):
        (folder / name).write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    said = "3 files were not read: 1 .doc, 1 .msg, 1 .numbers (--include '*' reads every type)"
    text = fbrag("text", folder)
    assert "on weekdays after five" in text.stdout
    assert "boat Heron" in text.stdout
    assert said in text.stderr
    explained = fbrag("explain", "--method", "vanilla", folder, "When may dogs be brought?", "--json")
    assert json.loads(explained.stdout)["warnings"] == [said]
    assert said in fbrag("ask", "--dry-run", folder, "When?").stderr


def test_a_hundred_files_with_comments_are_one_line(fbrag: Run, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(40):
        (folder / f"{n}.html").write_text(f"<p>Page {n} is <del>old</del> new.</p>")
        (folder / f"{n}.docx").write_bytes(b"no document \0")
    done = fbrag("text", folder)
    lines = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(lines) <= 3
    assert any("(and 39 more files alike)" in line and "--markup" in line for line in lines)
    explained = fbrag("explain", "--method", "vanilla", folder, "Which page?", "--json")
    assert len(json.loads(explained.stdout)["warnings"]) >= 80


def test_files_folders_and_stdin_are_pooled_each_once(fbrag: Run, notes: Path) -> None:
    done = fbrag("ask", notes / "a.txt", notes, "-", QUESTION, "--dry-run", stdin="The ferry leaves at nine.")
    assert planned(done.stdout) == 5, done.stderr


def test_what_cannot_be_read_is_a_warning_and_an_error_when_strict(fbrag: Run, notes: Path) -> None:
    (notes / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing more")
    (notes / "blank.txt").write_text(" \n")
    (notes / "bomb.docx").write_bytes(b"PK\x03\x04 not a zip")
    os.mkfifo(notes / "pipe.txt")
    done = fbrag("ask", notes, QUESTION, "--dry-run")
    assert done.returncode == 0
    assert planned(done.stdout) == 4
    counted, *warnings = done.stderr.splitlines()
    assert counted.startswith("warning: 1 file was not read: 1 .jpg")
    assert all(line.startswith("warning: left out: ") for line in warnings)
    assert {name for name in ("broken.pdf", "blank.txt", "bomb.docx", "pipe.txt") if name in done.stderr} == {
        "broken.pdf",
        "blank.txt",
        "bomb.docx",
    }
    again = fbrag("ask", notes, QUESTION, "--dry-run")
    assert (again.stdout, again.stderr) == (done.stdout, done.stderr)
    strict = fbrag("ask", notes, QUESTION, "--dry-run", "--strict")
    assert strict.returncode == 3
    assert strict.stderr.startswith("error: ")


def test_a_folder_of_which_nothing_can_be_read_is_an_error(fbrag: Run, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    assert fbrag("ask", folder, QUESTION, "--dry-run").returncode == 3
    (folder / "a.txt").write_text(" \n")
    (folder / "b.txt").write_text("")
    done = fbrag("ask", folder, QUESTION, "--dry-run")
    assert done.returncode == 3
    assert "a.txt" in done.stderr


def test_a_zip_bomb_among_the_files_costs_itself_only(fbrag: Run, notes: Path) -> None:
    with zipfile.ZipFile(notes / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("[Content_Types].xml", "<Types/>")
        with bomb.open("word/document.xml", "w", force_zip64=True) as document:
            for _ in range(300):  # MB; 64 are the limit
                document.write(b" " * 1_000_000)
    done = fbrag("ask", notes, QUESTION, "--dry-run")
    assert done.returncode == 0
    assert planned(done.stdout) == 4
    assert "bomb.docx" in done.stderr


def test_a_second_question_reads_nothing_again_and_a_change_is_noticed(fbrag: Run, notes: Path, smollm2: Path) -> None:
    for path in notes.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def ask(*options: str) -> dict[str, object]:
        done = fbrag("ask", notes, QUESTION, "--json", "--exit-zero", *FAST, *options)
        assert done.returncode == 0, done.stderr
        told: dict[str, object] = json.loads(done.stdout)
        return told

    first, second = ask(), ask()
    assert first["cached"] == []
    assert second["cached"] == ["text", "index", "samples", "answer"]
    assert first["sources"] == second["sources"]
    assert first["documents"] == second["documents"]
    assert ask("--no-cache")["sources"] == first["sources"]

    (notes / "a.txt").write_text("The lighthouse is kept by Berta Lund.\n")
    third = ask()
    assert third["cached"] == []
    assert any("Berta Lund" in source["text"] for source in third["sources"])  # type: ignore[attr-defined]


def test_a_file_has_the_same_scores_alone_and_in_a_folder_of_one(fbrag: Run, notes: Path, smollm2: Path) -> None:
    (notes / "one").mkdir()
    (notes / "one" / "a.txt").write_text((notes / "a.txt").read_text())

    def backward(path: Path) -> list[float]:
        done = fbrag("explain", path, QUESTION, "--json", *SHORT, "--small", "smollm2-135m")
        return [chunk["backward_score"] for chunk in json.loads(done.stdout)["chunks"]]

    assert backward(notes / "one") == backward(notes / "one" / "a.txt") != []
