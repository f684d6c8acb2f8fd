"""The first answer a user sees: the default pair on the repository's document and on a whole novel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import INQUIRY, Run

QUESTIONS = {row["id"]: row for row in map(json.loads, INQUIRY.with_suffix(".questions.jsonl").read_text("utf-8").splitlines())}


@pytest.fixture(scope="module", autouse=True)
def _models(default_pair: tuple[Path, Path]) -> None:
    """Every test here needs them in the store."""


def asked(fbrag: Run, document: Path, question: str) -> dict[str, Any]:
    done = fbrag("ask", document, question, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_evidence_is_selected_and_the_answer_is_right(fbrag: Run) -> None:
    row = QUESTIONS["t05"]
    told = asked(fbrag, INQUIRY, row["question"])
    text = INQUIRY.read_text("utf-8")
    for evidence in row["evidence"]:
        at = text.index(evidence)
        assert any(source["start_char"] <= at < source["end_char"] for source in told["sources"]), evidence
    assert any(answer.casefold() in told["answer"].casefold() for answer in row["answers"]), told["answer"]
    cited = told["sources"][told["citations"][0]["sources"][0] - 1]
    assert any(" ".join(evidence.split()) in " ".join(cited["text"].split()) for evidence in row["evidence"])
    assert any(answer.casefold() in _sentence(cited).casefold() for answer in row["answers"]), _sentence(cited)
    assert told["unsupported_terms"] == []


def _sentence(source: dict[str, Any]) -> str:
    text, before = source["text"], source["start_char"]
    return text[source["sentence"]["start_char"] - before : source["sentence"]["end_char"] - before]


def test_a_question_to_a_whole_novel(fbrag: Run, shared: Path) -> None:
    told = asked(fbrag, shared / "books" / "pride-and-prejudice.txt", "With whom does Lydia Bennet elope?")
    assert "Wickham" in told["answer"]
    assert any("Lydia" in source["text"] and "Wickham" in source["text"] for source in told["sources"])
