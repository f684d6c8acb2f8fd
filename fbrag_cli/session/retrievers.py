"""Retrievers by the names that users give them: bm25, an embedding model as a GGUF file, or one of sentence-transformers.

BGE-M3 has two weights, of its embeddings and of the words that both texts share: "BAAI/bge-m3@1:0.3", as without, or "@1:0".
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.session.placement import loading
from fbrag_cli.session.settings import ModelSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.corpus import Chunk, Excerpt
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.retrieval import Comparing, Retriever
    from fbrag_cli.retrieval.dense import Embedder
    from fbrag_cli.storage.cache import Cache

BM25 = "bm25"

_WEIGHTS = re.compile(r"@(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$")


class Retrievers:
    """Retrievers over collections, for several threads. An embedding model is loaded when it is first asked for, and freed by
    `close`."""

    def __init__(
        self,
        settings: ModelSettings,
        cache: Cache,
        *,
        progress: Progress = silent,
        cancellation: Cancellation | None = None,
        verbose: bool = False,
    ) -> None:
        self._settings, self._cache, self._progress, self._verbose = settings, cache, progress, verbose
        self._cancellation = cancellation or Cancellation()
        self._embedders: dict[str, Embedder] = {}
        self._close: list[Callable[[], None]] = []
        self._lock = threading.Lock()  # an embedding model runs one call at a time

    def over(self, collection: Collection, name: str, progress: Progress = silent) -> Retriever:
        """Return the retriever of this name over the chunks of a collection.

        Raises FbragError: model_missing, model_corrupt, usage for a model that gives no embeddings or has no such weights.
        """
        if name == BM25:
            return collection.retriever
        with self._lock:
            return _OneAtATime(self._embedded(collection, name, progress), self._lock)

    def close(self) -> None:
        """Free all embedding models."""
        while self._close:
            self._close.pop()()
        self._embedders.clear()

    def _embedded(self, collection: Collection, name: str, progress: Progress) -> Comparing:
        from fbrag_cli.indexing.embeddings import embed_corpus, weigh_corpus
        from fbrag_cli.retrieval.bge_m3 import WEIGHTS, BgeM3, DenseAndLexical
        from fbrag_cli.retrieval.dense import Dense

        base, weights = name, None
        if found := _WEIGHTS.search(name):
            base, weights = name[: found.start()], (float(found[1]), float(found[2]))
            if not any(weights):
                raise FbragError("usage", f"--retriever {name}: both weights are 0", "give one of them a weight: @1:0.3")
        if base not in self._embedders:
            self._embedders[base] = self._load(base)
        embedder = self._embedders[base]
        if weights and not isinstance(embedder, BgeM3):
            raise FbragError("usage", f"--retriever {name}: {base} has one weight only", "leave out what begins with '@'")
        embeddings = embed_corpus(collection.corpus, embedder, self._cache, progress)
        if isinstance(embedder, BgeM3):
            lexical = weigh_corpus(collection.corpus, embedder, self._cache, progress)
            return DenseAndLexical(embedder, embeddings, lexical, weights or WEIGHTS)
        return Dense(embedder, embeddings)

    def _load(self, name: str) -> Embedder:
        if not name.endswith(".gguf"):
            from fbrag_cli.retrieval.bge_m3 import BgeM3, has_lexical_weights
            from fbrag_cli.retrieval.sentence_model import SentenceModel

            return BgeM3(name) if has_lexical_weights(name) else SentenceModel(name)
        from fbrag_cli.generation.llama.embedding import LlamaEmbedder
        from fbrag_cli.retrieval.prefixes import prefixes_of

        if not os.path.isfile(name):
            what = f"there is no file {name}"
            raise FbragError("model_missing", what, "name an embedding model: a GGUF file, or one of the hub")
        embedder = LlamaEmbedder(
            Path(name),
            loading(self._settings, self._cancellation, large=False, verbose=self._verbose),
            prefixes=prefixes_of,
        )
        self._close.append(embedder.close)
        for problem in embedder.problems:
            self._progress(Event("load", "warning", text=problem))
        return embedder


class _OneAtATime:
    """A `Retriever` that scores for one thread at a time."""

    def __init__(self, retriever: Comparing, lock: threading.Lock) -> None:
        self.name, self.key = retriever.name, retriever.key
        self._retriever, self._lock = retriever, lock

    def scores(self, text: str) -> NDArray[np.float32]:
        with self._lock:
            return self._retriever.scores(text)

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Excerpt]) -> NDArray[np.float32]:
        with self._lock:
            return self._retriever.excerpt_scores(texts, excerpts)

    def bounds(self, text: str) -> tuple[float, float]:
        return self._retriever.bounds(text)

    def similarities(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        return self._retriever.similarities(chunks)
