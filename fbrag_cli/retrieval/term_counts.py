"""Counts of each term in each chunk: the contents of an index, independent of the formula that reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.documents.document import Document
from fbrag_cli.surroundings import head_of, headings_of, names_in, notes_of
from fbrag_cli.text.term_forms import further_terms
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
    added_df: unsigned (n_terms,), the number of its chunks that have the term only as a further term, not in their text.
    languages: those in which a text is read to be counted like these chunks.
    """

    vocabulary: Vocabulary
    starts: NDArray[np.int64]
    chunks: NDArray[np.int32]
    counts: NDArray[np.unsignedinteger]
    lengths: NDArray[np.int32]
    added_df: NDArray[np.unsignedinteger]
    languages: tuple[str, ...]

    def document_frequencies(self) -> NDArray[np.int64]:
        """Return (n_terms,): the number of chunks in whose texts each term occurs; 0 for one that is only a further term."""
        return np.asarray(np.diff(self.starts) - self.added_df)

    def with_terms(self, added: Sequence[str]) -> TermCounts:
        """Return the counts with each of these terms once more in each chunk. The lengths are still those of the texts."""
        if not added:
            return self
        every = np.arange(len(self.lengths), dtype=np.int32)
        spans = map(slice, self.starts[:-1], self.starts[1:])
        columns = {term: (self.chunks[own], self.counts[own]) for term, own in zip(self.vocabulary, spans, strict=True)}
        added_df = dict(zip(columns, self.added_df.tolist(), strict=True))
        most = np.result_type(self.counts.dtype, np.min_scalar_type(int(self.counts.max(initial=0)) + 1))
        for term in {term.encode("utf-8", "surrogatepass") for term in added}:
            chunks, counts = columns.get(term, (every[:0], self.counts[:0]))
            own = np.ones(len(every), most)
            own[chunks] += counts
            columns[term] = every, own
            added_df[term] = added_df.get(term, 0) + len(every) - len(chunks)
        ordered = sorted(columns)
        starts = np.cumsum([0, *(len(columns[term][0]) for term in ordered)], dtype=np.int64)
        chunks, counts = (np.concatenate([columns[term][i] for term in ordered]) for i in (0, 1))
        besides = _smallest([added_df[term] for term in ordered])
        return TermCounts(Vocabulary.of(ordered), starts, chunks, counts, self.lengths, besides, self.languages)


#: By one term of letters or of the words for which they are used: these as written, words in lower case; all of their terms, and
#: those of the other.
_Names = Mapping[str, Sequence[tuple[str, frozenset[str], frozenset[str]]]]


def counted(passage: Passage) -> tuple[Counter[str], Counter[str]]:
    """Return the terms of a passage's text with their counts, and its further terms: other forms of its words, and what is around
    it in its document."""
    return _counted(passage.document, passage.start, passage.end, passage.indexed_text, _names(passage.document))


def _counted(document: Document, start: int, end: int, text: str, names: _Names) -> tuple[Counter[str], Counter[str]]:
    language = (document.language,)
    own, further = Counter(terms(text, language)), Counter(further_terms(text, language))
    for around in filter(None, (head_of(document, start), *headings_of(document, start, end), *notes_of(document, start, end))):
        further.update(_terms_around(around, language))
    in_lower_case = ""
    for written, held, other in chain.from_iterable(map(names.__getitem__, names.keys() & own.keys())):
        if held <= own.keys():
            in_lower_case = in_lower_case or " ".join(text.split()).casefold()
            if written in text or written in in_lower_case:
                further.update(other - own.keys())
    return own, further


@lru_cache(maxsize=256)
def _terms_around(text: str, language: tuple[str]) -> tuple[str, ...]:
    return (*terms(text, language), *further_terms(text, language))


def _names(document: Document) -> _Names:
    """Letters are found as they are written: "PRO" is not "pro". Words are found next to each other."""
    by_term = defaultdict[str, list[tuple[str, frozenset[str], frozenset[str]]]](list)
    for names in names_in(document):
        short, long = (frozenset(terms(name, (document.language,))) for name in names)
        for written, held, other in ((names[0], short, long), (names[1].casefold(), long, short)) if short and long else ():
            by_term[max(held, key=len)].append((written, held, other))
    return by_term


def _smallest(values: Sequence[int]) -> NDArray[np.unsignedinteger]:
    """Return an array of the smallest unsigned type that holds the values."""
    return np.array(values, np.min_scalar_type(max(values, default=0)))


def count_terms(corpus: Corpus) -> TermCounts:
    """Count the terms of each chunk, in the language of its document."""
    numbers: dict[str, int] = {}  # of the terms, in the order of their first occurrence
    term_numbers: list[int] = []
    counts: list[int] = []
    n_distinct: list[int] = []  # terms a chunk
    lengths: list[int] = []
    added_df = Counter[int]()  # by the number of the term
    for i, document in enumerate(corpus.documents):
        names, chunks = _names(document), corpus.chunks_of(i)
        places = corpus.spans[chunks.start : chunks.stop, 1:3].tolist()
        for (start, end), text in zip(places, corpus.texts_of(i, chunks, indexed=True), strict=True):
            own, further = _counted(document, start, end, text, names)
            lengths.append(own.total())
            added = further.keys() - own.keys()
            own.update(further)
            term_numbers += [numbers.setdefault(term, len(numbers)) for term in own]
            added_df.update(numbers[term] for term in added)
            counts += own.values()
            n_distinct.append(len(own))

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
        _smallest(counts)[by_term],
        np.array(lengths, np.int32),
        _smallest([added_df[number] for _, number in ordered]),
        corpus.languages,
    )
