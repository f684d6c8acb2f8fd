"""The same question again: answered from the cache, without a model, and said so; `--refresh` asks anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import INQUIRY, Run

QUESTION = "Where was the Garefowl built?"


@pytest.fixture
def options(smollm2: Path) -> list[object]:
    return [
        "--small",
        smollm2,
        "--large",
        smollm2,
        "--set",
        "recall=1",
        "--select",
        1,
        "--samples",
        2,
        "--set",
        "forward-tokens=12",
    ]


def answered(fbrag: Run, *arguments: object) -> dict[str, Any]:
    done = fbrag("ask", INQUIRY, QUESTION, "--json", "--max-tokens", 12, *arguments)
    assert done.returncode in (0, 1), done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def seconds(told: dict[str, Any], name: str) -> float:
    return float(next(stage["seconds"] for stage in told["stages"] if stage["name"] == name))


def test_the_same_question_again_loads_no_model(fbrag: Run, options: list[object]) -> None:
    first = answered(fbrag, *options)
    assert "answer" not in first["cached"]
    assert seconds(first, "load") > 0
    again = answered(fbrag, *options)
    assert {"samples", "answer"} <= set(again["cached"])
    assert seconds(again, "load") == 0
    for key in ("status", "answer", "unsupported_answer", "support", "truncated", "sources", "samples", "models"):
        assert again[key] == first[key], key


def test_it_says_so_and_streams_the_answer_as_one_piece(fbrag: Run, options: list[object]) -> None:
    plain = ["--method", "vanilla", "--select", 1, "--max-tokens", 12, "--allow-unsupported", *options[:4]]
    first = fbrag("ask", INQUIRY, QUESTION, *plain)
    assert " s on CPU" in first.stderr.splitlines()[-1]
    second = fbrag("ask", INQUIRY, QUESTION, *plain)
    assert second.stdout == first.stdout
    assert second.stderr.splitlines()[-1] == "cached answer (--refresh to ask again)"
    streamed = fbrag("ask", INQUIRY, QUESTION, *plain, "--format", "jsonl")
    events = [json.loads(line) for line in streamed.stdout.splitlines()]
    assert [event["event"] for event in events] == ["selected", "token", "done"]
    assert events[1]["text"].strip() == events[2]["answer"]


def test_again_and_no_cache_ask_anew(fbrag: Run, options: list[object]) -> None:
    first = answered(fbrag, *options)
    for option in ("--refresh", "--no-cache"):
        anew = answered(fbrag, *options, option)
        assert not {"samples", "answer"} & set(anew["cached"])
        assert seconds(anew, "load") > 0
        assert anew["answer"] == first["answer"]
    assert "answer" in answered(fbrag, *options)["cached"]


def test_another_setting_of_the_answer_asks_the_large_model_alone(fbrag: Run, options: list[object]) -> None:
    answered(fbrag, *options)
    other = answered(fbrag, *options, "--max-tokens", 6)
    assert "samples" in other["cached"]
    assert "answer" not in other["cached"]
    assert seconds(other, "load") > 0
    assert "answer" not in answered(fbrag, *options, "--set", "ctx=4096")["cached"]


def test_a_cached_answer_leaves_the_pace_of_this_machine_alone(fbrag: Run, options: list[object], tmp_path: Path) -> None:
    def pace() -> list[bytes]:
        return [path.read_bytes() for path in sorted((tmp_path / "cache" / "fbrag" / "pace").iterdir())]

    answered(fbrag, *options)
    measured = pace()
    assert measured
    answered(fbrag, *options)
    assert pace() == measured


def test_explain_samples_anew_with_again(fbrag: Run, options: list[object]) -> None:
    def explained(*more: object) -> dict[str, Any]:
        done = fbrag("explain", INQUIRY, QUESTION, "--json", *options[:2], *options[4:], *more)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    explained()
    cached = explained()
    assert ("samples" in cached["cached"], seconds(cached, "load")) == (True, 0)
    assert "samples" not in explained("--refresh")["cached"]


def test_a_model_that_is_gone_is_missing_even_where_the_answer_is_cached(fbrag: Run, smollm2: Path, tmp_path: Path) -> None:
    moved = tmp_path / "model.gguf"
    moved.symlink_to(smollm2)
    plain = ["--method", "vanilla", "--select", 1, "--allow-unsupported", "--large", moved]
    answered(fbrag, *plain)
    moved.unlink()
    done = fbrag("ask", INQUIRY, QUESTION, *plain)
    assert done.returncode == 4
    assert "file not found: " in done.stderr
