"""Windows of 60 terms, half overlapping, that run over the ends of chunks but not of documents. No index holds them.

Beyond the papers: tests/benchmarks/README.md, "Windows over the ends of chunks".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text.words import terms

WINDOW = 60  # terms
_STEP = WINDOW // 2


@dataclass(frozen=True, slots=True)
class TermWindows:
    """The windows that hold some of the terms sought.

    counts: float64 (n_terms, n_windows), how often each window holds each term. first, last: intp (n_windows,), the positions of
    the chunks in which each window begins and ends.
    """

    counts: NDArray[np.float64]
    first: NDArray[np.intp]
    last: NDArray[np.intp]

    def touching(self, scores: NDArray[np.float64], n_chunks: int) -> NDArray[np.float32]:
        """Return float32 (n_chunks,): the score of the best window that touches each chunk, 0 where none is above it.

        scores: (n_windows,).
        """
        found = np.zeros(n_chunks, np.float32)
        for first, last, score in zip(self.first.tolist(), self.last.tolist(), scores.tolist(), strict=True):
            touched = found[first : last + 1]
            np.maximum(touched, score, out=touched)
        return found


def term_windows(
    numbers: Mapping[str, int], scores: NDArray[np.float32], candidates: int, corpus: Corpus, lengths: NDArray[np.int32]
) -> TermWindows:
    """Return the windows that touch the `candidates` best chunks. Their terms are counted from the texts.

    numbers: of the terms sought, from 0. scores: (n_chunks,), by these terms: where it is 0, a chunk holds none of them. lengths:
    (n_chunks,), the number of terms of each chunk.
    """
    ends = np.cumsum(lengths, dtype=np.int64)  # of chunks, in terms of the whole corpus
    begins = ends - lengths

    # 1. The chunks that these windows reach into.
    read: dict[int, range] = {}  # each with the chunks of its document
    for position in best(scores, candidates):
        own = corpus.chunks_of(int(corpus.spans[position, 0]))
        first, last = ends.searchsorted((begins[position] - WINDOW, ends[position] + WINDOW - 1), "right").tolist()
        read.update(dict.fromkeys(range(max(first, own.start), min(last + 1, own.stop)), own))

    # 2. Each occurrence of a term is in the window of its own half, and in the one before that.
    found: list[tuple[int, int, int]] = []  # a term's number, the window's first term, and the document's end
    for position, own in read.items():
        if not scores[position]:
            continue
        chunk, origin, end = corpus.chunks[position], int(begins[own.start]), int(ends[own.stop - 1])
        for at, term in enumerate(terms(chunk.as_read, (chunk.document.language,)), int(begins[position]) - origin):
            if (number := numbers.get(term)) is not None:
                half = origin + at // _STEP * _STEP
                found += [(number, start, end) for start in (half, half - _STEP) if start >= origin]

    # 3. Count by window.
    number, start, end = np.array(found, np.int64).reshape(-1, 3).T
    starts, once, window = np.unique(start, return_index=True, return_inverse=True)
    counts = np.zeros((len(numbers), len(starts)))
    np.add.at(counts, (number, window), 1)
    last_terms = np.minimum(starts + WINDOW, end[once]) - 1
    return TermWindows(counts, ends.searchsorted(starts, "right"), ends.searchsorted(last_terms, "right"))
