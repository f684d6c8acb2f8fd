"""`fbrag bench` as a user runs it, with the 135M model."""

from __future__ import annotations

import json

import pytest

from tests.conftest import INQUIRY, Run

FAST = ("--small", "smollm2-135m", "-m", "smollm2-135m", "--tokens", "100,200", "--repeat", "2", "--samples", "2")


def test_every_part_of_a_question_is_timed(fbrag: Run, smollm2: object) -> None:
    done = fbrag("bench", INQUIRY, *FAST, "--json", "--fail-over", "first_token=0.001,load=600")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    found = {(each["name"], each["tokens"]): each for each in told["measures"]}
    by_size = ("prefill", "decode", "decode_samples", "first_token_cold", "first_token", "first_token_cached")
    assert set(found) == {(name, size) for name in by_size for size in (100, 200)} | {
        (name, None) for name in ("index", "score", "load")
    }
    assert all(value > 0 for each in found.values() for value in each["values"])
    assert len(found["first_token", 200]["values"]) == 2
    assert min(found["first_token_cold", 200]["values"]) > max(found["first_token_cached", 200]["values"])
    assert told["words"] == len(INQUIRY.read_text("utf-8").split())
    assert told["cpu"]
    assert "first_token is" in done.stderr
    assert "load is" not in done.stderr


def test_the_table_names_units_and_memory(fbrag: Run, smollm2: object) -> None:
    done = fbrag("bench", *FAST[:-4], "--repeat", "1", "--tokens", "0.1k")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:]}
    assert lines["prefill"][1] == "100"
    assert lines["prefill"][-1] == "tokens/s"
    assert lines["peak"][-1] == "MB"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--tokens", "many"), "expected numbers of tokens, got 'many'"),
        (("--fail-over", "prefill=3"), "expected NAME=TIME, got 'prefill=3'"),
        ((INQUIRY, INQUIRY), "one document"),
    ],
)
def test_what_cannot_be_is_told_before_the_work(fbrag: Run, arguments: tuple[object, ...], told: str) -> None:
    done = fbrag("bench", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
