"""Intervals and p-values against numbers worked by hand, an independent slow loop, and simulations of what they promise."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from fbrag_cli.evaluation.statistics import (
    RESAMPLES,
    average,
    bootstrap,
    interval,
    paired_difference,
    percentile,
    sign_flip,
)


def slow_interval(values: list[float], resamples: int) -> tuple[float, float]:
    rng = random.Random(7)
    means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples)]


def slow_p(differences: list[float]) -> float:
    observed = abs(sum(differences))
    signs = list(itertools.product((-1, 1), repeat=len(differences)))
    flipped = [abs(sum(s * d for s, d in zip(each, differences, strict=True))) for each in signs]
    return sum(total >= observed - 1e-9 for total in flipped) / len(signs)


def test_two_examples_have_only_three_means() -> None:
    sampled = bootstrap([0.0, 1.0])
    assert (sampled.mean, sampled.n) == (0.5, 2)
    assert set(sampled.resampled) == {0.0, 0.5, 1.0}
    assert np.mean(sampled.resampled == 0.5) == pytest.approx(0.5, abs=0.03)
    assert interval(sampled) == (0.0, 1.0)


def test_agrees_with_a_loop_that_draws_one_by_one() -> None:
    rng = random.Random(3)
    values = [rng.choice([0.0, 0.25, 2 / 3, 1.0]) for _ in range(40)]
    low, high = interval(bootstrap(values)) or (0, 0)
    assert (low, high) == pytest.approx(slow_interval(values, 10_000), abs=0.015)
    assert low < sum(values) / 40 < high


def test_average_gives_each_data_set_the_same_weight() -> None:
    sampled = average([bootstrap([0.0] * 9, "many"), bootstrap([1.0] * 2, "few")])
    assert (sampled.mean, sampled.n) == (0.5, 11)
    assert interval(sampled) == (0.5, 0.5)  # resampled within each: none takes the place of another


def test_average_over_data_sets_is_surer_than_one_of_them() -> None:
    values = [0.0, 1.0] * 20
    one = interval(bootstrap(values, "a")) or (0, 0)
    four = interval(average([bootstrap(values, name) for name in "abcd"])) or (0, 0)
    assert four[1] - four[0] == pytest.approx((one[1] - one[0]) / 2, rel=0.12)  # the square root of four


def test_one_example_has_no_interval() -> None:
    assert interval(bootstrap([0.4])) is None
    assert interval(average([bootstrap([0.4]), bootstrap([0.1, 0.9])])) is None


def test_the_same_stream_gives_the_same_interval_and_another_stream_another_one() -> None:
    values = [i / 30 for i in range(31)]
    assert interval(bootstrap(values, "musique")) == interval(bootstrap(values, "musique"))
    assert not np.array_equal(bootstrap(values, "musique").resampled, bootstrap(values, "qmsum").resampled)


def test_many_examples_are_resampled_a_block_at_a_time() -> None:
    sampled = bootstrap([0.0, 1.0] * 2_000)  # 262 resamples fill a block
    assert sampled.resampled.shape == (RESAMPLES,)
    assert sampled.resampled == pytest.approx(np.full(RESAMPLES, 0.5), abs=0.05)


def test_intervals_cover_the_true_mean_about_as_often_as_they_say() -> None:
    """Scores as F1 gives them: many zeros, many ones, some between."""
    rng = np.random.default_rng(0)
    truth = 0.3 * 1.0 + 0.3 * 0.5
    covered = 0
    for _ in range(400):
        kind = rng.random(60)
        values = np.where(kind < 0.4, 0.0, np.where(kind < 0.7, 1.0, rng.random(60)))
        low, high = interval(bootstrap(values.tolist())) or (0, 0)
        covered += low <= truth <= high
    assert 0.91 <= covered / 400 <= 0.98


@pytest.mark.parametrize("n", [8, 40])
def test_no_difference_is_found_about_as_often_as_p_says(n: int) -> None:
    rng = np.random.default_rng(1)
    found = [sign_flip((rng.random(n) - rng.random(n)).tolist()) for i in range(400)]
    assert np.mean(np.array(found) <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(found) <= 0.5) == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2.0, 3.0], 2 / 8),  # only all plus and all minus reach 6
        ([3.0, -1.0], 1.0),  # 2, 4, 4, 2: each reaches 2
        ([0.1] * 10, 2 / 1024),
        ([0.1] * 10 + [0.0] * 50, 2 / 1024),  # ties say nothing
        ([0.1, 0.2, -0.3], 1.0),  # a sum of zero, but for rounding
        ([0.0, 0.0], 1.0),
        ([], 1.0),
    ],
)
def test_p_of_a_few_differences_by_hand(differences: list[float], p: float) -> None:
    assert sign_flip(differences) == pytest.approx(p)


def test_p_of_many_differences_is_near_that_of_all_signs() -> None:
    rng = random.Random(5)
    differences = [rng.gauss(0.6, 0.9) for _ in range(15)]
    exact = slow_p(differences)
    assert 0.001 < exact < 0.5
    assert sign_flip(differences) == pytest.approx(exact, abs=0.012)
    assert sign_flip([1.0] * 100) == pytest.approx(1 / 10_001)  # never 0


def test_paired_difference_by_data_set() -> None:
    found = paired_difference({"a": [0.1, 0.3], "b": [0.4] * 8})
    assert found.mean == pytest.approx(0.3)  # of 0.2 and 0.4
    assert (found.low, found.high) == pytest.approx((0.25, 0.35))
    assert found.n == 10
    assert found.p == pytest.approx(2 / 1024)
    assert paired_difference({"a": [0.5]}).low is None


def test_percentiles_by_hand() -> None:
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile([4, 1, 3, 2], 95) == pytest.approx(3.85)
    assert percentile([7], 95) == 7


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="nothing"):
        bootstrap([])
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 50)
