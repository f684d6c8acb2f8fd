"""Chooses the chunks of a corpus that a page shows.

These are all chunks, if there are at most `_CHUNKS` in at most `_DOCUMENTS` documents; else all of the documents with a selected
or recalled chunk; and where these are too long as well, the selected and recalled chunks with `_NEIGHBOURS` on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fbrag_cli.documents.document import Content
from fbrag_cli.trace import Trace

_CHUNKS = 6_000  # 1.8 million words
_DOCUMENTS = 50
_NEIGHBOURS = 20


def positions_shown(trace: Trace) -> list[int]:
    """Return the positions of the chunks that are shown, ascending. Reads no text."""
    corpus = trace.corpus
    if len(corpus.chunks) <= _CHUNKS and len(corpus.documents) <= _DOCUMENTS:
        return list(range(len(corpus.chunks)))
    named = sorted({*trace.selected, *trace.recalled})
    owners = corpus.spans[named, 0].tolist()
    by_owner = {owner: corpus.chunks_of(owner) for owner in sorted(set(owners))}
    if sum(map(len, by_owner.values())) <= _CHUNKS:
        return [position for chunks in by_owner.values() for position in chunks]
    near = set()
    for position, owner in zip(named, owners, strict=True):
        chunks = by_owner[owner]
        near |= {*range(max(position - _NEIGHBOURS, chunks.start), min(position + _NEIGHBOURS + 1, chunks.stop))}
    return sorted(near)


def with_texts_in_memory(trace: Trace, shown: Sequence[int]) -> Trace:
    """Return the same trace with the texts of the documents of the chunks at `shown` in memory."""
    read = set(np.unique(trace.corpus.spans[shown, 0]).tolist())
    documents = tuple(
        replace(document, content=_in_memory(document.content())) if i in read else document
        for i, document in enumerate(trace.corpus.documents)
    )
    return replace(trace, corpus=replace(trace.corpus, documents=documents))


def _in_memory(content: Content) -> Callable[[], Content]:
    return lambda: content
