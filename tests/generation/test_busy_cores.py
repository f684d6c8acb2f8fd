"""llama.cpp gets fewer threads beside other work, and its results stay the same."""

from __future__ import annotations

import time
from pathlib import Path

import llama_cpp
import pytest

from fbrag_cli.generation.generator import Sampling, Turn
from fbrag_cli.generation.llama import busy_cores
from fbrag_cli.generation.llama.busy_cores import ThreadCount, busy_seconds, threads_beside
from fbrag_cli.generation.llama.context import BatchToken, Context
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.weights import Loading, Weights
from tests.generation.tiny_gguf import Tiny


@pytest.mark.parametrize(
    ("others", "maximum", "threads"),
    [
        (0.0, 2, 2),
        (0.3, 2, 2),  # the system's own work
        (0.67, 2, 1),  # a program that shares two cores with two threads gets two thirds of one
        (1.0, 2, 1),  # and all of it beside one thread
        (2.0, 2, 1),
        (0.5, 16, 15),  # a program that shares one of sixteen cores
        (3.0, 16, 13),
        (-0.2, 4, 4),  # rounding of the kernel's clock
        (0.9, 1, 1),
    ],
)
def test_a_core_that_others_use_is_left_to_them(others: float, maximum: int, threads: int) -> None:
    assert threads_beside(others, maximum) == threads


def test_the_count_follows_the_load_and_leaves_our_own_work_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 0.0, "busy": 0.0, "own": 0.0}
    monkeypatch.setattr(busy_cores, "busy_seconds", lambda: clock["busy"])
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(time, "process_time", lambda: clock["own"])
    count = ThreadCount(2)

    def after(seconds: float, own: float, others: float) -> int:
        clock["now"] += seconds
        clock["own"] += own * seconds
        clock["busy"] += (own + others) * seconds
        return count.current()

    assert after(1, own=2, others=0) == 2
    assert after(0.1, own=1.33, others=0.67) == 2  # too early for another look
    assert after(0.4, own=1.33, others=0.67) == 1
    assert after(1, own=1, others=1) == 1
    assert after(1, own=1, others=0) == 2


def test_others_on_cores_that_a_container_leaves_free_cost_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 0.0, "busy": 0.0}
    monkeypatch.setattr(busy_cores, "busy_seconds", lambda: clock["busy"])
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    count = ThreadCount(2, cores=32)
    for others, threads in ((20, 2), (31, 1)):
        clock["now"] += 1
        clock["busy"] += others
        assert count.current() == threads


def test_work_of_others_in_a_pause_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 0.0, "busy": 0.0, "others": 0.0}

    def wait(seconds: float) -> None:
        clock["now"] += seconds
        clock["busy"] += clock["others"] * seconds

    monkeypatch.setattr(busy_cores, "busy_seconds", lambda: clock["busy"])
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    monkeypatch.setattr(time, "sleep", wait)
    count = ThreadCount(2)
    count.batch_ended()
    clock["others"] = 2.0
    wait(60)
    clock["others"] = 0.0  # it ends just before the next question
    assert count.current() == 2
    count.batch_ended()
    wait(60)
    clock["others"] = 1.0  # it begins just before the next question
    assert count.current() == 1


def test_the_cpu_time_of_this_machine_grows() -> None:
    before, ours = busy_seconds(), time.process_time()
    if not before:
        pytest.skip("this system does not show its CPU time")
    while time.process_time() - ours < 0.3:
        pass
    assert busy_seconds() - before > 0.2


def test_samples_do_not_depend_on_the_number_of_threads(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (Turn("user", "The brig Meridian passed at noon with a torn sail. " * 60),)
    written = []
    for counts in ([2], [1], [1, 2, 2, 1, 2, 1]):
        with LlamaGenerator(smollm2) as one:
            turns = iter(counts * 100)
            monkeypatch.setattr(one._weights, "threads", 2)
            monkeypatch.setattr(
                one._weights, "_thread_count", type("Count", (ThreadCount,), {"current": lambda self, of=turns: next(of)})(2)
            )
            written.append([one.generate(asked, n, Sampling(16, seed=3)).samples for n in (1, 3)])
    assert written[0] == written[1] == written[2]


def test_a_small_context_leaves_the_threads_of_a_large_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flash attention, from 9,216 cells on, gives another result for one token on fewer threads."""
    used: list[tuple[int, int]] = []
    weights = Weights(Tiny(context=16384).write(tmp_path / "tiny.gguf"))
    monkeypatch.setattr(weights, "threads", 2)
    monkeypatch.setattr(weights, "_thread_count", type("Busy", (ThreadCount,), {"current": lambda self: 1})(2))
    monkeypatch.setattr(llama_cpp, "llama_set_n_threads", lambda context, *threads: used.append(threads))
    contexts = [Context(weights, 9472, 1), Context(weights, 256, 1)]
    for each in contexts:
        each.decode([BatchToken(2, 0, 0)])
        each.close()
    weights.close()
    assert used == [(2, 1), (1, 1)]


def test_a_number_of_threads_that_the_user_names_is_kept_to(smollm2: Path) -> None:
    with LlamaGenerator(smollm2, Loading(threads=2)) as one:
        assert one._weights._thread_count is None
        assert one.threads == 2
