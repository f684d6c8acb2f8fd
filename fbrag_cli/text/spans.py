"""Spans of a text: (start, end) in characters, the end exclusive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import ge

Span = tuple[int, int]


def joined(spans: Iterable[Span], joins: Callable[[int, int], bool] = ge) -> list[Span]:
    """Return the spans in order, with overlapping and touching spans merged.

    joins(end, start): whether a span from `start` is merged with the one before it, up to `end`; `operator.gt` merges only
    overlapping spans.
    """
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and joins(found[-1][1], start):
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
