"""Statistics of scores over examples: bootstrap intervals, paired differences with a p-value, percentiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RESAMPLES = 10_000
LEVEL = 0.95
_Z, _Z_POWER = 1.959964, 0.841621  # of the normal distribution, at 0.975 and at 0.8
_BLOCK = 1 << 20  # numbers in memory at the same time
_ALL_SIGNS = 13  # number of differences up to which all 2 ** n signs are tried


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """A mean over `n` examples, and the same mean of each resample, float64 `(RESAMPLES,)`.

    smallest: number of examples in the smallest resampled group.
    """

    mean: float
    n: int
    smallest: int
    resampled: Floats


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean of `n` paired differences. low, high: its 95% interval, None for a single pair. p: two-sided."""

    mean: float
    low: float | None
    high: float | None
    p: float
    n: int


def bootstrap(values: Sequence[float], stream: str = "") -> Bootstrap:
    """Return the mean of `values`, and the means of `RESAMPLES` samples drawn from them with replacement (Efron 1979).

    The draws depend only on `stream` and the number of values, so two systems are resampled in the same way over the same
    examples. Pass the name of a dataset as the stream, because datasets are independent of each other. Raises ValueError without
    values.
    """
    import numpy as np

    if not values:
        raise ValueError("the mean of nothing")
    array = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng([0, crc32(stream.encode("utf-8", "surrogatepass"))])
    means = [array[rng.integers(0, array.size, (rows, array.size))].mean(axis=1) for rows in _blocks(array.size)]
    return Bootstrap(float(array.mean()), array.size, array.size, np.concatenate(means))


def average(groups: Sequence[Bootstrap]) -> Bootstrap:
    """Return the mean of the groups' means with equal weights, as the paper averages over datasets.

    Each group is resampled within itself.
    """
    import numpy as np

    mean = sum(group.mean for group in groups) / len(groups)
    resampled = np.mean([group.resampled for group in groups], axis=0)
    return Bootstrap(mean, sum(group.n for group in groups), min(group.smallest for group in groups), resampled)


def interval(sampled: Bootstrap) -> tuple[float, float] | None:
    """Return the 95% percentile interval (Efron and Tibshirani 1993, chapter 13); None if a group has only one example.

    If all examples have the same score, the interval has no width, which says nothing about its certainty.
    """
    import numpy as np

    if sampled.smallest < 2:
        return None
    low, high = np.quantile(sampled.resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def paired_difference(groups: Mapping[str, Sequence[float]]) -> Difference:
    """Return the mean difference of two systems over the same examples: averaged within each dataset, then over datasets.

    groups: the differences by dataset. The interval is the percentile bootstrap's over the pairs; p is from `sign_flip`. Raises
    ValueError without pairs.
    """
    sampled = average([bootstrap(values, name) for name, values in groups.items()])
    shares = [value / (len(values) * len(groups)) for values in groups.values() for value in values]
    low, high = interval(sampled) or (None, None)
    return Difference(sampled.mean, low, high, sign_flip(shares), sampled.n)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the 95% score interval of a share of `n` (Wilson 1927), which has a width also if the share is 0 or 1."""
    middle, scale = share + _Z**2 / (2 * n), 1 + _Z**2 / n
    half = _Z * sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def needed_pairs(differences: Sequence[float]) -> int | None:
    """Return how many pairs would show a difference as large as the observed one: p below 0.05, two-sided, in 80% of samples.

    n = ((z(0.975) + z(0.8)) s / d)², with the mean d and the standard deviation s of the observed differences: the formula for
    paired means (Lachin 1981, "Introduction to sample size determination and power analysis for clinical trials", Controlled
    Clinical Trials 2). It is as uncertain as d and s. At least one more than the pairs that there are, which were not enough, and
    at least 6, the fewest that can have p below 0.05. None if the mean is 0.
    """
    n, mean = len(differences), sum(differences) / len(differences)
    if not mean:
        return None
    variance = sum((each - mean) ** 2 for each in differences) / n
    return max(ceil((_Z + _Z_POWER) ** 2 * variance / mean**2), n + 1, 6)


def sign_flip(differences: Sequence[float]) -> float:
    """Return the two-sided p: the probability that the sum of `differences` is at least this far from 0 if pairs are swapped at
    random.

    This is Fisher's randomization test of paired differences. Smucker, Allan and Carterette (2007) found that it agrees with the
    bootstrap and the t-test on retrieval scores. It is exact up to 13 nonzero differences. Beyond that, signs are drawn, and the
    observed ones count as one draw, so that p is never 0 (Phipson and Smyth 2010).
    """
    import numpy as np

    array = np.asarray([difference for difference in differences if difference != 0], dtype=np.float64)
    size = np.abs(array).sum()
    if not size:
        return 1.0
    reached = abs(array.sum()) - 1e-9 * size  # sums of the same numbers in another order may differ in the last bit
    if array.size <= _ALL_SIGNS:
        bits = np.arange(1 << array.size)[:, np.newaxis] >> np.arange(array.size) & 1
        return float(np.mean(np.abs((2 * bits - 1) @ array) >= reached))
    rng = np.random.default_rng(0)
    extreme = 0
    for rows in _blocks(array.size):
        signs = 2 * rng.integers(0, 2, (rows, array.size), dtype=np.int8) - 1
        extreme += int(np.count_nonzero(np.abs(signs @ array) >= reached))
    return (1 + extreme) / (1 + RESAMPLES)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile, interpolated linearly between the two values nearest to its rank. Raises ValueError without values."""
    import numpy as np

    if not values:
        raise ValueError("a percentile of nothing")
    return float(np.percentile(np.asarray(values, dtype=np.float64), percent))


def _blocks(n: int) -> Iterator[int]:
    """Yield the numbers of resamples of `n` values to make at a time, so that memory is bounded."""
    at_once = max(1, _BLOCK // n)
    for done in range(0, RESAMPLES, at_once):
        yield min(at_once, RESAMPLES - done)


def auc(scores: Floats, labels: NDArray[np.bool_]) -> float | None:
    """Return the area under the ROC curve: how often a positive scores above a negative; ties count half.

    scores, labels: (n,). Return None if all labels are equal.
    """
    import numpy as np

    n_positive, n_negative = int(labels.sum()), int((~labels).sum())
    if not n_positive or not n_negative:
        return None
    _, rank, ties = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(ties) - (ties - 1) / 2  # of each distinct score, from 1
    above = mean_rank[rank][labels].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))
