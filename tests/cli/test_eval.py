"""`fbrag eval` as a user runs it: retrieval alone, and the 135M model on two questions."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, Run, needs
from tests.documents.making import docx, w_paragraph
from tests.retrieval import minilm
from tests.servers import Loopback, stream

QUESTIONS = INQUIRY.with_suffix(".questions.jsonl")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Questions on the inquiry as the teams' own sets have them: one document for all, gzip."""
    (tmp_path / "data").mkdir()
    with gzip.open(tmp_path / "data" / "inquiry.txt.gz", "wt", encoding="utf-8") as text:
        text.write(INQUIRY.read_text("utf-8"))
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    path = tmp_path / "data" / "inquiry.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            told = {"_id": row["id"], "dataset": "inquiry", "input": row["question"], "answers": row["answers"] or []}
            told |= {"evidence": row["evidence"], "context_file": "inquiry.txt.gz", "language": "en"}
            file.write(json.dumps(told) + "\n")
    return path


def test_the_questions_of_the_repository_can_be_tried_at_once(fbrag: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    command = ("eval", QUESTIONS, "--retrieval-only", "--method", "vanilla", "--set", "select=3,10", "-o", rows)
    done = fbrag(*command, "--tables", env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    begun = "vanilla:select=10 is better than vanilla:select=3: Evidence recall of the selected chunks +"
    assert " ".join(done.stdout.split()).startswith(begun)
    assert len(rows.read_text().splitlines()) == 2 * len(QUESTIONS.read_text("utf-8").splitlines())
    assert "Evidence recall" in done.stdout
    assert re.search(r"(?m)^vanilla:select=10 +\*\d\d\.\d \[\d\d\.\d, \d\d\.\d\]$", done.stdout)
    assert "Cost" not in done.stdout  # of zeros


def test_retrieval_alone_needs_no_model_and_makes_a_table_with_intervals(fbrag: Run, data: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    done = fbrag("eval", data, "--retrieval-only", "--method", "vanilla", "--set", "select=3,5,10", "-o", rows, "--json")
    assert done.returncode == 0, done.stderr
    written = [json.loads(line) for line in rows.read_text().splitlines()]
    n = len(data.read_text().splitlines())
    assert len(written) == 3 * n
    recall = {
        select: [r["metrics"]["evidence_recall"] for r in written if r["configuration"]["select"] == select]
        for select in (3, 5, 10)
    }
    means = [sum(value for value in values if value is not None) for values in recall.values()]
    assert means == sorted(means)
    assert means[0] < means[-1]
    assert json.loads(done.stdout)


def test_a_preset_is_compared_with_the_default(fbrag: Run, data: Path, tmp_path: Path) -> None:
    """A list counts more than the preset."""
    rows, command = tmp_path / "rows.jsonl", ("eval", data, "--retrieval-only", "--method", "vanilla", "--limit", "1")
    done = fbrag(*command, "--set", "select=auto,3", "--preset", "default,thorough", "-o", rows)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line)["configuration"] for line in rows.read_text().splitlines()]
    assert sorted(each["select"] for each in found) == [3, 5, 8]
    short = fbrag("eval", data, "--retrieval-only", "--limit", "1", "--fast", "-o", tmp_path / "short.jsonl")
    assert short.returncode == 0, short.stderr
    (row,) = map(json.loads, (tmp_path / "short.jsonl").read_text().splitlines())
    assert row["configuration"]["samples"] == 0
    assert "small" not in row["configuration"]
    none = fbrag(*command, "--preset", "fast", "-o", rows)
    assert (none.returncode, "fast has no effect with vanilla" in none.stderr) == (2, True)
    refused = fbrag(*command, "--preset", "slow", "-o", rows)
    assert (refused.returncode, '--preset is "slow", expected one of default, fast, thorough' in refused.stderr) == (2, True)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A person's table of questions about a Word file and a folder, next to it."""
    (tmp_path / "mine" / "notes").mkdir(parents=True)
    (tmp_path / "mine" / "fee.docx").write_bytes(docx(w_paragraph("The fee of the harbour is 640 euros a month.")))
    (tmp_path / "mine" / "notes" / "a.txt").write_text("The crane was painted by Lindqvist in the spring.", "utf-8")
    (tmp_path / "mine" / "notes" / "b.md").write_text("# Fair\n\nThe fair is on 20 July 2024.", "utf-8")
    path = tmp_path / "mine" / "questions.csv"
    lines = (
        "Question;Answer;Document",
        "How high is the fee?;640 euros;fee.docx",
        '"Who painted the crane, and when?";"[""Lindqvist"", ""Lindqvist, in the spring""]";notes',
        "Who is the mayor?;;notes",
    )
    path.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    return path


def test_a_table_about_documents_of_any_format(fbrag: Run, table: Path, tmp_path: Path) -> None:
    """They are read as `ask` reads them. Nothing is written but to the cache, from which a second run takes its rows."""
    with Loopback() as server:
        server.default = stream("640 euros.")
        command = ("eval", table, "--method", "vanilla", "--no-abstain", "-m", server.address)
        done = fbrag(*command, "--json")
        assert done.returncode == 0, done.stderr
        n_asked = len(server.chats)
        again = fbrag(*command, "--json", "-q")
        assert len(server.chats) == n_asked
    report = json.loads(done.stdout)[0]
    assert report["verdicts"] == ["vanilla: 1 of 2 right (95% interval: 9 to 91%)."]
    assert [(each["gold"], each["replies"]["vanilla"]) for each in report["questions"]] == [
        ("640 euros", "+ 640 euros."),
        ("Lindqvist; Lindqvist, in the spring", "- 640 euros."),
        ("", "640 euros."),
    ]
    assert again.stdout == done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if "jsonl" in path.name) == []


def test_a_table_with_a_mistake(fbrag: Run, table: Path) -> None:
    for text, told in (
        ("question,answer,document\nWho?,Tom,none.pdf\n", "line 2: document not found: none.pdf"),
        ("question,answer\nWho?,Tom\n", "line 2: missing text"),
        ("frage,answer,document\nWho?,Tom,fee.docx\n", 'line 1: no "question" column'),
        ("question,document\nWho?,fee.docx\n", 'line 2: no "answer" column'),
        ("question,answer,document\n", "has no rows"),
    ):
        table.write_text(text, "utf-8")
        done = fbrag("eval", table, "--retrieval-only")
        assert (done.returncode, told in done.stderr) == (3, True), done.stderr


def test_a_threshold_that_is_missed_is_exit_1_and_a_second_run_writes_nothing(fbrag: Run, data: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    command = ("eval", data, "--retrieval-only", "--method", "vanilla", "-o", rows)
    assert fbrag(*command, "--fail-under", "evidence_recall=0.1").returncode == 0
    before = rows.read_bytes()
    missed = fbrag(*command, "--fail-under", "evidence_recall=0.999")
    assert missed.returncode == 1
    assert "evidence_recall" in missed.stderr
    assert rows.read_bytes() == before


def test_two_questions_are_answered_and_compared(fbrag: Run, data: Path, tmp_path: Path, smollm2: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    models = ("--small", "smollm2-135m", "-m", "smollm2-135m", "--set", "recall=2", "--set", "select=2", "--set", "samples=2")
    compared = ("--method", "fb-rag,order-preserving", "--baseline", "order-preserving", "-f", "md")
    short = ("--chunk-words", "60", "--set", "forward-tokens=24", "--max-tokens", "8")
    done = fbrag("eval", data, "--limit", "2", *models, *short, *compared, "-o", rows)
    assert done.returncode == 0, done.stderr
    assert "| order-preserving | fb-rag |" in done.stdout
    assert "with 2 questions" in done.stdout
    written = [json.loads(line) for line in rows.read_text().splitlines()]
    assert sorted(row["configuration"]["method"] for row in written) == [
        "fb-rag",
        "fb-rag",
        "order-preserving",
        "order-preserving",
    ]
    assert all(
        row["answer"] is not None and 0 < row["seconds"]["first_token"] <= row["seconds"]["total"] and row["error"] is None
        for row in written
    )


@pytest.fixture
def unanswerable(data: Path) -> Path:
    """One question of the data that has its answer, and one that has none."""
    row = json.loads(data.read_text("utf-8").splitlines()[0])
    path = data.with_name("unanswerable.jsonl")
    other = row | {"_id": "u1", "input": "What was the name of the captain's parrot?", "answers": ["Polly"], "answerable": False}
    path.write_text("".join(json.dumps(each | {"evidence": [], "dataset": "both"}) + "\n" for each in (row, other)), "utf-8")
    return path


def test_abstention_is_measured_where_a_question_has_no_answer(
    fbrag: Run, unanswerable: Path, tmp_path: Path, smollm2: Path
) -> None:
    command = ("eval", unanswerable, "--method", "vanilla", "-m", "smollm2-135m", "--set", "select=1", "--chunk-words", "60")
    done = fbrag(*command, "--max-tokens", "8", "-o", tmp_path / "rows.jsonl", "--json", "--fail-under", "abstain=0")
    assert done.returncode == 0, done.stderr
    written = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    figures = [{name: value for name, value in row["metrics"].items() if "abstain" in name} for row in written]
    declined = [float(row["status"] == "not_found") for row in written]
    assert figures == [{"abstain_wrongly": declined[0]}, {"abstain": declined[1]}]
    assert all(row["seconds"]["verify"] > 0 for row in written)
    _, report = json.loads(done.stdout)
    assert {"abstain", "abstain_wrongly"} <= {table["name"] for table in report["tables"]}
    left_out = fbrag(*command, "--max-tokens", "8", "-o", tmp_path / "none.jsonl", "--no-abstain", "--fail-under", "abstain=0")
    assert left_out.returncode == 1
    assert "abstain was not measured" in left_out.stderr


def test_a_label_is_typed_as_the_report_has_it(fbrag: Run, data: Path, tmp_path: Path) -> None:
    command = ("eval", data, "--retrieval-only", "--method", "vanilla,order-preserving", "--set", "select=3,5", "--limit", "4")
    done = fbrag(*command, "-o", tmp_path / "rows.jsonl", "--baseline", "vanilla:select=3", "--tables")
    assert done.returncode == 0, done.stderr
    assert "Difference from vanilla:select=3" in done.stdout
    refused = fbrag(*command, "-o", tmp_path / "rows.jsonl", "--baseline", "vanilla:select=4")
    assert "vanilla:select=3; order-preserving:select=3; vanilla:select=5" in refused.stderr


def test_a_comparison_counts_the_rows_that_are_there(fbrag: Run, data: Path, tmp_path: Path) -> None:
    """The file may have rows of another configuration of the same method, and be what the run is compared with."""
    rows, command = tmp_path / "rows.jsonl", ("eval", data, "--retrieval-only", "--method", "vanilla", "--limit", "2")
    assert fbrag(*command, "--set", "select=3", "-o", rows).returncode == 0
    before = rows.read_bytes()
    refused = fbrag(*command, "--set", "select=5", "-o", rows, "--baseline", "vanilla")
    assert refused.returncode == 2
    assert "vanilla:select=3; vanilla:select=5" in refused.stderr
    assert rows.read_bytes() == before
    done = fbrag(*command, "--set", "select=5", "-o", rows, "--baseline", "vanilla:select=3")
    assert done.returncode == 0, done.stderr


def test_the_plots_that_the_rows_can_fill_are_drawn(fbrag: Run, data: Path, tmp_path: Path) -> None:
    needs("matplotlib")
    command = ("eval", data, "--retrieval-only", "--method", "vanilla", "--set", "select=3,5", "--limit", "4")
    done = fbrag(*command, "-o", tmp_path / "rows.jsonl", "--plots", tmp_path / "plots")
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["chunks.png", "chunks.svg"]
    assert done.returncode == 0, done.stderr


def test_dense_retrieval_beside_bm25(fbrag: Run, data: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    model = minilm.fetched(pytestconfig) / "all-MiniLM-L6-v2.gguf"
    command = ("eval", data, "--retrieval-only", "--method", "vanilla", "--limit", "6", "-o", tmp_path / "rows.jsonl")
    done = fbrag(*command, "--retriever", f"bm25,{model}")
    assert done.returncode == 0, done.stderr
    written = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["configuration"]["retriever"] for row in written} == {"bm25", str(model)}
    by_id = {row["id"]: [other["selected"] for other in written if other["id"] == row["id"]] for row in written}
    assert any(one != other for one, other in by_id.values())


def test_an_embedding_model_that_is_not_there_is_told(fbrag: Run, smollm2: Path) -> None:
    done = fbrag("explain", INQUIRY, "Who?", "--retriever", "none.gguf", "--small", "smollm2-135m")
    assert done.returncode == 4
    assert "none.gguf" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none.jsonl",), "none.jsonl"),
        (("DATA", "--method", "fbrag"), "unknown method fbrag"),
        (("DATA", "--set", "weights=much"), "--set weights"),
        (("DATA", "--set", "select=0"), "--set select"),
        (("DATA", "--method", "vanilla", "--set", "samples=3"), "samples has no effect with vanilla"),
        (("DATA", "--fail-under", "f1=40"), "--fail-under"),
        (("DATA", "--method", "vanilla", "--baseline", "nothing"), "--baseline"),
        (
            ("DATA", "--method", "vanilla", "--set", "select=3,5", "--baseline", "vanilla"),
            "several configurations match 'vanilla'",
        ),
        (("DATA", "--method", "vanilla", "--baseline", str(QUESTIONS)), "line 1: schema is"),
    ],
)
def test_what_cannot_be_is_told_before_the_work(
    fbrag: Run, data: Path, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    done = fbrag(
        "eval", *(data if each == "DATA" else each for each in arguments), "--retrieval-only", "-o", tmp_path / "rows.jsonl"
    )
    assert done.returncode in (2, 3)
    assert told in done.stderr.splitlines()[0]
    assert not (tmp_path / "rows.jsonl").exists()
