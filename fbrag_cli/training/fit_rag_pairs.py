"""Pairs of a question and a passage with two labels, in batches that never lack the rare ones (FIT-RAG, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.training.fit_rag_labels import Pool, has_answer
from fbrag_cli.training.questions import Question

BATCH = 16
#: Pairs of a batch whose labels differ, at least.
MISMATCHED = 2

Vector = NDArray[np.floating[Any]]

#: matched: both labels are equal. partial: only Has_Answer is known.
Kind = Literal["matched", "mismatched", "partial"]
KINDS: tuple[Kind, ...] = ("matched", "mismatched", "partial")


@dataclass(frozen=True, slots=True)
class Pair:
    """prefers: LLM_Prefer, None where no reply was made. dev: whether it is for checking."""

    question: str
    text: str
    has_answer: bool
    prefers: bool | None
    dev: bool

    @property
    def kind(self) -> Kind:
        if self.prefers is None:
            return "partial"
        return "matched" if self.prefers == self.has_answer else "mismatched"


def pairs_of(questions: Iterable[Question], pool: Pool, rows: Iterable[Mapping[str, Any]]) -> list[Pair]:
    """Return the pairs of each question and its candidates. rows: of labels (`fit_rag_labels`).

    Questions whose answers stand in many texts by chance have none.
    """
    right = {
        (row["dataset"], row["question"], row["passages"][0]): bool(row["right"]) for row in rows if len(row["passages"]) == 1
    }
    found = []
    for question in questions:
        if question.is_telling or (question.gold and not question.verbatim):
            for passage in pool.candidates(question):
                prefers = right.get((question.dataset, question.id, passage.id))
                found.append(Pair(question.text, passage.text, has_answer(question, passage), prefers, question.dev))
    return found


class Batches:
    """Batches of pairs, each with as many of a kind as their share, but at least `MISMATCHED` mismatched ones.

    shares: of each kind among all pairs. The loss of a batch is the mean of each kind times its share: its expectation is the
    mean over all pairs, however many of a kind a batch has.
    """

    def __init__(self, pairs: Sequence[Pair], size: int = BATCH) -> None:
        self._of = {kind: np.array([i for i, pair in enumerate(pairs) if pair.kind == kind], np.intp) for kind in KINDS}
        self.shares = {kind: len(found) / max(1, len(pairs)) for kind, found in self._of.items()}
        rare = min(len(self._of["mismatched"]), max(MISMATCHED, round(size * self.shares["mismatched"])))
        partial = round((size - rare) * self.shares["partial"] / max(1e-9, 1 - self.shares["mismatched"]))
        self._counts = {"mismatched": rare, "partial": partial, "matched": size - rare - partial}
        self.steps = -(-len(pairs) // size)

    def epoch(self, random: np.random.Generator) -> Iterator[dict[Kind, NDArray[np.intp]]]:
        """Yield the positions of the pairs of each batch, by kind; a kind without pairs is left out."""
        streams = {kind: _endless(found, random) for kind, found in self._of.items() if len(found)}
        for _ in range(self.steps):
            yield {kind: np.array([next(stream) for _ in range(self._counts[kind])], np.intp) for kind, stream in streams.items()}

    def draw(self, kind: Kind, n: int, random: np.random.Generator) -> NDArray[np.intp]:
        """Return the positions of `n` pairs of a kind, drawn with replacement."""
        return random.choice(self._of[kind], n)


def _endless(positions: NDArray[np.intp], random: np.random.Generator) -> Iterator[np.intp]:
    """Yield all positions in a random order, again and again."""
    while True:
        yield from random.permutation(positions)


def weight_step(u: Vector, g_matched: Vector, g_mismatched: Vector) -> float:
    """Return the derivative of the validation loss by w after a step of the parameters, for a learning rate of 1 (equations 8
    to 10), all gradients as vectors: d = -u·(g_matched - g_mismatched).

    u: of the validation loss at the new parameters. The paper's print lacks the minus: by the chain rule the derivative of the
    new parameters by w is -(g_matched - g_mismatched).
    """
    return -float(u @ (g_matched - g_mismatched))


def auc(scores: NDArray[np.float32], labels: NDArray[np.bool_]) -> float:
    """Return the share of pairs (positive, negative) that the scores order rightly; ties count half. nan without both kinds."""
    positive, negative = scores[labels], np.sort(scores[~labels])
    if not len(positive) or not len(negative):
        return float("nan")
    below, upto = (np.searchsorted(negative, positive, side=side).sum() for side in ("left", "right"))
    return float((below + upto) / 2 / (len(positive) * len(negative)))
