"""A selection by the question alone, as the baselines make it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbrag_cli.corpus import Corpus, Excerpt
from fbrag_cli.methods.method import Selecting, Tools
from fbrag_cli.progress import stage
from fbrag_cli.trace import Scores, Stage, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Why a selection may mean nothing.
LOST = "no word of the question occurs in the document; the first chunks were taken"


def whole_chunks(corpus: Corpus, positions: Iterable[int]) -> tuple[Excerpt, ...]:
    """Return the chunks at `positions`, in that order, as excerpts."""
    return tuple(Excerpt.whole(corpus.chunks[position]) for position in positions)


def select_by_question(method: Selecting, question: str, tools: Tools) -> Trace:
    """Select the chunks that the retriever ranks highest for the question. The context has them in document order."""
    import numpy as np

    from fbrag_cli.retrieval.ranking import best

    with stage("recall") as watch:
        backward = tools.retriever.scores(question)
        ranked = best(backward, method.select)
    n_chunks = len(backward)
    nothing = np.zeros(n_chunks, np.float32)
    scores = Scores(backward, np.zeros((0, n_chunks), np.float32), nothing, np.full(n_chunks, -1), backward)
    return Trace(
        question=question,
        method=method,
        corpus=tools.corpus,
        retriever=tools.retriever.name,
        scores=scores,
        ranked=ranked,
        context=whole_chunks(tools.corpus, sorted(ranked)),
        stages=(Stage("recall", watch.seconds),),
        models={},
        warnings=() if backward.any() else (LOST,),
    )
