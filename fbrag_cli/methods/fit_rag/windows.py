"""The windows of FIT-RAG's token reducer (section 4.4, Algorithm 3): how they are cut, chosen and shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Passage
from fbrag_cli.trace import Cell, Column, Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.methods.fit_rag.parts import Detector

    Array = NDArray[np.float32]

#: Sentences of a window.
SENTENCES = 3
#: Windows that the scorer reads: more of them cost more than they save.
SCORED = 64
_LABELS = Column("has_answer", "answer"), Column("llm_prefer", "prefer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What the scorer and the token reducer found.

    candidates: the chunks that were scored, in the retriever's order. labels: float32 (n_candidates, 2), the probabilities that
    each holds the answer and that it leads the model to it. windows: the best one of each selected chunk, best first, with
    window_labels (n_windows, 2) and window_scores (n_windows,), none for whole chunks; the first `n_taken` are the context.
    eligible: the detector's probability that the windows are enough, after each that it saw. Labels are None without a scorer,
    eligible is empty without a detector. told, known: the shares by which the recognizer decides (S_ltod, S_nn), None if it was
    not asked.
    """

    candidates: tuple[Passage, ...] = ()
    labels: Array | None = None
    windows: tuple[Passage, ...]
    n_taken: int
    window_labels: Array | None = None
    window_scores: tuple[float, ...] = ()
    eligible: tuple[float, ...] = ()
    told: float | None = None
    known: float | None = None


def tables(found: Reduction) -> tuple[Table, ...]:
    """Return the windows, best first, and the labels of the candidates, if any.

    enough: the probability that this window and those before it are enough. selected: whether the large model reads it.
    """
    note = ""
    if found.told is not None:
        told, known = 100 * found.told, 100 * (found.known or 0)
        note = f"{told:.0f} % of the scored chunks tell the answer; {known:.0f} % of the most similar questions are known"
    windows = Table(
        name="windows",
        unit="window",
        columns=(Column("start_char"), Column("end_char"), Column("selected", ""), *_LABELS, Column("enough", "enough")),
        rows=tuple(_rows(found)),
        passages=found.windows,
        note=note,
    )
    if found.labels is None:
        return (windows,)
    labels = tuple((float(answer), float(prefer)) for answer, prefer in found.labels)
    return (
        windows,
        Table(columns=_LABELS, rows=labels, passages=found.candidates, beside_chunks=True),
    )


def _rows(found: Reduction) -> Iterator[tuple[Cell, ...]]:
    for i, window in enumerate(found.windows):
        answer, prefer = (None, None) if found.window_labels is None else map(float, found.window_labels[i])
        enough = found.eligible[i] if i < len(found.eligible) else None
        yield window.start, window.end, i < found.n_taken, answer, prefer, enough


def sliding_windows(chunk: Passage, n_sentences: int = SENTENCES) -> list[Passage]:
    """Return each run of `n_sentences` sentences of a chunk; a shorter chunk is one run.

    A poem, a table, a list or code counts as a sentence.
    """

    from fbrag_cli.text.sentences import unbroken_spans

    spans = unbroken_spans(chunk.text)
    n_windows = max(1, len(spans) - n_sentences + 1) if spans else 0
    runs = (spans[i : i + n_sentences] for i in range(n_windows))
    return [chunk.part(chunk.start + run[0][0], chunk.start + run[-1][1]) for run in runs]


def best_of_each(windows: Sequence[Passage], values: Array) -> list[int]:
    """Return the index of the best window of each chunk, best first."""
    best: dict[int, int] = {}
    for i in sorted(range(len(windows)), key=lambda i: -values[i]):
        best.setdefault(windows[i].position, i)
    return list(best.values())


def to_score(windows: Sequence[Passage], values: Array) -> list[Passage]:
    """Return at most `SCORED` windows, those with the largest values; of each chunk at least one."""
    firsts = best_of_each(windows, values)
    others = sorted(set(range(len(windows))).difference(firsts), key=lambda i: -values[i])
    return [windows[i] for i in sorted([*firsts, *others[: max(0, SCORED - len(firsts))]])]


def search(labels: Array, detector: Detector) -> tuple[float, ...]:
    """Take windows one after the other, until they are enough. Return the detector's probability after each.

    The paper's Algorithm 3 adds only the last window to its result, but must mean all windows taken.
    """
    probabilities: list[float] = []
    for n in range(1, len(labels) + 1):
        probabilities.append(detector.probability(labels[:n]))
        if probabilities[-1] >= detector.threshold:
            break
    return tuple(probabilities)


def within(windows: Sequence[Passage], max_words: int | None) -> int:
    """Return how many windows, from the first one on, have at most `max_words` words together; at least one."""
    words = 0
    for n, window in enumerate(windows):
        words += window.n_words
        if max_words is not None and n and words > max_words:
            return n
    return len(windows)
