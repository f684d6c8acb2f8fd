"""Dense retrieval: the cosine between the embeddings of a text and of each chunk. Models are behind `Embedder`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Passage
from fbrag_cli.progress import Event, Progress

Array = NDArray[np.float32]

_BATCH = 64  # texts between two events of progress


class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str:
        """Hexadecimal digits that change whenever the embedding of a text may change; part of the key of a cached embedding."""
        ...

    def embed(self, texts: Sequence[str], *, query: bool) -> Array:
        """Return float32 `(len(texts), d)`, each row of length 1. query: whether the texts are queries, not chunks."""
        ...


class Dense:
    """A `Retriever` over embeddings: float32 `(n_chunks, d)`, each row of length 1, aligned with `Corpus.chunks`.

    A sample is embedded as a query, like a question, because the paper's S is the same function for both (equations 4 and 5).
    Cosines may be negative and are not cut at zero: only their order and distances count in a sum.
    """

    def __init__(self, embedder: Embedder, embeddings: Array) -> None:
        self._embedder = embedder
        self._embeddings = embeddings
        self.name, self.key = f"dense:{embedder.name}", embedder.key

    def scores(self, text: str) -> Array:
        """Return float32 `(n_chunks,)`, -1..1; all zero for a text of spaces."""
        if not text.strip() or not len(self._embeddings):
            return np.zeros(len(self._embeddings), np.float32)
        return np.asarray(self._embeddings @ self._embedder.embed([text], query=True)[0], np.float32)

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Passage]) -> Array:
        """Return float32 `(len(texts), len(excerpts))`, -1..1. The excerpts are embedded for it."""
        if not excerpts:
            return np.zeros((len(texts), 0), np.float32)
        over = Dense(self._embedder, self._embedder.embed([each.text_with_header for each in excerpts], query=False))
        return np.stack([over.scores(text) for text in texts])

    def bounds(self, text: str) -> tuple[float, float]:
        """Return the least and the largest cosine."""
        return -1.0, 1.0

    def similarities(self, chunks: Sequence[Passage]) -> Array:
        """Return float32 `(n, n)`, -1..1: the cosines of the chunks' embeddings."""
        rows = self._embeddings[[each.position for each in chunks]]
        return np.asarray(rows @ rows.T, np.float32)


def embed_chunks(texts: Sequence[str], embedder: Embedder, progress: Progress, done: int, total: int) -> Array:
    """Return the embeddings of chunks' texts, float32 `(len(texts), d)`. texts: at least one.

    progress: stage "embed", in chunks, of which `done` of `total` were embedded before.
    """
    parts = []
    for start in range(0, len(texts), _BATCH):
        part = texts[start : start + _BATCH]
        parts.append(embedder.embed(part, query=False))
        progress(Event("embed", "progress", done + start + len(part), total))
    return np.concatenate(parts)


_BGE = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

# Pattern of a model's name, prefix of a query, prefix of a chunk; the first pattern that is found counts. A model was trained
# with these words, and its file seldom has them. Each is from the model's own card.
_PREFIXES = (
    (r"\bbge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    (r"\bbge-(small|base|large)-en|\bmxbai-embed-large|\bsnowflake-arctic-embed(?!.*v2)", _BGE, ""),
    (r"\bsnowflake-arctic-embed", "query: ", ""),
    (r"\be5-(small|base|large)(?!.*instruct)", "query: ", "passage: "),
    (r"\bnomic-embed-text", "search_query: ", "search_document: "),
    (r"\bembedding-?gemma", "task: search result | query: ", "title: none | text: "),
    (r"\bqwen3-embedding|\be5-.*instruct", _INSTRUCT, ""),
)


def prefixes_of(name: str) -> tuple[str, str]:
    """Return the prefixes of a query and of a chunk; empty for models without (MiniLM, MPNet, BGE-M3) and unknown ones.

    name: of the model, of its file or both, such as "BAAI/bge-large-en-v1.5" or "Bge Large En v1.5".
    """
    plain = re.sub(r"[\s_]+", "-", name.lower())
    return next(((query, chunk) for pattern, query, chunk in _PREFIXES if re.search(pattern, plain)), ("", ""))
