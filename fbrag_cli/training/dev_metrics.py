"""How well logits fit their labels: losses of matched and mismatched pairs, and of each label the area under the ROC curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.training.fit_rag.pairs import Kind, Pair, kind_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DevMetrics:
    """loss: balanced, the mean of `matched` and `mismatched`, as far as there are such pairs; where no pair has both labels, that
    of Has_Answer alone. matched, mismatched: binary cross-entropy a pair, summed over both labels. auc_answer, auc_prefers: 0..1,
    0.5 by chance. None where there are no such pairs, or all have the same label."""

    loss: float
    matched: float | None
    mismatched: float | None
    auc_answer: float | None
    auc_prefers: float | None


def measure(pairs: Sequence[Pair], logits: NDArray[np.float32]) -> DevMetrics:
    """Compare logits, float32 `(len(pairs), 2)`, with the labels. pairs: at least one."""
    labels = np.array([[pair.has_answer, bool(pair.prefers)] for pair in pairs])
    kinds = np.array([kind_of(pair) for pair in pairs])
    z = logits.astype(np.float64)
    losses = np.logaddexp(0, z) - z * labels  # binary cross-entropy, (n, 2)
    matched, mismatched = (_mean(losses[kinds == kind].sum(axis=1)) for kind in (Kind.MATCHED, Kind.MISMATCHED))
    both = [loss for loss in (matched, mismatched) if loss is not None]
    known = kinds != Kind.ONE_LABEL
    return DevMetrics(
        loss=float(np.mean(both or losses[:, 0])),
        matched=matched,
        mismatched=mismatched,
        auc_answer=auc(z[:, 0], labels[:, 0]),
        auc_prefers=auc(z[known, 1], labels[known, 1]),
    )


def auc(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> float | None:
    """Return how often a positive scores above a negative, a tie counted half; None where one of them is missing."""
    n_positive, n_negative = int(labels.sum()), int((~labels).sum())
    if not n_positive or not n_negative:
        return None
    _, rank, ties = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(ties) - (ties - 1) / 2  # of each distinct score, from 1
    above = mean_rank[rank][labels].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None
