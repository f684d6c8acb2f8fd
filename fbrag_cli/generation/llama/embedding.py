"""Embeddings by any GGUF model that can pool, through llama.cpp.

A text longer than the model's window is embedded window by window, and its embedding is the mean of theirs: nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.generation.llama.encoder import Encoder, normalised
from fbrag_cli.generation.llama.machine import WHERE_IT_FITS, Placement, metadata, version
from fbrag_cli.storage.files import sha256_of

#: Returns the prefixes of queries and of chunks for a model's name (`retrieval.prefixes.prefixes_of`).
Prefixes = Callable[[str], tuple[str, str]]


class LlamaEmbedder:
    """The `Embedder` for GGUF files.

    sha256: of the file, where it is known; else it is computed for `key`. prefixes: called with the file's name and the name in
    the model's metadata. cancellation: stops the loading, and `embed` too. The other parameters, and the errors raised, are those
    of `Encoder`; also FbragError `usage` if the model cannot pool (a reranker).

    problems: what the user should know about the model, as sentences.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str | None = None,
        sha256: str | None = None,
        prefixes: Prefixes = lambda name: ("", ""),
        placement: Placement = WHERE_IT_FITS,
        threads: int | None = None,
        cancellation: Cancellation | None = None,
        verbose: bool = False,
    ) -> None:
        self._path, self._sha256 = path, sha256
        self.problems: tuple[str, ...] = ()
        self._encoder = Encoder(path, name, placement=placement, threads=threads, cancellation=cancellation, verbose=verbose)
        self.name = self._encoder.name
        try:
            self._prefixes = prefixes(f"{path.stem} {metadata(self._encoder.weights.model, 'general.name')}")
            if self._encoder.pooling == llama_cpp.LLAMA_POOLING_TYPE_NONE:
                self._encoder.pool(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
                what = "says nothing of embeddings: the mean over a text's tokens is taken, of which little can be expected"
                self.problems = (f"{self.name} {what}",)
            if self._encoder.pooling == llama_cpp.LLAMA_POOLING_TYPE_RANK:
                hint = "name an embedding model, as all-MiniLM or bge"
                raise FbragError("usage", f"{self.name} is a reranker: it gives no embeddings", hint)
        except BaseException:
            self.close()
            raise

    # -- the Embedder protocol -------------------------------------------------------------------------------------------

    @cached_property
    def key(self) -> str:
        """The SHA-256 (hex) of all that an embedding depends on beside the text."""
        encoder = self._encoder
        inputs = [self._sha256 or sha256_of(self._path), encoder.pooling, encoder.window, self._prefixes, version()]
        return sha256(repr(inputs).encode()).hexdigest()

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return float32 `(len(texts), d)`, each row of length 1. query: whether the texts are queries, not chunks.

        Raises FbragError `out_of_memory`, and the error of a cancellation.
        """
        prefix = self._prefixes[0 if query else 1]
        windows = [(i, window) for i, text in enumerate(texts) for window in self._windows_of(prefix, text)]
        sums = np.zeros((len(texts), self._encoder.width), np.float32)
        for (i, _), vector in zip(windows, self._encoder.vectors([window for _, window in windows]), strict=True):
            sums[i] += normalised(vector)  # the windows of a text are equally long: the mean is the sum but for its length
        return normalised(sums)

    def close(self) -> None:
        """Free the context and the model. The embedder cannot be used afterwards."""
        self._encoder.close()

    def __enter__(self) -> LlamaEmbedder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _windows_of(self, prefix: str, text: str) -> list[list[int]]:
        """Return the tokens of a text with prefix and markers, in as few windows as needed, of about equal length."""
        encoder = self._encoder
        tokens = encoder.tokens_of(prefix + text)
        room = encoder.window - len(encoder.head) - len(encoder.tail)
        if len(tokens) <= room:
            whole = encoder.head + tokens + encoder.tail
            return [whole] if whole else []
        head = encoder.head + encoder.tokens_of(prefix.rstrip())
        body = encoder.tokens_of(text)
        n = -(-len(body) // (encoder.window - len(head) - len(encoder.tail)))
        ends = [len(body) * i // n for i in range(n + 1)]
        return [head + body[start:end] + encoder.tail for start, end in pairwise(ends)]
