"""Retrievers by the names that users give them: bm25, an embedding model as a GGUF file, or one of sentence-transformers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
from fbrag_cli.text.near import closest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.corpus import Passage
    from fbrag_cli.query import Collection
    from fbrag_cli.retrieval import Retriever
    from fbrag_cli.retrieval.dense import Embedder
    from fbrag_cli.storage.cache import Cache


_MOST = 8  # retrievers over embeddings that are kept for a next question


@dataclass(slots=True, eq=False)
class _Model:
    """An embedding model, which runs one call at a time."""

    embedder: Embedder
    lock: threading.Lock = field(default_factory=threading.Lock)


class Retrievers:
    """Retrievers over collections, for several threads. An embedding model is loaded when it is first asked for.

    While a model embeds texts, only callers that need this model wait.
    """

    def __init__(self, settings: ModelSettings, cache: Cache, *, verbose: bool = False) -> None:
        self._settings, self._cache, self._verbose = settings, cache, verbose
        self._models: Pool[str, _Model] = Pool()
        self._made: Pool[tuple[str, str, _Model], Retriever] = Pool(most=_MOST)  # by fingerprint of the corpus, and name

    def over(self, collection: Collection, name: str, lease: Lease) -> Retriever:
        """Return the retriever of this name over the chunks of a collection. lease: holds its model.

        Raises FbragError: model_missing, model_corrupt, usage for a model that gives no embeddings. Raises
        the error of a requested cancellation.
        """
        if name == DEFAULT_RETRIEVER:
            return collection.retriever
        listener = lease.listener
        model = self._models.get(name, lambda owned: _Model(self._load(name, listener, owned)), lease)
        key = collection.corpus.fingerprint, name, model
        made = self._made.get(key, lambda _: self._embedded(collection, model, listener), lease)
        return _OneAtATime(made, model, listener.cancellation)

    @staticmethod
    def check(name: str) -> None:
        """Check the name of a retriever; nothing is loaded. Raises FbragError as `over` for one that is not on this machine."""
        if name == DEFAULT_RETRIEVER:
            return
        if name.endswith(".gguf"):
            _check_file(name)
            return
        from fbrag_cli.retrieval.sentence_model import folder_of

        if (near := closest(name, [DEFAULT_RETRIEVER])) and not os.path.exists(name):
            raise FbragError("usage", f"there is no retriever {name}", f"did you mean {near}?")
        folder_of(name)

    def evict_idle(self, seconds: float) -> None:
        """Free what no lease holds, and nobody has used for so many seconds."""
        self._made.evict_idle(seconds)
        self._models.evict_idle(seconds)

    def close(self) -> None:
        """Free all embedding models."""
        self._made.close()
        self._models.close()

    def _embedded(self, collection: Collection, model: _Model, listener: Listener) -> Retriever:
        from fbrag_cli.indexing.embeddings import embed_corpus
        from fbrag_cli.retrieval.dense import Dense

        with _running(model, listener.cancellation):
            return Dense(model.embedder, embed_corpus(collection.corpus, model.embedder, self._cache, listener.report))

    def _load(self, name: str, listener: Listener, owned: ExitStack) -> Embedder:
        if not name.endswith(".gguf"):
            from fbrag_cli.retrieval.sentence_model import SentenceModel

            return SentenceModel(name)
        from fbrag_cli.generation.llama.encoder import LlamaEmbedder
        from fbrag_cli.retrieval.dense import prefixes_of

        _check_file(name)
        how = loading(self._settings, listener.cancellation, large=False, verbose=self._verbose)
        embedder = owned.enter_context(LlamaEmbedder(Path(name), how, prefixes=prefixes_of))
        for problem in embedder.problems:
            listener.progress(Event("load", "warning", text=problem))
        return embedder


def _check_file(name: str) -> None:
    if not os.path.isfile(name):
        what = f"there is no file {name}"
        raise FbragError("model_missing", what, "name an embedding model: a GGUF file, or one of the hub")


@contextmanager
def _running(model: _Model, cancellation: Cancellation) -> Iterator[None]:
    """Hold an embedding model for one caller, whose cancellation stops it."""
    with cancellation.holding(model.lock):
        if hasattr(model.embedder, "cancellation"):
            model.embedder.cancellation = cancellation
        yield


class _OneAtATime:
    """A `Retriever` that scores for one thread at a time."""

    def __init__(self, retriever: Retriever, model: _Model, cancellation: Cancellation) -> None:
        self.name, self.key = retriever.name, retriever.key
        self._retriever, self._model, self._cancellation = retriever, model, cancellation

    def scores(self, text: str) -> NDArray[np.float32]:
        with _running(self._model, self._cancellation):
            return self._retriever.scores(text)

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Passage]) -> NDArray[np.float32]:
        with _running(self._model, self._cancellation):
            return self._retriever.excerpt_scores(texts, excerpts)

    def bounds(self, text: str) -> tuple[float, float]:
        return self._retriever.bounds(text)

    def similarities(self, chunks: Sequence[Passage]) -> NDArray[np.float32]:
        return self._retriever.similarities(chunks)
