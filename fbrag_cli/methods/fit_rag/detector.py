"""The eligible augmentation detector of FIT-RAG (section 4.4): are the windows that were taken enough to answer from?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fbrag_cli.errors import FbragError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

#: Windows that the detector sees: the best ones, two labels each.
WINDOWS = 10


class Detector:
    """A fully connected network: the labels of the windows taken so far -> the probability that they are enough.

    layers: (weight (n_out, n_in), bias (n_out,)) each, with ReLU between them; the first takes 2 * WINDOWS numbers, the last
    gives one. threshold: the least probability that counts as enough.
    """

    def __init__(self, layers: Sequence[tuple[Array, Array]], threshold: float) -> None:
        self._layers, self.threshold = layers, threshold

    @classmethod
    def of(cls, tensors: Mapping[str, Array], threshold: float) -> Detector:
        """Return the network with the layers `detector.N.weight` and `detector.N.bias`, N from 0. Raises FbragError
        `model_corrupt` for other shapes."""
        layers: list[tuple[Array, Array]] = []
        width = 2 * WINDOWS
        while (weight := tensors.get(f"detector.{len(layers)}.weight")) is not None:
            bias = tensors.get(f"detector.{len(layers)}.bias")
            if bias is None or weight.ndim != 2 or weight.shape[1] != width or bias.shape != weight.shape[:1]:
                raise _broken(f"layer {len(layers)} has another shape")
            width = len(bias)
            layers.append((weight, bias))
        if not layers or width != 1:
            raise _broken("it does not end with one number")
        return cls(layers, threshold)

    def probability(self, labels: Array) -> float:
        """Return the probability that windows with these labels are enough. labels: (n_windows, 2), best first, 0 to 1.
        Raises FbragError `model_corrupt` where the numbers of the network are too large."""
        x = features(labels)
        with np.errstate(all="ignore"):
            for weight, bias in self._layers[:-1]:
                x = np.maximum(weight @ x + bias, 0)
            weight, bias = self._layers[-1]
            found = float(1 / (1 + np.exp(-(weight @ x + bias)[0])))
        if math.isnan(found):
            raise _broken("its numbers are too large")
        return found


def features(labels: Array) -> Array:
    """Return float32 (2 * WINDOWS,): both labels of each window, best first, and zeros where there is none."""
    x = np.zeros(2 * WINDOWS, np.float32)
    flat = labels[:WINDOWS].reshape(-1)
    x[: len(flat)] = flat
    return x


def _broken(what: str) -> FbragError:
    return FbragError("model_corrupt", f"the detector of FIT-RAG cannot be used: {what}", "train it again: fbrag train fit-rag")
