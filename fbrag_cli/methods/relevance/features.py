"""The features of R2AG: numbers for each chunk of a list, from the retriever (equations 10 to 12).

A list has its chunks best first. Each feature is comparable between questions and documents, so that a model can learn from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Passage
from fbrag_cli.retrieval import Retriever

Array = NDArray[np.float32]

RELEVANCE, PRECEDENT, NEIGHBOUR = FEATURES = "relevance", "precedent", "neighbour"


@dataclass(frozen=True, slots=True)
class Scored:
    """A text with the retriever's scores of all chunks of the corpus for it, float32 (n_chunks,)."""

    text: str
    scores: Array


def list_features(names: Sequence[str], chunks: Sequence[Passage], retriever: Retriever, question: Scored) -> Array:
    """Return float32 (n_chunks_of_the_list, len(names)), column i for names[i] of `FEATURES`. chunks: at least one, best first.

    relevance: the score for the question by its bound. precedent: cosine with the mean of the chunks before it, weighted by
    exp(relevance); 1 for the first. neighbour: mean cosine with the chunks next to it; 0 for a chunk alone.
    """
    positions = [each.position for each in chunks]
    cosines = retriever.similarities(chunks).astype(np.float64)
    relevance = _bounded(question, retriever)[positions]
    columns = {
        RELEVANCE: relevance,
        PRECEDENT: _precedent(relevance, cosines),
        NEIGHBOUR: _neighbour(cosines),
    }
    return np.stack([columns[name] for name in names], axis=1).astype(np.float32)


def permuted(features: Array, question: str) -> Array:
    """Return the rows of a list in a random order, the same for a question each time: a control without what features say of
    their chunks."""
    order = list(range(len(features)))
    Random(question).shuffle(order)
    return features[order]


def _bounded(text: Scored, retriever: Retriever) -> NDArray[np.float64]:
    """Return float64 (n_chunks,): scores that compare between texts; 0 where the text has no term of the corpus."""
    least, most = retriever.bounds(text.text)
    return np.asarray(np.maximum(text.scores, least) / most if most > 0 else np.zeros_like(text.scores), np.float64)


def _precedent(relevance: NDArray[np.float64], cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """gamma_i = cos(E_i, sum_j<i w_j E_j), w = softmax(relevance[:i]). Of unit vectors E the cosines are all that it takes."""
    similar = np.ones(len(relevance))
    for i in range(1, len(relevance)):
        weights = np.exp(relevance[:i] - relevance[:i].max())
        weights /= weights.sum()
        length = np.sqrt(max(0.0, weights @ cosines[:i, :i] @ weights))
        similar[i] = cosines[i, :i] @ weights / length if length > 0 else 0.0
    return similar


def _neighbour(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """zeta_i: the mean of the cosines with the chunk before and the chunk after, as far as there are any."""
    n = len(cosines)
    if n == 1:
        return np.zeros(1)
    beside = np.diagonal(cosines, 1)  # (n - 1,), of each chunk and the next one
    return np.asarray((np.append(beside, 0) + np.insert(beside, 0, 0)) / np.r_[1, np.full(n - 2, 2), 1], np.float64)
