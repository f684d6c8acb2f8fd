"""Input embeddings in a prompt: which models take them, and the check that a model reads a row as it reads a token."""

from __future__ import annotations

import numpy as np

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import InputEmbeddings
from fbrag_cli.generation.llama.context import BatchToken, Context
from fbrag_cli.generation.llama.machine import gpus, metadata
from fbrag_cli.generation.llama.weights import Weights

#: In llama.cpp these read a row as it stands. Gemma 3 scales a token's row and not one of ours; Gemma 3n ends the process.
_ARCHITECTURES = ("llama", "phi3", "qwen2", "qwen3")
_N_PROBED = 32
_TOLERANCE_ON_GPU = 1e-2  # in a logit


def takes_input_embeddings(weights: Weights) -> bool:
    """Return whether a model is of an architecture that takes input embeddings."""
    return _architecture(weights) in _ARCHITECTURES


def check_input_embeddings(rows: InputEmbeddings, weights: Weights, name: str) -> None:
    """Raise FbragError `usage` where a model does not take input embeddings, or takes rows of another width.

    name: name of the model, for the error.
    """
    if not takes_input_embeddings(weights):
        what = f"{name} is of the architecture {_architecture(weights)!r}, which takes no input embeddings in a prompt"
        raise FbragError("usage", what, f"use a model of {', '.join(_ARCHITECTURES)}")
    if rows.width != weights.token_table.width:
        what = f"{name} takes input embeddings of {weights.token_table.width} numbers, and these have {rows.width}"
        raise FbragError("usage", what, "use the model that they were made for")


def check_reading(weights: Weights, name: str) -> None:
    """Check that a model reads the embedding of a token as it reads the token. It takes as long as reading 64 tokens.

    The logits must be equal to the bit, on a GPU up to 0.01. Raises FbragError `model_corrupt`, with the name of the model, where
    they differ; `out_of_memory`; the error of a cancellation.
    """
    difference = _difference(weights)
    if not difference <= (_TOLERANCE_ON_GPU if gpus() else 0.0):
        what = f"{name} reads the embedding of a token otherwise than the token: logits differ by {difference:.2g}"
        raise FbragError("model_corrupt", what, "use another model (fbrag models list --all)")


def _difference(weights: Weights) -> float:
    """Read 32 tokens, then their embeddings as rows. Return the largest difference of a logit."""
    table = weights.token_table
    tokens = np.linspace(0, table.n_tokens - 1, _N_PROBED).astype(np.int64).tolist()
    numbers = [-1 - i for i in range(_N_PROBED)]
    context = Context(weights, 256, 1)
    try:
        logits = []
        for ids in (tokens, numbers):
            batch = [BatchToken(each, i, 0, i == _N_PROBED - 1) for i, each in enumerate(ids)]
            context.decode(batch, dict(zip(numbers, table.rows(tokens), strict=True)))
            logits.append(context.logits(_N_PROBED - 1).copy())
            context.clear(0)
    finally:
        context.close()
    return float(np.abs(logits[0] - logits[1]).max())


def _architecture(weights: Weights) -> str:
    return metadata(weights.model, "general.architecture")
