"""Methods that ask the large model before they read, or read nothing, as a user runs them with the 135M model."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.documents.load import load
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.alone import ClosedBook, GenRead, Refeed
from fbrag_cli.methods.method import Method
from fbrag_cli.render.answer import SURE_ALONE
from fbrag_cli.session.forecast import _words_read
from tests.conftest import INQUIRY, Run

QUESTION = "Who was the master of the ship?"
NOTE = "The answer is from the model's own knowledge, not from the document."
SHORT = ("-m", "smollm2-135m", "--chunk-words", "60", "--max-tokens", "12")
GENREAD = ("--method", "genread", *SHORT)
REFEED = ("--method", "refeed", *SHORT, "--select", "2")


@pytest.fixture(scope="module", autouse=True)
def _model(smollm2: Path) -> None:
    """Every test here needs it in the store."""


def told(fbrag: Run, method: str, *more: object) -> dict[str, Any]:
    of_method = {"genread": GENREAD, "refeed": REFEED}.get(method, ("--method", method, *SHORT))
    done = fbrag("ask", INQUIRY, QUESTION, *of_method, *more, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_answer_from_own_knowledge_says_so_and_has_no_sources(fbrag_cached: Run, tmp_path: Path) -> None:
    answer = told(fbrag_cached, "closed-book")
    assert (answer["status"], answer["from_document"], answer["sources"], answer["citations"]) == ("answered", False, [], [])
    assert (answer["support"], answer["unsupported_terms"], answer["warnings"]) == (None, [], [])
    asked = ("ask", INQUIRY, QUESTION, "--method", "closed-book", *SHORT)
    text = fbrag_cached(*asked, "--html", tmp_path / "page.html")
    said = f"Low confidence: {answer['answer']}" if answer["answer_probability"] < SURE_ALONE else answer["answer"]
    assert (text.returncode, text.stdout) == (0, f"{said}\n\n{NOTE}\n")
    assert "from the model's own knowledge, not from the document" in text.stdout
    assert fbrag_cached(*asked, "-f", "md").stdout == f"{said}\n\n{NOTE}\n"
    assert fbrag_cached(*asked, "-qa").stdout == f"{answer['answer']}\n"
    page = (tmp_path / "page.html").read_text("utf-8").replace("&#39;", "'")
    assert "From the model's own knowledge, not from the document" in page.partition("</section>")[0]
    assert 'id="sources"' not in page
    assert 'id="source-1"' not in page


def test_explain_shows_the_passage_that_genread_wrote_and_both_prompts(fbrag_cached: Run) -> None:
    answer = told(fbrag_cached, "genread")
    (passage,) = answer["samples"]
    assert passage["text"].strip()
    assert (answer["status"], answer["from_document"], answer["sources"], answer["support"]) == ("answered", False, [], None)
    command = ("explain", INQUIRY, QUESTION, *GENREAD)
    explained = fbrag_cached(*command, "-n", "1", "--show-samples")
    assert " ".join(passage["text"].split()) in " ".join(explained.stdout.split())
    first, second = fbrag_cached(*command, "--show-prompt").stdout.split("--- large model")[1:]
    assert passage["text"].strip() in second
    assert passage["text"].strip() not in first
    assert "Garefowl" not in first + second  # the ship, which the question does not name


def test_refeed_answers_from_chunks_that_its_first_answer_raises(fbrag_cached: Run) -> None:
    answer = told(fbrag_cached, "refeed", "--allow-unsupported")
    assert [sample["answer"] for sample in answer["samples"]] == [told(fbrag_cached, "closed-book")["answer"]]
    assert (answer["from_document"], len(answer["sources"])) == (True, 2)
    for source in answer["sources"]:
        assert source["score"] == pytest.approx(source["backward_score"] + source["forward_score"], abs=1e-3)
    assert list(answer["models"]) == ["large"]
    prompts = fbrag_cached("explain", INQUIRY, QUESTION, *REFEED, "--show-prompt").stdout
    first, second = prompts.split("--- large model")[1:]
    assert answer["sources"][0]["text"] in second
    assert "Passages" not in first


@pytest.mark.parametrize(
    ("method", "plan", "words"),
    [
        (ClosedBook(), "none to read", {"answer": 1}),
        (GenRead(), "none to read, a background passage to write", {"forward": 1, "answer": 1}),
        (Refeed(select=2), "an answer without the document, 2 to select", {"forward": 1, "answer": 600}),
    ],
)
def test_the_plan_and_the_forecast_are_of_what_is_read(
    fbrag_cached: Run, method: Method, plan: str, words: dict[str, float]
) -> None:
    select = ("--select", "2") if method.name == "refeed" else ()
    planned = fbrag_cached("ask", INQUIRY, "Who?", "--method", method.name, *select, "-m", "smollm2-135m", "--dry-run")
    assert planned.stdout.endswith(f" chunks: {plan}\n")
    assert _words_read(method, collect_text(load(str(INQUIRY))).corpus) == words


def test_a_batch_has_rows_without_sources(fbrag_cached: Run, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text(QUESTION, "utf-8")
    command = ("batch", INQUIRY, "-Q", tmp_path / "questions.txt", "--method", "closed-book", *SHORT)
    row = json.loads(fbrag_cached(*command).stdout)
    assert (row["status"], row["sources"], row["support"]) == ("answered", [], None)
    assert fbrag_cached(*command, "-o", tmp_path / "rows.csv").returncode == 0
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["answer"], line["sources"]) == (row["answer"], "")


def test_they_are_compared_with_a_method_that_reads(fbrag_cached: Run, tmp_path: Path) -> None:
    data, rows = tmp_path / "data.jsonl", tmp_path / "rows.jsonl"
    text = INQUIRY.read_text("utf-8")[:6000]
    example = {"input": QUESTION, "context": text, "answers": ["the"], "evidence": [text[100:140]]}
    data.write_text(json.dumps(example), "utf-8")
    lists = ("--set", "select=2")
    methods = ("--method", "closed-book,genread,refeed,vanilla", *SHORT, *lists, "-o", rows)
    done = fbrag_cached("eval", data, *methods, "--json")
    assert done.returncode == 0, done.stderr
    found = {row["configuration"]["method"]: row for row in map(json.loads, rows.read_text("utf-8").splitlines())}
    assert all(row["metrics"]["contains"] in (0, 1) and row["error"] is None for row in found.values())
    assert [found[method]["metrics"]["evidence_recall"] for method in ("closed-book", "genread")] == [0, 0]
    assert found["closed-book"]["tokens_read"] < found["vanilla"]["tokens_read"] < found["refeed"]["tokens_read"]
    assert "select" not in found["closed-book"]["configuration"]
    _, report = json.loads(done.stdout)
    (table,) = (table for table in report["tables"] if table["name"] == "contains")
    assert {row["configuration"] for row in table["rows"]} == {"closed-book", "genread", "refeed", "vanilla"}


def test_retrieval_alone_is_refused_where_the_large_model_has_to_answer_first(fbrag_cached: Run, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text(json.dumps({"input": QUESTION, "context": "It was built.", "answers": ["x"]}), "utf-8")
    done = fbrag_cached(
        "eval", tmp_path / "data.jsonl", "--method", "vanilla,refeed", "--retrieval-only", "-o", tmp_path / "rows"
    )
    assert done.returncode == 2
    assert "cannot be combined with refeed" in done.stderr
    assert not (tmp_path / "rows").exists()
