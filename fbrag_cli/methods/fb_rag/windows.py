"""Windows: parts of chunks, of a few sentences each, that the large model reads after what Stage II has read.

Beyond the paper. Measured in tests/benchmarks/README.md, "What Stage III reads".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fbrag_cli.corpus import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def windows_of(chunk: Passage, n_words: int) -> list[Passage]:
    """Cut a chunk into windows of about `n_words` words, in order, each of whole sentences; a poem, a table, a list or code is
    not cut. A chunk of at most 1.5 times `n_words` is one window."""
    from fbrag_cli.text.sentences import unbroken_spans
    from fbrag_cli.text.words import count_words

    text = chunk.cells_apart
    spans = [(start, end, count_words(text[start:end])) for start, end in unbroken_spans(chunk.text)]
    total = sum(n for _, _, n in spans)
    n_windows = max(1, round(total / n_words))
    windows: dict[int, tuple[int, int]] = {}
    before = 0
    for start, end, n in spans:
        number = int((before + n / 2) * n_windows / total)  # by the middle of the span
        windows[number] = windows.get(number, (start, end))[0], end
        before += n
    return [chunk.part(chunk.start + start, chunk.start + end) for start, end in windows.values()]


def best_windows(
    chunks: Sequence[Passage],
    scores: Callable[[Sequence[Passage]], NDArray[np.float32]],
    max_words: int,
    n_words: int,
    taken: Sequence[Passage] = (),
) -> list[Passage]:
    """Return the windows of `chunks` with the best scores, best first, until there are `max_words` words; at least one, if there
    is any and `max_words` is above 0.

    scores: returns float32 (n_windows,) for windows. A window with score 0 is not returned, unless all have score 0. taken:
    windows that are not returned again.
    """
    from fbrag_cli.retrieval.ranking import best

    windows = [window for chunk in chunks for window in windows_of(chunk, n_words) if window not in taken]
    if not windows or max_words <= 0:
        return []
    values = scores(windows)
    chosen: list[Passage] = []
    left = max_words
    for position in best(values, None):
        n = windows[position].n_words
        if chosen and (n > 2 * left or (not values[position] and values.any())):  # without it the sum is nearer to the limit
            break
        chosen.append(windows[position])
        left -= n
        if left <= 0:
            break
    return chosen


def in_reading_order(windows: Iterable[Passage]) -> tuple[Passage, ...]:
    """Return windows in document order. Windows of a chunk with only white space between them become one passage."""
    merged: list[Passage] = []
    for window in sorted(windows, key=lambda each: (each.position, each.start)):
        before = merged[-1] if merged else None
        between = window.document.text[before.end : window.start] if before else ""
        if before and before.position == window.position and not between.strip():
            merged[-1] = window.part(before.start, window.end)
        else:
            merged.append(window)
    return tuple(merged)
