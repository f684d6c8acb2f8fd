"""Spans of a text: (start, end) in characters, the end exclusive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import ge

Span = tuple[int, int]


def joined(spans: Iterable[Span], joins: Callable[[int, int], bool] = ge) -> list[Span]:
    """Return the spans in order, with each run of spans that overlap or touch as one.

    joins(end, start): whether a span that begins at `start` is joined to one before it that ends at `end`; `operator.gt` joins
    only spans that overlap.
    """
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and joins(found[-1][1], start):
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
