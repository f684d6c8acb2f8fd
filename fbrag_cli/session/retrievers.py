"""Retrievers by the names that users give them: bm25, an embedding model as a GGUF file, or one of sentence-transformers.

BGE-M3 has two weights, of its embeddings and of the words that both texts share: "BAAI/bge-m3@1:0.3", as without, or "@1:0".
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.session.placement import loading
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.session.shelf import Lease, Shelf
from fbrag_cli.text.near import closest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.corpus import Passage
    from fbrag_cli.query import Collection
    from fbrag_cli.retrieval import Comparing, Retriever
    from fbrag_cli.retrieval.dense import Embedder
    from fbrag_cli.storage.cache import Cache


_MOST = 8  # retrievers over embeddings that are kept for a next question

_WEIGHTS = re.compile(r"@(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$")


@dataclass(slots=True, eq=False)
class _Model:
    """An embedding model, which runs one call at a time. close: frees it."""

    embedder: Embedder
    close: Callable[[], object] = lambda: None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Retrievers:
    """Retrievers over collections, for several threads. An embedding model is loaded when it is first asked for.

    While a model embeds texts, only callers that need this model wait.
    """

    def __init__(self, settings: ModelSettings, cache: Cache, *, verbose: bool = False) -> None:
        self._settings, self._cache, self._verbose = settings, cache, verbose
        self._models: Shelf[str, _Model] = Shelf(lambda model: model.close())
        self._made: Shelf[tuple[str, str, _Model], Comparing] = Shelf(most=_MOST)  # by fingerprint of the corpus, and name

    def over(self, collection: Collection, name: str, lease: Lease) -> Retriever:
        """Return the retriever of this name over the chunks of a collection. lease: holds its model.

        Raises FbragError: model_missing, model_corrupt, usage for a model that gives no embeddings or has no such weights. Raises
        the error of a requested cancellation.
        """
        if name == DEFAULT_RETRIEVER:
            return collection.retriever
        base, weights = _parsed(name)
        listener = lease.listener
        model = self._models.get(base, lambda: self._load(base, listener), lease)
        key = collection.corpus.fingerprint, name, model
        made = self._made.get(key, lambda: self._embedded(collection, name, model, weights, listener), lease)
        return _OneAtATime(made, model, listener.cancellation)

    @staticmethod
    def check(name: str) -> None:
        """Check the name of a retriever; nothing is loaded. Raises FbragError as `over` for one that is not on this machine."""
        if name == DEFAULT_RETRIEVER:
            return
        base, _ = _parsed(name)
        if base.endswith(".gguf"):
            _check_file(base)
            return
        from fbrag_cli.retrieval.sentence_model import folder_of

        if (near := closest(name, [DEFAULT_RETRIEVER])) and not os.path.exists(name):
            raise FbragError("usage", f"there is no retriever {name}", f"did you mean {near}?")
        folder_of(base)

    def unload(self, idle: float) -> None:
        """Free what no lease holds, and nobody has used for `idle` seconds."""
        self._made.unload(idle)
        self._models.unload(idle)

    def close(self) -> None:
        """Free all embedding models."""
        self._made.close()
        self._models.close()

    def _embedded(
        self, collection: Collection, name: str, model: _Model, weights: tuple[float, float] | None, listener: Listener
    ) -> Comparing:
        from fbrag_cli.indexing.embeddings import embed_corpus, weigh_corpus
        from fbrag_cli.retrieval.bge_m3 import WEIGHTS, BgeM3, DenseAndLexical
        from fbrag_cli.retrieval.dense import Dense

        embedder = model.embedder
        if weights and not isinstance(embedder, BgeM3):
            base = _WEIGHTS.sub("", name)
            raise FbragError("usage", f"--retriever {name}: {base} has one weight only", "leave out what begins with '@'")
        with _running(model, listener.cancellation):
            embeddings = embed_corpus(collection.corpus, embedder, self._cache, listener.report)
            if isinstance(embedder, BgeM3):
                lexical = weigh_corpus(collection.corpus, embedder, self._cache, listener.report)
                return DenseAndLexical(embedder, embeddings, lexical, weights or WEIGHTS)
        return Dense(embedder, embeddings)

    def _load(self, name: str, listener: Listener) -> _Model:
        if not name.endswith(".gguf"):
            from fbrag_cli.retrieval.bge_m3 import BgeM3, has_lexical_weights
            from fbrag_cli.retrieval.sentence_model import SentenceModel

            return _Model(BgeM3(name) if has_lexical_weights(name) else SentenceModel(name))
        from fbrag_cli.generation.llama.embedding import LlamaEmbedder
        from fbrag_cli.retrieval.prefixes import prefixes_of

        _check_file(name)
        embedder = LlamaEmbedder(
            Path(name),
            loading(self._settings, listener.cancellation, large=False, verbose=self._verbose),
            prefixes=prefixes_of,
        )
        for problem in embedder.problems:
            listener.progress(Event("load", "warning", text=problem))
        return _Model(embedder, embedder.close)


def _parsed(name: str) -> tuple[str, tuple[float, float] | None]:
    """Return the name of a model, and the weights behind it. Raises FbragError `usage` where both are 0."""
    if not (found := _WEIGHTS.search(name)):
        return name, None
    weights = float(found[1]), float(found[2])
    if not any(weights):
        raise FbragError("usage", f"--retriever {name}: both weights are 0", "give one of them a weight: @1:0.3")
    return name[: found.start()], weights


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

    def __init__(self, retriever: Comparing, model: _Model, cancellation: Cancellation) -> None:
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
