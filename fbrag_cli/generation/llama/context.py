"""A llama.cpp context: token sequences that share one memory of keys and values (KV cells), extended batch by batch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.llama.machine import free_gpu_memory, llama_cpp, native_log
from fbrag_cli.generation.llama.weights import Weights
from fbrag_cli.limits import free_memory

#: Maximum number of tokens in a batch.
BATCH = 512
#: Number of cells up to which flash attention is off on a CPU. Without it a step of five samples takes two thirds of the time,
#: and a prompt of up to about this length takes about as long (8,000 tokens, 1.5B: 122 s instead of 133; 5,561, 0.5B: 40 s
#: instead of 37). Beyond, the matrix of scores outgrows the processor's caches (12,805 tokens, 0.5B: 159 s instead of 137).
_FLASH_ATTENTION_FROM = 9216
_KV_BYTES, _FLOAT_BYTES = 2, 4  # bytes per number
_NONE: Mapping[int, NDArray[np.float32]] = MappingProxyType({})


class BatchToken(NamedTuple):
    """A token of a batch, or the number of an input embedding (`InputEmbeddings.ids`). wanted: whether to compute its logits."""

    token: int
    position: int
    sequence: int
    wanted: bool = True


class Context:
    """A context of `n_cells` cells for up to `n_sequences` sequences, all empty.

    weights: the model, which must outlive the context. Raises FbragError `out_of_memory`.
    """

    def __init__(self, weights: Weights, n_cells: int, n_sequences: int) -> None:
        self.n_cells, self.n_sequences = n_cells, n_sequences
        self._weights = weights
        self._n_vocab = llama_cpp.llama_vocab_n_tokens(weights.vocab)
        params = _parameters(weights, n_cells, n_sequences)
        free = free_memory() + (free_gpu_memory() if weights.layers_on_gpu > 0 else 0)
        if (need := context_bytes(weights, params)) > free:
            raise _too_large(
                f"a context of {n_cells} tokens needs {need / 1e9:.1f} GB of memory; only {free / 1e9:.1f} GB is free"
            )
        self._context = weights.context(params)
        if not self._context:
            raise _too_large(f"llama.cpp could not make a context of {n_cells} tokens: {native_log.last_error()}")
        self._memory = llama_cpp.llama_get_memory(self._context)
        # 0 for none; also 0 next to a state, which then decides where a sequence can continue.
        self._window = 0 if has_states(weights) else llama_cpp.llama_model_n_swa(weights.model)
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self._exponentials = np.empty(self._n_vocab, np.float32)
        self._embedding_batch: Any = None  # made on first use

    def decode(self, tokens: Sequence[BatchToken], vectors: Mapping[int, NDArray[np.float32]] = _NONE) -> None:
        """Append tokens to their sequences, in one batch. Token i gets logits i, if they are wanted.

        vectors: the input embeddings by number. A batch of llama.cpp has tokens or embeddings, not both: if there is such a row,
        the embeddings of the tokens are looked up as well, with bit-identical logits (CPU). Raises FbragError `out_of_memory`,
        and the error of a cancellation of `weights`. The memory then has part of a batch: nothing in the context can be trusted,
        and it must be closed.
        """
        if vectors and any(each.token in vectors for each in tokens):
            batch = self._embeddings(tokens, vectors)
        else:
            batch = self._batch
            for i, token in enumerate(tokens):
                batch.token[i] = token.token
        for i, token in enumerate(tokens):
            batch.pos[i] = token.position
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, token.sequence
            batch.logits[i] = token.wanted
        batch.n_tokens = len(tokens)
        if status := self._weights.decode(self._context, batch):
            raise _too_large(f"llama.cpp stopped at a batch of {len(tokens)} tokens (status {status}): {native_log.last_error()}")

    def _embeddings(self, tokens: Sequence[BatchToken], vectors: Mapping[int, NDArray[np.float32]]) -> Any:
        """Return the batch of embeddings, filled with those of the tokens and the `vectors` between them."""
        width = self._weights.token_table.width
        if self._embedding_batch is None:
            self._embedding_batch = llama_cpp.llama_batch_init(BATCH, width, 1)
        rows = np.ctypeslib.as_array(self._embedding_batch.embd, (BATCH, width))
        own = [(i, each.token) for i, each in enumerate(tokens) if each.token not in vectors]
        rows[[i for i, _ in own]] = self._weights.token_table.rows([token for _, token in own])
        for i, each in enumerate(tokens):
            if each.token in vectors:
                rows[i] = vectors[each.token]
        return self._embedding_batch

    def logits(self, i: int) -> NDArray[np.float32]:
        """Return the logits of a token of the last batch: float32 `(n_vocab,)`, valid until the next batch."""
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self._context, i), (self._n_vocab,))

    def likeliest(self, i: int) -> tuple[int, float]:
        """Return the likeliest next token by the logits of a token of the last batch, and the logarithm of its probability."""
        logits = self.logits(i)
        token = int(logits.argmax())
        np.subtract(logits, logits[token], out=self._exponentials)
        total = np.exp(self._exponentials, out=self._exponentials).sum()
        return token, -float(np.log(total))

    def sample(self, sampler: Any, i: int) -> int:
        """Draw a token from the logits of a token of the last batch."""
        return int(llama_cpp.llama_sampler_sample(sampler, self._context, i))

    def share(self, source: int, target: int, n_tokens: int) -> None:
        """Make the empty sequence `target` begin with the first `n_tokens` tokens of `source`. They share cells."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, n_tokens)

    def reaches(self, sequence: int, n_tokens: int) -> bool:
        """Return whether a sequence can continue after its first `n_tokens` tokens, that is, has everything that the next token
        needs.

        A recurrent state is only that of the end. In a layer with a sliding window, llama.cpp reuses the cells before the window,
        which may leave none of a prompt whose samples were longer than the window.
        """
        first = llama_cpp.llama_memory_seq_pos_min(self._memory, sequence)
        if self._window:
            return bool(0 <= first <= max(0, n_tokens - self._window + 1))
        return bool(first <= 0 or n_tokens == llama_cpp.llama_memory_seq_pos_max(self._memory, sequence) + 1)

    def cut(self, sequence: int, n_tokens: int) -> bool:
        """Cut a sequence to its first `n_tokens` tokens. Return False if the model cannot go back."""
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, sequence, n_tokens, -1))

    def clear(self, sequence: int) -> None:
        """Make a sequence empty."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def state(self, sequence: int) -> Any:
        """Return a copy of a sequence's cells, for `restore`."""
        size = llama_cpp.llama_state_seq_get_size(self._context, sequence)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data(self._context, state, size, sequence)
        return state

    def restore(self, sequence: int, state: Any) -> bool:
        """Fill an empty sequence with the cells of another context of the same model. Return False if that fails."""
        return bool(llama_cpp.llama_state_seq_set_data(self._context, state, len(state), sequence))

    def close(self) -> None:
        """Free the context, which cannot be used afterwards."""
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            if self._embedding_batch is not None:
                llama_cpp.llama_batch_free(self._embedding_batch)
            llama_cpp.llama_free(self._context)
            self._context = None


def has_states(weights: Weights) -> bool:
    """Return whether a model has a recurrent state, with or without keys and values."""
    return bool(llama_cpp.llama_model_is_recurrent(weights.model) or llama_cpp.llama_model_is_hybrid(weights.model))


def fits_in_half(weights: Weights, n_cells: int, n_sequences: int) -> bool:
    """Return whether a context fits in half of the free memory of the devices with the model's layers."""
    all_on_gpu = weights.layers_on_gpu > llama_cpp.llama_model_n_layer(weights.model)
    half = (free_gpu_memory() if all_on_gpu else free_memory()) // 2
    return context_bytes(weights, _parameters(weights, n_cells, n_sequences)) <= half


def context_bytes(weights: Weights, params: Any) -> int:
    """Return the approximate bytes of a context with `params`: keys and values, recurrent states, and scores of a batch."""
    keys_and_values = params.n_ctx * weights.layers.kv_numbers * _KV_BYTES
    states = params.n_seq_max * weights.layers.state_numbers * _FLOAT_BYTES
    has_scores = params.flash_attn_type == llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    scores = BATCH * params.n_ctx * llama_cpp.llama_model_n_head(weights.model) * _FLOAT_BYTES if has_scores else 0
    return int(keys_and_values + states + scores)


def _parameters(weights: Weights, n_cells: int, n_sequences: int) -> Any:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = n_cells
    params.n_batch = params.n_ubatch = BATCH
    params.n_seq_max = params.n_outputs_max = n_sequences
    if weights.layers_on_gpu > 0:
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO  # flash attention if supported
    elif n_cells > _FLASH_ATTENTION_FROM:
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
    else:
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return params


def _too_large(what: str) -> FbragError:
    return FbragError("out_of_memory", what, "use fewer chunks (--select) or a smaller model")
