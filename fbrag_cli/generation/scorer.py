"""`Scorer`: a model that reads a question with a text and gives numbers, as methods see it. `LlamaScorer` is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Scorer(Protocol):
    """A cross-encoder with two labels: for each of them a logit, by a question and a text together."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str:
        """Hexadecimal digits that change whenever a score may change; part of the key of cached scores."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), 2)`, row i for texts[i]: the logits of both labels.

        A logit has any sign and no unit; its sigmoid is the probability of the label. The two columns have different spreads, so
        that sums are taken of probabilities. `(0, 2)` for no texts. A text of any length is read whole.

        Raises FbragError `out_of_memory`, `model_corrupt`; the error of a requested cancellation.
        """
        ...

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1: where a question lies among others. Raises as `scores`."""
        ...
