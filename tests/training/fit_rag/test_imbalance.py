"""What FIT-RAG's training rests on, without torch: the weight w, stratified batches, the split, and the measures."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fbrag_cli.evaluation.statistics import auc
from fbrag_cli.training.fit_rag.pairs import (
    START,
    Batches,
    Pair,
    PairKind,
    direction,
    kind_of,
    label_counts,
    measure,
    moved,
    slope,
    split,
)

Array = NDArray[np.float64]


def pairs(matched: int, mismatched: int, one_label: int = 0, *, a_question: int = 4) -> list[Pair]:
    labels = [(True, True), (False, False)] * (matched // 2) + [(True, False)] * mismatched + [(True, None)] * one_label
    return [Pair(f"q{i}", f"t{i}", answer, prefers, False, str(i // a_question)) for i, (answer, prefers) in enumerate(labels)]


# -- the weight w ------------------------------------------------------------------------------------------------------------


class Logistic:
    """A logistic regression on 220 points, of which ten in eleven (matched) are told by another feature than the others."""

    def __init__(self, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.x, self.y = {}, {}
        for kind, n in {"mat": 200, "mis": 20, "v_mat": 50, "v_mis": 50}.items():
            x = random.normal(size=(n, 5))
            told_by = x[:, 0] if kind.endswith("mat") else x[:, 1] - x[:, 0]
            self.x[kind], self.y[kind] = x, (told_by + random.normal(0, 0.3, n) > 0).astype(float)
        self.n = 220

    def loss(self, kind: str, theta: Array) -> float:
        """The mean over a kind; of training, the sum over it divided by the number of all points."""
        z = self.x[kind] @ theta
        total = float((np.logaddexp(0, z) - self.y[kind] * z).sum())
        return total / (len(z) if kind.startswith("v_") else self.n)

    def gradient(self, kind: str, theta: Array) -> Array:
        z = self.x[kind] @ theta
        total = self.x[kind].T @ (1 / (1 + np.exp(-z)) - self.y[kind])
        return np.asarray(total / (len(z) if kind.startswith("v_") else self.n))

    def stepped(self, theta: Array, w: float, rate: float) -> Array:
        return theta - rate * (w * self.gradient("mat", theta) + (1 - w) * self.gradient("mis", theta))

    def balanced(self, theta: Array) -> float:
        return (self.loss("v_mat", theta) + self.loss("v_mis", theta)) / 2

    def slope(self, theta: Array, w: float, rate: float) -> float:
        after = self.stepped(theta, w, rate)
        at_validation = self.gradient("v_mat", after), self.gradient("v_mis", after)
        return slope(*at_validation, self.gradient("mat", theta), self.gradient("mis", theta), rate)


@pytest.mark.parametrize("seed", range(5))
def test_the_slope_by_w_is_that_of_a_finite_difference_and_has_its_sign(seed: int) -> None:
    model, rate, w, step = Logistic(seed), 0.5, 0.5, 1e-4
    theta = np.random.default_rng(seed).normal(size=5)
    high, low = (model.balanced(model.stepped(theta, w + by, rate)) for by in (step, -step))
    difference = (high - low) / (2 * step)
    assert abs(difference) > 1e-4
    assert model.slope(theta, w, rate) == pytest.approx(difference, rel=1e-3)  # of the other sign without the minus


def test_w_learnt_with_the_minus_lowers_the_balanced_loss_and_raises_it_without() -> None:
    model, rate = Logistic(), 0.5

    def balanced(sign: float) -> tuple[float, float]:
        theta, w = np.zeros(5), START
        for _ in range(300):
            d = model.slope(theta, w, rate)
            theta, w = model.stepped(theta, w, rate), moved(w, sign * d, 2)
        return model.balanced(theta), w

    (learnt, w), (fixed, _), (without, _) = balanced(1), balanced(0), balanced(-1)
    assert learnt < fixed < without
    assert w < 0.2  # ten matched weigh about as much as one mismatched


def test_the_direction_depends_on_directions_only() -> None:
    random = np.random.default_rng(1)
    u_mat, u_mis, g_mat, g_mis = random.normal(size=(4, 50))
    d = direction(u_mat, u_mis, g_mat, g_mis)
    assert d == pytest.approx(direction(7 * u_mat, 0.1 * u_mis, 3 * g_mat, 3 * g_mis))
    against = g_mat - g_mis
    assert direction(against, against, g_mat, g_mis) == pytest.approx(-1)
    assert direction(-against, -against, g_mat, g_mis) == pytest.approx(1)
    assert direction(u_mat, u_mis, g_mat, g_mat) == 0  # no difference, no direction


def test_w_stays_off_both_ends() -> None:
    assert moved(0.5, 1, 0.01) == pytest.approx(0.49)
    assert moved(0.021, 1, 0.01) == 0.02
    assert moved(0.979, -1, 0.01) == 0.98


# -- batches and the split -----------------------------------------------------------------------------------------------------


def test_a_batch_has_its_size_and_at_least_two_mismatched_pairs() -> None:
    for given in (pairs(200, 4), pairs(100, 10, 30), pairs(4, 100), pairs(40, 0), pairs(0, 0, 40), pairs(10, 1, 1)):
        batches = Batches(given, range(len(given)), 16, 0)
        for k in range(20):
            drawn = batches.batch(k)
            assert sum(map(len, drawn.values())) == 16
            assert all(kind_of(given[i]) == kind for kind, positions in drawn.items() for i in positions)
            if any(kind_of(pair) is PairKind.MISMATCHED for pair in given):
                assert len(drawn[PairKind.MISMATCHED]) >= 2


def test_means_times_shares_have_the_expectation_of_the_papers_sums() -> None:
    """Over turns in which each kind is drawn whole, the mean of the estimates is exact, not only in expectation."""
    given = pairs(112, 8, 20)
    values = np.random.default_rng(2).normal(size=len(given))
    batches = Batches(given, range(len(given)), 14, 3)
    messages = int(np.lcm.reduce([len(own) for own in batches.positions.values()]))
    estimates: dict[PairKind, list[float]] = {kind: [] for kind in PairKind}
    for k in range(messages):
        for kind, positions in batches.batch(k).items():
            estimates[kind].append(batches.shares[kind] * float(values[positions].mean()))
    for kind in PairKind:
        of_kind = sum(value for value, pair in zip(values, given, strict=True) if kind_of(pair) == kind)
        assert np.mean(estimates[kind]) == pytest.approx(of_kind / len(given))


def test_batches_depend_on_seed_and_number_only() -> None:
    given = pairs(60, 6)
    one, same, other = (Batches(given, range(len(given)), 16, seed) for seed in (0, 0, 1))
    assert [one.batch(k) for k in range(9)][5:] == [same.batch(k) for k in range(5, 9)]
    assert one.batch(5) != other.batch(5)


def test_a_tenth_of_the_training_questions_is_for_validation_and_no_question_is_in_two_parts() -> None:
    given = pairs(160, 40) + [Pair("q", "t", True, True, True, f"dev{i}") for i in range(10)]
    parts = split(given, 0)
    assert sorted((*parts.train, *parts.validation, *parts.dev)) == list(range(len(given)))
    train, validation, dev = ({given[i].question_id for i in part} for part in (parts.train, parts.validation, parts.dev))
    assert len(train | validation | dev) == len(train) + len(validation) + len(dev)
    assert len(validation) == 5
    assert split(given, 0) == parts != split(given, 1)


def test_labels_are_counted() -> None:
    given = pairs(4, 3, 2)
    assert label_counts(given, range(len(given))) == {"0,0": 2, "1,-": 2, "1,0": 3, "1,1": 2}


# -- measures ----------------------------------------------------------------------------------------------------------------


def test_the_area_under_the_curve_is_that_of_a_naive_loop() -> None:
    random = np.random.default_rng(4)
    scores, labels = random.integers(0, 12, 60).astype(float), random.random(60) < 0.3
    wins = [(a > b) + 0.5 * (a == b) for a in scores[labels] for b in scores[~labels]]
    assert auc(scores, labels) == pytest.approx(np.mean(wins))
    assert auc(scores, np.ones(60, bool)) is None


def test_matched_and_mismatched_pairs_count_alike_whatever_their_number() -> None:
    given = pairs(20, 2, 4)
    logits = np.array([[2.0, 2.0]] * len(given), np.float32)
    found = measure(given, logits)
    right, wrong = np.log1p(np.exp(-2)), np.log1p(np.exp(2))
    assert found.matched == pytest.approx(right + wrong)  # half of them 1,1 and half 0,0
    assert found.mismatched == pytest.approx(right + wrong)
    assert found.loss == pytest.approx(right + wrong)
    assert (found.auc_answer, found.auc_prefers) == (0.5, 0.5)
    only = measure(pairs(0, 0, 4), logits[:4])
    assert only.loss == pytest.approx(right)
    assert (only.matched, only.mismatched, only.auc_prefers) == (None, None, None)
