"""Embeddings by any GGUF model that can pool, through llama.cpp: several texts a batch, each its own sequence.

A text longer than the model's window is embedded window by window, and its embedding is the mean of theirs: nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.generation.llama.machine import WHERE_IT_FITS, Placement, metadata, version
from fbrag_cli.generation.llama.native_log import native_log
from fbrag_cli.generation.llama.weights import Weights
from fbrag_cli.storage.files import sha256_of

_BATCH = 512  # tokens a llama_decode; more cost attention between texts that do not see each other
_WINDOW = 2048  # tokens; a model may have a longer one, but a chunk seldom has more
_SHORTEST_WINDOW = 64  # tokens; the longest instruction before a text has some 20
_SEQUENCES = 64

#: Returns the prefixes of queries and of chunks for a model's name (`retrieval.prefixes.prefixes_of`).
Prefixes = Callable[[str], tuple[str, str]]


class LlamaEmbedder:
    """The `Embedder` for GGUF files.

    sha256: of the file, where it is known; else it is computed for `key`. prefixes: called with the file's name and the name in
    the model's metadata. cancellation: stops the loading, and `embed` too. The other parameters, and the errors raised, are those
    of `Weights`; also FbragError `usage` if the model cannot pool (a reranker).

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
        self._context: Any = None
        self.name = name or path.stem
        self.problems: tuple[str, ...] = ()
        self._weights = Weights(path, placement=placement, threads=threads, cancellation=cancellation, verbose=verbose)
        self._tokens_of = self._weights.tokens_of
        self._prefixes = prefixes(f"{path.stem} {metadata(self._weights.model, 'general.name')}")
        self._window = min(llama_cpp.llama_model_n_ctx_train(self._weights.model), _WINDOW)
        self._size = max(self._window, _BATCH)
        self._n_embd = llama_cpp.llama_model_n_embd_out(self._weights.model)
        try:
            self._pooling = self._make_context(llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
            if self._pooling == llama_cpp.LLAMA_POOLING_TYPE_NONE:
                self._pooling = self._make_context(llama_cpp.LLAMA_POOLING_TYPE_MEAN)
                what = "says nothing of embeddings: the mean over a text's tokens is taken, of which little can be expected"
                self.problems = (f"{self.name} {what}",)
            if self._pooling == llama_cpp.LLAMA_POOLING_TYPE_RANK:
                hint = "name an embedding model, as all-MiniLM or bge"
                raise FbragError("usage", f"{self.name} is a reranker: it gives no embeddings", hint)
            self._head, self._tail = self._surroundings()
            if self._window < _SHORTEST_WINDOW:
                raise self._broken(f"reads {self._window} tokens at once")
        except BaseException:
            self.close()
            raise

    # -- the Embedder protocol -------------------------------------------------------------------------------------------

    @cached_property
    def key(self) -> str:
        """The SHA-256 (hex) of all that an embedding depends on beside the text."""
        inputs = [self._sha256 or sha256_of(self._path), self._pooling, self._window, self._prefixes, version()]
        return sha256(repr(inputs).encode()).hexdigest()

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return float32 `(len(texts), d)`, each row of length 1. query: whether the texts are queries, not chunks.

        Raises FbragError `out_of_memory`, and the error of a cancellation.
        """
        prefix = self._prefixes[0 if query else 1]
        windows = [(i, window) for i, text in enumerate(texts) for window in self._windows_of(prefix, text)]
        sums = np.zeros((len(texts), self._n_embd), np.float32)
        for batch in _batches(windows, self._size):
            for (i, _), embedding in zip(batch, self._decode([window for _, window in batch]), strict=True):
                sums[i] += embedding  # the windows of a text are equally long, so that the mean is the sum but for its length
        return _normalised(sums)

    def close(self) -> None:
        """Free the context and the model. The embedder cannot be used afterwards."""
        self._free_context()
        self._weights.close()

    def __enter__(self) -> LlamaEmbedder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- model and context -----------------------------------------------------------------------------------------------

    def _make_context(self, pooling: int) -> int:
        """Make a context that pools by `pooling`. Return the pooling that llama.cpp chose."""
        self._free_context()
        params = llama_cpp.llama_context_default_params()
        params.embeddings = True
        params.pooling_type = pooling
        params.n_ctx = params.n_batch = params.n_ubatch = params.n_outputs_max = self._size
        params.n_seq_max = _SEQUENCES
        self._context = self._weights.context(params)
        if not self._context:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp made no context of {self._size} tokens for {self.name}: {native_log.last_error()}",
                "close other programs, or choose a smaller model",
            )
        self._batch = llama_cpp.llama_batch_init(self._size, 0, 1)
        return int(llama_cpp.llama_pooling_type(self._context))

    def _free_context(self) -> None:
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None

    # -- steps of a call -------------------------------------------------------------------------------------------------

    def _decode(self, windows: Sequence[Sequence[int]]) -> Iterator[NDArray[np.float32]]:
        """Yield the embedding of each window, of length 1, after decoding all of them in one batch."""
        batch, i = self._batch, 0
        for sequence, tokens in enumerate(windows):
            for position, token in enumerate(tokens):
                batch.token[i], batch.pos[i] = token, position
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
                batch.logits[i] = True
                i += 1
        batch.n_tokens = i
        if memory := llama_cpp.llama_get_memory(self._context):  # an encoder has none
            llama_cpp.llama_memory_clear(memory, False)
        status = self._weights.decode(self._context, batch)
        if status != 0:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp stopped at a batch of {i} tokens (status {status}): {native_log.last_error()}",
                "close other programs, or choose a smaller model",
            )
        for sequence in range(len(windows)):
            pointer = llama_cpp.llama_get_embeddings_seq(self._context, sequence)
            embedding = np.ctypeslib.as_array(pointer, (self._n_embd,))
            if not np.isfinite(embedding).all():
                raise self._broken("computes what are no numbers (NaN)")
            yield _normalised(embedding)

    def _windows_of(self, prefix: str, text: str) -> list[list[int]]:
        """Return the tokens of a text with prefix and markers, in as few windows as needed, of about equal length."""
        tokens = self._tokens_of(prefix + text)
        room = self._window - len(self._head) - len(self._tail)
        if len(tokens) <= room:
            whole = self._head + tokens + self._tail
            return [whole] if whole else []
        head = self._head + self._tokens_of(prefix.rstrip())
        body = self._tokens_of(text)
        n = -(-len(body) // (self._window - len(head) - len(self._tail)))
        ends = [len(body) * i // n for i in range(n + 1)]
        return [head + body[start:end] + self._tail for start, end in pairwise(ends)]

    def _surroundings(self) -> tuple[list[int], list[int]]:
        """Return the tokens that the model expects before and after a text."""
        bare, whole = self._tokens_of("a"), self._tokens_of("a", surrounded=True)
        start = next((i for i in range(len(whole)) if bare and whole[i : i + len(bare)] == bare), None)
        if start is None:
            raise self._broken("has no tokens for a letter")
        return whole[:start], whole[start + len(bare) :]

    def _broken(self, what: str) -> FbragError:
        return FbragError("model_corrupt", f"{self.name} {what}", "check the file (fbrag models verify), or use another model")


def _batches(windows: Sequence[tuple[int, list[int]]], size: int) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield runs of windows with `size` tokens at most."""
    batch: list[tuple[int, list[int]]] = []
    n_tokens = 0
    for window in windows:
        if batch and (n_tokens + len(window[1]) > size or len(batch) == _SEQUENCES):
            yield batch
            batch, n_tokens = [], 0
        batch.append(window)
        n_tokens += len(window[1])
    if batch:
        yield batch


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
