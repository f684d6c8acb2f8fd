"""Chunks ranked by scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best(scores: NDArray[np.float32], n: int) -> tuple[int, ...]:
    """Positions of the `n` highest scores, best first; of equal ones the earlier chunk."""
    return tuple(int(position) for position in np.argsort(-scores, kind="stable")[:n])
