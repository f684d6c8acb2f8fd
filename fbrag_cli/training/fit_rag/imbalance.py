"""The weight w between matched and mismatched pairs, learnt by hypergradient descent (FIT-RAG, section 4.2.2).

Training loss: L_t = w L_mat + (1 - w) L_mis, each a sum over its kind divided by the number of all pairs. A step of gradient
descent gives θ_k = θ - η (w g_mat + (1 - w) g_mis), so that ∂θ_k/∂w = -η (g_mat - g_mis). The paper's equations 9 and 10 and its
algorithm 2 lack that minus: w then runs away from the lowest validation loss (measured, FIT-RAG.md 2.2).

Ours: a pair whose LLM_Prefer is not known is of neither kind. Its loss, that of Has_Answer alone, is trained on with the weight
0.5, which all pairs have before w moves: L_t = w L_mat + (1 - w) L_mis + 0.5 L_one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[Any]

START = 0.5
LOWEST, HIGHEST = 0.02, 0.98


def slope(u_mat: Vector, u_mis: Vector, g_mat: Vector, g_mis: Vector, rate: float) -> float:
    """Return d, the derivative by w of the balanced validation loss (L_v^mat + L_v^mis) / 2 after a step of gradient descent.

    u_mat, u_mis: gradients of both validation losses at θ_k. g_mat, g_mis: gradients of both training losses at θ_(k-1). rate: η.
    """
    return -rate * float((u_mat + u_mis) @ (g_mat - g_mis)) / 2


def direction(u_mat: Vector, u_mis: Vector, g_mat: Vector, g_mis: Vector) -> float:
    """Return `slope` with vectors of length 1, -1..1: the mean of -cos(u_mat, g_mat - g_mis) and -cos(u_mis, g_mat - g_mis).

    So w moves alike whatever the learning rate and the size of the gradients, and with an optimiser that scales them (AdamW).
    """
    length = float(np.linalg.norm(g_mat - g_mis))
    return slope(_unit(u_mat), _unit(u_mis), g_mat, g_mis, 1 / length if length else 0)


def moved(w: float, d: float, alpha: float) -> float:
    """Return w after one step of size `alpha` against d, kept off both ends."""
    return min(max(w - alpha * d, LOWEST), HIGHEST)


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
