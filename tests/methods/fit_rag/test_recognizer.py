"""FIT-RAG's self-knowledge recognizer: both shares against plain loops, and what is decided by them."""

from __future__ import annotations

import numpy as np
import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.fit_rag.parts import Recognizer
from fbrag_cli.training.fit_rag.recognizer import DevQuestion, delta_of, fit

RANDOM = np.random.default_rng(0)
EMBEDDINGS = RANDOM.normal(size=(50, 8)).astype(np.float32)
EMBEDDINGS /= np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
RIGHT = (RANDOM.uniform(size=50) < 0.4).astype(np.uint8)
SETTINGS = {"k": 7, "delta": 1.5, "told": 0.04, "known": 0.5}


def test_the_shares_are_those_of_plain_loops() -> None:
    recognizer = Recognizer.of({"recognizer.embeddings": EMBEDDINGS.astype(np.float16), "recognizer.right": RIGHT}, SETTINGS)
    asked = EMBEDDINGS[3] + 0.1 * EMBEDDINGS[4]
    asked /= np.linalg.norm(asked)
    distances = [float(np.linalg.norm(each - asked)) for each in EMBEDDINGS]
    nearest = sorted(range(50), key=lambda i: distances[i])[:7]
    assert recognizer.known_share(asked) == pytest.approx(sum(RIGHT[i] for i in nearest) / 7)
    logits = np.array([2.0, 1.4, 1.6, -3.0], np.float32)
    assert recognizer.told_share(1 / (1 + np.exp(-logits))) == pytest.approx(sum(logit > 1.5 for logit in logits) / 4)


@pytest.mark.parametrize(
    ("told", "known", "n", "knows"),
    [(0.05, 0.6, 100, True), (0.04, 0.6, 100, False), (0.05, 0.5, 100, False), (0.5, 0.9, 29, False), (0.5, 0.9, 30, True)],
)
def test_both_shares_decide_and_few_candidates_never(told: float, known: float, n: int, knows: bool) -> None:
    recognizer = Recognizer.of({"recognizer.embeddings": EMBEDDINGS, "recognizer.right": RIGHT}, SETTINGS)
    assert recognizer.knows(told, known, n) == knows


@pytest.mark.parametrize("right", [RIGHT[:-1], RIGHT[:, None]])
def test_other_shapes_are_refused(right: np.ndarray) -> None:
    with pytest.raises(FbragError, match="other shapes"):
        Recognizer.of({"recognizer.embeddings": EMBEDDINGS, "recognizer.right": right}, SETTINGS)


def test_delta_is_where_nine_of_ten_hold_the_answer() -> None:
    logits = np.arange(20, dtype=np.float32)
    has_answer = logits >= 11  # nine with the answer, and below them none
    has_answer[10] = False
    delta = delta_of(logits, has_answer)
    kept = has_answer[logits > delta]
    assert (len(kept), kept.sum()) == (10, 9)
    assert delta_of(logits, np.zeros(20, bool)) == float("inf")


def test_what_the_model_knows_is_not_retrieved_and_what_it_does_not_know_is() -> None:
    """Questions near one direction are known; those near another one are not."""
    known, unknown = np.eye(8, dtype=np.float32)[:2]
    embeddings = np.concatenate([known + 0.1 * EMBEDDINGS[:25], unknown + 0.1 * EMBEDDINGS[25:]])
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    right = np.array([1] * 25 + [0] * 25, np.uint8)
    told = np.full(100, 0.95, np.float32)
    checked = [
        DevQuestion(has_answer=told, embedding=direction, alone=is_known, retrieved=True)
        for direction, is_known in ((known, True), (unknown, False))
        for _ in range(10)
    ]
    recognizer, report = fit(embeddings, right, 1.0, checked)
    assert report["share_without_retrieval"] == 0.5
    assert recognizer.knows(1.0, recognizer.known_share(known), 100)
    assert not recognizer.knows(1.0, recognizer.known_share(unknown), 100)


def test_the_report_is_of_questions_that_chose_nothing() -> None:
    """The questions that choose are known alone; those that the report is of are not, and are skipped all the same."""
    told = np.full(100, 0.95, np.float32)
    checked = [DevQuestion(has_answer=told, embedding=EMBEDDINGS[0], alone=bool(i % 2), retrieved=True) for i in range(20)]
    _, report = fit(EMBEDDINGS, np.ones(50, np.uint8), 1.0, checked)
    assert (report["dev"], report["share_without_retrieval"]) == (10, 1)
    assert (report["accuracy"], report["accuracy_retrieved"]) == (0, 100)


def test_where_retrieval_always_wins_nothing_is_skipped() -> None:
    checked = [
        DevQuestion(has_answer=np.ones(100, np.float32), embedding=EMBEDDINGS[i], alone=False, retrieved=True) for i in range(20)
    ]
    recognizer, report = fit(EMBEDDINGS, RIGHT, 0.0, checked)
    assert report["share_without_retrieval"] == 0
    assert not recognizer.knows(1.0, 1.0, 100)
