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
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and joins(merged[-1][1], start):
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
