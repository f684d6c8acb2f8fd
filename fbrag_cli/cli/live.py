"""What a terminal shows while a question is answered: lines that change in place, and the preview of the answer in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, TextIO

from fbrag_cli.progress import Event
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import shortened, width_of

if TYPE_CHECKING:
    from fbrag_cli.corpus import Passage
    from fbrag_cli.indexing.collect import Collection

_DIM, _END = "\x1b[2m", "\x1b[0m"
_HEADING = "Nearest to the question:"
_UNCHECKED = "unchecked: "
_MARGIN = "    "
_MOST_LINES = 4  # of a sentence


class Region:
    """Lines that are drawn over each other on `stream`, a terminal. The cursor stays at the end of the last one.

    Each line fits the terminal's width, and there are fewer lines than rows: the first one can be reached by moving up. A line
    alone needs no control sequence but the carriage return. Where a terminal was made narrower, it may have wrapped what was
    drawn before; some of that then stays above, since moving up too far would erase the output of others.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows that lines may take."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        return max(1, (columns or 80) - 1), max(1, (rows or 24) - 1)

    def draw(self, dimmed: Sequence[str], last: str) -> None:
        """Show the lines `dimmed`, and below them `last`, in place of what is shown. They are printable, and fit `size`."""
        columns, rows = self.size
        lines = [*dimmed[: rows - 1], last]
        shown = tuple(shortened(line, columns) for line in lines)
        if shown != self._shown:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(shown[:-1], self._shown[:-1], strict=False)))
            *above, status = shown[same:]
            self._stream.write(self._erasure(same) + "".join(f"{_DIM}{line}{_END}\n" for line in above) + status)
            self._stream.flush()
            self._shown = shown

    def erase(self) -> None:
        """Erase the lines; the cursor is where the first one began."""
        if self._shown:
            self._stream.write(self._erasure())
            self._stream.flush()
            self._shown = ()

    def _erasure(self, same: int = 0) -> str:
        """Return what erases all lines but the first `same`."""
        if (up := len(self._shown) - 1 - same) > 0:
            return f"\r\x1b[{up}A\x1b[J"
        return f"\r{' ' * width_of(self._shown[-1])}\r" if self._shown else ""


class Preview:
    """The nearest chunks and the unchecked answer to `question`, as lines that fit a terminal."""

    def __init__(self, question: str, collection: Collection) -> None:
        self._question, self._collection = question, collection
        self._positions: tuple[int, ...] = ()
        self._answer = ""
        self._nearest: tuple[int, list[list[str]]] = (0, [])  # columns, and the lines of each chunk that fit them

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
        shown = [_HEADING]
        for chunk in self._nearest_at(columns):
            if len(shown) + len(chunk) + len(answer) > rows:
                break
            shown += chunk
        return [*(shown if len(shown) > 1 else []), *answer]

    def _nearest_at(self, columns: int) -> list[list[str]]:
        if self._nearest[0] != columns:
            chunks = self._collection.corpus.chunks
            found = []
            for position in self._positions:
                weights = dict(self._collection.retriever.term_scores(self._question, position))
                found.append([*_nearest_lines(chunks[position], weights, columns)])
            self._nearest = (columns, found)
        return self._nearest[1]

    def _wrapped_answer(self, columns: int) -> list[str]:
        from fbrag_cli.text.terminal import wrapped

        found: list[str] = []
        if self._answer.strip():
            for line in (_UNCHECKED + self._answer.strip()).split("\n"):
                safe = one_line(line)
                found += [safe[start:end].rstrip() for start, end in wrapped(safe, 0, columns)]
        return found


def _nearest_lines(chunk: Passage, weights: Mapping[str, float], columns: int) -> Iterator[str]:
    """Yield the place of the sentence of a chunk that shares most with the question, and that sentence, in lines of `columns`.

    weights: the score of each term of the question in this chunk.
    """
    from fbrag_cli.render.passages import LONGEST_LINE, nearest_sentence, place
    from fbrag_cli.text.terminal import beginning, wrapped

    room = max(1, min(columns, LONGEST_LINE) - len(_MARGIN))
    start, end = nearest_sentence(chunk, weights)
    yield shortened(place(chunk, (start, end)), columns)
    sentence = one_line(chunk.text[start:end])
    spans = wrapped(sentence, 0, room)
    yield from (_MARGIN + sentence[first:last].rstrip() for first, last in spans[: _MOST_LINES - 1])
    if rest := spans[_MOST_LINES - 1 :]:
        yield _MARGIN + beginning(sentence[rest[0][0] :], room)
