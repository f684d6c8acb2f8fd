"""Whole words of a text, and their other forms, which a term alone does not show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import takewhile
from math import ceil
from operator import eq, gt

from fbrag_cli.text.spans import joined
from fbrag_cli.text.words import term_spans

_ALIKE, _LEAST = 0.8, 5  # common first letters of two forms of a word: share of the longer one, and minimum


def word_terms(text: str, languages: Sequence[str] = ("en",)) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Yield (start, end, terms) for each word of `text` that has a term. A run in a script without spaces is one word."""
    terms = list(term_spans(text, languages))
    spans = joined(((start, end) for start, end, _ in terms), gt)
    starts = [start for start, _ in spans]
    held: list[set[str]] = [set() for _ in spans]
    for first, _, term in terms:
        held[bisect_right(starts, first) - 1].add(term)
    for (start, end), own in zip(spans, held, strict=True):
        yield start, end, frozenset(own)


def beginning(term: str) -> str:
    """Return the first letters of a term, which all other forms of its word share."""
    return term[: max(_LEAST, ceil(_ALIKE * len(term)))]


def are_alike(term: str, other: str) -> bool:
    """Return whether two terms are forms of one word that the stemmer does not unify: "practic" and "practis"."""
    longer = max(term, other, key=len)
    common = sum(takewhile(bool, map(eq, term, other)))
    return len(longer) >= _LEAST and common >= len(beginning(longer)) and (term + other).isalpha()


def differ_by_one(word: str, other: str) -> bool:
    """Return whether one letter more, less or exchanged makes a word the other one."""
    if abs(len(word) - len(other)) > 1:
        return False
    at = sum(takewhile(bool, map(eq, word, other)))
    rests = (word[at + 1 :], other[at + 1 :]), (word[at:], other[at + 1 :]), (word[at + 1 :], other[at:])
    return word != other and any(map(eq, *zip(*rests, strict=True)))


def is_name(word: str) -> bool:
    """Return whether a word may be a name because of its capital, or is a number."""
    return word[:1].isupper() or is_number(word)


def is_number(word: str) -> bool:
    """Return whether a word has a digit."""
    return any(map(str.isdigit, word))
