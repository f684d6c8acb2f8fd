"""A `Retriever` gives every chunk a score for a text. Knows nothing of models, prompts or terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Retriever(Protocol):
    """S(C_i; text) of the paper, for all chunks of a corpus at once."""

    @property
    def name(self) -> str: ...

    def scores(self, text: str) -> NDArray[np.float32]:
        """float32 `(n_chunks,)`, aligned with `Corpus.chunks`; higher is better, comparable for one text only."""
        ...
