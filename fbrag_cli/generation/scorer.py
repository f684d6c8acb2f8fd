"""`Scorer`: the interface of models that score texts for a question. `LlamaScorer` has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Scorer(Protocol):
    """A cross-encoder: it reads a question together with a text, and gives the text a logit for each label."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str:
        """Return hexadecimal digits that change whenever a score may change; part of the key of cached scores."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the columns of `scores`, as the model's file has them."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(labels))`, row i for texts[i].

        A logit has any sign and no unit; its sigmoid is the probability of the label. Columns have different spreads, so
        that sums are taken of probabilities. No rows for no texts. A text of any length is read whole.

        Raises FbragError `out_of_memory`, `model_corrupt`; the error of a requested cancellation.
        """
        ...

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1: similar questions have similar rows. Raises as `scores`."""
        ...
