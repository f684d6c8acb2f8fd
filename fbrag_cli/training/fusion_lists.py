"""The lists that learned fusion is trained on: a question's best chunks by the weighted sum, their features and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.generation.generator import Generation
from fbrag_cli.methods.fb_rag import parse_sample, score
from fbrag_cli.methods.learned_fusion import Looked
from fbrag_cli.retrieval import Retriever
from fbrag_cli.retrieval.list_features import ALL
from fbrag_cli.storage.rows import Row
from fbrag_cli.training.documents import LongQuestion
from fbrag_cli.training.evidence import is_relevant, n_shared
from fbrag_cli.training.fusion_samples import METHOD, collected

Array = NDArray[np.float32]

#: Chunks of a list.
MAX_LIST = 40
#: Numbers of chunks at which evidence recall is reported.
AT = (5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkList:
    """features: (n, len(ALL)), best chunk first. labels: (n,), 1 where a chunk is relevant. needed: for each piece of
    evidence the indices of the chunks that cover it, -1 for a chunk that is not in the list."""

    dataset: str
    dev: bool
    features: Array
    labels: Array
    needed: tuple[frozenset[int], ...]

    def recall(self, ranked: Sequence[int], k: int) -> float:
        """Return the share of the evidence that lies wholly in the first k chunks. ranked: indices of the list."""
        read = frozenset(ranked[:k])
        return float(np.mean([chunks <= read for chunks in self.needed]))


def list_of(question: LongQuestion, row: Row, retriever: Retriever) -> ChunkList:
    """Return the list of a question. row: its samples. retriever: of `collected(question.document().text)`."""
    document = question.document()
    corpus = collected(document.text).corpus
    samples = tuple(parse_sample(i, Generation(text, 0, finish, seed)) for i, (seed, finish, text) in enumerate(row["samples"]))
    per_sample = np.stack([retriever.scores(sample.said) for sample in samples])
    scores = score(retriever.scores(question.text), per_sample, METHOD)
    looked = Looked(question=question.text, samples=samples, scores=scores, corpus=corpus, retriever=retriever)
    positions = list(looked.best(MAX_LIST))
    at = {position: i for i, position in enumerate(positions)}
    return ChunkList(
        dataset=question.dataset,
        dev=question.dev,
        features=looked.features(ALL, positions),
        labels=np.array([is_relevant(corpus.chunks[each], document.gold) for each in positions], np.float32),
        needed=tuple(
            frozenset(at.get(chunk.position, -1) for chunk in corpus.chunks if n_shared(chunk, span)) for span in document.gold
        ),
    )


def mean_recalls(lists: Sequence[ChunkList], scores: Sequence[Array] | None) -> dict[str, list[float]]:
    """Return evidence recall in percent at each of `AT`: by data set, and "mean", over the data sets.

    scores: (n,) of the chunks of each list; None for the lists' own order.
    """
    by_set: dict[str, list[list[float]]] = {}
    for i, each in enumerate(lists):
        ranked = range(len(each.labels)) if scores is None else np.argsort(-scores[i], kind="stable").tolist()
        by_set.setdefault(each.dataset, []).append([each.recall(ranked, k) for k in AT])
    found = {name: np.mean(rows, axis=0) for name, rows in sorted(by_set.items())}
    return _percent({**found, "mean": np.mean(list(found.values()), axis=0)})


def _percent(found: Mapping[str, NDArray[np.float64]]) -> dict[str, list[float]]:
    return {name: [round(100 * float(value), 2) for value in values] for name, values in found.items()}
