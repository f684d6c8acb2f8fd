"""A `Retriever` gives every chunk a score for a text. Knows nothing of models, prompts or terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.corpus import Corpus, Passage


class Retriever(Protocol):
    """Scores of all chunks of a corpus for a text: S(C_i; text) of the paper."""

    @property
    def name(self) -> str: ...

    def scores(self, text: str) -> NDArray[np.float32]:
        """Return float32 `(n_chunks,)`, aligned with `Corpus.chunks`. Higher is better; scores compare for one text only."""
        ...

    def excerpt_scores(self, texts: Sequence[str], excerpts: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(excerpts))`: S(excerpt; text), on the scale of `scores`, though no index holds the
        excerpts. Each excerpt is read once for all texts."""
        ...


@runtime_checkable
class Windowed(Retriever, Protocol):
    """A `Retriever` that also scores windows which run over the ends of chunks."""

    def window_scores(self, text: str, corpus: Corpus) -> NDArray[np.float32]:
        """Return float32 `(n_chunks,)`: the best window that touches each chunk, on the scale of `scores`."""
        ...


@runtime_checkable
class Counting(Retriever, Protocol):
    """A `Retriever` that counts the words of the chunks."""

    def lacks(self, text: str) -> tuple[str, ...]:
        """Return the words of `text` that stand in no chunk."""
        ...


@runtime_checkable
class Comparing(Retriever, Protocol):
    """A `Retriever` whose scores compare between texts, and which also compares chunks with each other.

    key: identifies the embedding model's files, or BM25's constants, so that parts trained on its scores refuse another
    retriever. A change of how terms are made does not change it.
    """

    @property
    def key(self) -> str: ...

    def bounds(self, text: str) -> tuple[float, float]:
        """Return the range of scores for `text` that means something; its end is 0 where no chunk can have a score."""
        ...

    def similarities(self, chunks: Sequence[Passage]) -> NDArray[np.float32]:
        """Return float32 `(len(chunks), len(chunks))`: the cosine of each two of these chunks; 0 with a chunk without terms."""
        ...
