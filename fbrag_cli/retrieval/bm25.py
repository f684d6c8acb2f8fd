"""BM25 (Okapi) over the chunks of a corpus: rank-bm25's statistics, summed by columns instead of chunk by chunk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from fbrag_cli.corpus import Corpus
from fbrag_cli.words import terms


class BM25:
    """The scores of `rank_bm25.BM25Okapi` (k1 = 1.5, b = 0.75, negative idf lifted to a quarter of the mean idf).

    What a term adds to each chunk does not depend on the question, so it is computed once for all terms; a text's scores are
    the sum of its terms' columns, a term that the text repeats counted as often as it stands there, as in the paper's BM25.
    """

    name = "bm25"

    def __init__(self, corpus: Corpus) -> None:
        self._n_chunks = len(corpus.chunks)
        self._columns: dict[str, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}
        chunk_terms = [terms(chunk.text) for chunk in corpus.chunks]
        if any(chunk_terms):
            self._index(BM25Okapi(chunk_terms))

    def scores(self, text: str) -> NDArray[np.float32]:
        """float32 `(n_chunks,)`; all zero where no term of `text` is in the corpus."""
        totals = np.zeros(self._n_chunks, np.float32)
        for term, count in _counted(terms(text)).items():
            if (column := self._columns.get(term)) is not None:
                chunks, weights = column
                totals[chunks] += count * weights
        return totals

    def term_scores(self, text: str, position: int) -> list[tuple[str, float]]:
        """What each term of `text` adds to the score of chunk `position`, most first; terms that add nothing are left out."""
        added = []
        for term, count in _counted(terms(text)).items():
            if (column := self._columns.get(term)) is not None:
                chunks, weights = column
                at = int(np.searchsorted(chunks, position))
                if at < len(chunks) and chunks[at] == position:
                    added.append((term, float(count * weights[at])))
        return sorted(added, key=lambda item: -item[1])

    def _index(self, okapi: BM25Okapi) -> None:
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for position, counts in enumerate(okapi.doc_freqs):
            for term, count in counts.items():
                posting = postings.setdefault(term, ([], []))
                posting[0].append(position)
                posting[1].append(count)
        lengths = okapi.k1 * (1 - okapi.b + okapi.b * np.asarray(okapi.doc_len) / okapi.avgdl)  # (n_chunks,)
        for term, posting in postings.items():
            chunks, tf = np.asarray(posting[0], np.int32), np.asarray(posting[1], np.float64)
            weights = okapi.idf[term] * tf * (okapi.k1 + 1) / (tf + lengths[chunks])
            self._columns[term] = (chunks, weights.astype(np.float32))


def _counted(terms: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for term in terms:
        counts[term] = counts.get(term, 0) + 1
    return counts
