"""Learned fusion: an R2-Former's relevance in place of the weighted sum of both lookups (R2AG.md, section 10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Corpus
from fbrag_cli.methods.ranking import distinct
from fbrag_cli.retrieval import Retriever
from fbrag_cli.trace import ForwardSample, Scores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.learned.r2_former import R2Former

    Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What both lookups found. scores: with the weighted sum as `combined`, whose best chunks are judged."""

    question: str
    samples: tuple[ForwardSample, ...]
    scores: Scores
    corpus: Corpus
    retriever: Retriever

    def best(self, n: int) -> dict[int, tuple[int, ...]]:
        """Return the positions of the `n` best chunks of different text, best first, each with its copies."""
        return distinct(self.corpus, self.scores.combined, n)

    def features(self, names: Sequence[str], positions: Iterable[int]) -> Array:
        """Return float32 (n_positions, len(names)): the features of chunks, best first. Raises as `list_features`."""
        from fbrag_cli.retrieval.list_features import Scored, list_features

        chunks = [self.corpus.chunks[position] for position in positions]
        texts = [sample.said for sample in self.samples]
        samples = [Scored(text, scores) for text, scores in zip(texts, self.scores.per_sample, strict=True)]
        return list_features(names, chunks, self.retriever, Scored(self.question, self.scores.backward), samples)


def fused(looked: Looked, former: R2Former) -> Scores:
    """Return the scores with the relevance of the best chunks, 0 to 1, as `combined`. The others stay behind them in their order.

    A copy of a chunk has its relevance.
    """
    import numpy as np

    found = looked.best(former.max_list)
    relevance = former.relevance(looked.features(former.features, found))
    combined = _behind(looked.scores.combined, float(relevance.min()))
    for value, (position, copies) in zip(relevance, found.items(), strict=True):
        combined[[position, *copies]] = value
    return replace(looked.scores, combined=combined.astype(np.float32))


def _behind(scores: Array, limit: float) -> Array:
    """Return scores in the same order, from 0 to half of `limit`."""
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) * (limit / 2 / (high - low)) if high > low else scores * 0
