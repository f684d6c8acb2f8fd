"""A `Retriever` gives every chunk a score for a text. Knows nothing of models, prompts or terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.corpus import Passage


class Retriever(Protocol):
    """Scores of all chunks of a corpus for a text: S(C_i; text) of the paper.

    key: identifies the embedding model's files, or BM25's constants, so that parts trained on its scores refuse another
    retriever. A change of how terms are made does not change it.
    """

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str: ...

    def scores(self, text: str) -> NDArray[np.float32]:
        """Return float32 `(n_chunks,)`, aligned with `Corpus.chunks`. Higher is better."""
        ...

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(excerpts))`: S(excerpt; text), on the scale of `scores`, though no index holds the
        excerpts. Each excerpt is read once for all texts."""
        ...

    def bounds(self, text: str) -> tuple[float, float]:
        """Return the range of scores for `text`, by which they compare between texts; its end is 0 if no chunk can have a
        score."""
        ...

    def similarities(self, chunks: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(len(chunks), len(chunks))`: the cosine of each two of these chunks; 0 with a chunk without terms."""
        ...
