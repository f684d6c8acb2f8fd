"""FIT-RAG's detector: what it learns, and where the search then stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fbrag_cli.methods.fit_rag.parts import Detector
from fbrag_cli.training.fit_rag.detector import fit, right_at_stop, threshold_of
from tests.conftest import needs

NEEDED = 0.8  # the label of the window that holds the answer


def rows(n_questions: int, *, dev: bool, seed: int) -> list[dict[str, Any]]:
    """Prefixes of ten windows, of which one holds the answer: those that reach it are enough. Its labels are high."""
    random = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for question in range(n_questions):
        at = int(random.integers(0, 6))
        labels = random.uniform(0, 0.4, (10, 2))
        labels[at] = random.uniform(NEEDED, 1, 2)
        about = {"dataset": "ships", "question": f"{dev}{question}", "dev": dev}
        found += [about | {"windows": list(range(n)), "labels": labels[:n].tolist(), "right": n > at} for n in range(1, 11)]
    return found


def test_it_learns_where_to_stop() -> None:
    needs("torch")
    found = fit([*rows(150, dev=False, seed=1), *rows(60, dev=True, seed=2)])
    searched = found.report["search"]
    assert searched["accuracy_whole"] == 100
    assert searched["accuracy"] > 96  # 29 of the 30 questions that did not choose the threshold
    assert searched["mean_windows"] < 6  # the best possible is 3.5, all are 10
    again = fit([*rows(150, dev=False, seed=1), *rows(60, dev=True, seed=2)])
    assert all((found.tensors[name] == again.tensors[name]).all() for name in found.tensors)


def test_a_detector_that_knows_nothing_takes_all_windows() -> None:
    blind = Detector([(np.zeros((1, 20), np.float32), np.zeros(1, np.float32))], 0.5)
    threshold, searched = threshold_of(rows(40, dev=True, seed=3), blind)
    assert threshold > 0.5
    assert searched["mean_windows"] == 10


def of_labels(*right: list[bool]) -> list[dict[str, Any]]:
    """The prefixes of a question for each list: whether the reply is right after 1, 2, … windows. Every label is 0.5."""
    return [
        {"dataset": "ships", "question": str(i), "windows": list(range(n)), "labels": [[0.5, 0.5]] * n, "right": each[n - 1]}
        for i, each in enumerate(right)
        for n in range(1, len(each) + 1)
    ]


CONFUSED = [[True, True, False]] * 2 + [[False, True, False]] * 2  # the first and third choose, the others are reported


def test_the_report_is_of_questions_that_did_not_choose_the_threshold() -> None:
    rising = Detector([(np.ones((1, 20), np.float32), np.full(1, -2.5, np.float32))], 0.5)
    threshold, searched = threshold_of(of_labels([True, False], [False, False], [True, False], [False, True]), rising)
    assert threshold == 0.02  # right for both that choose, after one window
    assert (searched["questions"], searched["accuracy"], searched["mean_windows"], searched["accuracy_whole"]) == (2, 0, 1, 50)


def test_the_threshold_is_that_of_the_best_accuracy_and_then_of_the_fewest_windows() -> None:
    """Of a model that more windows confuse, every threshold is better than all windows; the lowest is not the best."""
    rising = Detector([(np.ones((1, 20), np.float32), np.full(1, -2.5, np.float32))], 0.5)  # 0.18, 0.38, 0.62 after 1, 2, 3
    threshold, searched = threshold_of(of_labels(*CONFUSED), rising)
    assert 0.18 < threshold < 0.38
    assert (searched["accuracy"], searched["mean_windows"], searched["accuracy_whole"]) == (100, 2, 0)
    assert (searched["accuracy_paper"], searched["mean_windows_paper"]) == (0, 3)
    always, searched = threshold_of(of_labels([True, True], [True, True]), rising)
    assert (always, searched["mean_windows"]) == (0.02, 1)


def test_what_the_search_reaches_is_judged_where_it_stops() -> None:
    """A blind detector is sure after one window: right only of questions whose first window holds the answer."""
    dev = rows(40, dev=True, seed=3)
    sure = Detector([(np.zeros((1, 20), np.float32), np.ones(1, np.float32))], 0.5)
    first = {(row["dataset"], row["question"]): row["right"] for row in dev if row["windows"] == [0]}
    assert right_at_stop(dev, sure) == first
    assert not all(first.values())
    assert all(right_at_stop(dev, Detector(sure._layers, 0.9)).values())  # never sure: all windows are taken


def test_rows_of_one_kind_teach_nothing() -> None:
    with pytest.raises(ValueError, match="sufficient and insufficient"):
        fit([row | {"right": True} for row in rows(5, dev=False, seed=1)])
