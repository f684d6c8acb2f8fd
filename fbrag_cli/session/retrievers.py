"""Retrievers by the names that users give them: bm25, an embedding model as a GGUF file, or one of sentence-transformers.

BGE-M3 has two weights, of its embeddings and of the words that both texts share: "BAAI/bge-m3@1:0.3", as without, or "@1:0".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import ModelOptions
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Progress
from fbrag_cli.session.placement import placement

if TYPE_CHECKING:
    from fbrag_cli.corpus import Corpus
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.retrieval import Retriever
    from fbrag_cli.retrieval.dense import Embedder
    from fbrag_cli.storage.cache import Cache

BM25 = "bm25"

_WEIGHTS = re.compile(r"@(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$")


class Retrievers:
    """Makes retrievers of corpora. An embedding model is loaded when it is first asked for, and freed on exit."""

    def __init__(self, options: ModelOptions, cache: Cache, console: Console, progress: Progress) -> None:
        self._options, self._cache, self._console, self._progress = options, cache, console, progress
        self._embedders: dict[str, Embedder] = {}
        self._close: list[Callable[[], None]] = []

    def of_collection(self, collection: Collection, name: str) -> Retriever:
        """As `of`; a collection has its own BM25."""
        return collection.retriever if name == BM25 else self.of(collection.corpus, name)

    def of(self, corpus: Corpus, name: str) -> Retriever:
        """Raises FbragError: model_missing, model_corrupt, usage for a model that gives no embeddings."""
        if name == BM25:
            from fbrag_cli.retrieval import bm25

            return bm25.BM25.of(corpus)
        from fbrag_cli.indexing.embeddings import embed_corpus, weigh_corpus
        from fbrag_cli.retrieval.bge_m3 import WEIGHTS, BgeM3, DenseAndLexical
        from fbrag_cli.retrieval.dense import Dense

        base, weights = name, None
        if found := _WEIGHTS.search(name):
            base, weights = name[: found.start()], (float(found[1]), float(found[2]))
        if base not in self._embedders:
            self._embedders[base] = self._load(base)
        embedder = self._embedders[base]
        embeddings = embed_corpus(corpus, embedder, self._cache, self._progress)
        if isinstance(embedder, BgeM3):
            lexical = weigh_corpus(corpus, embedder, self._cache, self._progress)
            return DenseAndLexical(embedder, embeddings, lexical, weights or WEIGHTS)
        if weights:
            raise FbragError("usage", f"--retriever {name}: {base} has one weight only", "leave out what begins with '@'")
        return Dense(embedder, embeddings)

    def __enter__(self) -> Retrievers:
        return self

    def __exit__(self, *exc: object) -> None:
        for close in self._close:
            close()

    def _load(self, name: str) -> Embedder:
        if not name.endswith(".gguf"):
            from fbrag_cli.retrieval.bge_m3 import BgeM3, has_lexical_weights
            from fbrag_cli.retrieval.sentence_model import SentenceModel

            return BgeM3(name) if has_lexical_weights(name) else SentenceModel(name)
        from fbrag_cli.generation.llama.embedding import LlamaEmbedder
        from fbrag_cli.retrieval.prefixes import prefixes_of

        if not os.path.isfile(name):
            raise FbragError(
                "model_missing", f"there is no file {name}", "name an embedding model: a GGUF file, or one of the hub"
            )
        embedder = LlamaEmbedder(
            Path(name),
            prefixes=prefixes_of,
            placement=placement(self._options, large=False),
            threads=self._options.threads,
            cancellation=self._console.cancellation,
            verbose=self._console.verbosity >= 2,
        )
        self._close.append(embedder.close)
        for problem in embedder.problems:
            self._console.warn(problem)
        return embedder
