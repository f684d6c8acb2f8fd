"""One context of llama.cpp: sequences of tokens in one memory of keys and values, appended to batch by batch.

Sequence 0 stays from call to call, so that a prompt is read from where it parts from the last one. The others share its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.machine import free_gpu_memory, free_memory
from fbrag_cli.generation.llama.native_log import native_log
from fbrag_cli.generation.llama.weights import Weights

_BATCH = 512  # tokens a llama_decode of the prompt
_SPARE = 256  # cells beyond what a call needs, so that a follow-up on the same prompt finds room
#: On a CPU a step of five rows takes two thirds of its time without flash attention, and a prompt of up to about so many cells
#: takes about as long (8,000 tokens, 1.5B: 122 s for 133; 5,561, 0.5B: 40 s for 37); beyond, the matrix of the scores outgrows
#: the processor's caches (12,805 tokens, 0.5B: 159 s for 137).
_FLASH_ATTENTION_FROM = 9216


class Sequences:
    """weights: outlive the sequences. name: of the model. limit: tokens that it can take. held: the tokens of sequence 0."""

    def __init__(self, weights: Weights, name: str, limit: int) -> None:
        self._weights, self._name, self._limit = weights, name, limit
        self._context: Any = None
        self._memory: Any = None
        self._n_cells = self._n_rows = 0
        self._n_vocab = llama_cpp.llama_vocab_n_tokens(weights.vocab)
        self.held: list[int] = []

    def reserve(self, n_tokens: int, n_rows: int, max_tokens: int) -> None:
        """Room for a prompt and its samples.

        Raises FbragError `prompt_too_long`, with both numbers; `out_of_memory`.
        """
        need = n_tokens + n_rows * max_tokens
        if need > self._limit:
            raise FbragError(
                "prompt_too_long",
                f"the prompt of {n_tokens} tokens and {n_rows} x {max_tokens} for the reply need {need}, "
                f"and {self._name} can take {self._limit}",
                "use fewer chunks (--recall, --select), fewer samples, or a model with a longer context",
            )
        if self._context is None or need > self._n_cells or n_rows > self._n_rows:
            self._make(min(-(-(need + _SPARE) // 256) * 256, max(self._limit, 256)), max(n_rows, self._n_rows))

    def append(
        self,
        tokens: Sequence[int],
        position: int,
        sequence: int = 0,
        *,
        want_logits: bool = False,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        """Append to a sequence. want_logits: of the last token, as row -1. on_batch: hears how many are done."""
        for start in range(0, len(tokens), _BATCH):
            piece = tokens[start : start + _BATCH]
            for i, token in enumerate(piece):
                is_last = start + i == len(tokens) - 1
                self._put(i, token, position + start + i, sequence, want_logits=want_logits and is_last)
            self._decode(len(piece))
            if sequence == 0 and position + start == len(self.held):
                self.held += piece
            if on_batch:
                on_batch(start + len(piece))

    def step(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Append one token to each of several sequences, in one batch. rows: token, position, sequence. Row i has logits i."""
        for i, (token, position, sequence) in enumerate(rows):
            self._put(i, token, position, sequence, want_logits=True)
        self._decode(len(rows))

    def logits(self, row: int) -> NDArray[np.float32]:
        """float32 `(n_vocab,)`, until the next batch."""
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self._context, row), (self._n_vocab,))

    def sample(self, sampler: Any, row: int) -> int:
        return int(llama_cpp.llama_sampler_sample(sampler, self._context, row))

    def copy(self, source: int, target: int) -> None:
        """The cells are shared, not copied."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def clear(self, sequence: int, until: int = -1) -> None:
        """Take a sequence away, or its first `until` tokens."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, 0, until)

    def forget(self, position: int) -> None:
        """Keep the first `position` tokens of sequence 0, and no other sequence."""
        if self._context is None:
            return
        for sequence in range(1, self._n_rows):
            self.clear(sequence)
        if llama_cpp.llama_memory_seq_rm(self._memory, 0, position, -1):
            del self.held[position:]
        else:  # a model with a recurrent state cannot go back
            llama_cpp.llama_memory_clear(self._memory, True)
            self.held = []

    def close(self) -> None:
        """Free the context, if there is one; the next `reserve` makes another."""
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None
        self.held = []
        self._n_cells = 0

    # -- the context -----------------------------------------------------------------------------------------------------

    def _make(self, n_cells: int, n_rows: int) -> None:
        """A context of `n_cells` for up to `n_rows` sequences; the old one, and what it held, is gone."""
        self.close()
        on_gpu = self._weights.layers_on_gpu > 0
        need, free = self._kv_bytes(n_cells), free_memory() + (free_gpu_memory() if on_gpu else 0)
        if need > free:
            raise FbragError(
                "out_of_memory",
                f"a prompt of {n_cells} tokens needs {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free",
                "use fewer chunks (--recall, --select) or a smaller model",
            )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_cells
        params.n_batch = params.n_ubatch = _BATCH
        params.n_seq_max = params.n_outputs_max = n_rows
        if on_gpu:
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO  # flash attention where it has it
        elif n_cells > _FLASH_ATTENTION_FROM:
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        else:
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context = self._weights.context(params)
        if not self._context:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp made no context of {n_cells} tokens: {native_log.last_error()}",
                "use fewer chunks (--recall, --select) or a smaller model",
            )
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._n_cells, self._n_rows = n_cells, n_rows
        self._batch = llama_cpp.llama_batch_init(_BATCH, 0, 1)

    def _kv_bytes(self, n_cells: int) -> int:
        model = self._weights.model
        heads = llama_cpp.llama_model_n_head(model)
        width = llama_cpp.llama_model_n_embd(model) // max(heads, 1) * llama_cpp.llama_model_n_head_kv(model)
        return int(2 * 2 * n_cells * width * llama_cpp.llama_model_n_layer(model))  # keys and values, two bytes each

    def _put(self, i: int, token: int, position: int, sequence: int, *, want_logits: bool) -> None:
        batch = self._batch
        batch.token[i] = token
        batch.pos[i] = position
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = sequence
        batch.logits[i] = want_logits

    def _decode(self, n_tokens: int) -> None:
        self._batch.n_tokens = n_tokens
        try:
            status = self._weights.decode(self._context, self._batch)
        except BaseException:
            self.close()  # the memory holds part of a batch: nothing in it can be trusted
            raise
        if status != 0:
            self.close()
            raise FbragError(
                "out_of_memory",
                f"llama.cpp stopped at a batch of {n_tokens} tokens (status {status}): {native_log.last_error()}",
                "use fewer chunks (--recall, --select) or a smaller model",
            )
