"""`fbrag batch` as a user runs it: rows as `ask` answers them, and an output that outlasts whatever happens to the run."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.conftest import INQUIRY, Run
from tests.servers import Loopback, stream

SMALL = ("--small", "smollm2-135m", "--large", "smollm2-135m", "--max-tokens", "8", "--samples", "1", "--set", "forward-tokens=8")
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
    assert f"6 rows: {n_answered} answered, {6 - n_answered} not found, 0 errors → out.jsonl" in done.stderr


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def time_limit(run: subprocess.Popen[Any], seconds: float = 300) -> Iterator[None]:
    """Kill a run that hangs, or that a failure would leave alone: `Popen` waits for it without end."""
    timer = Timer(seconds, run.kill)
    timer.start()
    try:
        yield
    except BaseException:
        run.kill()
        raise
    finally:
        timer.cancel()


def wait_until(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.001)


def test_a_run_that_is_killed_six_times_ends_as_one_that_was_not(
    folder: Path, clean_environment: dict[str, str], fbrag: Run
) -> None:
    arguments = ["batch", "docs/a.txt", "-Q", "q.txt", "--no-cache", *SMALL]
    output, chance = folder / "killed.jsonl", random.Random(0)
    command = [sys.executable, "-m", "fbrag_cli", *arguments, "-o", output.name, "--html", "killed.html"]
    started = time.monotonic()
    subprocess.run(command, cwd=folder, env=clean_environment, check=True)
    needed = time.monotonic() - started
    whole = timeless(output)
    output.unlink()
    kills = ended = 0
    while kills < 6:
        with subprocess.Popen(command, cwd=folder, env=clean_environment, stderr=subprocess.DEVNULL) as run, time_limit(run):
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
            needed *= 0.7  # the machine was busier when it was timed: such a run would always end first
            assert timeless(output) == whole
            output.unlink()
    assert fbrag(*arguments, "-o", output.name).returncode == 0
    assert timeless(output) == whole
    assert not list(folder.glob(".*.part"))
    assert ended > 0, "no run got to its end over several kills"


def test_other_settings_models_and_documents_are_refused(fbrag: Run, folder: Path) -> None:
    arguments = ("batch", "docs", "-Q", "q.txt", "-o", "out.jsonl", "--limit", "1")
    assert fbrag(*arguments, *SMALL).returncode == 0
    before = (folder / "out.jsonl").read_bytes()
    other = fbrag(*arguments, *SMALL, "--select", "2")
    assert (other.returncode, "select not given, now 2" in other.stderr) == (2, True), other.stderr
    (folder / "q.txt").write_text("Who was the captain?\n", "utf-8")
    asked = fbrag(*arguments, *SMALL)
    assert (asked.returncode, f"question 1 was {QUESTIONS[0]}, now Who was the captain?" in asked.stderr) == (2, True)
    (folder / "q.txt").write_text("\n".join(QUESTIONS), "utf-8")
    (folder / "docs" / "a.txt").write_text("Another text.", "utf-8")
    changed = fbrag(*arguments, *SMALL)
    assert (changed.returncode, "docs/a.txt has changed since out.jsonl was written" in changed.stderr) == (2, True)
    assert (folder / "out.jsonl").read_bytes() == before
    assert fbrag(*arguments, *SMALL, "--restart").returncode == 0
    assert (folder / "out.jsonl").read_bytes() != before


def test_a_dry_run_says_how_many_rows_there_are_and_how_long_they_take(fbrag: Run, folder: Path) -> None:
    command = ("batch", "docs", "-Q", "q.txt", "-o", "out.csv", *SMALL)
    before = fbrag(*command, "--dry-run")
    assert (before.returncode, before.stdout.startswith("2 documents, 6 rows: time unknown until")) == (0, True), before.stderr
    assert not list(folder.glob("*out*"))
    assert fbrag(*command, "--limit", "4").returncode == 0
    written = (folder / "out.jsonl").read_bytes()
    after = fbrag(*command, "--dry-run")
    assert (after.returncode, after.stdout) == (0, "1 document, 2 rows (and 4 written before): about 1 min\n"), after.stderr
    assert (folder / "out.jsonl").read_bytes() == written
    broken = fbrag("batch", "docs", "docs/none.txt", "-Q", "q.txt", "--dry-run", *SMALL)
    assert "none.txt" in broken.stderr


@pytest.mark.parametrize("document", ["docs", "-"])
def test_documents_that_are_known_when_they_are_read_are_refused_too(fbrag: Run, folder: Path, document: str) -> None:
    """A folder as one source, and stdin."""
    text = (folder / "docs" / "a.txt").read_text("utf-8")
    command = ("batch", document, "--merge", "-Q", "q.txt", "-o", "out.jsonl", *SMALL)
    assert fbrag(*command, "--limit", "1", stdin=text).returncode == 0
    before = (folder / "out.jsonl").read_bytes()
    (folder / "docs" / "c.txt").write_text("The brig sailed at noon.", "utf-8")
    other = fbrag(*command, stdin=text + "More.")
    assert (other.returncode, f"{document} has changed since out.jsonl was written" in other.stderr) == (2, True)
    assert (folder / "out.jsonl").read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_names_that_are_no_utf_8(fbrag: Run, folder: Path) -> None:
    for name in (b"caf\xe8.txt", b"caf\xe9.txt"):
        (folder / os.fsdecode(name)).write_text("The brig sailed at noon.", "utf-8")
    command = ("batch", os.fsdecode(b"caf\xe8.txt"), os.fsdecode(b"caf\xe9.txt"), "-Q", "q.txt", *SMALL)
    for output in ("out.csv", "other.jsonl"):
        assert fbrag(*command, "--limit", "3", "-o", output).returncode == 0
        done = fbrag(*command, "-o", output)
        assert "6 rows (3 from an earlier run)" in done.stderr


def test_a_document_that_cannot_be_read_makes_one_row_for_all_its_questions(fbrag: Run, folder: Path) -> None:
    (folder / "jobs.csv").write_text(
        "document,question,id,answers\ndocs/a.txt,When did the brig sail?,x,noon\nnone.txt,Who?,y,\nnone.txt,Why?,z,\n", "utf-8"
    )
    arguments = ("batch", "--pairs", "jobs.csv", "-o", "out.jsonl", *SMALL)
    done = fbrag(*arguments)
    assert done.returncode == 1
    assert "2 rows: " in done.stderr
    assert "1 error → out.jsonl" in done.stderr
    assert "--retry-errors" not in done.stderr  # it would not help
    found = rows_of(folder / "out.jsonl")
    assert [(row["id"], row["question"], row["status"] == "error") for row in found] == [
        ("x", "When did the brig sail?", False),
        (None, None, True),
    ]
    assert found[0]["answers"] == ["noon"]
    assert found[1]["error"]["code"] == "doc_not_found"
    again = fbrag(*arguments)
    assert (again.returncode, rows_of(folder / "out.jsonl")) == (1, found)
    (folder / "none.txt").write_text("The brig sailed at noon.", "utf-8")
    assert fbrag(*arguments, "--retry-errors").returncode == 0
    assert [row["id"] for row in rows_of(folder / "out.jsonl")] == ["x", "y", "z"]
    (folder / "none.txt").unlink()
    fast = fbrag("batch", "--pairs", "jobs.csv", "--fail-fast", *SMALL)
    assert (fast.returncode, len(fast.stdout.splitlines())) == (1, 2)


def test_a_page_shows_it_for_each_question(fbrag: Run, folder: Path) -> None:
    (folder / "docs" / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    views = ("-o", "out.csv", "--html", "out.html", "--wide", "wide.csv")
    done = fbrag("batch", "docs/broken.pdf", "-Q", "q.txt", *views, *SMALL)
    assert done.returncode == 1, done.stderr
    (row,) = csv.DictReader((folder / "out.csv").open(newline="", encoding="utf-8-sig"))
    assert (row["id"], row["question"], row["status"]) == ("", "", "error")
    _, (name, *cells) = csv.reader((folder / "wide.csv").open(newline="", encoding="utf-8-sig"))
    assert name == "docs/broken.pdf"
    assert [cell.startswith("error: ") for cell in cells] == [True] * 3
    assert "not asked yet" not in (folder / "out.html").read_text("utf-8")


def test_a_folder_without_files_is_an_error_of_its_rows_when_the_run_goes_on_too(fbrag: Run, folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "jobs.csv").write_text("document,question\nempty,Who?\ndocs/a.txt,When did the brig sail?\n", "utf-8")
    for _ in range(2):
        done = fbrag("batch", "--pairs", "jobs.csv", "-o", "out.jsonl", *SMALL)
        assert (done.returncode, "1 error → out.jsonl" in done.stderr) == (1, True), done.stderr


def test_errors_outside_the_run_stay(fbrag: Run, folder: Path) -> None:
    """Nothing is lost where --retry-errors is refused, and where the run is about other rows."""
    (folder / "jobs.csv").write_text("document,question\nnone.txt,Who?\nother.txt,Why?\ndocs/a.txt,When?\n", "utf-8")
    arguments = ("batch", "--pairs", "jobs.csv", "-o", "out.jsonl", *SMALL)
    assert fbrag(*arguments).returncode == 1
    before = (folder / "out.jsonl").read_bytes()
    assert fbrag(*arguments, "--retry-errors", "--select", "2").returncode == 2
    assert (folder / "out.jsonl").read_bytes() == before
    (folder / "none.txt").write_text("The brig sailed at noon.", "utf-8")
    assert fbrag(*arguments, "--retry-errors", "--limit", "1").returncode == 0
    assert {row["document"]: row["status"] == "error" for row in rows_of(folder / "out.jsonl")} == {
        "none.txt": False,
        "other.txt": True,
        "docs/a.txt": False,
    }


def test_rows_that_lack_a_part_are_refused(fbrag: Run, folder: Path) -> None:
    arguments = ("batch", "docs/a.txt", "-Q", "q.txt", "-o", "out.jsonl", "--limit", "1", *SMALL)
    assert fbrag(*arguments).returncode == 0
    whole = rows_of(folder / "out.jsonl")[0]
    for part in ("status", "document", "settings", "sha256"):
        lacking = json.dumps({name: value for name, value in whole.items() if name != part}, separators=(",", ":")) + "\n"
        (folder / "out.jsonl").write_text(lacking, "utf-8")
        done = fbrag(*arguments, "--retry-errors")
        assert (done.returncode, "out.jsonl is damaged: some rows are incomplete" in done.stderr) == (2, True), done.stderr
        assert (folder / "out.jsonl").read_text("utf-8") == lacking


def test_a_run_ends_after_so_many_errors(fbrag: Run, folder: Path) -> None:
    (folder / "jobs.csv").write_text("document,question\n" + "".join(f"none{i}.txt,Who?\n" for i in range(5)), "utf-8")
    done = fbrag("batch", "--pairs", "jobs.csv", "--max-errors", "2", *SMALL)
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 2)
    assert "stopped after 2 errors; 3 rows not asked" in done.stderr


def test_questions_and_rows_in_the_folder_are_no_documents(fbrag: Run, folder: Path) -> None:
    (folder / "docs" / "asked.txt").write_text("When?\n", "utf-8")
    for _ in range(2):
        done = fbrag("batch", "docs", "-Q", "docs/asked.txt", "-o", "docs/rows.csv", *SMALL)
        assert done.returncode == 0, done.stderr
    with (folder / "docs" / "rows.csv").open(newline="", encoding="utf-8") as file:
        assert "docs/a.txt" in (documents := {row["document"] for row in csv.DictReader(file)})
    assert not documents & {"docs/asked.txt", "docs/rows.csv"}


def test_they_are_no_part_of_a_folder_that_is_one_source(fbrag: Run, folder: Path) -> None:
    (folder / "docs" / "asked [1].txt").write_text("When did the brig sail?\n", "utf-8")
    (folder / "docs" / "asked 1.txt").write_text("The brig sailed when it was asked.\n", "utf-8")
    for _ in range(2):
        done = fbrag("batch", "docs", "--merge", "-Q", "docs/asked [1].txt", "-o", "docs/rows.csv", *SMALL)
        assert done.returncode == 0, done.stderr
        (folder / "docs" / "asked [1].txt").write_text("When did the brig sail?\nWho sealed the box?\n", "utf-8")
    with (folder / "docs" / "rows.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    read = {source.partition(":")[0] for row in rows for source in row["sources"].split("; ")}
    assert read == {"docs/a.txt", "docs/asked 1.txt", "docs/b.txt"}


def test_a_file_of_one_source_that_cannot_be_read_is_named_once(fbrag: Run, folder: Path) -> None:
    (folder / "docs" / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    done = fbrag("batch", "docs", "--merge", "-Q", "q.txt", "-o", "rows.csv", *SMALL)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("left out: ") == done.stderr.count("broken.pdf") == 1
    rows = map(json.loads, (folder / "rows.jsonl").read_text("utf-8").splitlines())
    assert all(any("broken.pdf" in warning for warning in row["warnings"]) for row in rows)


def test_fail_fast_counts_the_errors_of_this_run(fbrag: Run, folder: Path) -> None:
    (folder / "jobs.csv").write_text("document,question\nnone.txt,Who?\ndocs/a.txt,When?\ndocs/a.txt,Why?\n", "utf-8")
    for n_rows in (1, 3):
        assert fbrag("batch", "--pairs", "jobs.csv", "-o", "out.jsonl", "--fail-fast", *SMALL).returncode == 1
        assert len(rows_of(folder / "out.jsonl")) == n_rows


def test_the_help_names_the_columns(fbrag: Run) -> None:
    from fbrag_cli.batch.row import COLUMNS

    told = set(re.findall(r"\w+", fbrag("batch", "--help-all").stdout))
    assert not set(COLUMNS) - told


def test_columns_of_csv(fbrag: Run, folder: Path) -> None:
    for limit in ("1", "3"):
        assert fbrag("batch", "docs/a.txt", "-Q", "q.txt", "-o", "out.csv", "--limit", limit, *SMALL).returncode == 0
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["question"] for row in rows] == list(QUESTIONS)
    assert rows[0]["sources"].startswith("docs/a.txt:")
    assert (
        (folder / "out.csv")
        .read_text("utf-8")
        .startswith("\ufeffid,document,question,status,answer,location,quote,unsupported_answer")
    )
    assert sorted(name for name in os.listdir(folder) if "out" in name) == ["out.csv", "out.jsonl"]


def test_a_sheet_goes_on_from_the_rows_beside_it(fbrag: Run, folder: Path) -> None:
    """Under the checks of all rows: the sheet is as it was where they refuse."""
    arguments = ("batch", "docs/a.txt", "-Q", "q.txt", "-o", "out.csv", *SMALL)
    assert fbrag(*arguments, "--limit", "1").returncode == 0
    before = (folder / "out.csv").read_bytes()
    other = fbrag(*arguments, "--select", "2")
    assert (
        other.returncode,
        "out.jsonl was written with other settings (select not given, now 2)" in other.stderr,
    ) == (2, True)
    (folder / "other.txt").write_text("Who was the captain?\n", "utf-8")
    other = fbrag("batch", "docs/a.txt", "-Q", "other.txt", "-o", "out.csv", *SMALL)
    assert (other.returncode, "out.jsonl was written with other questions" in other.stderr) == (2, True)
    assert (folder / "out.csv").read_bytes() == before
    (folder / "out.csv").unlink()  # as where a run was killed
    assert "3 rows (1 from an earlier run)" in fbrag(*arguments).stderr
    assert len((folder / "out.csv").read_text("utf-8").splitlines()) == 4
    (folder / "out.jsonl").unlink()
    whole = (folder / "out.csv").read_bytes()
    alone = fbrag(*arguments)
    assert (alone.returncode, "cannot resume out.csv: out.jsonl is missing or empty" in alone.stderr) == (2, True), alone.stderr
    assert [name for name in os.listdir(folder) if "out" in name] == ["out.csv"]
    assert (folder / "out.csv").read_bytes() == whole
    assert fbrag(*arguments, "--limit", "2", "--restart").returncode == 0
    assert len((folder / "out.csv").read_text("utf-8").splitlines()) == 3


def test_rows_that_are_read_are_not_written(fbrag: Run, folder: Path) -> None:
    """Rows of a batch may be the jobs of another one."""
    (folder / "out.jsonl").write_text('{"schema":"fbrag.row/1","document":"docs/a.txt","question":"When?"}\n', "utf-8")
    done = fbrag("batch", "--pairs", "out.jsonl", "-o", "out.csv", "--restart", *SMALL)
    assert (done.returncode, "-o out.jsonl: it is read, and would be overwritten" in done.stderr) == (2, True), done.stderr


def test_a_terminal_obeys_no_cell_of_csv(fbrag: Run, folder: Path) -> None:
    (folder / "q.txt").write_text("Who\x1b[2J?\n", "utf-8")
    arguments = ("batch", "docs/a.txt", "-Q", "q.txt", "-o", "out.csv", "--method", "vanilla", "--allow-unsupported")
    with Loopback() as server:
        server.default = stream("The \x1b]0;x\x07master.\nThe mate.")
        for _ in range(2):
            done = fbrag(*arguments, "--large", server.address)
            assert done.returncode == 0, done.stderr
    assert "1 row (1 from an earlier run)" in done.stderr
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["question"], row["answer"]) == ("Who␛[2J?", "The ␛]0;x␇master.\nThe mate.")


def test_values_of_answers_in_their_columns(fbrag: Run, folder: Path) -> None:
    """By the language of each document; the sentence is next to them."""
    (folder / "docs" / "a.txt").write_text("The rent of the house is 1,200.50 euros. Nothing else is said.", "utf-8")
    (folder / "docs" / "b.txt").write_text(
        "Die Miete (rent) des Hauses ist 1.200,50 Euro und wird am Anfang des Monats bezahlt.", "utf-8"
    )
    asked = 'question,name,type\n"How high is the rent?",rent,number\n"Who pays, wer bezahlt?",,\n'
    (folder / "q.csv").write_text(asked, "utf-8")
    alone = ("--method", "vanilla", "--allow-unsupported")
    command = ("batch", "docs", "-Q", "q.csv", "-o", "out.csv", "--wide", "wide.csv", *alone)
    with Loopback() as server:
        server.replies.extend(map(stream, ("1,200.50 euros", "The tenant.", "1.200,50 Euro", "Der Mieter.")))
        done = fbrag(*command, "--large", server.address)
        assert done.returncode == 0, done.stderr
        (folder / "q.csv").write_text(asked.replace("number", "text"), "utf-8")
        other = fbrag(*command, "--large", server.address)
    rows = list(csv.DictReader((folder / "out.csv").open(newline="", encoding="utf-8-sig")))
    assert [(row["name"], row["value"]) for row in rows] == [("rent", "1200.5"), ("", ""), ("rent", "1200.5"), ("", "")]
    assert "answers" not in rows[0]
    assert [row.get("value") for row in rows_of(folder / "out.jsonl")] == [1200.5, None, 1200.5, None]
    head, first, _ = csv.reader((folder / "wide.csv").open(newline="", encoding="utf-8-sig"))
    assert head[1:] == ["rent", "rent (answer)", "rent (sentence)", "rent (location)", "Who pays, wer bezahlt?"]
    assert first[1:] == ["1200.5", "1,200.50 euros", "The rent of the house is 1,200.50 euros.", "docs/a.txt:1", "The tenant."]
    assert (other.returncode, "now How high is the rent? (rent: text)" in other.stderr) == (2, True), other.stderr


def test_gold_answers_are_carried_into_a_column(fbrag: Run, folder: Path) -> None:
    (folder / "jobs.jsonl").write_text('{"document":"docs/a.txt","question":"When?","answers":["noon","at 12"]}\n', "utf-8")
    assert fbrag("batch", "--pairs", "jobs.jsonl", "-o", "out.csv", *SMALL).returncode == 0
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert json.loads(row["answers"]) == ["noon", "at 12"]


@pytest.fixture
def many(folder: Path) -> Path:
    """400 questions in many.txt."""
    (folder / "many.txt").write_text("".join(f"Who was number {i}?\n" for i in range(400)), "utf-8")
    return folder


def test_ctrl_c_ends_a_run_behind_a_whole_row(many: Path, clean_environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "fbrag_cli", "batch", "docs/a.txt", "-Q", "many.txt", *SMALL]
    with (
        subprocess.Popen(command, cwd=many, env=clean_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run,
        time_limit(run, 120),
    ):
        assert run.stdout
        first = run.stdout.readline()
        run.send_signal(signal.SIGINT)
        rest, told = run.communicate()
    assert run.returncode == 130, told
    rows = [json.loads(line) for line in (first + rest).splitlines()]
    assert [row["id"] for row in rows] == [str(i) for i in range(1, len(rows) + 1)]
    assert len(rows) < 400


def test_a_time_limit_leaves_rows_from_which_the_run_goes_on(many: Path, fbrag: Run) -> None:
    command = ("batch", "docs/a.txt", "-Q", "many.txt", "-o", "out.jsonl", *SMALL)
    n_before = 0
    for power in range(2, 8):  # from 4 s to 128 s, until the first row is there
        if n_before == 0:
            stopped = fbrag(*command, "--timeout", str(2**power))
            assert stopped.returncode == 5, stopped.stderr
            before = (many / "out.jsonl").read_bytes()
            n_before = len(before.splitlines())
    assert n_before > 0
    assert fbrag(*command, "--limit", str(n_before + 1)).returncode == 0
    assert (many / "out.jsonl").read_bytes().startswith(before)
    assert [row["id"] for row in rows_of(many / "out.jsonl")] == [str(i) for i in range(1, n_before + 2)]


def test_a_terminal_shows_how_far_the_run_is(folder: Path, clean_environment: dict[str, str]) -> None:
    """Before the first row is there, too; and how many rows have an error."""
    lines = ["document,question", "docs/a.txt,Who?", "docs/a.txt,Where?", "none.txt,Why?", "docs/b.txt,When?"]
    (folder / "jobs.csv").write_text("\n".join(lines), "utf-8")
    command = ["batch", "--pairs", "jobs.csv", "-o", "out.jsonl", "--no-cache", *SMALL]
    seen = b""
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    master, slave = pty.openpty()
    arguments = [sys.executable, "-m", "fbrag_cli", *command]
    environment = {**clean_environment, "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(arguments, stderr=slave, cwd=folder, env=environment) as run, time_limit(run):
        os.close(slave)
        with suppress(OSError):
            while piece := os.read(master, 65536):
                seen += piece
    assert run.returncode == 1
    os.close(master)
    assert re.search(rb"batch: 0 of 4 rows|0/4 rows", seen)  # a bar, if the models took a second to load
    assert b"4 rows: " in seen
    assert b"3/4 rows, 1 error" in seen


def test_a_terminal_is_told_how_questions_end(folder: Path, clean_environment: dict[str, str]) -> None:
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "fbrag_cli", "batch", "docs", "-Q", "-", *SMALL]
    with (
        subprocess.Popen(command, stdin=slave, stderr=subprocess.PIPE, cwd=folder, env=clean_environment, text=True) as run,
        time_limit(run, 60),
    ):
        os.close(slave)
        os.write(master, b"\x04")
        _, told = run.communicate()
    os.close(master)
    assert run.returncode == 2
    assert told.startswith("hint: reading from stdin; press Ctrl-D to end\nerror: no questions in stdin")


def test_documents_together_and_questions_from_stdin(fbrag: Run, folder: Path) -> None:
    done = fbrag("batch", "docs/a.txt", "docs/b.txt", "--merge", "-Q", "-", *SMALL, stdin="When did the brig sail?\n")
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
    done = fbrag("batch", "docs", "-Q", "q.txt", "--no-cache", "--jobs", "3", *SMALL)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["document"], row["id"]) for row in rows] == [(f"docs/{name}.txt", number) for name in "ab" for number in "123"]
    assert all(row["answer"] or row["unsupported_answer"] for row in rows)
    assert "hint: on a CPU, --jobs 3 is slower than --jobs 1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["docs"], "use either --questions FILE or --pairs FILE"),
        (["-Q", "q.txt"], "no documents given"),
        (["docs", "--pairs", "q.txt"], "--pairs cannot be combined with DOC or --merge"),
        (["docs", "-Q", "q.txt", "--shard", "3/2"], "--shard 3/2: expected I/N"),
        (["docs", "-Q", "q.txt", "--jobs", "many"], '--jobs is "many", expected auto or a number from 1 to 64'),
        (["docs", "-Q", "q.txt", "--set", "gpu-layers=²"], '--set gpu-layers is "²", expected auto, all or a number'),
        (["-", "-Q", "-"], "'-' (stdin) is used twice"),
        (["docs", "-Q", "q.txt", "-o", "docs"], "docs is not a regular file"),
        (["docs", "-Q", "q.txt", "-o", "q.txt"], "-o q.txt: it is read, and would be overwritten"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_line(fbrag: Run, folder: Path, arguments: list[str], told: str) -> None:
    done = fbrag("batch", *arguments, *SMALL)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert (folder / "q.txt").read_text("utf-8").startswith("# of the inquiry")
