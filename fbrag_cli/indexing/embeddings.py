"""The embeddings of a corpus's chunks, cached by content: what was embedded once is not embedded again.

An entry holds up to 256 chunks of one document. If one file of a folder changes, only that file is embedded again. A run that was
broken off continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from fbrag_cli.corpus import Corpus
from fbrag_cli.documents.tables import form_of
from fbrag_cli.indexing.store import IndexStore, index_key
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.retrieval.dense import Array, Embedder, embed_chunks
from fbrag_cli.storage.cache import Cache

_BLOCK = 256  # chunks an entry


@dataclass(frozen=True, slots=True)
class _Block:
    """Chunks `start` to `end` (positions in the corpus), all of document number `document`."""

    document: int
    start: int
    end: int
    key: str


def embed_corpus(corpus: Corpus, embedder: Embedder, cache: Cache, progress: Progress = silent) -> Array:
    """Return float32 `(n_chunks, d)`, each row of length 1, aligned with `corpus.chunks`; `(0, 0)` for an empty corpus.

    progress: stage "embed", in chunks; silent if nothing has to be embedded. A cache that cannot be written costs only the
    next question's time. Raises what the embedder raises.
    """
    store = IndexStore(cache)
    blocks = list(_blocks_of(corpus, embedder.key))
    parts = {block.key: found["embeddings"] for block in blocks if (found := _load(store, block)) is not None}
    total = len(corpus.chunks)
    missing = list({block.key: block for block in blocks if block.key not in parts}.values())
    done = total - sum(block.end - block.start for block in missing)
    if missing:
        progress(Event("embed", "start", done, total))
    for group in _groups(missing):
        texts = [text for block in group for text in _texts(corpus, block)]
        embeddings = embed_chunks(texts, embedder, progress, done, total)
        done += len(texts)
        ends = np.cumsum([block.end - block.start for block in group])
        for block, part in zip(group, np.split(embeddings, ends[:-1]), strict=True):
            parts[block.key] = part
            store.save("embeddings", block.key, {}, {"embeddings": part})
    if missing:
        progress(Event("embed", "done", total, total))
        cache.trim()
    return np.concatenate([parts[block.key] for block in blocks]) if blocks else np.zeros((0, 0), np.float32)


def _blocks_of(corpus: Corpus, embedder_key: str) -> Iterator[_Block]:
    for number, document in enumerate(corpus.documents):
        chunks = corpus.chunks_of(number)
        for start in range(chunks.start, chunks.stop, _BLOCK):
            end = min(start + _BLOCK, chunks.stop)
            spans = sha256(np.ascontiguousarray(corpus.spans[start:end, 1:3], np.int32).tobytes()).hexdigest()
            yield _Block(number, start, end, index_key(embedder_key, document.text_sha256, form_of(document), spans))


def _load(store: IndexStore, block: _Block) -> dict[str, Any] | None:
    """Return the arrays of a cached block, copied: each map of a file takes an open file of the process."""
    return store.restore("embeddings", block.key, lambda _, held: {name: np.array(array) for name, array in held.items()})


def _groups(blocks: list[_Block]) -> Iterator[list[_Block]]:
    """Yield the blocks that are embedded together: a small document alone would not fill a batch."""
    group: list[_Block] = []
    for block in blocks:
        if group and sum(each.end - each.start for each in [*group, block]) > _BLOCK:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _texts(corpus: Corpus, block: _Block) -> list[str]:
    return corpus.texts_of(block.document, range(block.start, block.end))
