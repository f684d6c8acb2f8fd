"""Ranking of chunks by their scores. Of equal scores the lower position comes first, so that rankings repeat exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best(scores: NDArray[np.float32], n: int | None) -> tuple[int, ...]:
    """Return the positions of the `n` highest scores (None: all), best first. scores: (n_chunks,)."""
    return tuple(np.argsort(-scores, kind="stable")[:n].tolist())


def ranks(scores: NDArray[np.float32]) -> list[int]:
    """Return the rank of each position, from 1. scores: (n_chunks,)."""
    by_position = np.empty(len(scores), np.intp)
    by_position[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    ranked: list[int] = by_position.tolist()
    return ranked
