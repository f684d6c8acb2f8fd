"""BM25 (Okapi) over the chunks of a corpus: rank-bm25's formula, summed by terms instead of chunk by chunk.

One thing differs: a word of a question never counts against a chunk that holds it (`idf_of`).

The same code scores one file and a folder of ten thousand: the counts are arrays in memory or in a mapped file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.retrieval.term_counts import TermCounts, count_terms, counted
from fbrag_cli.surroundings import head_of, headings_of, notes_of
from fbrag_cli.text.languages import asking_words, detect, foreign_language
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.term_forms import further_spans, further_terms
from fbrag_cli.text.word_forms import are_alike, beginning, word_terms
from fbrag_cli.text.words import month_term, term_of, term_spans, terms

#: rank-bm25's defaults: saturation, length normalisation, and the share of the mean idf that a negative one is lifted to.
K1, B, EPSILON = 1.5, 0.75, 0.25

_MAY = re.compile(r"\bMay,? (?:19|20)\d\d\b")  # else a function word
_COLUMNS = 2048  # columns in memory; in a very large corpus each may have a megabyte


class BM25:
    """A `Retriever` with the scores of `rank_bm25.BM25Okapi` and its defaults, if these are not negative.

    A term's column, what the term adds to each chunk, does not depend on the question; it is computed once. The scores of a text
    are the sum of its terms' columns. As in the paper, a term counts as often as the text repeats it.
    """

    name = "bm25"
    key = f"bm25 {K1} {B} {EPSILON} positive"

    def __init__(self, counts: TermCounts, idf: NDArray[np.float64] | None = None, named: Collection[str] = ()) -> None:
        """idf: float64 (n_terms,), the value of `idf_of` if it was computed before. named: the terms of the name of the only
        file, which all chunks hold alike: they let a question match, and order nothing."""
        self._named = frozenset(named)
        self._counts = counts
        self._idf = idf_of(counts) if idf is None else idf
        self._norms = _norms(counts.lengths.astype(np.float64))  # (n_chunks,)
        self._column = lru_cache(_COLUMNS)(partial(_column, counts, self._idf, self._norms))  # not of self, which it would keep

    @classmethod
    def of(cls, corpus: Corpus) -> BM25:
        """Count the terms of a corpus, and return its retriever."""
        return cls(count_terms(corpus))

    def scores(self, text: str) -> NDArray[np.float32]:
        """Return float32 `(n_chunks,)`; all zero if no term of `text` is in the corpus."""
        totals = np.zeros(len(self._norms), np.float32)
        for term, count in self._terms_of(text).items():
            chunks, weights = self._column(term)
            totals[chunks] += count * weights
        if self._named and not totals.any() and self._named & self._terms_of(text).keys():
            totals += 1
        return totals

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(excerpts))`: scores by the idf of the chunks, and by lengths relative to their own
        mean.

        The terms of the excerpts are counted from their texts, so a few hundred excerpts take milliseconds.
        """
        held_by = [counted(each) for each in excerpts]
        norms = _norms(np.array([own.total() for own, _ in held_by], np.float64))
        counts = [_with_names(each, *held) for each, held in zip(excerpts, held_by, strict=True)]
        totals = np.zeros((len(texts), len(excerpts)))
        for row, text in zip(totals, texts, strict=True):
            for term, weight in self._weights_of(self._terms_of(text)).items():
                row += weight * _saturated(np.array([each[term] for each in counts], np.float64), norms)
        return totals.astype(np.float32)

    def bounds(self, text: str) -> tuple[float, float]:
        """Return 0, and the limit of the score of a chunk that repeats the terms of `text`; 0 if the corpus has none of them."""
        return 0.0, sum(weight * (K1 + 1) for weight in self._weights_of(self._terms_of(text)).values())

    def similarities(self, chunks: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(n, n)`, 0..1: the cosines of the chunks' vectors, which hold for each term what it adds to a score.

        The terms of the chunks are counted from their texts, so a few dozen of them take milliseconds.
        """
        counts = [_with_names(each, *counted(each)) for each in chunks]
        idf = self._weights_of(dict.fromkeys((term for each in counts for term in each), 1))
        tf = np.array([[each[term] for term in idf] for each in counts], np.float64).reshape(len(chunks), len(idf))
        norms = self._norms[[each.position for each in chunks], np.newaxis]
        vectors = np.array([*idf.values()]) * _saturated(tf, norms)  # (n, n_terms)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return np.asarray(vectors @ vectors.T, np.float32)

    def term_scores(self, text: str, position: int) -> list[tuple[str, float]]:
        """Return what each term of `text` adds to the score of chunk `position`, most first, without terms that add nothing."""
        added = []
        for term, count in self._terms_of(text).items():
            chunks, weights = self._column(term)
            at = int(np.searchsorted(chunks, position))
            if at < len(chunks) and chunks[at] == position and weights[at]:
                added.append((term, float(count * weights[at])))
        return sorted(added, key=lambda item: -item[1])

    def matches(self, text: str, chunk: Passage) -> list[tuple[str, str, float]]:
        """Return which words of `text` match which words of a chunk or of its surroundings, and what each adds to its score, best
        first: the term twice if both have it as a word, or "12 March" and "2024-03-12"."""
        document, languages = chunk.document, (chunk.document.language,)
        around = (head_of(document, chunk.start), *headings_of(document, chunk.start, chunk.end))
        texts = (chunk.indexed_text, *around, *notes_of(document, chunk.start, chunk.end), document.label or document.name)
        asked, held = _words_by_term([text], self._counts.languages), _words_by_term(texts, languages)
        own = {*terms(text, self._counts.languages)} & {*terms(chunk.indexed_text, languages)}
        added = self.term_scores(text, chunk.position)
        return [
            (term, term, score) if term in own else (asked.get(term, term), held.get(term, term), score) for term, score in added
        ]

    def missing_terms(self, text: str) -> tuple[str, ...]:
        """Return the words, names and numbers of a question that are in no chunk in any form, each once, as it spells them.

        Question words are left out. None if `text` is in another language than the documents, or theirs is unknown.
        """
        languages = self._counts.languages
        spoken = detect(text)
        if "" in languages or (spoken and spoken not in languages):
            return ()
        asking = frozenset[str]().union(*map(asking_words, languages))
        known = self._counts.vocabulary

        def has(term: str) -> bool:
            """Return whether a chunk holds a term, or another form of its word."""
            return (
                term in self._named
                or known.find(term) is not None
                or any(are_alike(term, other) for other in known.starting(beginning(term)))
            )

        lacked, further = {}, [*further_spans(text, languages)]
        for start, end, own in word_terms(text, languages):
            held = own.union(term for first, last, term in further if first < end and start < last)
            word = text[start:end]
            if word.casefold() not in asking and all(term_of(word, each) for each in languages):
                lacked[word] = not any(map(has, held))
        return tuple(word for word in lacked if lacked[word])

    def _weights_of(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Return count times idf of each of these terms that the corpus has."""
        found = ((term, count, self._counts.vocabulary.find(term)) for term, count in counts.items())
        return {term: float(count * self._idf[at]) for term, count, at in found if at is not None}

    def _terms_of(self, text: str) -> Counter[str]:
        """Return the terms of a question or a sample, read in the languages of the corpus, with their counts."""
        languages = self._counts.languages
        spoken = foreign_language(text, languages)
        if not spoken and len(languages) > 1:
            spoken = detect(text)
        counts = Counter((*terms(text, languages, spoken), *further_terms(text, languages, spoken)))
        if "en" in languages and _MAY.search(text):
            counts[month_term("05", "en")] += 1
        return counts


def _words_by_term(texts: Iterable[str], languages: Sequence[str]) -> dict[str, str]:
    """Return the first words of texts that have each term, or have it as a further one."""
    written: dict[str, str] = {}
    for text in texts:
        for start, end, term in chain(term_spans(text, languages), further_spans(text, languages)):
            written.setdefault(term, one_line(text[start:end]))
    return written


def _with_names(passage: Passage, own: Counter[str], further: Counter[str]) -> Counter[str]:
    """Return all terms of a passage with their counts, with those of its file's name."""
    return own + further + Counter(passage.document.name_terms if passage.document.label else ())


def _column(
    counts: TermCounts, idf: NDArray[np.float64], norms: NDArray[np.float64], term: str
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the positions of the chunks that hold `term`, and what one occurrence in a text adds to each."""
    if (number := counts.vocabulary.find(term)) is None:
        return np.zeros(0, np.int32), np.zeros(0, np.float32)
    start, end = counts.starts[number : number + 2]
    chunks, tf = counts.chunks[start:end], counts.counts[start:end].astype(np.float64)
    return chunks, (idf[number] * _saturated(tf, norms[chunks])).astype(np.float32)


def _saturated(tf: NDArray[np.float64], norms: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return BM25's weights of term frequencies, in the shape of `tf`: at most K1 + 1."""
    return tf * (K1 + 1) / (tf + norms)


def _norms(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return BM25's length normalisation of texts of this many terms, in the shape of `lengths`."""
    mean = lengths.mean() if lengths.any() else 1.0
    return np.asarray(K1 * (1 - B + B * lengths / mean))


def idf_of(counts: TermCounts) -> NDArray[np.float64]:
    """Return float64 (n_terms,): rank-bm25's inverse document frequencies, by its own code; none is negative.

    rank-bm25 gives a term of more than half of the chunks a share of the mean. In a folder of forms, where most words are in most
    files, and in two or three chunks, the mean is negative: chunks without the words of a question would rank first. There the
    form with 1 added counts, log(1 + (N - df + 0.5) / (df + 0.5)), which falls with df and stays positive. Beyond the papers:
    tests/benchmarks/README.md, "Folders of forms".
    """
    n, df, held = len(counts.lengths), counts.document_frequencies(), np.diff(counts.starts)
    if not df.any():
        return np.ones(len(held))
    okapi = _Okapi(n, {term: frequency for term, frequency in enumerate(df.tolist()) if frequency})
    if okapi.average_idf <= 0:
        df = np.where(df, df, held)
        return np.log1p((n - df + 0.5) / (df + 0.5))
    # A further term of no text does not count in the mean. A term of exactly half of the chunks has the floor, too.
    idf = np.log(n - held + 0.5) - np.log(held + 0.5)
    idf[[*okapi.idf]] = [*okapi.idf.values()]
    return np.where(idf > 0, idf, EPSILON * okapi.average_idf)


class _Okapi(BM25Okapi):  # type: ignore[misc]
    """rank-bm25 over terms that are counted already. average_idf: the mean idf. idf: of each term."""

    def __init__(self, n_chunks: int, frequencies: dict[int, int]) -> None:
        self.corpus_size, self.epsilon, self.idf = n_chunks, EPSILON, dict[int, float]()
        self._calc_idf(frequencies)
