"""Selection of chunks by their scores: copies of a chunk count once. The baselines select by the question alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Chunk, Corpus, Excerpt
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.fb_rag.windows import best_windows, in_reading_order
from fbrag_cli.methods.method import Reading, Selecting, Tools
from fbrag_cli.progress import Event, stage
from fbrag_cli.retrieval import Windowed
from fbrag_cli.trace import Scores, Stage, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_AROUND, _TIMES = 12, 4  # chunks that give their windows, at least; times as many words as are read
_NEAREST = 3  # chunks that a listener learns of at once
_STRANGERS = 100  # chunks of other text with the same score, after which no copy is looked for: reading them takes time
_SAME = 1e-5  # the relative difference up to which two scores count as equal: copies may differ by rounding


def lost(scores: NDArray[np.float32]) -> tuple[str, ...]:
    """Return a warning where every score is 0, so that a selection means nothing."""
    return () if scores.any() else ("no word of the question tells one chunk from another",)


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


def what_is_read(
    method: Reading, corpus: Corpus, scores: Array, score_windows: Callable[[Sequence[Excerpt]], Array]
) -> tuple[dict[int, tuple[int, ...]], tuple[Excerpt, ...]]:
    """Return the selected chunks, best first, each with its copies, and what the large model reads of them in reading order.

    scores: float32 (n_chunks,). score_windows: returns float32 (n_windows,). A corpus within the budget is read whole; of a
    larger one no chunk is read that scores nothing, unless all do.
    """
    if method.reads == "chunks" or corpus.n_words <= method.budget:
        n = method.select if method.reads == "chunks" else len(scores)
        selected = distinct(corpus, scores, n)
        if n < len(scores):
            selected = _scoring(selected, scores)
        return selected, whole_chunks(corpus, sorted(selected))
    n_around = max(_AROUND, _TIMES * method.budget // corpus.chunk_words)
    copies = _scoring(distinct(corpus, scores, n_around), scores)
    chunks = [corpus.chunks[position] for position in copies]
    windows = best_windows(chunks, score_windows, method.budget, method.window_words)
    positions = dict.fromkeys(window.chunk.position for window in windows)
    return {position: copies[position] for position in positions}, in_reading_order(windows)


def _scoring(found: dict[int, tuple[int, ...]], scores: Array) -> dict[int, tuple[int, ...]]:
    """Return the chunks that score above 0; all where none does."""
    return {position: copies for position, copies in found.items() if scores[position] > 0} or found


def backward_scores(question: str, tools: Tools) -> NDArray[np.float32]:
    """Return S_B, float32 (n_chunks,). A listener learns of the chunks that score highest, before any model is loaded."""
    from fbrag_cli.retrieval.ranking import best

    scores = tools.retriever.scores(question)
    nearest = tuple(position for position in best(scores, _NEAREST) if scores[position] > 0)
    tools.progress(Event("recall", "ranked", positions=nearest))
    return scores


def foreign(part: str, languages: Sequence[str], chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """Return a warning where chunks are in other languages than those that a part was trained on, if these are known."""
    strange = sorted({chunk.document.language for chunk in chunks} - {*languages, ""}) if languages else []
    return (f"{part} was trained on {', '.join(languages)}, not on {', '.join(strange)}",) if strange else ()


def select_by_question(method: Selecting, question: str, tools: Tools, window_weight: float = 0.0) -> Trace:
    """Select the chunks that the retriever ranks highest for the question. The context has them in document order.

    window_weight: of a chunk's best window beside its own score. Raises FbragError `usage` where the retriever has no windows.
    """
    with stage("recall") as watch:
        backward = backward_scores(question, tools)
        combined = backward + window_weight * _window_scores(question, tools) if window_weight else backward
        if isinstance(method, Reading):
            selected, context = what_is_read(
                method, tools.corpus, combined, lambda windows: tools.retriever.excerpt_scores([question], windows)[0]
            )
        else:
            selected = distinct(tools.corpus, combined, method.select)
            context = whole_chunks(tools.corpus, sorted(selected))
    ranked = tuple(selected)
    return replace(
        Trace.start(question, method, tools),
        scores=replace(Scores.zero(len(backward)), backward=backward, combined=combined),
        ranked=ranked,
        copies=selected,
        context=context,
        stages=(Stage("recall", watch.seconds),),
        warnings=lost(backward),
    )


def _window_scores(question: str, tools: Tools) -> Array:
    """Return float32 (n_chunks,): the best window that touches each chunk."""
    if not isinstance(tools.retriever, Windowed):
        what = f"--window-weight needs the retriever bm25, not {tools.retriever.name}"
        raise FbragError("usage", what, "leave out --window-weight, or --retriever")
    return tools.retriever.window_scores(question, tools.corpus)
