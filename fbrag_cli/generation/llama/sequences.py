"""One llama.cpp context: token sequences that share one memory of keys and values (KV cells), extended batch by batch.

Sequence 0 stays from call to call, so that a prompt is read only from where it differs from the last one. The other sequences
share its cells.
"""

from __future__ import annotations

import ctypes
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
    """The sequences of one model, in a context that is made when it is first needed and enlarged when it is too small.

    weights: must outlive the sequences. name: the model's, for errors. limit: tokens that the model can take.
    tokens: those of sequence 0.
    """

    def __init__(self, weights: Weights, name: str, limit: int) -> None:
        self._weights, self._name, self._limit = weights, name, limit
        self._context: Any = None
        self._memory: Any = None
        self._n_cells = self._n_rows = 0
        self._n_vocab = llama_cpp.llama_vocab_n_tokens(weights.vocab)
        self.tokens: list[int] = []

    def prepare(self, tokens: Sequence[int], n_rows: int, max_tokens: int, room: int = 0) -> int:
        """Prepare for reading a prompt: cut sequence 0 to what it shares with `tokens` (all but the last of them, which has to be
        read for its logits), and make the context large enough for the prompt, for `n_rows` samples of `max_tokens` and for
        `room` tokens in all. Return how many tokens of the prompt are there.

        Raises FbragError `prompt_too_long`, with both numbers, before anything is changed; `out_of_memory`.
        """
        need = len(tokens) + n_rows * max_tokens
        if need > self._limit:
            raise FbragError(
                "prompt_too_long",
                f"the prompt of {len(tokens)} tokens and {n_rows} x {max_tokens} for the reply need {need}, "
                f"and {self._name} can take {self._limit}",
                "use fewer chunks (--recall, --select), fewer samples, or a model with a longer context",
            )
        self.cut(_common_prefix(self.tokens, tokens[:-1]))
        largest = max(self._limit, 256)
        room = min(room, largest)
        if self._context is None or max(need, room) > self._n_cells or n_rows > self._n_rows:
            n_shared, state = len(self.tokens), self._state()
            n_cells = min(_rounded_up(max(need + _SPARE, room)), largest)
            self._make(max(n_cells, self._n_cells), max(n_rows, self._n_rows))
            if state and llama_cpp.llama_state_seq_set_data(self._context, state, len(state), 0):
                self.tokens = list(tokens[:n_shared])
        return len(self.tokens)

    def append(self, tokens: Sequence[int], on_batch: Callable[[int], None]) -> None:
        """Append tokens to sequence 0 and compute the logits of the last one, as row -1. on_batch: receives how many are done."""
        for start in range(0, len(tokens), _BATCH):
            piece, position = tokens[start : start + _BATCH], len(self.tokens)
            for i, token in enumerate(piece):
                self._put(i, token, position + i, 0, want_logits=start + i == len(tokens) - 1)
            self._decode(len(piece))
            self.tokens += piece
            on_batch(start + len(piece))

    def step(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Append one token to each of several sequences, in one batch. rows: (token, position, sequence). Row i gets logits i."""
        for i, (token, position, sequence) in enumerate(rows):
            self._put(i, token, position, sequence, want_logits=True)
        self._decode(len(rows))

    def logits(self, row: int) -> NDArray[np.float32]:
        """Return the logits of a row of the last batch: float32 `(n_vocab,)`, valid until the next batch."""
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self._context, row), (self._n_vocab,))

    def sample(self, sampler: Any, row: int) -> int:
        """Draw a token from the logits of a row of the last batch."""
        return int(llama_cpp.llama_sampler_sample(sampler, self._context, row))

    def copy(self, target: int) -> None:
        """Make `target` a copy of sequence 0. The two share their cells."""
        llama_cpp.llama_memory_seq_cp(self._memory, 0, target, -1, -1)

    def cut(self, n_tokens: int) -> None:
        """Reduce sequence 0 to its first `n_tokens` tokens, or to none where the model cannot go back, and clear the others."""
        if self._context is None:
            return
        for sequence in range(1, self._n_rows):
            llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        if llama_cpp.llama_memory_seq_rm(self._memory, 0, n_tokens, -1):
            del self.tokens[n_tokens:]
        else:  # a model with a recurrent state cannot go back
            llama_cpp.llama_memory_clear(self._memory, True)
            self.tokens = []

    def close(self) -> None:
        """Free the context. The next `prepare` makes a new one."""
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None
        self.tokens = []
        self._n_cells = self._n_rows = 0

    # -- the context -----------------------------------------------------------------------------------------------------

    def _state(self) -> Any:
        """Return a copy of the cells of sequence 0, None of an empty one."""
        if not self.tokens:
            return None
        size = llama_cpp.llama_state_seq_get_size(self._context, 0)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data(self._context, state, size, 0)
        return state

    def _make(self, n_cells: int, n_rows: int) -> None:
        """Replace the context by an empty one of `n_cells` cells for up to `n_rows` sequences."""
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
        """Return the memory that the keys and values of `n_cells` tokens take."""
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


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two sequences share from their beginning on."""
    for i, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return i
    return min(len(left), len(right))


def _rounded_up(n_cells: int) -> int:
    """Return the next multiple of 256, in which llama.cpp makes contexts."""
    return -(-n_cells // 256) * 256
