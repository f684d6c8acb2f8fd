"""Labeled pairs of a question and a text: their kinds, split and batches, the weight w between the kinds, and the measures of
logits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.evaluation.statistics import auc

VALIDATION_SHARE = 0.1  # of the training questions


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and a text. prefers: LLM_Prefer, None if unknown. dev: for checking, not for training."""

    question: str
    text: str
    has_answer: bool
    prefers: bool | None
    dev: bool
    question_id: str


class PairKind(IntEnum):
    """MATCHED: both labels are equal. MISMATCHED: they differ. ONE_LABEL: LLM_Prefer is unknown."""

    MATCHED = 0
    MISMATCHED = 1
    ONE_LABEL = 2


#: Minimum number of pairs of each kind in a batch, if there are any.
_LEAST = {PairKind.MATCHED: 1, PairKind.MISMATCHED: 2, PairKind.ONE_LABEL: 1}


def kind_of(pair: Pair) -> PairKind:
    if pair.prefers is None:
        return PairKind.ONE_LABEL
    return PairKind.MATCHED if pair.has_answer == pair.prefers else PairKind.MISMATCHED


@dataclass(frozen=True, slots=True)
class Split:
    """Positions of pairs. train: the paper's D_t. validation: its D_v, from which only the weight w is learned. dev: for choosing
    the epoch and for the report. No question is in two of them, if its pairs agree on `dev`."""

    train: tuple[int, ...]
    validation: tuple[int, ...]
    dev: tuple[int, ...]


def split(pairs: Sequence[Pair], seed: int) -> Split:
    """Set aside a random tenth of the training questions for validation, drawn with the seed."""
    questions = sorted({pair.question_id for pair in pairs if not pair.dev})
    order = np.random.default_rng(seed).permutation(len(questions))
    apart = {questions[i] for i in order[: round(VALIDATION_SHARE * len(questions))]}
    train = tuple(i for i, pair in enumerate(pairs) if not pair.dev and pair.question_id not in apart)
    validation = tuple(i for i, pair in enumerate(pairs) if not pair.dev and pair.question_id in apart)
    return Split(train, validation, tuple(i for i, pair in enumerate(pairs) if pair.dev))


class Batches:
    """Stratified batches of pairs: each has a fixed number of pairs per kind, about its share, and at least two mismatched ones.

    The mean over a kind in a batch, times the kind's share, has as its expectation the sum over the kind divided by the number of
    all pairs. Batch k depends only on the seed and k, so a resumed run has the same batches.

    positions: positions of the pairs, by kind. quotas: pairs per kind in a batch. shares: share of each kind in all pairs.
    """

    def __init__(self, pairs: Sequence[Pair], positions: Sequence[int], size: int, seed: int) -> None:
        self._seed = seed
        self.positions: dict[PairKind, list[int]] = {}
        for i in positions:
            self.positions.setdefault(kind_of(pairs[i]), []).append(i)
        counts = {kind: len(self.positions[kind]) for kind in PairKind if kind in self.positions}
        self.shares = {kind: n / len(positions) for kind, n in counts.items()}
        self.quotas = _quotas(counts, size)

    def batch(self, k: int) -> dict[PairKind, list[int]]:
        """Return the positions of the pairs in batch k, by kind."""
        return {kind: self.drawn(kind, k, quota) for kind, quota in self.quotas.items()}

    def drawn(self, kind: PairKind, k: int, n: int) -> list[int]:
        """Return the k-th `n` positions of a kind. All are drawn once, in random order, before any is drawn again."""
        own = self.positions[kind]
        turns = range(k * n // len(own), ((k + 1) * n - 1) // len(own) + 1)
        orders = {turn: np.random.default_rng([self._seed, kind, turn]).permutation(len(own)) for turn in turns}
        return [own[orders[i // len(own)][i % len(own)]] for i in range(k * n, (k + 1) * n)]


def _quotas(counts: Mapping[PairKind, int], size: int) -> dict[PairKind, int]:
    """Return the number of pairs per kind in a batch of `size` (at least 8). The largest kind gets the rounding remainder."""
    total = sum(counts.values())
    quotas = {kind: max(_LEAST[kind], round(size * n / total)) for kind, n in counts.items()}
    if quotas:
        quotas[max(counts, key=lambda kind: counts[kind])] += size - sum(quotas.values())
    return quotas


def label_counts(pairs: Sequence[Pair], positions: Sequence[int]) -> dict[str, int]:
    """Return the number of pairs for each combination of labels: "1,0" contains the answer, but the model does not answer from
    it; "1,-" contains it, and the other label is unknown."""
    chosen = [pairs[i] for i in positions]
    labels = (f"{each.has_answer:d},{'-' if each.prefers is None else f'{each.prefers:d}'}" for each in chosen)
    return dict(sorted(Counter(labels).items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class DevMetrics:
    """Measures on dev pairs. loss: balanced, the mean of `matched` and `mismatched` if there are such pairs; if no pair has both
    labels, that of Has_Answer. matched, mismatched: binary cross-entropy per pair, summed over both labels. auc_answer,
    auc_prefers: 0 to 1, 0.5 by chance. None if there are no such pairs, or all have the same label."""

    loss: float
    matched: float | None
    mismatched: float | None
    auc_answer: float | None
    auc_prefers: float | None

    def described(self) -> str:
        """Return the loss and both areas in words."""
        areas = ("-" if area is None else f"{area:.3f}" for area in (self.auc_answer, self.auc_prefers))
        return f"dev loss {self.loss:.3f}, AUC of Has_Answer and LLM_Prefer {' and '.join(areas)}"


def measure(pairs: Sequence[Pair], logits: NDArray[np.float32]) -> DevMetrics:
    """Measure logits, float32 `(len(pairs), 2)`, against the labels. pairs: at least one."""
    labels = np.array([[pair.has_answer, bool(pair.prefers)] for pair in pairs])
    kinds = np.array([kind_of(pair) for pair in pairs])
    z = logits.astype(np.float64)
    losses = np.logaddexp(0, z) - z * labels  # binary cross-entropy, (n, 2)
    of_kinds = (losses[kinds == kind].sum(axis=1) for kind in (PairKind.MATCHED, PairKind.MISMATCHED))
    matched, mismatched = (float(each.mean()) if len(each) else None for each in of_kinds)
    both = [loss for loss in (matched, mismatched) if loss is not None]
    known = kinds != PairKind.ONE_LABEL
    return DevMetrics(
        loss=float(np.mean(both or losses[:, 0])),
        matched=matched,
        mismatched=mismatched,
        auc_answer=auc(z[:, 0], labels[:, 0]),
        auc_prefers=auc(z[known, 1], labels[known, 1]),
    )


# -- the weight w -------------------------------------------------------------------------------------------------------------

# The weight w between matched and mismatched pairs, learned by hypergradient descent (FIT-RAG, section 4.2.2).
#
# Training loss: L_t = w L_mat + (1 - w) L_mis, each a sum over its kind divided by the number of all pairs. A step of
# gradient descent gives θ_k = θ - η (w g_mat + (1 - w) g_mis), so that ∂θ_k/∂w = -η (g_mat - g_mis). The paper's equations 9
# and 10 and its algorithm 2 lack that minus: w then runs away from the lowest validation loss (measured, FIT-RAG.md 2.2).
#
# Our addition: a pair whose LLM_Prefer is unknown is of neither kind. Its loss, only on Has_Answer, has the weight 0.5,
# which all pairs have before w moves: L_t = w L_mat + (1 - w) L_mis + 0.5 L_one.

Vector = NDArray[Any]

START = 0.5
LOWEST, HIGHEST = 0.02, 0.98


def slope(u_mat: Vector, u_mis: Vector, g_mat: Vector, g_mis: Vector, rate: float) -> float:
    """Return d, the derivative by w of the balanced validation loss (L_v^mat + L_v^mis) / 2 after a step of gradient descent.

    u_mat, u_mis: gradients of both validation losses at θ_k. g_mat, g_mis: gradients of both training losses at θ_(k-1). rate: η.
    """
    return -rate * float((u_mat + u_mis) @ (g_mat - g_mis)) / 2


def direction(u_mat: Vector, u_mis: Vector, g_mat: Vector, g_mis: Vector) -> float:
    """Return `slope` with vectors of length 1, -1..1: the mean of -cos(u_mat, g_mat - g_mis) and -cos(u_mis, g_mat - g_mis).

    So w moves at the same rate whatever the learning rate and the size of the gradients, even with an optimizer that scales them
    (AdamW).
    """
    length = float(np.linalg.norm(g_mat - g_mis))
    return slope(_unit(u_mat), _unit(u_mis), g_mat, g_mis, 1 / length if length else 0)


def moved(w: float, d: float, alpha: float) -> float:
    """Return w after one step of size `alpha` against d, kept away from 0 and 1."""
    return min(max(w - alpha * d, LOWEST), HIGHEST)


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
