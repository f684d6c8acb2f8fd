"""Retrievers by the names that users type: bm25, an embedding model in a GGUF file, or one for sentence-transformers."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.session.placement import loading
from fbrag_cli.session.pool import Lease, Pool
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.files import on_disk
from fbrag_cli.text.suggest import closest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.query import Collection
    from fbrag_cli.retrieval import Retriever
    from fbrag_cli.retrieval.dense import Embedder
    from fbrag_cli.storage.cache import Cache


_MOST = 8  # corpora whose embeddings are kept in memory


@dataclass(slots=True, eq=False)
class _Model:
    """An embedding model, which runs one call at a time."""

    embedder: Embedder
    lock: threading.Lock = field(default_factory=threading.Lock)


class Retrievers:
    """Retrievers over collections, shared by threads. An embedding model is loaded when it is first needed.

    While a model embeds texts, only callers that need that model wait.
    """

    def __init__(self, settings: ModelSettings, cache: Cache, *, verbose: bool = False) -> None:
        self._settings, self._cache, self._verbose = settings, cache, verbose
        self._models: Pool[str, _Model] = Pool()
        self._embeddings: Pool[tuple[str, str], NDArray[np.float32]] = Pool(most=_MOST)  # by corpus fingerprint and model

    def over(self, collection: Collection, name: str, lease: Lease) -> Retriever:
        """Return the named retriever over the chunks of a collection. lease: holds its model.

        Raises FbragError: model_missing, model_corrupt, `usage` for a model that is not an embedding model; and the error of a
        requested cancellation.
        """
        if name == DEFAULT_RETRIEVER:
            return collection.retriever
        from fbrag_cli.indexing.embeddings import embed_corpus
        from fbrag_cli.retrieval.dense import Dense

        corpus, listener = collection.corpus, lease.listener
        model = self._models.get(name, lambda owned: _Model(self._load(name, listener, owned)), lease)
        embedder = _Shared(model, listener.cancellation)
        key = corpus.fingerprint, embedder.key
        embeddings = self._embeddings.get(key, lambda _: embed_corpus(corpus, embedder, self._cache, listener.report), lease)
        return Dense(embedder, embeddings)

    @staticmethod
    def check(name: str) -> None:
        """Check the name of a retriever without loading it. Raises FbragError as `over` does if it is not on this machine."""
        if name == DEFAULT_RETRIEVER:
            return
        if name.endswith(".gguf"):
            _check_file(name)
            return
        from fbrag_cli.retrieval.sentence_model import folder_of

        if (near := closest(name, [DEFAULT_RETRIEVER])) and not os.path.exists(on_disk(name)):
            raise FbragError("usage", f"unknown retriever {name}", f"did you mean {near}?")
        folder_of(name)

    def evict_idle(self, seconds: float) -> None:
        """Free the values that no lease holds and that have been idle for `seconds`."""
        self._embeddings.evict_idle(seconds)
        self._models.evict_idle(seconds)

    def close(self) -> None:
        """Free all embedding models."""
        self._embeddings.close()
        self._models.close()

    def _load(self, name: str, listener: Listener, owned: ExitStack) -> Embedder:
        if not name.endswith(".gguf"):
            from fbrag_cli.retrieval.sentence_model import SentenceModel

            return SentenceModel(name)
        from fbrag_cli.generation.llama.encoder import LlamaEmbedder
        from fbrag_cli.retrieval.dense import prefixes_of

        _check_file(name)
        how = loading(self._settings, "small", listener.cancellation, verbose=self._verbose)
        embedder = owned.enter_context(LlamaEmbedder(Path(on_disk(name)), how, prefixes=prefixes_of))
        for problem in embedder.problems:
            listener.progress(Event("load", "warning", text=problem))
        return embedder


def _check_file(name: str) -> None:
    if not os.path.isfile(on_disk(name)):
        what = f"file not found: {name}"
        raise FbragError("model_missing", what, "use an embedding model: a GGUF file, or a Hugging Face name")


class _Shared:
    """An `Embedder` for one caller, stopped by the caller's cancellation. Calls of several callers run one at a time."""

    def __init__(self, model: _Model, cancellation: Cancellation) -> None:
        self.name, self.key = model.embedder.name, model.embedder.key
        self._model, self._cancellation = model, cancellation

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        with self._cancellation.holding(self._model.lock):
            if hasattr(self._model.embedder, "cancellation"):
                self._model.embedder.cancellation = self._cancellation
            return self._model.embedder.embed(texts, query=query)
