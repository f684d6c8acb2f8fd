"""Renders what FIT-RAG's token reducer did: the windows of the selected chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fbrag_cli.render.passages import place
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import aligned
from fbrag_cli.trace import Reduction

_FIRST_WORDS = 60  # characters


def table(reduction: Reduction) -> Iterator[str]:
    """Yield a header, then a line for each window, best first. Those that the large model reads have a `*`.

    answer, prefer: both labels. enough: the probability that this window and those before it are enough.
    """
    rows = [("window", "", "answer", "prefer", "enough", "place", "first words")]
    for i, window in enumerate(reduction.windows):
        own = None if reduction.window_labels is None else reduction.window_labels[i]
        rows.append(
            (
                f"{i + 1}",
                "*" if i < reduction.n_taken else "",
                "-" if own is None else f"{own[0]:.2f}",
                "-" if own is None else f"{own[1]:.2f}",
                f"{reduction.eligible[i]:.2f}" if i < len(reduction.eligible) else "-",
                place(window.narrowed),
                one_line(window.text[: 8 * _FIRST_WORDS], _FIRST_WORDS),
            )
        )
    yield from aligned(rows, {0, 2, 3, 4})
    if reduction.told is not None:
        told, known = 100 * reduction.told, 100 * (reduction.known or 0)
        yield f"{told:.0f} % of the scored chunks tell the answer; {known:.0f} % of the most similar questions are known"


def record(reduction: Reduction) -> list[dict[str, Any]]:
    """Return the windows for JSON, best first. start_char, end_char: in the document's decoded text."""
    return [
        {
            "chunk": window.chunk.position + 1,
            "start_char": window.start,
            "end_char": window.end,
            "has_answer": None if reduction.window_labels is None else round(float(reduction.window_labels[i][0]), 4),
            "llm_prefer": None if reduction.window_labels is None else round(float(reduction.window_labels[i][1]), 4),
            "enough": round(reduction.eligible[i], 4) if i < len(reduction.eligible) else None,
            "selected": i < reduction.n_taken,
        }
        for i, window in enumerate(reduction.windows)
    ]
