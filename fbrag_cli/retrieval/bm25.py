"""BM25 (Okapi) over the chunks of a corpus: rank-bm25's formula, summed by terms instead of chunk by chunk.

The same code scores one file and a folder of ten thousand: the counts are arrays in memory or in a mapped file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.retrieval.term_counts import TermCounts, count_terms
from fbrag_cli.retrieval.term_windows import term_windows
from fbrag_cli.text.languages import asking_words, detect, foreign_language
from fbrag_cli.text.word_forms import are_alike, beginning, word_terms
from fbrag_cli.text.words import term_of, terms

#: rank-bm25's defaults: saturation, length normalisation, and the share of the mean idf that a negative one is lifted to.
K1, B, EPSILON = 1.5, 0.75, 0.25

_COLUMNS = 2048  # columns in memory; in a very large corpus each may have a megabyte

Column = tuple[NDArray[np.int32], NDArray[np.float32]]


class BM25:
    """A `Retriever` with the scores of `rank_bm25.BM25Okapi` and its defaults.

    A term's column, what the term adds to each chunk, does not depend on the question; it is computed once. The scores of a text
    are the sum of its terms' columns. As in the paper, a term counts as often as the text repeats it.
    """

    name = "bm25"
    key = f"bm25 {K1} {B} {EPSILON}"

    def __init__(self, counts: TermCounts, idf: NDArray[np.float64] | None = None) -> None:
        """idf: float64 (n_terms,), the value of `idf_of` where it was computed before."""
        self._counts = counts
        self._idf = idf_of(counts) if idf is None else idf
        self._norms = _norms(counts.lengths.astype(np.float64))  # (n_chunks,)
        self._column = lru_cache(_COLUMNS)(partial(_column, counts, self._idf, self._norms))  # not of self, which it would keep

    @classmethod
    def of(cls, corpus: Corpus) -> BM25:
        """Count the terms of a corpus, and return its retriever."""
        return cls(count_terms(corpus))

    def scores(self, text: str) -> NDArray[np.float32]:
        """Return float32 `(n_chunks,)`; all zero where no term of `text` is in the corpus."""
        totals = np.zeros(len(self._norms), np.float32)
        for _, count, (chunks, weights) in self._columns_of(text):
            totals[chunks] += count * weights
        return totals

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(excerpts))`: scores by the idf of the chunks, and by lengths relative to their own
        mean.

        The terms of the excerpts are counted from their texts, so a few hundred excerpts take milliseconds.
        """
        counts = [Counter(terms(each.as_read, (each.document.language,))) for each in excerpts]
        lengths = np.array([each.total() for each in counts], np.float64)
        norms = _norms(lengths)
        totals = np.zeros((len(texts), len(excerpts)))
        for row, text in zip(totals, texts, strict=True):
            for term, count in self._terms_of(text).items():
                if (found := self._counts.vocabulary.find(term)) is not None:
                    tf = np.array([each[term] for each in counts], np.float64)
                    row += count * self._idf[found] * tf * (K1 + 1) / (tf + norms)
        return totals.astype(np.float32)

    def window_scores(self, text: str, corpus: Corpus, candidates: int = 40) -> NDArray[np.float32]:
        """Return float32 `(n_chunks,)`: the score of the best window of 60 terms that touches each chunk.

        Beyond the papers (`term_windows`). Windows are scored by the idf of the chunks, all as of one length. corpus: the corpus
        that was counted. candidates: how many of the best chunks have their windows scored; chunks far from these get 0.
        """
        weights = {
            term: count * self._idf[at]
            for term, count in self._terms_of(text).items()
            if (at := self._counts.vocabulary.find(term)) is not None
        }
        numbers = {term: number for number, term in enumerate(weights)}
        windows = term_windows(numbers, self.scores(text), candidates, corpus, self._counts.lengths)
        tf = windows.counts
        scores = np.array([*weights.values()]) @ (tf * (K1 + 1) / (tf + K1))
        return windows.touching(scores, len(self._norms))

    def bounds(self, text: str) -> tuple[float, float]:
        """Return 0, and what a chunk would get that held each term of `text` without end; 0 where the corpus has none of them.

        In a corpus of two or three chunks a term may lower the scores. It adds nothing here.
        """
        counts = self._terms_of(text)
        idf = {term: self._idf[at] for term in counts if (at := self._counts.vocabulary.find(term)) is not None}
        return 0.0, float(sum(counts[term] * max(each, 0.0) * (K1 + 1) for term, each in idf.items()))

    def similarities(self, chunks: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(n, n)`, 0..1: the cosines of the chunks' vectors, which hold for each term what it adds to a score.

        The terms of the chunks are counted from their texts, so a few dozen of them take milliseconds.
        """
        counts = [Counter(terms(each.as_read, (each.document.language,))) for each in chunks]
        found = {term: self._counts.vocabulary.find(term) for term in dict.fromkeys(term for each in counts for term in each)}
        known = [(term, at) for term, at in found.items() if at is not None]
        tf = np.array([[each[term] for term, _ in known] for each in counts], np.float64).reshape(len(chunks), len(known))
        norms = self._norms[[each.position for each in chunks], np.newaxis]
        vectors = self._idf[[at for _, at in known]] * tf * (K1 + 1) / (tf + norms)  # (n, n_terms)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return np.asarray(vectors @ vectors.T, np.float32)

    def term_scores(self, text: str, position: int) -> list[tuple[str, float]]:
        """Return what each term of `text` adds to the score of chunk `position`, most first, without terms that add nothing."""
        added = []
        for term, count, (chunks, weights) in self._columns_of(text):
            at = int(np.searchsorted(chunks, position))
            if at < len(chunks) and chunks[at] == position and weights[at]:
                added.append((term, float(count * weights[at])))
        return sorted(added, key=lambda item: -item[1])

    def lacks(self, text: str) -> tuple[str, ...]:
        """Return the words, names and numbers of a question that stand in no chunk in any form, each once, as it spells them.

        Words that only ask are left out. None where `text` is in another language than the documents, or theirs is unknown.
        """
        languages = self._counts.languages
        spoken = detect(text)
        if "" in languages or (spoken and spoken not in languages):
            return ()
        asking = frozenset[str]().union(*map(asking_words, languages))
        lacked = {}
        for start, end, held in word_terms(text, languages):
            word = text[start:end]
            if word.casefold() not in asking and all(term_of(word, each) for each in languages):
                lacked[word] = not any(map(self._has, held))
        return tuple(word for word in lacked if lacked[word])

    def _has(self, term: str) -> bool:
        """Return whether a chunk holds a term, or another form of its word."""
        known = self._counts.vocabulary
        return known.find(term) is not None or any(are_alike(term, other) for other in known.starting(beginning(term)))

    def _columns_of(self, text: str) -> Iterator[tuple[str, int, Column]]:
        """Yield each term of `text` that the corpus has, how often the text has it, and its column."""
        for term, count in self._terms_of(text).items():
            if (column := self._column(term)) is not None:
                yield term, count, column

    def _terms_of(self, text: str) -> Counter[str]:
        """Return the terms of a question or a sample, read in the languages of the corpus, with their counts."""
        languages = self._counts.languages
        spoken = foreign_language(text, languages)
        if not spoken and len(languages) > 1:
            spoken = detect(text)
        return Counter(terms(text, languages, spoken))


def _column(counts: TermCounts, idf: NDArray[np.float64], norms: NDArray[np.float64], term: str) -> Column | None:
    """Return the positions of the chunks that hold `term`, and what one occurrence in a text adds to each."""
    if (found := counts.vocabulary.find(term)) is None:
        return None
    start, end = counts.starts[found : found + 2]
    chunks, tf = counts.chunks[start:end], counts.counts[start:end].astype(np.float64)
    weights = idf[found] * tf * (K1 + 1) / (tf + norms[chunks])
    return chunks, weights.astype(np.float32)


def _norms(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return BM25's length normalisation of texts of so many terms, in the shape of `lengths`."""
    mean = lengths.mean() if lengths.any() else 1.0
    return np.asarray(K1 * (1 - B + B * lengths / mean))


def idf_of(counts: TermCounts) -> NDArray[np.float64]:
    """Return float64 (n_terms,): rank-bm25's inverse document frequencies, by its own code."""
    if not len(counts.vocabulary):
        return np.zeros(0)
    okapi = _Okapi(counts, k1=K1, b=B, epsilon=EPSILON)
    return np.fromiter(okapi.idf.values(), np.float64, len(okapi.idf))


class _Okapi(BM25Okapi):  # type: ignore[misc]
    """rank-bm25 without its counting: it takes document frequencies in place of the chunks' terms."""

    def _initialize(self, counts: TermCounts) -> dict[int, int]:
        self.corpus_size = len(counts.lengths)
        return dict(enumerate(counts.document_frequencies().tolist()))
