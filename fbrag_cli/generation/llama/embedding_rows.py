"""Embedding rows in a prompt: which models take them, and the check that a model reads a row as it reads a token."""

from __future__ import annotations

from typing import Any

import numpy as np

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import EmbeddingRows
from fbrag_cli.generation.llama.context import BatchToken, Context
from fbrag_cli.generation.llama.machine import gpus, metadata, system_info, version
from fbrag_cli.generation.llama.weights import Weights
from fbrag_cli.storage.cache import NOWHERE, entry_key

#: The kind of cache entry.
KIND = "checks"

#: In llama.cpp these read a row as it stands. Gemma 3 scales a token's row and not one of ours; Gemma 3n ends the process.
_ARCHITECTURES = ("llama", "phi3", "qwen2", "qwen3")
_N_PROBED = 32
_TOLERANCE_ON_GPU = 1e-2  # in a logit


def takes_rows(weights: Weights) -> bool:
    """Return whether a model is of an architecture that takes embedding rows."""
    return _architecture(weights) in _ARCHITECTURES


def check_taken(rows: EmbeddingRows, weights: Weights, name: str) -> None:
    """Raise FbragError `usage` where a model does not take embedding rows, or takes rows of another width.

    name: name of the model, for the error.
    """
    if not takes_rows(weights):
        what = f"{name} is of the architecture {_architecture(weights)!r}, which takes no embedding rows in a prompt"
        raise FbragError("usage", what, f"use a model of {', '.join(_ARCHITECTURES)}")
    if rows.width != weights.token_table.width:
        what = f"{name} takes embedding rows of {weights.token_table.width} numbers, and these have {rows.width}"
        raise FbragError("usage", what, "use the model that they were made for")


class RowsCheck:
    """The check that a model reads the embedding of a token as it reads the token. It takes as long as reading 64 tokens.

    name, sha256: name and digest of the model; without a digest each process checks anew. cache: keeps the outcomes.
    """

    def __init__(self, weights: Weights, name: str, sha256: str | None) -> None:
        self._weights, self._name, self._sha256 = weights, name, sha256
        self._difference: float | None = None
        self.cache = NOWHERE

    def run(self) -> None:
        """Compare the logits, which must be equal to the bit, on a GPU up to 0.01. Does nothing once it has been done.

        Raises FbragError `model_corrupt` where they differ; `out_of_memory`; the error of a cancellation.
        """
        if self._difference is None:
            self._difference = self._cached()
        if not self._difference <= (_TOLERANCE_ON_GPU if gpus() else 0.0):
            what = (
                f"{self._name} reads the embedding of a token otherwise than the token: logits differ by {self._difference:.2g}"
            )
            raise FbragError("model_corrupt", what, "use another model (fbrag models list --all)")

    def _cached(self) -> float:
        """Return the difference from the cache, or compute and cache it."""
        if self._sha256 is None:
            return _difference(self._weights)
        key = entry_key(self._sha256, version(), system_info(), self._weights.layers_on_gpu)
        found = self.cache.read_json(KIND, key, _finite)
        if found is None:
            found = _difference(self._weights)
            self.cache.write_json(KIND, key, {"difference": found})
        return found


def _finite(entry: dict[str, Any]) -> float:
    difference = float(entry["difference"])
    if not np.isfinite(difference):
        raise ValueError("no difference")
    return difference


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
