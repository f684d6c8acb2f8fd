"""Selection of chunks by their scores: copies of a chunk count once. `ChunkMethod` is the base of methods that select some."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from fbrag_cli.corpus import Chunk, Corpus, Excerpt
from fbrag_cli.methods.knobs import knob
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.progress import Event, stage
from fbrag_cli.trace import Scores, Stage, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

#: The help of `select`.
SELECT = "chunks for the large model"

_NEAREST = 3  # chunks that a listener learns of at once
_STRANGERS = 100  # chunks of other text with the same score, after which no copy is looked for: reading them takes time
_SAME = 1e-5  # the relative difference up to which two scores count as equal: copies may differ by rounding


class Selection(NamedTuple):
    """The positions of the selected chunks, best first, each with those of its copies; what the large model reads of them, in
    reading order; and `Trace.part_scores`."""

    copies: dict[int, tuple[int, ...]]
    context: tuple[Excerpt, ...]
    part_scores: dict[tuple[int, int], float]


def lost(scores: NDArray[np.float32]) -> tuple[str, ...]:
    """Return a warning where every score is 0, so that a selection means nothing.

    Of two chunks it says nothing: BM25 gives 0 for a word that stands in half of the chunks.
    """
    return () if scores.any() or len(scores) == 2 else ("no chunk matches the question: every score is 0",)


def whole_chunks(corpus: Corpus, positions: Iterable[int]) -> tuple[Excerpt, ...]:
    """Return the chunks at `positions`, in that order, as excerpts."""
    return tuple(Excerpt.whole(corpus.chunks[position]) for position in positions)


def distinct(corpus: Corpus, scores: NDArray[np.float32], n: int) -> dict[int, tuple[int, ...]]:
    """Return the positions of the `n` best chunks of different text, best first, each with the positions of its copies.

    scores: (n_chunks,). Copies are chunks of the same words, whatever white space is between them, in one file or in several.
    They have the same score, so only chunks that score no lower than the last selected one are compared; where that one scores
    nothing, the search ends with it.
    """
    from fbrag_cli.retrieval.ranking import best

    found: dict[str, list[int]] = {}
    last, strangers = 0.0, 0
    for position in best(scores, None):
        score = float(scores[position])
        full = len(found) == n
        if full and (last == 0 or score < last - _SAME * abs(last) or strangers == _STRANGERS):
            break
        text = " ".join(corpus.chunks[position].text.split())
        if text in found:
            found[text].append(position)
        elif not full:
            found[text], last = [position], score
        else:
            strangers += 1
    return {first: tuple(sorted(copies)) for first, *copies in found.values()}


def backward_scores(question: str, tools: Tools) -> NDArray[np.float32]:
    """Return S_B, float32 (n_chunks,). The listener receives the positions of the best chunks, before any model is loaded."""
    from fbrag_cli.retrieval.ranking import best

    scores = tools.retriever.scores(question)
    nearest = tuple(position for position in best(scores, _NEAREST) if scores[position] > 0)
    tools.progress(Event("recall", "ranked", positions=nearest))
    return scores


def foreign(part: str, languages: Sequence[str], chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """Return a warning where chunks are in other languages than those that a part was trained on, if these are known."""
    strange = sorted({chunk.document.language for chunk in chunks} - {*languages, ""}) if languages else []
    return (f"{part} was trained on {', '.join(languages)}, not on {', '.join(strange)}",) if strange else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMethod(Method):
    """A method that selects a number of chunks."""

    select: int = knob(5, SELECT, on_gpu=10, minimum=1, metavar="N")

    def plan(self, n_chunks: int) -> list[str]:
        return [f"{min(self.select, n_chunks)} to select"]

    def n_read(self, n_chunks: int) -> int:
        return min(self.select, n_chunks)

    def scaled(self, times: int) -> Method | None:
        return replace(self, select=self.select * times)

    def selection(self, corpus: Corpus, scores: Array, score_windows: Callable[[Sequence[Excerpt]], Array]) -> Selection:
        """Return the best chunks.

        scores: float32 (n_chunks,). score_windows: returns float32 (n_windows,); only methods that read windows call it.
        """
        selected = distinct(corpus, scores, self.select)
        return Selection(selected, whole_chunks(corpus, sorted(selected)), {})

    def combined(self, question: str, backward: Array, tools: Tools) -> Array:
        """Return float32 (n_chunks,): the scores that rank the chunks in `select_by_question`."""
        return backward

    def select_by_question(self, question: str, tools: Tools) -> Trace:
        """Select the chunks that the retriever ranks highest for the question. The context has them in document order."""
        with stage("recall") as watch:
            backward = backward_scores(question, tools)
            combined = self.combined(question, backward, tools)
            selected = self.selection(
                tools.corpus, combined, lambda windows: tools.retriever.excerpt_scores([question], windows)[0]
            )
        return replace(
            Trace.start(question, self, tools),
            scores=replace(Scores.zero(len(backward)), backward=backward, combined=combined),
            ranked=tuple(selected.copies),
            **selected._asdict(),
            stages=(Stage("recall", watch.seconds),),
            warnings=lost(backward),
        )
