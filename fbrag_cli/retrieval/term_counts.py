"""Counts of each term in each chunk: the contents of an index, independent of the formula that reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus
from fbrag_cli.text.words import terms


class Vocabulary:
    """Terms in the order of their UTF-8 bytes. A binary search finds a term, so that a mapped file costs nothing to open.

    letters: uint8, the bytes of all terms in a row. ends: int64 (n_terms,), where each ends.
    """

    def __init__(self, letters: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.letters, self.ends = letters, ends

    @classmethod
    def of(cls, ordered: Sequence[bytes]) -> Vocabulary:
        """Return the vocabulary of terms that are in order."""
        ends = np.fromiter((len(term) for term in ordered), np.int64, len(ordered)).cumsum(dtype=np.int64)
        return cls(np.frombuffer(b"".join(ordered), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[bytes]:
        letters, start = self.letters.tobytes(), 0
        for end in self.ends.tolist():
            yield letters[start:end]
            start = end

    def find(self, term: str) -> int | None:
        """Return the position of `term`, or None if it is missing."""
        sought = term.encode("utf-8", "surrogatepass")
        at = self._place(sought)
        return at if at < len(self.ends) and self._term(at) == sought else None

    def starting(self, letters: str) -> Iterator[str]:
        """Yield the terms that start with `letters`, in order."""
        sought = letters.encode("utf-8", "surrogatepass")
        for at in range(self._place(sought), len(self.ends)):
            term = self._term(at)
            if not term.startswith(sought):
                return
            yield term.decode("utf-8", "surrogatepass")

    def _place(self, sought: bytes) -> int:
        """Return the position of the first term that is not before `sought`."""
        return bisect_left(range(len(self.ends)), sought, key=self._term)

    def _term(self, position: int) -> bytes:
        start = self.ends[position - 1] if position else 0
        return self.letters[start : self.ends[position]].tobytes()


@dataclass(frozen=True, slots=True)
class TermCounts:
    """A sparse matrix (n_terms, n_chunks), by term.

    starts: int64 (n_terms + 1,). The chunks that hold term t are `chunks[starts[t]:starts[t + 1]]` (int32, ascending); `counts`
    (unsigned), aligned with them, is how often each holds it. lengths: int32 (n_chunks,), the number of terms of each chunk.
    languages: those in which a text is read to be counted like these chunks.
    """

    vocabulary: Vocabulary
    starts: NDArray[np.int64]
    chunks: NDArray[np.int32]
    counts: NDArray[np.unsignedinteger]
    lengths: NDArray[np.int32]
    languages: tuple[str, ...]

    def document_frequencies(self) -> NDArray[np.int64]:
        """Return (n_terms,): the number of chunks in which each term occurs."""
        return np.diff(self.starts)

    def with_terms(self, added: Sequence[str]) -> TermCounts:
        """Return the counts with each of these terms once more in each chunk. The lengths are still those of the texts."""
        if not added:
            return self
        every = np.arange(len(self.lengths), dtype=np.int32)
        spans = map(slice, self.starts[:-1], self.starts[1:])
        columns = {term: (self.chunks[own], self.counts[own]) for term, own in zip(self.vocabulary, spans, strict=True)}
        most = np.result_type(self.counts.dtype, np.min_scalar_type(int(self.counts.max(initial=0)) + 1))
        for term in {term.encode("utf-8", "surrogatepass") for term in added}:
            own = np.ones(len(every), most)
            if term in columns:
                chunks, counts = columns[term]
                own[chunks] += counts
            columns[term] = every, own
        ordered = sorted(columns)
        starts = np.cumsum([0, *(len(columns[term][0]) for term in ordered)], dtype=np.int64)
        chunks, counts = (np.concatenate([columns[term][i] for term in ordered]) for i in (0, 1))
        return TermCounts(Vocabulary.of(ordered), starts, chunks, counts, self.lengths, self.languages)


def count_terms(corpus: Corpus) -> TermCounts:
    """Count the terms of each chunk, in the language of its document."""
    numbers: dict[str, int] = {}  # of the terms, in the order of their first occurrence
    term_numbers: list[int] = []
    counts: list[int] = []
    n_distinct: list[int] = []  # terms a chunk
    lengths: list[int] = []
    texts = (
        (text, document.language)
        for i, document in enumerate(corpus.documents)
        for text in corpus.texts_of(i, corpus.chunks_of(i), indexed=True)
    )
    for text, language in texts:
        counted = Counter(terms(text, (language,)))
        term_numbers += [numbers.setdefault(term, len(numbers)) for term in counted]
        counts += counted.values()
        n_distinct.append(len(counted))
        lengths.append(counted.total())

    ordered = sorted((term.encode("utf-8", "surrogatepass"), number) for term, number in numbers.items())
    position_of = np.empty(len(numbers), np.int64)  # a term's number -> its position in the vocabulary
    position_of[[number for _, number in ordered]] = np.arange(len(numbers))
    positions = position_of[np.array(term_numbers, np.int64)]
    by_term = np.argsort(positions, kind="stable")  # within a term the chunks stay in order
    starts = np.concatenate(([0], np.bincount(positions, minlength=len(numbers)).cumsum())).astype(np.int64)
    return TermCounts(
        Vocabulary.of([term for term, _ in ordered]),
        starts,
        np.repeat(np.arange(len(lengths), dtype=np.int32), n_distinct)[by_term],
        np.array(counts, np.min_scalar_type(max(counts, default=0)))[by_term],
        np.array(lengths, np.int32),
        corpus.languages,
    )
