"""Where the evidence of a question stands in a text, and which chunks are relevant for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fbrag_cli.corpus import Chunk

Span = tuple[int, int]  # start and end, in characters


@dataclass(frozen=True, slots=True)
class Parts:
    """A text of parts, such as the turns of a meeting. spans: where each stands, by its name."""

    text: str
    spans: Mapping[Any, Span]

    @classmethod
    def of(cls, parts: Iterable[str], names: Iterable[Any]) -> Parts:
        parts = list(parts)
        return cls("\n".join(parts), dict(zip(names, spans_of(parts, 1), strict=True)))

    def spans_of(self, evidence: Iterable[tuple[Any, ...]]) -> tuple[Span, ...]:
        """Return where the evidence stands. evidence: names of the first and the last part of each piece."""
        return tuple((self.spans[first][0], self.spans[last][1]) for first, last in evidence)


def spans_of(texts: Iterable[str], between: int) -> list[Span]:
    """Return where texts stand that are joined by so many characters."""
    ends = accumulate(len(text) + between for text in texts)
    return [(end - between - len(text), end - between) for text, end in zip(texts, ends, strict=True)]


def is_relevant(chunk: Chunk, gold: Iterable[Span]) -> bool:
    """Return whether the chunk covers at least half of a piece of evidence, or half of it lies in one."""
    return any(0 < 2 * n_shared(chunk, span) >= min(span[1] - span[0], chunk.end - chunk.start) for span in gold)


def n_shared(chunk: Chunk, span: Span) -> int:
    """Return the number of characters that a chunk and a piece of evidence share."""
    return max(0, min(chunk.end, span[1]) - max(chunk.start, span[0]))
