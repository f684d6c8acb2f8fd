"""Embeddings by any GGUF model that can pool, through llama.cpp: several texts a batch, each its own sequence.

A text longer than the model's window is embedded window by window, and its embedding is the mean of theirs: nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.encoder import LlamaEncoder, split_evenly
from fbrag_cli.generation.llama.library import llama_cpp
from fbrag_cli.generation.llama.machine import metadata
from fbrag_cli.generation.llama.weights import BY_DEFAULT, Loading

#: Returns the prefixes of queries and of chunks for a model's name (`retrieval.dense.prefixes_of`).
Prefixes = Callable[[str], tuple[str, str]]


class LlamaEmbedder(LlamaEncoder):
    """The `Embedder` for GGUF files.

    prefixes: called with the file's name and the name in the model's metadata. Raises as `LlamaEncoder`; also FbragError `usage`
    if the model cannot pool (a reranker).

    problems: what the user should know about the model, as sentences.
    """

    def __init__(self, path: Path, loading: Loading = BY_DEFAULT, *, prefixes: Prefixes = lambda name: ("", "")) -> None:
        self._prefixes_of = prefixes
        self.problems: tuple[str, ...] = ()
        super().__init__(path, loading)

    # -- the Embedder protocol -------------------------------------------------------------------------------------------

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return float32 `(len(texts), d)`, each row of length 1. query: whether the texts are queries, not chunks.

        Raises FbragError `out_of_memory`, and the error of a cancellation.
        """
        prefix = self._prefixes[0 if query else 1]
        windows = [(i, window) for i, text in enumerate(texts) for window in self._windows_of(prefix, text)]
        sums = np.zeros((len(texts), self._n_outputs), np.float32)
        for (i, _), vector in zip(windows, self._vectors([window for _, window in windows]), strict=True):
            # The windows of a text are equally long, so that the mean is the sum but for its length.
            sums[i] += _normalised(vector)
        return _normalised(sums)

    # -- the model ---------------------------------------------------------------------------------------------------------

    def _prepare(self) -> int:
        self._prefixes = self._prefixes_of(f"{self._path.stem} {metadata(self._weights.model, 'general.name')}")
        self._pooling = self._make_context(llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
        if self._pooling == llama_cpp.LLAMA_POOLING_TYPE_NONE:
            self._pooling = self._make_context(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
            what = "says nothing of embeddings: the mean over a text's tokens is taken, of which little can be expected"
            self.problems = (f"{self.name} {what}",)
        if self._pooling == llama_cpp.LLAMA_POOLING_TYPE_RANK:
            hint = "name an embedding model, as all-MiniLM or bge"
            raise FbragError("usage", f"{self.name} is a reranker: it gives no embeddings", hint)
        return int(llama_cpp.llama_model_n_embd_out(self._weights.model))

    def _settings(self) -> list[object]:
        return [self._pooling, self._window, self._prefixes]

    def _windows_of(self, prefix: str, text: str) -> list[list[int]]:
        """Return the tokens of a text with prefix and markers, in as few windows as needed, of about equal length."""
        tokens = self._tokens_of(prefix + text)
        if len(tokens) <= self._window - len(self._head) - len(self._tail):
            whole = self._head + tokens + self._tail
            return [whole] if whole else []
        head = self._head + self._tokens_of(prefix.rstrip())
        pieces = split_evenly(self._tokens_of(text), self._window - len(head) - len(self._tail))
        return [[*head, *piece, *self._tail] for piece in pieces]


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
