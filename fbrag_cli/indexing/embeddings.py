"""The embeddings of a corpus's chunks, kept in the cache by content: what was embedded once is not embedded again.

An entry holds up to 256 chunks of one document. A folder where one file changed embeds that file; a run that was broken off goes
on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fbrag_cli import __version__
from fbrag_cli.corpus import Corpus
from fbrag_cli.documents.document import Document
from fbrag_cli.indexing.digest import load_entry
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.retrieval.bge_m3 import BgeM3, LexicalWeights
from fbrag_cli.retrieval.dense import Array, Embedder, embed_passages
from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache

#: The kind of cache entry.
KIND = "embeddings"

_BLOCK = 256  # chunks an entry
_FORM = 1  # to be raised when what an entry holds changes within a version


@dataclass(frozen=True, slots=True)
class _Block:
    """Chunks `start` to `end` (positions in the corpus), all of document number `document`."""

    document: int
    start: int
    end: int
    key: str


def embed_corpus(corpus: Corpus, embedder: Embedder, cache: Cache, progress: Progress = silent) -> Array:
    """float32 `(n_chunks, d)`, each row of length 1, aligned with `corpus.chunks`; `(0, 0)` for an empty corpus.

    progress: stage "embed", in chunks; silent where nothing has to be embedded. A cache that cannot be written costs only the
    next question's time. Raises what the embedder raises.
    """
    blocks = list(_blocks_of(corpus, embedder.key))
    held = {block.key: found for block in blocks if (found := _kept(block.key, cache)) is not None}
    total = len(corpus.chunks)
    missing = list({block.key: block for block in blocks if block.key not in held}.values())
    done = total - sum(block.end - block.start for block in missing)
    if missing:
        progress(Event("embed", "start", done, total))
    for group in _groups(missing):
        texts = [text for block in group for text in _texts(corpus, block)]
        embeddings = embed_passages(texts, embedder, progress, done, total)
        done += len(texts)
        parts = np.split(embeddings, np.cumsum([block.end - block.start for block in group])[:-1])
        for block, part in zip(group, parts, strict=True):
            held[block.key] = part
            _keep(block.key, {"embeddings": part}, cache)
    if missing:
        progress(Event("embed", "done", total, total))
        cache.trim()
    cache.touch(KIND, held)
    return np.concatenate([held[block.key] for block in blocks]) if blocks else np.zeros((0, 0), np.float32)


def weigh_corpus(corpus: Corpus, model: BgeM3, cache: Cache, progress: Progress = silent) -> LexicalWeights:
    """The lexical weights of all chunks, kept as their embeddings are. progress: stage "embed", in chunks."""
    parts: dict[str, LexicalWeights] = {}
    blocks = list(_blocks_of(corpus, f"{model.key} lexical"))
    for block in blocks:
        if (held := load_entry(KIND, block.key, cache)) is not None:
            parts[block.key] = LexicalWeights(**held[1])
        elif block.key not in parts:
            parts[block.key] = model.weigh(_texts(corpus, block))
            _keep(block.key, {name: getattr(parts[block.key], name) for name in ("tokens", "weights", "counts")}, cache)
            progress(Event("embed", "progress", block.end, len(corpus.chunks)))
    cache.touch(KIND, parts)
    cache.trim()
    return LexicalWeights.joined([parts[block.key] for block in blocks])


def _blocks_of(corpus: Corpus, embedder_key: str) -> Iterator[_Block]:
    for number, document in enumerate(corpus.documents):
        chunks = corpus.chunks_of(number)
        content = _content(document) if len(chunks) else []
        for start in range(chunks.start, chunks.stop, _BLOCK):
            end = min(start + _BLOCK, chunks.stop)
            spans = sha256(np.ascontiguousarray(corpus.spans[start:end, 1:3], np.int32).tobytes()).hexdigest()
            told = [__version__, _FORM, embedder_key, content, spans]
            yield _Block(number, start, end, sha256(json.dumps(told).encode()).hexdigest())


def _content(document: Document) -> list[object]:
    """What tells a document's text, without reading it where it came from a file."""
    if not document.sha256:
        return [sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest()]
    return [document.sha256, document.media_type, document.encoding, document.n_chars, document.skipped_pages]


def _groups(blocks: list[_Block]) -> Iterator[list[_Block]]:
    """Blocks that are embedded together: small documents fill a batch only in company."""
    group: list[_Block] = []
    for block in blocks:
        if group and sum(each.end - each.start for each in [*group, block]) > _BLOCK:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _texts(corpus: Corpus, block: _Block) -> list[str]:
    text = corpus.documents[block.document].text
    return [text[start:end] for _, start, end, _ in corpus.spans[block.start : block.end].tolist()]


def _kept(key: str, cache: Cache) -> NDArray[np.float32] | None:
    found = load_entry(KIND, key, cache)
    return found[1]["embeddings"] if found else None


def _keep(key: str, held: Mapping[str, arrays.Array], cache: Cache) -> None:
    try:
        with cache.new(KIND, key) as path:
            arrays.save(path, {}, held)
    except OSError:
        pass  # the next question embeds them again
