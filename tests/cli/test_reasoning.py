"""`fbrag` with a model that thinks although it was told not to: the user meets its answer, one warning, and what it cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.generation.parrot_gguf import END, Parrot, saying
from tests.generation.test_reasoning import REMOVES, THINK
from tests.servers import Handler, Loopback

QUESTION = "Did the keeper see the brig?"
THINKS = {**saying("<|assistant|>", "<think>", "h", "m", "h"), **saying("</think>", "Ċ", "y", "e", "s", END)}


@pytest.fixture
def both(tmp_path: Path) -> tuple[str, ...]:
    """The options that name a model which writes `<think>hmhm…` until that is ended, and then `yes`."""
    model = Parrot(script=THINKS, template=REMOVES, marks=THINK, context=16384).write(tmp_path / "thinker.gguf")
    return "--small", str(model), "--large", str(model)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.txt"
    path.write_text("The keeper saw the brig at noon, and wrote yes into her log.\n")
    return path


def test_the_answer_holds_no_thought_and_the_cost_is_said(fbrag: Run, log: Path, both: tuple[str, ...]) -> None:
    done = fbrag("ask", log, QUESTION, "-v", *both)
    assert done.returncode == 0, done.stderr
    assert "yes" in done.stdout
    assert "hm" not in done.stdout
    (warning,) = (line for line in done.stderr.splitlines() if line.startswith("warning:"))
    assert warning.startswith("warning: thinker ignored the request not to reason: 254 reasoning tokens discarded")
    assert "254 for reasoning" in done.stderr.splitlines()[-2]
    again = fbrag("ask", log, QUESTION, "--json", *both)
    told = json.loads(again.stdout)
    stages = {stage["name"]: stage for stage in told["stages"]}
    assert (told["answer"], told["support"], told["warnings"]) == ("yes", 1.0, [])  # from the cache, which took no time
    assert (stages["answer"]["generated_tokens"], stages["answer"]["reasoning_tokens"]) == (259, 254)
    assert "warning" not in again.stderr


def test_a_thought_alone_is_an_error_and_not_what_the_document_says(fbrag: Run, log: Path, tmp_path: Path) -> None:
    thinks = {**THINKS, "</think>": "<think>", "Ċ": "<think>"}
    model = Parrot(script=thinks, template=REMOVES, marks=THINK, context=16384).write(tmp_path / "thinker.gguf")
    done = fbrag("ask", log, QUESTION, "--method", "vanilla", "--large", model, "--max-tokens", "9", "--json")
    assert done.returncode == 4
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["message"]) == ("no_answer", "thinker was still reasoning after 265 tokens and gave no answer")


def test_a_server_that_thinks_is_named_with_what_to_do(fbrag: Run, log: Path) -> None:
    def thinking(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        for piece in ("The", " brig", "?"):
            handler.event({"choices": [{"index": 0, "delta": {"reasoning": piece}}]})
        handler.piece("yes", finish="stop")

    with Loopback() as server:
        server.default = thinking
        done = fbrag("ask", log, QUESTION, "--method", "vanilla", "--allow-unsupported", "--json", "--large", server.address)
    told = json.loads(done.stdout)
    stages = {stage["name"]: stage for stage in told["stages"]}
    assert (told["answer"], stages["answer"]["generated_tokens"], stages["answer"]["reasoning_tokens"]) == ("yes", 4, 3)
    (warning,) = (line for line in done.stderr.splitlines() if "not to reason" in line)
    assert f"warning: {server.address}#tiny ignored" in warning
    assert "3 reasoning tokens" in warning
    assert "turn reasoning off on the server" in warning


def test_a_run_of_many_questions_warns_once(fbrag: Run, log: Path, tmp_path: Path, both: tuple[str, ...]) -> None:
    (tmp_path / "questions.txt").write_text("Was it noon?\nWas it a brig?\nWas it the keeper?\n")
    done = fbrag("batch", log, "-Q", tmp_path / "questions.txt", "-o", tmp_path / "rows.jsonl", *both)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["answer"], len(row["warnings"])) for row in rows] == [("yes", 1)] * 3
    assert done.stderr.count("not to reason") == 1
