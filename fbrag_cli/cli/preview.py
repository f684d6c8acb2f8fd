"""What a terminal shows of a question until its answer is out: the nearest chunks, then the answer as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fbrag_cli.progress import Event

if TYPE_CHECKING:
    from fbrag_cli.indexing.collect import Collection

_HEADING = "Nearest to the question:"
_UNCHECKED = "unchecked: "


class Preview:
    """The nearest chunks and the unchecked answer to `question`, as lines that fit a terminal."""

    def __init__(self, question: str, collection: Collection) -> None:
        self._question, self._collection = question, collection
        self._positions: tuple[int, ...] = ()
        self._answer = ""
        self._nearest: tuple[int, list[str]] = (0, [])  # columns, and the lines that fit them

    def update(self, event: Event) -> None:
        """Take up what the event says of the chunks or of the answer."""
        if event.kind == "ranked":
            self._positions, self._nearest = event.positions, (0, [])
        elif event.stage == "answer" and event.kind == "start":
            self._answer = ""
        elif event.stage == "answer" and event.kind == "text":
            self._answer += event.text

    def lines(self, columns: int, rows: int) -> list[str]:
        """Return printable lines: at most `rows`, each within `columns` unless a single word is wider.

        Where there is no room for all of them, the end of the answer comes first.
        """
        answer = self._wrapped_answer(columns)[-rows:] if rows > 0 else []
        nearest = self._nearest_at(columns)
        room = max(0, rows - len(answer) - 1)  # below a heading
        shown = nearest[: room - room % 2]  # two lines a chunk
        return [*([_HEADING] if shown else []), *shown, *answer]

    def _nearest_at(self, columns: int) -> list[str]:
        from fbrag_cli.render.nearest import nearest_lines

        if self._nearest[0] != columns:
            chunks = self._collection.corpus.chunks
            found: list[str] = []
            for position in self._positions:
                weights = dict(self._collection.retriever.term_scores(self._question, position))
                found += nearest_lines(chunks[position], weights, columns)
            self._nearest = (columns, found)
        return self._nearest[1]

    def _wrapped_answer(self, columns: int) -> list[str]:
        from fbrag_cli.render.line_layout import wrapped
        from fbrag_cli.text.printable import one_line

        found: list[str] = []
        if self._answer.strip():
            for line in (_UNCHECKED + self._answer.strip()).split("\n"):
                safe = one_line(line)
                found += [safe[start:end].rstrip() for start, end in wrapped(safe, 0, columns)]
        return found
