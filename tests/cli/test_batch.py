"""`fbrag batch` as a user runs it: rows as `ask` answers them, and an output that outlasts whatever happens to the run."""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import INQUIRY, Run

SMALL = ("--small", "smollm2-135m", "--large", "smollm2-135m", "--max-tokens", "8", "--samples", "1", "--forward-tokens", "8")
QUESTIONS = ("Who sealed the chronometer box?", "When did the brig sail?", "What was stamped on the anchor?")


@pytest.fixture
def folder(tmp_path: Path, smollm2: Path) -> Path:
    """Two documents in docs/, and three questions in q.txt."""
    text = INQUIRY.read_text("utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(text[:900], "utf-8")
    (tmp_path / "docs" / "b.txt").write_text(text[-900:], "utf-8")
    (tmp_path / "q.txt").write_text("# of the inquiry\n" + "\n".join(QUESTIONS) + "\n", "utf-8")
    return tmp_path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def timeless(path: Path) -> list[dict[str, Any]]:
    return [{**row, "seconds": None} for row in rows_of(path)]


def test_rows_are_what_ask_answers(fbrag: Run, folder: Path) -> None:
    done = fbrag("batch", "docs", "-Q", "q.txt", "-o", "out.jsonl", *SMALL)
    assert done.returncode == 0, done.stderr
    rows = rows_of(folder / "out.jsonl")
    assert [(row["document"], row["question"]) for row in rows] == [
        (f"docs/{name}.txt", question) for name in "ab" for question in QUESTIONS
    ]
    told = json.loads(fbrag("ask", "docs/b.txt", QUESTIONS[1], "--json", "--no-cache", *SMALL).stdout)
    row = rows[4]
    assert (row["status"], row["answer"], row["unsupported_answer"]) == (
        told["status"],
        told["answer"],
        told["unsupported_answer"],
    )
    assert [(source["start_line"], source["end_line"]) for source in row["sources"]] == [
        (source["start_line"], source["end_line"]) for source in told["sources"]
    ]
    n_answered = sum(each["status"] == "answered" for each in rows)
    assert f"6 rows: {n_answered} answered, {6 - n_answered} not found, 0 errors (out.jsonl)" in done.stderr


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def wait_until(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.001)


def test_a_run_that_is_killed_twenty_times_ends_as_one_that_was_not(
    folder: Path, clean_environment: dict[str, str], fbrag: Run
) -> None:
    arguments = ["batch", "docs/a.txt", "-Q", "q.txt", "--no-cache", *SMALL]
    started = time.monotonic()
    assert fbrag(*arguments, "-o", "whole.jsonl").returncode == 0
    needed = time.monotonic() - started
    whole, output, chance = timeless(folder / "whole.jsonl"), folder / "killed.jsonl", random.Random(0)
    command = [sys.executable, "-m", "fbrag_cli", *arguments, "-o", output.name]
    kills = ended = 0
    while kills < 20:
        with subprocess.Popen(command, cwd=folder, env=clean_environment, stderr=subprocess.DEVNULL) as run:
            if kills % 2:  # at any time
                end = time.monotonic() + chance.uniform(0.2, 1) * needed
                wait_until(lambda run=run, end=end: run.poll() is not None or time.monotonic() > end)
            else:  # about when a row is written
                size = size_of(output)
                wait_until(
                    lambda run=run, size=size: run.poll() is not None or (output.exists() and output.stat().st_size > size)
                )
            run.kill()
        kills += run.returncode == -signal.SIGKILL
        if run.returncode == 0:
            ended += 1
            assert timeless(output) == whole
            output.unlink()
    assert fbrag(*arguments, "-o", output.name).returncode == 0
    assert timeless(output) == whole
    assert ended > 0, "no run got to its end over several kills"


def test_other_settings_models_and_documents_are_refused(fbrag: Run, folder: Path) -> None:
    arguments = ("batch", "docs", "-Q", "q.txt", "-o", "out.jsonl", "--limit", "1")
    assert fbrag(*arguments, *SMALL).returncode == 0
    before = (folder / "out.jsonl").read_bytes()
    other = fbrag(*arguments, *SMALL, "--select", "2")
    assert (other.returncode, "select was 5, is 2" in other.stderr) == (2, True), other.stderr
    (folder / "docs" / "a.txt").write_text("Another text.", "utf-8")
    changed = fbrag(*arguments, *SMALL)
    assert (changed.returncode, "docs/a.txt has changed since out.jsonl got rows of it" in changed.stderr) == (2, True)
    assert (folder / "out.jsonl").read_bytes() == before
    assert fbrag(*arguments, *SMALL, "--restart").returncode == 0
    assert (folder / "out.jsonl").read_bytes() != before


def test_a_document_that_cannot_be_read_makes_rows_with_errors(fbrag: Run, folder: Path) -> None:
    (folder / "jobs.csv").write_text(
        "document,question,id,answers\ndocs/a.txt,When did the brig sail?,x,noon\nnone.txt,Who?,y,\nnone.txt,Why?,z,\n", "utf-8"
    )
    arguments = ("batch", "--jobs", "jobs.csv", "-o", "out.jsonl", *SMALL)
    done = fbrag(*arguments)
    assert done.returncode == 1
    assert "3 rows: " in done.stderr
    assert "2 errors (out.jsonl)" in done.stderr
    found = rows_of(folder / "out.jsonl")
    assert [(row["id"], row["status"] == "error") for row in found] == [("x", False), ("y", True), ("z", True)]
    assert found[0]["answers"] == ["noon"]
    assert found[1]["error"]["code"] == "doc_not_found"
    again = fbrag(*arguments)
    assert (again.returncode, rows_of(folder / "out.jsonl")) == (1, found)
    (folder / "none.txt").write_text("The brig sailed at noon.", "utf-8")
    assert fbrag(*arguments, "--retry-errors").returncode == 0
    assert [row["id"] for row in rows_of(folder / "out.jsonl")] == ["x", "y", "z"]
    (folder / "none.txt").unlink()
    fast = fbrag("batch", "--jobs", "jobs.csv", "--fail-fast", *SMALL)
    assert (fast.returncode, len(fast.stdout.splitlines())) == (1, 2)


def test_columns_of_csv(fbrag: Run, folder: Path) -> None:
    for limit in ("1", "3"):
        assert fbrag("batch", "docs/a.txt", "-Q", "q.txt", "-o", "out.csv", "--limit", limit, *SMALL).returncode == 0
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["question"] for row in rows] == list(QUESTIONS)
    assert rows[0]["sources"].startswith("docs/a.txt:")
    assert json.loads(rows[0]["settings"])["max_tokens"] == 8


def test_documents_together_and_questions_from_stdin(fbrag: Run, folder: Path) -> None:
    done = fbrag("batch", "docs/a.txt", "docs/b.txt", "--together", "-Q", "-", *SMALL, stdin="When did the brig sail?\n")
    assert done.returncode == 0, done.stderr
    (row,) = map(json.loads, done.stdout.splitlines())
    assert row["document"] == "docs/a.txt, docs/b.txt"
    assert {source["document"] for source in row["sources"]} == {"docs/a.txt", "docs/b.txt"}


def test_shards_are_parts_of_the_whole(fbrag: Run, folder: Path) -> None:
    arguments = ("batch", "docs", "-Q", "q.txt", *SMALL)
    parts = [fbrag(*arguments, "--shard", f"{i}/2").stdout.splitlines() for i in (1, 2)]
    assert list(map(len, parts)) == [3, 3]
    keys = [(row["document"], row["id"]) for part in parts for row in map(json.loads, part)]
    assert sorted(keys) == [(f"docs/{name}.txt", number) for name in "ab" for number in "123"]


def test_questions_at_once_give_their_rows_in_order(fbrag: Run, folder: Path) -> None:
    """Equal answers are tested with a model in full precision (tests/session): batches of other sizes round otherwise."""
    done = fbrag("batch", "docs", "-Q", "q.txt", "--no-cache", "--parallel", "3", *SMALL)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["document"], row["id"]) for row in rows] == [(f"docs/{name}.txt", number) for name in "ab" for number in "123"]
    assert all(row["answer"] or row["unsupported_answer"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["docs"], "either --questions FILE or --jobs FILE is needed"),
        (["-Q", "q.txt"], "no document is named"),
        (["docs", "--jobs", "q.txt"], "--jobs names the documents itself"),
        (["docs", "-Q", "q.txt", "--shard", "3/2"], "--shard 3/2: not a part of the rows"),
        (["docs", "-Q", "q.txt", "--parallel", "many"], "--parallel many: not a number of questions"),
        (["-", "-Q", "-"], "'-' stands for stdin, which can be read only once"),
        (["docs", "-Q", "q.txt", "-o", "docs"], "docs cannot be written"),
        (["docs", "-Q", "q.txt", "-o", "q.txt"], "q.txt holds no rows of this kind"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_line(fbrag: Run, folder: Path, arguments: list[str], told: str) -> None:
    done = fbrag("batch", *arguments, *SMALL)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert (folder / "q.txt").read_text("utf-8").startswith("# of the inquiry")
