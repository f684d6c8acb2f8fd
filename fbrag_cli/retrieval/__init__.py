"""A `Retriever` gives every chunk a score for a text. Knows nothing of models, prompts or terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.corpus import Excerpt


class Retriever(Protocol):
    """Scores of all chunks of a corpus for a text: S(C_i; text) of the paper."""

    @property
    def name(self) -> str: ...

    def scores(self, text: str) -> NDArray[np.float32]:
        """Return float32 `(n_chunks,)`, aligned with `Corpus.chunks`. Higher is better; scores compare for one text only."""
        ...

    def excerpt_scores(self, text: str, excerpts: Sequence[Excerpt]) -> NDArray[np.float32]:
        """Return float32 `(len(excerpts),)`: S(excerpt; text), on the scale of `scores`, though no index holds the excerpts."""
        ...
