"""The hint that names twice the number of --select where no answer was found."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import INQUIRY, Run
from tests.servers import Loopback, declining_reply

QUESTION = "Where was the Garefowl built?"
ASKED = "Who mended the captain's lamp?"
WIDE = "What did the captain of the ship and the crew say of the weather on the day?"
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


def test_the_hint_names_twice_the_number_until_all_that_matches_is_read(fbrag: Run, lamps: Path, declining: str) -> None:
    asked: tuple[object, ...] = ("ask", lamps, ASKED, "--method", "order-preserving", "--select", 1)
    asked = (*asked, "--chunk-words", 40, "--large", declining)
    numbers, done = [1], fbrag(*asked)
    while (last := done.stderr.splitlines()[-1]).startswith(HINT):
        asked = tuple(shlex.split(last.removeprefix(HINT))[1:])
        assert asked.count("--select") == 1
        numbers.append(int(asked[asked.index("--select") + 1]))
        done = fbrag(*asked)
        assert done.returncode == 1
    assert numbers == [1, 2, 4]
    assert done.stdout.count("lamps.txt:") == 1


def test_the_hint_of_the_default_names_twice_five(fbrag: Run, declining: str) -> None:
    done = fbrag("ask", INQUIRY, WIDE, "-k", 0, "--large", declining)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == HINT + shlex.join(
        ["fbrag", "ask", str(INQUIRY), WIDE, "-k", "0", "--large", declining, "--select", "10"]
    )


def test_no_hint_where_it_could_not_be_pasted_or_nobody_reads_it(fbrag: Run, lamps: Path, declining: str) -> None:
    asked = (ASKED, "--method", "vanilla", "--select", 1, "--chunk-words", 40, "--large", declining)
    assert "hint" not in fbrag("ask", "-", *asked, stdin=lamps.read_text()).stderr
    assert fbrag("ask", "-qa", "--exit-zero", lamps, *asked).stderr == ""
    assert "hint" not in fbrag("ask", lamps, *asked, "--allow-unsupported").stderr


@pytest.mark.parametrize("method", ["closed-book", "long-context"])
def test_no_hint_of_a_method_that_reads_nothing_or_everything(fbrag: Run, lamps: Path, declining: str, method: str) -> None:
    assert "hint" not in fbrag("ask", lamps, ASKED, "--method", method, "--large", declining).stderr


def test_more_than_the_window_of_the_model_is_one_error(fbrag: Run, smollm2: Path) -> None:
    asked = ("ask", INQUIRY, QUESTION, "--method", "vanilla", "--large", smollm2)
    plan = fbrag(*asked, "--select", 40, "--dry-run")
    assert plan.stderr.startswith(f"warning: the prompt may be too long for {smollm2}: about 10,651 words")
    assert fbrag(*asked, "--select", 10, "--dry-run").stderr == ""
    assert "limit 4,096 tokens" in fbrag(*asked, "--select", 20, "--set", "ctx=4096", "--dry-run").stderr
    assert fbrag(*asked, "--method", "long-context", "--dry-run").stderr == ""
    done = fbrag(*asked, "--select", 40)
    assert done.returncode == 2
    error, hint = done.stderr.splitlines()
    assert "too long for smollm2-135m" in error
    assert "limit 8,192" in error
    assert "lower --select" in hint
