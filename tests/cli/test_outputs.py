"""What a command reads is never what it writes, and an output that is not its own stays as it is: for every command alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, Run

SMALL = ("--small", "smollm2-135m", "--large", "smollm2-135m", "--max-tokens", "8", "--samples", "1", "--set", "forward-tokens=8")
ROW = {"schema": "fbrag.row/1", "id": "1", "document": "a.txt", "question": "Who?"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A document, questions, jobs, prompts, rows of an earlier run, and links to the document."""
    texts = {
        "a.txt": INQUIRY.read_text("utf-8")[:900],
        "q.txt": "Who?\n",
        "jobs.csv": "document,question\na.txt,Who?\n",
        "prompts.json": "{}",
        "secret.txt": "a password, or a key",
        "rows.jsonl": json.dumps(ROW, separators=(",", ":")) + "\n",
        "of-rows.csv": "document,question\nrows.jsonl,Who?\n",
        "docs/c.jsonl": json.dumps(ROW, separators=(",", ":")) + "\n",
        "docs/b.txt": "The brig sailed at noon.",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "linked.txt").symlink_to("a.txt")
    os.link(tmp_path / "a.txt", tmp_path / "second.txt")
    os.link(tmp_path / "docs" / "b.txt", tmp_path / "third.txt")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "ask a.txt Who? -o a.txt",
        "ask a.txt Who? -o linked.txt",
        "ask linked.txt Who? -o second.txt",
        "ask a.txt Who? --html a.txt",
        "ask docs Who? -o docs/b.txt",
        "ask docs Who? --html third.txt",
        "explain a.txt Who? -o a.txt",
        "text a.txt -o a.txt",
        "batch a.txt -Q q.txt -o a.txt --restart",
        "batch a.txt -Q q.txt -o linked.txt --restart",
        "batch a.txt -Q q.txt -o second.txt --restart",
        "batch docs -Q q.txt -o docs/b.txt --restart",
        "batch docs -Q q.txt -o third.txt --restart",
        "batch docs --merge -Q q.txt -o docs/b.txt --restart",
        "batch a.txt -Q rows.jsonl -o rows.jsonl --restart",
        "batch rows.jsonl -Q q.txt -o rows.jsonl --restart",
        "batch --pairs rows.jsonl -o rows.jsonl --restart",
        "batch --pairs jobs.csv -o a.txt --restart",
        "batch --pairs of-rows.csv -o rows.jsonl --restart",
        "ask a.txt Who? -o secret.txt --password-file secret.txt",
        "explain a.txt Who? --html secret.txt --key-file secret.txt",
        "text a.txt -o secret.txt --password-file secret.txt",
        "batch a.txt -Q q.txt -o secret.txt --password-file secret.txt --restart",
        "eval rows.jsonl -o prompts.json --prompts prompts.json --restart",
        "eval rows.jsonl -o rows.jsonl --restart",
        "eval docs/b.txt --baseline rows.jsonl -o rows.jsonl --restart",
    ],
)
def test_an_input_is_no_output(fbrag: Run, folder: Path, line: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = fbrag(*line.split(), *(() if line.startswith(("eval", "text")) else SMALL))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "it is read, and would be overwritten" in done.stderr or "is not a file of such rows" in done.stderr
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "line",
    [
        "ask a.txt Who? -o x.html --html x.html",
        "ask a.txt Who? -o x.html --html ./docs/../x.html",
        "ask a.txt Who? -o x.html --html unmade.html",
        "ask a.txt Who? -o prompts.json --html linked.json",
        "explain a.txt Who? -o x.html --html x.html",
        "batch docs -Q q.txt -o x.csv --html x.jsonl",
        "batch docs -Q q.txt -o x.jsonl --html y --wide ./y",
    ],
)
def test_two_outputs_are_two_files(fbrag: Run, folder: Path, line: str) -> None:
    (folder / "unmade.html").symlink_to("x.html")
    (folder / "linked.json").symlink_to("prompts.json")
    done = fbrag(*line.split(), *SMALL)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"{' '.join(line.split()[-2:])} is already used for another output" in done.stderr
    assert not [*folder.glob("[xy]*")]
    assert (folder / "prompts.json").read_text("utf-8") == "{}"


def test_a_page_does_not_replace_the_file_that_stdout_is(clean_environment: dict[str, str], folder: Path) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "ask", "a.txt", "Who?", "--html", "x.html", *SMALL]
    with (folder / "x.html").open("w") as stdout:
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, cwd=folder, env=clean_environment, check=False)
    assert (done.returncode, b"--html x.html is already used" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    "more", ["--large nosuch.gguf", "--large a.txt", "--set prompts=prompts.json", "--retriever nosuch.gguf", "--select x"]
)
def test_rows_outlast_a_restart_that_cannot_begin(fbrag: Run, folder: Path, more: str) -> None:
    before = (folder / "rows.jsonl").read_bytes()
    done = fbrag("batch", "a.txt", "-Q", "q.txt", "-o", "rows.jsonl", "--restart", *SMALL, *more.split())
    assert done.returncode in (2, 4), done.stderr
    assert (folder / "rows.jsonl").read_bytes() == before


def test_an_existing_file_is_an_output(fbrag: Run, folder: Path) -> None:
    """As of any other command: a file that is not read is written anew, whole or not at all."""
    (folder / "old.txt").write_text("of yesterday", "utf-8")
    (folder / "docs" / "old.log.bak").write_text("of yesterday", "utf-8")
    for output in ("old.txt", "docs/old.log.bak"):
        assert fbrag("ask", "docs", "When did the brig sail?", "-o", output, "--exit-zero", *SMALL).returncode == 0
        assert "of yesterday" not in (folder / output).read_text("utf-8")


@pytest.mark.parametrize("output", ["", "..", "/", ".csv/"])
def test_a_folder_is_no_output_of_rows(fbrag: Run, folder: Path, output: str) -> None:
    (folder / ".csv").mkdir()
    done = fbrag("batch", "docs", "-Q", "q.txt", "-o", output, *SMALL)
    assert done.returncode == 2, done.stderr
