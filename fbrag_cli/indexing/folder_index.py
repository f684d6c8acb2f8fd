"""A folder index: the entries of several files as one corpus with one index over all of its chunks, as made and as kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus, fingerprint_of
from fbrag_cli.documents.document import Content, Document
from fbrag_cli.documents.names import names_of
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.entry import IndexedFile, counts_from, describe_document, load_entry, restore_document
from fbrag_cli.indexing.store import IndexStore, index_key
from fbrag_cli.retrieval.bm25 import BM25, idf_of
from fbrag_cli.retrieval.term_counts import Vocabulary
from fbrag_cli.storage import arrays
from fbrag_cli.text.words import month_term, terms

#: Called with (done, total), in entries; each entry is counted twice, once for each round.
Report = Callable[[int, int], None]


class FolderFile(NamedTuple):
    """A file of a folder index. key: key of its entry. path: path as the user gave it."""

    key: str
    path: str

    def load(self, store: IndexStore) -> IndexedFile:
        """Return the entry of this file. Raises FbragError doc_unreadable if it is no longer there."""
        if (entry := load_entry(self.key, self.path, store)) is None:
            message = f"the text of {self.path} is no longer in the cache"
            hint = "the cache is too small or was cleared: ask again"
            raise FbragError("doc_unreadable", message, hint, document=self.path)
        return entry


def folder_index_key(members: Sequence[FolderFile]) -> str:
    """Return the key of the folder index of these files."""
    return index_key(*members)


def index_of(entry: IndexedFile, chunk_words: int) -> tuple[Corpus, BM25]:
    """Return the corpus and index of one file. It needs no folder index: its own counts are the index."""
    spans = np.insert(entry.spans, 0, 0, axis=1)
    (name,) = names_of([entry.document.path])
    document = replace(entry.document, name_terms=tuple(_terms_of(name.words, entry.document.language)))
    corpus = Corpus((document,), spans, chunk_words, fingerprint_of([document], chunk_words))
    return corpus, BM25(entry.counts, named=document.name_terms)


def make_folder_index(members: Sequence[FolderFile], chunk_words: int, store: IndexStore, report: Report) -> None:
    """Write the folder index of these files, whose entries are in the store. One entry at a time is in memory.

    Raises OSError where the cache cannot be written, and FbragError as `FolderFile.load` does.
    """
    merged = _merge_vocabularies(members, store, report)
    meta = {
        "documents": [(own.key, describe_document(document)) for own, document in zip(members, merged.documents, strict=True)],
        "languages": list(dict.fromkeys(document.language for document in merged.documents)),
        "chunk_words": chunk_words,
        "fingerprint": fingerprint_of(merged.documents, chunk_words),
    }
    key = folder_index_key(members)
    store.cache.discard("corpora", key)  # one that names other entries
    in_cache = not any(("documents", member.key) in store.memory for member in members)
    with store.create("corpora", key, meta, _layout(merged), in_cache=in_cache) as held:
        _fill(held, meta, merged, (member.load(store) for member in members), report)


def load_folder_index(
    key: str, paths: Sequence[str], store: IndexStore, content_of: Callable[[str, str], Content]
) -> tuple[Corpus, BM25] | None:
    """Return the folder index of the files `paths`; None if it is not there or damaged, or the entry of one file is not there.

    content_of: called with the key of an entry and the path of its file when the text is used; returns its content.
    """
    is_used_again = store.cache.touch("corpora", [key])  # before `load`, which marks it as used

    def index(meta: dict[str, Any], held: dict[str, arrays.Array]) -> tuple[list[str], Corpus, BM25]:
        documents = tuple(
            restore_document(described, path, partial(content_of, own, path))
            for (own, described), path in zip(meta["documents"], paths, strict=True)
        )
        corpus = Corpus(documents, held["spans"], meta["chunk_words"], meta["fingerprint"])
        named = documents[0].name_terms if len(documents) == 1 else ()
        return [own for own, _ in meta["documents"]], corpus, BM25(counts_from(meta, held), held["idf"], named)

    if (restored := store.restore("corpora", key, index)) is None:
        return None
    keys, corpus, retriever = restored
    if not store.has_all("documents", keys):
        return None
    if is_used_again:
        store.cache.touch("documents", keys)
    return corpus, retriever


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """What the first round finds out about all entries.

    starts, added_df: as in `TermCounts`. positions: int32, for each entry the positions of its terms in the vocabulary.
    count_type: the smallest type that can hold every count.
    """

    vocabulary: Vocabulary
    starts: NDArray[np.int64]
    positions: list[NDArray[np.int32]]
    added_df: NDArray[np.unsignedinteger]
    documents: list[Document]
    n_chunks: int
    count_type: np.dtype[Any]


def _merge_vocabularies(members: Sequence[FolderFile], store: IndexStore, report: Report) -> _Merged:
    """Do the first round: make one vocabulary, and count in how many chunks each term is."""
    numbers: dict[bytes, int] = {}  # of the terms, as they come
    numbered: list[NDArray[np.int32]] = []
    frequencies = np.zeros((2, 1 << 16), np.int64)  # of all terms of a chunk, and of those that are further ones
    documents: list[Document] = []
    n_chunks, count_type = 0, np.dtype(np.uint8)
    names = names_of([member.path for member in members])
    for i, (member, name) in enumerate(zip(members, names, strict=True)):
        entry = member.load(store)
        name_terms = tuple(_terms_of(name.words, entry.document.language))
        counts = entry.counts.with_terms(name_terms if name.label else ())
        numbered.append(np.array([numbers.setdefault(term, len(numbers)) for term in counts.vocabulary], np.int32))
        while frequencies.shape[1] < len(numbers):
            frequencies = np.hstack((frequencies, np.zeros_like(frequencies)))
        frequencies[0, numbered[i]] += np.diff(counts.starts)
        frequencies[1, numbered[i]] += counts.added_df
        # One text at a time is in memory.
        documents.append(replace(entry.document, content=partial(Content, ""), label=name.label, name_terms=name_terms))
        n_chunks += len(entry.spans)
        count_type = np.result_type(count_type, counts.counts.dtype)
        report(i + 1, 2 * len(members))
    ordered = sorted(numbers)
    in_order = np.fromiter((numbers[term] for term in ordered), np.int32, len(ordered))
    position_of = np.empty_like(in_order)  # a term's number -> its position in the vocabulary
    position_of[in_order] = np.arange(len(ordered), dtype=np.int32)
    held, added_df = frequencies[:, in_order]
    return _Merged(
        vocabulary=Vocabulary.of(ordered),
        starts=np.concatenate(([0], held.cumsum())),
        positions=[position_of[own] for own in numbered],
        added_df=added_df.astype(np.min_scalar_type(int(added_df.max(initial=0)))),
        documents=documents,
        n_chunks=n_chunks,
        count_type=count_type,
    )


def _terms_of(words: Sequence[str], language: str) -> Iterator[str]:
    """Yield the terms of the words of a file's name (`Name.words`)."""
    for word in words:
        if word.startswith("--"):
            yield word[2:] if "-" in word[2:] else month_term(word[2:], language)
        else:
            yield from terms(word, (language,))


def _fill(
    held: dict[str, arrays.Array], meta: dict[str, Any], merged: _Merged, entries: Iterable[IndexedFile], report: Report
) -> None:
    """Do the second round: put each entry's counts at the next free places of their terms. A term's chunks stay in order."""
    held["letters"][:], held["ends"][:] = merged.vocabulary.letters, merged.vocabulary.ends
    held["starts"][:] = merged.starts
    free = merged.starts[:-1].copy()
    base = 0  # chunks so far
    for i, (own, entry) in enumerate(zip(merged.positions, entries, strict=True)):
        document = merged.documents[i]
        counts, end = entry.counts.with_terms(document.name_terms if document.label else ()), base + len(entry.spans)
        places = np.repeat(free[own] - counts.starts[:-1], np.diff(counts.starts)) + np.arange(len(counts.chunks))
        held["chunks"][places] = counts.chunks + np.int32(base)
        held["counts"][places] = counts.counts
        free[own] += np.diff(counts.starts)
        held["lengths"][base:end] = counts.lengths
        held["spans"][base:end, 0], held["spans"][base:end, 1:] = i, entry.spans
        base = end
        report(len(merged.positions) + i + 1, 2 * len(merged.positions))
    held["added_df"][:] = merged.added_df
    held["idf"][:] = idf_of(counts_from(meta, held))


def _layout(merged: _Merged) -> arrays.Layout:
    n_terms, n_postings = len(merged.vocabulary), int(merged.starts[-1])
    return {
        "spans": (np.int32, (merged.n_chunks, 4)),
        "letters": (np.uint8, merged.vocabulary.letters.shape),
        "ends": (np.int64, (n_terms,)),
        "starts": (np.int64, (n_terms + 1,)),
        "chunks": (np.int32, (n_postings,)),
        "counts": (merged.count_type, (n_postings,)),
        "lengths": (np.int32, (merged.n_chunks,)),
        "added_df": (merged.added_df.dtype, (n_terms,)),
        "idf": (np.float64, (n_terms,)),
    }
