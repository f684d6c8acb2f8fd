"""A GGUF model that gives one vector for a text, through llama.cpp: several texts a batch, each its own sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.generation.llama.machine import Placement
from fbrag_cli.generation.llama.native_log import native_log
from fbrag_cli.generation.llama.weights import Weights

_BATCH = 512  # tokens a llama_decode; more cost attention between texts that do not see each other
_WINDOW = 2048  # tokens; a model may have a longer one, but a chunk seldom has more
_SHORTEST_WINDOW = 64  # tokens; the longest instruction before a text has some 20
_SEQUENCES = 64


class Encoder:
    """pooling: llama.cpp's, how the vectors of tokens become one. The other parameters, and the errors raised, are those of
    `Weights`; also FbragError `model_corrupt` for a window that is too short.

    name: for messages. window: tokens of a text with what surrounds it. head, tail: the tokens that the model expects before and
    after a text. pooling: as llama.cpp chose it.
    """

    def __init__(
        self,
        path: Path,
        name: str | None,
        *,
        placement: Placement,
        threads: int | None,
        cancellation: Cancellation | None,
        verbose: bool,
    ) -> None:
        self.name = name or path.stem
        self._context: Any = None
        self.weights = Weights(path, placement=placement, threads=threads, cancellation=cancellation, verbose=verbose)
        self.tokens_of = self.weights.tokens_of
        self.window = min(llama_cpp.llama_model_n_ctx_train(self.weights.model), _WINDOW)
        self._size = max(self.window, _BATCH)
        try:
            self.pool(llama_cpp.LLAMA_POOLING_TYPE_UNSPECIFIED)
            self.head, self.tail = self._surroundings()
            if self.window < _SHORTEST_WINDOW:
                raise self.broken(f"reads {self.window} tokens at once")
        except BaseException:
            self.close()
            raise

    def pool(self, pooling: int) -> None:
        """Make the context anew, so that it pools by `pooling`. Raises FbragError `out_of_memory`."""
        self._free_context()
        params = llama_cpp.llama_context_default_params()
        params.embeddings = True
        params.pooling_type = pooling
        params.n_ctx = params.n_batch = params.n_ubatch = params.n_outputs_max = self._size
        params.n_seq_max = _SEQUENCES
        self._context = self.weights.context(params)
        if not self._context:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp made no context of {self._size} tokens for {self.name}: {native_log.last_error()}",
                "close other programs, or choose a smaller model",
            )
        self._batch = llama_cpp.llama_batch_init(self._size, 0, 1)
        self.pooling = int(llama_cpp.llama_pooling_type(self._context))
        classifies = self.pooling == llama_cpp.LLAMA_POOLING_TYPE_RANK
        n_of = llama_cpp.llama_model_n_cls_out if classifies else llama_cpp.llama_model_n_embd_out
        self.width = int(n_of(self.weights.model))

    def vectors(self, windows: Sequence[Sequence[int]]) -> Iterator[NDArray[np.float32]]:
        """Yield float32 (width,) for each window of tokens, in order. It is valid until the next one.

        Raises FbragError: `out_of_memory`; `model_corrupt` where the model computes no numbers; the error of a cancellation.
        """
        for batch in self._batches(windows):
            yield from self._decode(batch)

    def broken(self, what: str) -> FbragError:
        """Return the error for a model that cannot be used."""
        return FbragError("model_corrupt", f"{self.name} {what}", "check the file (fbrag models verify), or use another model")

    def close(self) -> None:
        """Free the context and the model."""
        self._free_context()
        self.weights.close()

    def _batches(self, windows: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
        """Yield runs of windows that fit a batch."""
        batch: list[Sequence[int]] = []
        n_tokens = 0
        for window in windows:
            if batch and (n_tokens + len(window) > self._size or len(batch) == _SEQUENCES):
                yield batch
                batch, n_tokens = [], 0
            batch.append(window)
            n_tokens += len(window)
        if batch:
            yield batch

    def _decode(self, windows: Sequence[Sequence[int]]) -> Iterator[NDArray[np.float32]]:
        """Yield the vector of each window, after decoding all of them in one batch."""
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
        status = self.weights.decode(self._context, batch)
        if status != 0:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp stopped at a batch of {i} tokens (status {status}): {native_log.last_error()}",
                "close other programs, or choose a smaller model",
            )
        for sequence in range(len(windows)):
            pointer = llama_cpp.llama_get_embeddings_seq(self._context, sequence)
            vector = np.ctypeslib.as_array(pointer, (self.width,))
            if not np.isfinite(vector).all():
                raise self.broken("computes what are no numbers (NaN)")
            yield vector

    def _surroundings(self) -> tuple[list[int], list[int]]:
        """Return the tokens that the model expects before and after a text."""
        bare, whole = self.tokens_of("a"), self.tokens_of("a", surrounded=True)
        start = next((i for i in range(len(whole)) if bare and whole[i : i + len(bare)] == bare), None)
        if start is None:
            raise self.broken("has no tokens for a letter")
        return whole[:start], whole[start + len(bare) :]

    def _free_context(self) -> None:
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None


def normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
