"""The chunks nearest to a question before any model has read them: the line of each that shares most with it, and its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fbrag_cli.corpus import Chunk
from fbrag_cli.render.passages import LONGEST_LINE, Line, place, shown_lines
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import shortened
from fbrag_cli.text.words import terms

_MARGIN = "    "


def nearest_lines(chunk: Chunk, weights: Mapping[str, float], columns: int) -> Iterator[str]:
    """Yield the place of a chunk's line with the greatest weight, and that line, each printable and within `columns`.

    weights: of the terms of the question in this chunk.
    """
    room = max(1, min(columns, LONGEST_LINE) - len(_MARGIN))
    language = (chunk.document.language,)

    def weight(line: Line) -> float:
        return sum(weights.get(term, 0.0) for term in {*terms(chunk.text[line.start : line.end], language)})

    best = max(shown_lines(chunk, room), key=weight)
    yield shortened(place(chunk, (best.start, best.end)), columns)
    yield _MARGIN + shortened(one_line(chunk.text[best.start : best.end]), room)
