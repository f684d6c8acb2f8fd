"""Pairs of a question and a text with their labels: their kinds, their split, and batches with a set number of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

VALIDATION_SHARE = 0.1  # of the training questions


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and a text. prefers: LLM_Prefer, None where it is not known. dev: for checking, not for training."""

    question: str
    text: str
    has_answer: bool
    prefers: bool | None
    dev: bool
    question_id: str


class Kind(IntEnum):
    """MATCHED: both labels are equal. MISMATCHED: they differ. ONE_LABEL: LLM_Prefer is not known."""

    MATCHED = 0
    MISMATCHED = 1
    ONE_LABEL = 2


#: Pairs of each kind that a batch holds at least, where there are any.
_LEAST = {Kind.MATCHED: 1, Kind.MISMATCHED: 2, Kind.ONE_LABEL: 1}


def kind_of(pair: Pair) -> Kind:
    if pair.prefers is None:
        return Kind.ONE_LABEL
    return Kind.MATCHED if pair.has_answer == pair.prefers else Kind.MISMATCHED


@dataclass(frozen=True, slots=True)
class Split:
    """Positions of pairs. train: the paper's D_t. validation: its D_v, from which only the weight w is learnt. dev: for the
    choice of the epoch, and what is reported. No question is in two of them, if its pairs agree on `dev`."""

    train: tuple[int, ...]
    validation: tuple[int, ...]
    dev: tuple[int, ...]


def split(pairs: Sequence[Pair], seed: int) -> Split:
    """Set a tenth of the training questions apart for validation, drawn by the seed."""
    questions = sorted({pair.question_id for pair in pairs if not pair.dev})
    order = np.random.default_rng(seed).permutation(len(questions))
    apart = {questions[i] for i in order[: round(VALIDATION_SHARE * len(questions))]}
    train = tuple(i for i, pair in enumerate(pairs) if not pair.dev and pair.question_id not in apart)
    validation = tuple(i for i, pair in enumerate(pairs) if not pair.dev and pair.question_id in apart)
    return Split(train, validation, tuple(i for i, pair in enumerate(pairs) if pair.dev))


class Batches:
    """Stratified batches of pairs: each holds the same number of each kind, about the kind's share, of mismatched at least two.

    The mean of a kind's values in a batch, times the share of the kind, has as its expectation their sum over the kind, divided
    by the number of all pairs. Batch k depends on the seed and k only, so that a stopped run goes on with the same ones.

    positions: of pairs, by kind. quotas: pairs of each kind in a batch. shares: of each kind in all pairs.
    """

    def __init__(self, pairs: Sequence[Pair], positions: Sequence[int], size: int, seed: int) -> None:
        self._seed = seed
        self.positions: dict[Kind, list[int]] = {}
        for i in positions:
            self.positions.setdefault(kind_of(pairs[i]), []).append(i)
        counts = {kind: len(self.positions[kind]) for kind in Kind if kind in self.positions}
        self.shares = {kind: n / len(positions) for kind, n in counts.items()}
        self.quotas = _quotas(counts, size)

    def batch(self, k: int) -> dict[Kind, list[int]]:
        """Return the positions of the pairs in batch k, by kind."""
        return {kind: self.drawn(kind, k, quota) for kind, quota in self.quotas.items()}

    def drawn(self, kind: Kind, k: int, n: int) -> list[int]:
        """Return the k-th `n` positions of a kind: all are drawn once, in random order, before one is drawn again."""
        own = self.positions[kind]
        return [own[self._order(kind, i // len(own))[i % len(own)]] for i in range(k * n, (k + 1) * n)]

    def _order(self, kind: Kind, turn: int) -> NDArray[np.int64]:
        return np.random.default_rng([self._seed, kind, turn]).permutation(len(self.positions[kind]))


def _quotas(counts: Mapping[Kind, int], size: int) -> dict[Kind, int]:
    """Return how many pairs of each kind a batch of `size` (8 at least) holds; what rounding leaves is the largest kind's."""
    total = sum(counts.values())
    quotas = {kind: max(_LEAST[kind], round(size * n / total)) for kind, n in counts.items()}
    if quotas:
        quotas[max(counts, key=lambda kind: counts[kind])] += size - sum(quotas.values())
    return quotas


def label_counts(pairs: Sequence[Pair], positions: Sequence[int]) -> dict[str, int]:
    """Return how many pairs there are of each combination of labels: "1,0" has the answer, and the model does not answer from it;
    "1,-" has it, and the other is not known."""
    told = Counter(_label(pairs[i]) for i in positions)
    return dict(sorted(told.items()))


def _label(pair: Pair) -> str:
    return f"{pair.has_answer:d},{'-' if pair.prefers is None else f'{pair.prefers:d}'}"
