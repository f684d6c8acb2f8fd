"""The memory that llama.cpp takes for a context: keys and values, recurrent states, and buffers for what it computes.

Which layers have which of them depends on the architecture, and llama.cpp alone knows all of those. So it is asked: over a model
without weights it makes the context in name only, and writes the sizes to its log.
"""

from __future__ import annotations

import re
from typing import Any

from fbrag_cli.generation.llama.library import llama_cpp
from fbrag_cli.generation.llama.machine import metadata
from fbrag_cli.generation.llama.native_log import native_log
from fbrag_cli.generation.llama.weights import Weights

_SIZE = re.compile(r"(?:(?:compute|output) buffer size|(?<!buffer) size) = +([\d.]+) MiB")
_STATE_BYTES = 2048  # of a sequence, for each layer and number of its width: two times those of the largest states of today
_WIDTHS_OF_BUFFERS = 32  # buffers of a token beside the scores, as a multiple of the model's width


def most_bytes(weights: Weights, params: Any) -> int:
    """Return a number of bytes that no context with `params` exceeds, in no time: several times too many for most models."""
    model = weights.model
    n_heads, width = max(llama_cpp.llama_model_n_head(model), 1), llama_cpp.llama_model_n_embd(model)
    read = metadata(model, f"{metadata(model, 'general.architecture')}.attention.key_length")
    heads_width = max(width, n_heads * int(read) if read.isdecimal() else 0)
    n_layers, n_vocab = llama_cpp.llama_model_n_layer(model), llama_cpp.llama_vocab_n_tokens(weights.vocab)
    of_layers = n_layers * (params.n_ctx * heads_width * 2 * 2 + params.n_seq_max * width * _STATE_BYTES)
    of_buffers = params.n_ubatch * (params.n_ctx * n_heads * 2 + width * _WIDTHS_OF_BUFFERS) + 2 * params.n_seq_max * n_vocab
    return int(of_layers + 4 * of_buffers)


def context_bytes(weights: Weights, params: Any) -> int:
    """Return how many bytes a context with `params` takes, 0 where llama.cpp does not say.

    States are not made in name only: their memory is extrapolated from that of one and two sequences.
    """
    n_sequences = int(params.n_seq_max)
    sizes: list[int] = []
    for n in range(1, min(n_sequences, 2) + 1):
        params.n_seq_max = params.n_outputs_max = n
        sizes.append(_in_name_only(weights, params))
    params.n_seq_max = params.n_outputs_max = n_sequences
    return sizes[0] + (n_sequences - 1) * (sizes[-1] - sizes[0])


def _in_name_only(weights: Weights, params: Any) -> int:
    if not weights.without_weights:
        return 0
    params.kv_unified = True  # as in `Weights.context`
    with weights.cancellation.native(), native_log.collected() as lines:
        context = llama_cpp.llama_init_from_model(weights.without_weights, params)
        if context:
            llama_cpp.llama_free(context)
    return bytes_in("".join(lines))


def bytes_in(log: str) -> int:
    """Return the sum of the sizes of a context in llama.cpp's log."""
    return round(sum(float(size) for size in _SIZE.findall(log)) * 2**20)
