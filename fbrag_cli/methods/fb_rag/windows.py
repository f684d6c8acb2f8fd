"""Windows: parts of the best chunks that the large model reads in place of whole chunks.

Beyond the paper. Measured in tests/benchmarks/README.md, "Windows: what the large model reads".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fbrag_cli.corpus import Chunk, Corpus, Excerpt
from fbrag_cli.methods.knobs import knob
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.ranking import SELECT, ChunkMethod, Selection, distinct, whole_chunks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_BUDGET = "words for the large model, of the best windows"
_AROUND, _TIMES = 12, 4  # chunks that give their windows, at least; times as many words as are read


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMethod(ChunkMethod):
    """A method whose large model reads the selected chunks whole, or the best windows of the best chunks.

    reads: "chunks" as in the papers. budget, window_words: count for windows alone. select: counts for whole chunks alone.
    """

    reads: Literal["chunks", "windows"] = knob(
        "chunks",
        "what the large model reads: whole chunks as in the papers, or the best windows of a few sentences",
        varies="chunks",
        added=True,
    )
    select: int = knob(5, SELECT, on_gpu=10, minimum=1, metavar="N", implies=("reads", "chunks"), varies="5, on a GPU 10")
    budget: int = knob(600, _BUDGET, minimum=1, varies="600", metavar="N", implies=("reads", "windows"))
    window_words: int = knob(40, "words of a window, about", minimum=1, group="Advanced", metavar="N")

    def plan(self, n_chunks: int) -> list[str]:
        return ChunkMethod.plan(self, n_chunks) if self.reads == "chunks" else [f"up to {self.budget:,} words of windows to read"]

    def n_read(self, n_chunks: int) -> int:
        """Return how many chunks hold as many words as are read."""
        read = self.select if self.reads == "chunks" else -(-self.budget // self.chunk_words)
        return min(read, n_chunks)

    def scaled(self, times: int) -> Method | None:
        return ChunkMethod.scaled(self, times) if self.reads == "chunks" else replace(self, budget=self.budget * times)

    def described(self) -> dict[str, Any]:
        """Return the settings, without the one that counts for another `reads`."""
        settings = ChunkMethod.described(self)
        unread = ("budget", "window_words") if self.reads == "chunks" else ("select",)
        return {name: value for name, value in settings.items() if name not in unread}

    def selection(self, corpus: Corpus, scores: Array, score_windows: Callable[[Sequence[Excerpt]], Array]) -> Selection:
        """Return the best chunks, or the chunks of the best windows.

        A corpus within the budget is read whole. Of a larger one no chunk is read that scores nothing, unless all do.
        """
        if self.reads == "chunks" or corpus.n_words <= self.budget:
            n = self.select if self.reads == "chunks" else len(scores)
            selected = distinct(corpus, scores, n)
            if n < len(scores):
                selected = _scoring(selected, scores)
            return Selection(selected, whole_chunks(corpus, sorted(selected)), {})
        n_around = max(_AROUND, _TIMES * self.budget // corpus.chunk_words)
        copies = _scoring(distinct(corpus, scores, n_around), scores)
        chunks = [corpus.chunks[position] for position in copies]
        best = best_windows(chunks, score_windows, self.budget, self.window_words)
        context = in_reading_order(window for window, _ in best)
        part_scores = {
            (part.chunk.position, part.start): max(score for window, score in best if _holds(part, window)) for part in context
        }
        return Selection({window.chunk.position: copies[window.chunk.position] for window, _ in best}, context, part_scores)


def _scoring(found: dict[int, tuple[int, ...]], scores: Array) -> dict[int, tuple[int, ...]]:
    """Return the chunks that score above 0; all where none does."""
    return {position: copies for position, copies in found.items() if scores[position] > 0} or found


def windows_of(chunk: Chunk, n_words: int) -> list[Excerpt]:
    """Cut a chunk into windows of about `n_words` words, in order, each of whole sentences; a poem, a table, a list or code is
    not cut. A chunk of at most 1.5 times `n_words` is one window."""
    from fbrag_cli.text.sentences import unbroken_spans
    from fbrag_cli.text.words import word_spans

    text = chunk.text
    spans = [(start, end, sum(1 for _ in word_spans(text[start:end]))) for start, end in unbroken_spans(text)]
    total = sum(n for _, _, n in spans)
    n_windows = max(1, round(total / n_words))
    windows: dict[int, tuple[int, int]] = {}
    before = 0
    for start, end, n in spans:
        number = int((before + n / 2) * n_windows / total)  # by the middle of the span
        windows[number] = windows.get(number, (start, end))[0], end
        before += n
    return [Excerpt(chunk, chunk.start + start, chunk.start + end) for start, end in windows.values()]


def best_windows(
    chunks: Sequence[Chunk], scores: Callable[[Sequence[Excerpt]], NDArray[np.float32]], budget: int, n_words: int
) -> list[tuple[Excerpt, float]]:
    """Return the windows of `chunks` with the best scores, best first, until `budget` words are spent; at least one. Each
    comes with its score.

    scores: returns float32 (n_windows,) for windows. A window of score 0 is not read to fill up, unless all have it.
    """
    from fbrag_cli.retrieval.ranking import best

    windows = [window for chunk in chunks for window in windows_of(chunk, n_words)]
    values = scores(windows)
    taken: list[tuple[Excerpt, float]] = []
    left = budget
    for position in best(values, None):
        n = windows[position].n_words
        if taken and (n > 2 * left or values[position] <= 0 < values.max()):  # without it the sum is nearer to the budget
            break
        taken.append((windows[position], float(values[position])))
        left -= n
        if left <= 0:
            break
    return taken


def in_reading_order(windows: Iterable[Excerpt]) -> tuple[Excerpt, ...]:
    """Return windows in document order. Windows of a chunk with only white space between them become one excerpt."""
    found: list[Excerpt] = []
    for window in sorted(windows, key=lambda each: (each.chunk.position, each.start)):
        before = found[-1] if found else None
        between = window.chunk.document.text[before.end : window.start] if before else ""
        if before and before.chunk.position == window.chunk.position and not between.strip():
            found[-1] = Excerpt(window.chunk, before.start, window.end)
        else:
            found.append(window)
    return tuple(found)


def _holds(part: Excerpt, window: Excerpt) -> bool:
    return part.chunk.position == window.chunk.position and part.start <= window.start < part.end
