"""Windows: parts of chunks that a model reads in place of whole chunks.

FB-RAG cuts chunks into windows for the model that looks forward (beyond the paper: 600 words of windows hold more of the evidence
than 600 words of chunks, tests/benchmarks/README.md). FIT-RAG slides a window over each chunk (its section 4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Chunk, Excerpt
from fbrag_cli.text.sentences import unbroken_spans
from fbrag_cli.text.words import word_spans

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.retrieval import Retriever

#: Words of a window, about.
WINDOW_WORDS = 80
#: Sentences of a window of FIT-RAG.
SENTENCES = 3


def windows_of(chunk: Chunk, n_words: int = WINDOW_WORDS) -> list[Excerpt]:
    """Cut a chunk into windows of about `n_words` words, in order, each of whole sentences; a poem, a table, a list or code is
    not cut. A chunk of at most 1.5 times `n_words` is one window."""
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
    question: str, chunks: Sequence[Chunk], backward: NDArray[np.float32], retriever: Retriever, n_words: int
) -> list[Excerpt]:
    """Return the windows of `chunks` that score highest for the question, best first, of about `n_words` words together.

    backward: S_B, float32 (n_chunks,). The score of a window is its own and that of its chunk: by its own alone, windows of told
    stories, where "he" stands for a name, are torn from what they tell of.
    """
    from fbrag_cli.retrieval.ranking import best

    windows = [window for chunk in chunks for window in windows_of(chunk)]
    scores = retriever.excerpt_scores(question, windows) + backward[[window.chunk.position for window in windows]]
    taken: list[Excerpt] = []
    left = n_words
    for position in best(scores, None):
        n = sum(1 for _ in word_spans(windows[position].text))
        if taken and n > 2 * left:  # the sum is nearer to `n_words` without it
            break
        taken.append(windows[position])
        left -= n
        if left <= 0:
            break
    return taken


def sliding_windows(chunk: Chunk, n_sentences: int = SENTENCES) -> list[Excerpt]:
    """Return each run of `n_sentences` sentences of a chunk, one for each sentence that begins one; all of a shorter chunk.

    A poem, a table, a list or code counts as a sentence.
    """
    spans = unbroken_spans(chunk.text)
    n_windows = max(1, len(spans) - n_sentences + 1) if spans else 0
    runs = (spans[i : i + n_sentences] for i in range(n_windows))
    return [Excerpt(chunk, chunk.start + run[0][0], chunk.start + run[-1][1]) for run in runs]
