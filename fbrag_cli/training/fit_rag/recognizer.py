"""FIT-RAG's self-knowledge recognizer: questions whose answers the model knows, and the thresholds for skipping retrieval
(section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.methods.fit_rag.parts import LEAST_CANDIDATES, Recognizer

Array = NDArray[np.float32]

#: Neighbors of a question, precision of Has_Answer at delta, and percentage points of accuracy that skipping retrieval may cost.
K, PRECISION, MOST_LOST = 10, 0.9, 1.0
_SHARES = (0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2)  # s_l; the paper has 0.04
_KNOWN = tuple(round(0.1 * i, 1) for i in range(10))  # s_n, of ten neighbors; the paper has 0.55 and 0.67


@dataclass(frozen=True, slots=True, kw_only=True)
class DevQuestion:
    """A question for checking.

    has_answer: probabilities of its candidates (n,). embedding: (d,). alone, retrieved: whether the reply is right without a
    document and with the windows.
    """

    has_answer: Array
    embedding: Array
    alone: bool
    retrieved: bool


def delta_of(logits: Array, has_answer: NDArray[np.bool_]) -> float:
    """Return the lowest logit above which `PRECISION` of the passages contain the answer, infinity if there is none. logits,
    has_answer: (n,)."""
    order = np.argsort(-logits, kind="stable")
    precision = np.cumsum(has_answer[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(precision >= PRECISION)
    if not len(good):
        return float("inf")
    last = int(good[-1])
    return float(np.nextafter(logits[order[last]], -np.inf, dtype=np.float32))


def fit(
    embeddings: Array, right: NDArray[np.uint8], delta: float, dev: Sequence[DevQuestion]
) -> tuple[Recognizer, dict[str, Any]]:
    """Return the recognizer that skips retrieval for the most questions while losing no more than `MOST_LOST` points, and its
    report.

    embeddings: float32 (n_questions, d). right: (n_questions,). Every second question for checking is used to choose, the others
    for the report.
    """
    first = Recognizer(embeddings=embeddings, right=right, k=min(K, len(right)), delta=delta, told=1.0, known=1.0)
    signs = np.array([(first.told_share(each.has_answer), first.known_share(each.embedding)) for each in dev])
    enough = np.array([len(each.has_answer) >= LEAST_CANDIDATES for each in dev], bool)
    alone, retrieved = (np.array([getattr(each, name) for each in dev], bool) for name in ("alone", "retrieved"))
    reports = np.arange(len(dev)) % 2 == 0

    def skipped(told: float, known: float) -> NDArray[np.bool_]:
        return enough & (signs[:, 0] > told) & (signs[:, 1] > known)

    best = 0, 1.0, 1.0
    for told, known in product(_SHARES, _KNOWN):
        chosen = skipped(told, known) & ~reports
        lost = 100 * int((retrieved[chosen].astype(int) - alone[chosen]).sum())
        if lost <= MOST_LOST * np.sum(~reports) and chosen.sum() > best[0]:
            best = int(chosen.sum()), told, known
    _, told, known = best
    without = skipped(told, known)
    report = {
        "questions": len(right),
        "known": int(right.sum()),
        "dev": int(reports.sum()),
        "accuracy_alone": 100 * float(alone[reports].mean()),
        "accuracy_retrieved": 100 * float(retrieved[reports].mean()),
        "accuracy": 100 * float(np.where(without, alone, retrieved)[reports].mean()),
        "share_without_retrieval": float(without[reports].mean()),
    }
    return Recognizer(embeddings=embeddings, right=right, k=first.k, delta=delta, told=told, known=known), report
