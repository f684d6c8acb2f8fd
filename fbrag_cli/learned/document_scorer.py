"""The bi-label document scorer of FIT-RAG (section 3.2), as methods see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class DocumentScorer(Protocol):
    """Two scores of a text for a question: does it hold the answer, and does it lead the language model to the answer?"""

    @property
    def name(self) -> str: ...

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), 2)`: the logits of Has_Answer and of LLM_Prefer."""
        ...

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1."""
        ...
