"""The digests of many files, pooled: one corpus and one index over all of them, as the cache keeps it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli import __version__
from fbrag_cli.corpus import Corpus
from fbrag_cli.documents.document import Document
from fbrag_cli.indexing.digest import KIND as DOCUMENTS
from fbrag_cli.indexing.digest import Digest, content_of, counts_from, describe_document, load_entry, restore_document
from fbrag_cli.retrieval.bm25 import BM25, idf_of
from fbrag_cli.retrieval.term_counts import Vocabulary
from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache

#: The kind of cache entry that a pool is.
KIND = "corpora"

Load = Callable[[int], Digest]
Tell = Callable[[int, int], None]


def pool_key(keys: Sequence[str], paths: Sequence[str]) -> str:
    """The cache's key of the pool of these digests under these paths."""
    return sha256(json.dumps([__version__, *zip(keys, paths, strict=True)]).encode("utf-8", "surrogatepass")).hexdigest()


def of_one(digest: Digest, chunk_words: int) -> tuple[Corpus, BM25]:
    """A single file needs no pool: its own counts are the index."""
    spans = np.insert(digest.spans, 0, 0, axis=1)
    corpus = Corpus((digest.document,), spans, chunk_words, _fingerprint([digest.document.sha256], chunk_words))
    return corpus, BM25(digest.counts)


def pool(key: str, keys: Sequence[str], load: Load, chunk_words: int, cache: Cache, tell: Tell) -> None:
    """Write the pool of the digests with these keys into the cache. load: gives one, by its position; each is asked for twice,
    and not held. tell: hears (done, total), in digests, of both rounds.

    Raises OSError where the cache cannot be written, and as `load` does.
    """
    merged = _merge_vocabularies(len(keys), load, tell)
    meta = {
        "documents": [(own, describe_document(document)) for own, document in zip(keys, merged.documents, strict=True)],
        "languages": list(dict.fromkeys(document.language for document in merged.documents)),
        "chunk_words": chunk_words,
        "fingerprint": _fingerprint([document.sha256 for document in merged.documents], chunk_words),
    }
    with cache.new(KIND, key) as entry:
        _fill(entry, meta, merged, load, tell)


@dataclass(frozen=True, slots=True)
class _Merged:
    """What is known of a pool after the first round.

    starts: as in `TermCounts`. positions: int32, of each digest's terms in the vocabulary. count_type: holds every count.
    """

    vocabulary: Vocabulary
    starts: NDArray[np.int64]
    positions: list[NDArray[np.int32]]
    documents: list[Document]
    n_chunks: int
    count_type: np.dtype[Any]


def _merge_vocabularies(n: int, load: Load, tell: Tell) -> _Merged:
    """The first round: one vocabulary, and in how many chunks each term is."""
    numbers: dict[bytes, int] = {}  # of the terms, as they come
    numbered: list[NDArray[np.int32]] = []
    frequencies = np.zeros(1 << 16, np.int64)
    documents: list[Document] = []
    n_chunks, count_type = 0, np.dtype(np.uint8)
    for i in range(n):
        digest = load(i)
        numbered.append(np.array([numbers.setdefault(term, len(numbers)) for term in digest.counts.vocabulary], np.int32))
        while len(frequencies) < len(numbers):
            frequencies = np.concatenate((frequencies, np.zeros_like(frequencies)))
        frequencies[numbered[i]] += digest.counts.document_frequencies()
        documents.append(digest.document)
        n_chunks += len(digest.spans)
        count_type = np.result_type(count_type, digest.counts.counts.dtype)
        tell(i + 1, 2 * n)
    terms = sorted(numbers)
    in_order = np.fromiter((numbers[term] for term in terms), np.int32, len(terms))
    position_of = np.empty_like(in_order)  # a term's number -> its position in the vocabulary
    position_of[in_order] = np.arange(len(terms), dtype=np.int32)
    starts = np.concatenate(([0], frequencies[in_order].cumsum()))
    return _Merged(Vocabulary.of(terms), starts, [position_of[own] for own in numbered], documents, n_chunks, count_type)


def _fill(entry: Path, meta: dict[str, Any], merged: _Merged, load: Load, tell: Tell) -> None:
    """The second round: each digest's counts go to the next free places of their terms, so that a term's chunks stay in order.

    The file is mapped from the beginning, for it may be larger than memory; when this returns, nothing maps it any more.
    """
    n_terms, n_postings = len(merged.vocabulary), int(merged.starts[-1])
    held = arrays.create(
        entry,
        meta,
        {
            "spans": (np.int32, (merged.n_chunks, 4)),
            "letters": (np.uint8, merged.vocabulary.letters.shape),
            "ends": (np.int64, (n_terms,)),
            "starts": (np.int64, (n_terms + 1,)),
            "chunks": (np.int32, (n_postings,)),
            "counts": (merged.count_type, (n_postings,)),
            "lengths": (np.int32, (merged.n_chunks,)),
            "idf": (np.float64, (n_terms,)),
        },
    )
    held["letters"][:], held["ends"][:] = merged.vocabulary.letters, merged.vocabulary.ends
    held["starts"][:] = merged.starts
    free = merged.starts[:-1].copy()
    base = 0  # chunks so far
    for i, own in enumerate(merged.positions):
        digest = load(i)
        counts, end = digest.counts, base + len(digest.spans)
        places = np.repeat(free[own] - counts.starts[:-1], np.diff(counts.starts)) + np.arange(len(counts.chunks))
        held["chunks"][places] = counts.chunks + np.int32(base)
        held["counts"][places] = counts.counts
        free[own] += np.diff(counts.starts)
        held["lengths"][base:end] = counts.lengths
        held["spans"][base:end, 0], held["spans"][base:end, 1:] = i, digest.spans
        base = end
        tell(len(merged.positions) + i + 1, 2 * len(merged.positions))
    held["idf"][:] = idf_of(counts_from(meta, held))


def stored_pool(key: str, paths: Sequence[str], cache: Cache) -> tuple[Corpus, BM25] | None:
    """The pool of the files `paths` from the cache; None if it, or the text of one of them, is not there or not whole."""
    if (found := load_entry(KIND, key, cache)) is None:
        return None
    meta, held = found
    keys = [own for own, _ in meta["documents"]]
    if not cache.keys(DOCUMENTS).issuperset(keys):
        return None
    if cache.touch(KIND, [key]):
        cache.touch(DOCUMENTS, keys)
    documents = tuple(
        restore_document(described, path, partial(content_of, own, cache))
        for (own, described), path in zip(meta["documents"], paths, strict=True)
    )
    corpus = Corpus(documents, held["spans"], meta["chunk_words"], meta["fingerprint"])
    return corpus, BM25(counts_from(meta, held), held["idf"])


def _fingerprint(contents: Sequence[str], chunk_words: int) -> str:
    """SHA-256 over the contents' own SHA-256, and the chunk length."""
    return sha256(json.dumps([chunk_words, *contents]).encode()).hexdigest()
