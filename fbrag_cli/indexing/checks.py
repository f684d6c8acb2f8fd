"""Checks of what the cache holds: right checksums do not make it true. Each raises ValueError, which means a damaged entry."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fbrag_cli.storage.arrays import CHECKED, Array

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Content
    from fbrag_cli.retrieval.term_counts import TermCounts


def check_types(described: dict[str, Any], types: dict[str, type | tuple[type, ...]]) -> None:
    """Check that each of the keys has a value of its type. A list is one of texts."""
    for name, kind in types.items():
        value = described[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}")
        if isinstance(value, list):
            check_texts(value)


def check_texts(values: Iterable[object]) -> None:
    if not all(isinstance(value, str) for value in values):
        raise ValueError("these are not all texts")


def check_integers(*values: object) -> None:
    if not all(type(value) is int for value in values):
        raise ValueError("these are not all integers")


def check_array(array: Array, kind: str, *shape: int | None) -> None:
    """Check the type of an array ("i", "u" or "f", as NumPy's `kind`) and its shape. None: any length."""
    if array.dtype.kind != kind or array.ndim != len(shape):
        raise ValueError(f"an array of {array.dtype} with {array.ndim} dimensions")
    if any(asked not in (None, found) for asked, found in zip(shape, array.shape, strict=True)):
        raise ValueError(f"an array of shape {array.shape}")


def check_finite(array: Array) -> None:
    if not np.isfinite(array).all():
        raise ValueError("an array with what are no numbers")


def check_content(content: Content, n_chars: int) -> None:
    """Check that the text has its length, and that pages and sections are in it, in order."""
    if len(content.text) != n_chars:
        raise ValueError("a text of another length")
    for page in content.pages:
        check_integers(page.number, page.start, page.end)
        if not 0 <= page.start <= page.end <= n_chars:
            raise ValueError("a page outside the text")
    for section in content.sections:
        check_integers(section.level, section.start)
    if any(one > other for one, other in pairwise([0, *(section.start for section in content.sections), n_chars])):
        raise ValueError("a section outside the text")
    check_texts(section.title for section in content.sections)


def check_spans(spans: Array, lengths: list[int]) -> None:
    """Check the chunks of documents. spans: (n_chunks, 4), as of a `Corpus`. lengths: characters of each document."""
    check_array(spans, "i", None, 4)
    if not len(spans):
        return
    numbers, starts, ends, n_words = spans.T
    _check_within(numbers, 0, len(lengths) - 1)
    if (np.diff(numbers) < 0).any() or (starts < 0).any() or (starts > ends).any() or (n_words < 0).any():
        raise ValueError("chunks out of order")
    if (ends > np.array(lengths, np.int64)[numbers]).any():
        raise ValueError("a chunk outside its document")


def check_counts(counts: TermCounts, n_chunks: int) -> None:
    """Check the shapes of term counts, and that they name terms and chunks that there are."""
    n_terms, n_postings = len(counts.vocabulary), len(counts.chunks)
    check_array(counts.vocabulary.letters, "u", None)
    check_array(counts.vocabulary.ends, "i", n_terms)
    check_array(counts.starts, "i", n_terms + 1)
    check_array(counts.chunks, "i", n_postings)
    check_array(counts.counts, "u", n_postings)
    check_array(counts.lengths, "i", n_chunks)
    _check_ascending(counts.vocabulary.ends, len(counts.vocabulary.letters))
    _check_ascending(counts.starts, n_postings)
    _check_within(counts.chunks, 0, n_chunks - 1)
    _check_within(counts.lengths, 0, np.iinfo(np.int32).max)
    check_texts(counts.languages)


def _check_ascending(offsets: Array, last: int) -> None:
    if len(offsets) and (offsets[-1] != last or offsets[0] < 0):
        raise ValueError("offsets of another array")
    if offsets.nbytes <= CHECKED and (offsets[1:] < offsets[:-1]).any():
        raise ValueError("offsets out of order")


def _check_within(values: Array, least: int, most: int) -> None:
    if values.nbytes <= CHECKED and values.size and not least <= values.min() <= values.max() <= most:
        raise ValueError("a number out of range")
