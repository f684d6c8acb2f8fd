"""`--more`: the same question again, with the next passages too; and the hint that names it where no answer was found."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import INQUIRY, Run
from tests.servers import Loopback, declining_reply

QUESTION = "Where was the Garefowl built?"
ASKED = "Who mended the captain's lamp?"
HINT = "hint: to search further: "


@pytest.fixture
def lamps(tmp_path: Path) -> Path:
    """A document of eight chunks of some 30 words, of which three hold a word of the question."""
    filler = "The soup was thin, the bread was hard, and nobody at the long table said a word about it. " * 2
    said = ["The lamp was lit.", "", "The lamp was out, and the lamp was cold.", "", "A lamp hung there.", "", "", ""]
    path = tmp_path / "lamps.txt"
    path.write_text("\n\n".join(f"{each} On day {i} there was {i} knot of wind. {filler}" for i, each in enumerate(said)))
    return path


@pytest.fixture
def declining() -> Iterator[str]:
    """The address of a server whose model proposes an answer, and then finds it in nothing that it reads."""

    with Loopback() as server:
        server.default = declining_reply
        yield server.address


@pytest.mark.parametrize("reads", [("--max-words", 60), ("--select", 2)])
def test_what_was_read_and_as_much_again_with_the_same_samples(fbrag: Run, smollm2: Path, reads: tuple[object, ...]) -> None:
    models = ("--small", smollm2, "--large", smollm2, "--max-tokens", 8)
    looking = ("--chunk-words", 60, "--recall", 1, "--samples", 2, "--set", "forward-tokens=12", *reads)

    def read(*more: str) -> list[dict[str, Any]]:
        done = fbrag("ask", INQUIRY, QUESTION, *models, *looking, "--allow-unsupported", "--json", *more)
        told = json.loads(done.stdout)
        assert ("samples" in told["cached"]) == bool(more)
        found: list[dict[str, Any]] = told["sources"]
        return found

    once, twice = read(), read("--more")
    words = [sum(len(source["text"].split()) for source in sources) for sources in (once, twice)]
    assert 1.4 < words[1] / words[0] < 2.4, "the recalled chunk is read once"

    def holds(source: dict[str, Any], other: dict[str, Any]) -> bool:
        return bool(source["start_char"] <= other["start_char"] and other["end_char"] <= source["end_char"])

    assert all(any(holds(source, each) for source in twice) for each in once)
    shown = fbrag("ask", INQUIRY, QUESTION, *models, *looking, "--allow-unsupported", "--more", "--sources", "all")
    heads = [line for line in shown.stdout.splitlines() if line.startswith("[")]
    assert [head.endswith(" (added by --more)") for head in heads] == [
        not any(holds(source, each) for each in once) for source in twice
    ]
    explained = fbrag("explain", INQUIRY, QUESTION, *models[:4], *looking, "--more", "--json", "--all")
    chunks = [chunk["chunk"] for chunk in json.loads(explained.stdout)["chunks"] if chunk["selected"]]
    assert sorted(chunks) == sorted({source["chunk"] for source in twice})


def test_the_hint_leads_on_until_all_is_read(fbrag: Run, lamps: Path, declining: str) -> None:
    asked: tuple[object, ...] = ("ask", lamps, ASKED, "--method", "order-preserving", "--select", 1)
    asked = (*asked, "--chunk-words", 40, "--large", declining)
    numbers, everything = [], fbrag(*asked)
    while (last := everything.stderr.splitlines()[-1]).startswith(f"{HINT}fbrag ask --more "):
        numbers.append(everything.stdout.count("added by --more: "))
        asked = tuple(shlex.split(last.removeprefix(HINT))[1:])
        everything = fbrag(*asked)
        assert everything.returncode == 1
    assert numbers == [0, *[1] * (len(numbers) - 1)]
    assert len(numbers) > 3, "chunks without a word of the question are read too, as in the paper"
    assert everything.stdout.count("added by --more: ") == 1
    beyond = fbrag("ask", "--more", *asked[1:])
    assert sorted(re.findall(r"\d+", beyond.stdout)) == sorted(re.findall(r"\d+", everything.stdout))
    assert "added by" not in beyond.stdout
    assert beyond.stderr.splitlines()[-1].startswith("nothing more to read")


def test_no_hint_where_it_could_not_be_pasted_or_nobody_reads_it(fbrag: Run, lamps: Path, declining: str) -> None:
    asked = (ASKED, "--method", "vanilla", "--select", 1, "--chunk-words", 40, "--large", declining)
    assert "hint" not in fbrag("ask", "-", *asked, stdin=lamps.read_text()).stderr
    assert fbrag("ask", "-qa", "--exit-zero", lamps, *asked).stderr == ""
    assert "hint" not in fbrag("ask", lamps, *asked, "--allow-unsupported").stderr


@pytest.mark.parametrize("method", ["fb-rag", "order-preserving", "vanilla", "refeed"])
def test_given_twice_it_is_three_times_as_much(fbrag: Run, method: str) -> None:
    for more, n in (((), 3), (("--more", "--more"), 9)):
        planned = fbrag("ask", INQUIRY, QUESTION, "--method", method, "--select", 3, "--dry-run", *more)
        assert planned.stdout.endswith(f" {n} to select\n")


def test_fast_reads_on_too(fbrag: Run) -> None:
    plans = [fbrag("ask", INQUIRY, QUESTION, "--fast", "--dry-run", *more).stdout for more in ((), ("--more",))]
    assert plans[0] != plans[1]


@pytest.mark.parametrize("method", ["closed-book", "genread", "long-context", "self-route"])
def test_a_method_that_reads_nothing_or_everything_has_no_next_passages(fbrag: Run, method: str) -> None:
    done = fbrag("ask", "--more", INQUIRY, QUESTION, "--method", method)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --more: {method} reads ")
    assert done.stdout == ""


def test_more_than_the_window_of_the_model_is_one_error(fbrag: Run, smollm2: Path) -> None:
    done = fbrag("ask", "--more", INQUIRY, QUESTION, "--method", "vanilla", "--select", 20, "--large", smollm2)
    assert done.returncode == 2
    error, hint = done.stderr.splitlines()
    assert "too long for smollm2-135m" in error
    assert "limit 8,192" in error
    assert "drop --more" in hint
