"""The document scorer, as the methods see it. `LlamaScorer` is one; `training` fits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class DocumentScorer(Protocol):
    """FIT-RAG's bi-label document scorer: whether a text holds the answer, and whether the language model answers from it."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str:
        """Hexadecimal digits that change whenever a score may change; part of the key of cached scores."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), 2)`, row i for texts[i]: the logits of Has_Answer (column 0) and LLM_Prefer (column 1).

        A logit has any sign and no unit; its sigmoid is the probability of the label. The two columns have different spreads, so
        that sums are taken of probabilities (FIT-RAG.md, 2.4). `(0, 2)` for no texts. A text of any length is read whole.

        Raises FbragError `out_of_memory`, `model_corrupt`; the error of a requested cancellation.
        """
        ...

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1: where a question lies among others. Raises as `scores`."""
        ...
