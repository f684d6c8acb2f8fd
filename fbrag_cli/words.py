"""Text to words: the one tokenizer that indexing, scoring and highlighting share.

A word is a run of letters, digits and underscores (Unicode). What BM25 counts is its term: the word in lower case, without
function words, reduced to its stem by the Snowball stemmer for English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from unicodedata import normalize

_WORD = re.compile(r"\w+")

# Function words, and the halves that an apostrophe leaves behind ("Catherine's", "don't", "we'll").
STOP_WORDS = frozenset(
    """
    a about above after again against ain all also am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don down during each else ever few for from further get
    got had hadn has hasn have haven having he her here hers herself him himself his how however i if in into is isn it its
    itself just ll let m may me might more most much must my myself no nor not now o of off on once only or other ought our
    ours ourselves out over own re s same shall she should shouldn so some such t than that the their theirs them themselves
    then there these they this those though through thus to too under until up upon us ve very was wasn we were weren what
    when where whether which while who whom whose why will with within without would wouldn yet you your yours yourself
    yourselves
    """.split()
)


def terms(text: str) -> list[str]:
    """The terms of `text`, in order, repeated as often as they occur."""
    return [term for word in _WORD.findall(text) if (term := term_of(word))]


def term_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, term) of each word of `text` that has a term; `text[start:end]` is the word as it is written."""
    for found in _WORD.finditer(text):
        if term := term_of(found.group()):
            yield found.start(), found.end(), term


@lru_cache(maxsize=1 << 18)
def term_of(word: str) -> str:
    """The term of one word; "" for a function word."""
    folded = normalize("NFKC", word).casefold()
    return "" if folded in STOP_WORDS else _stemmer().stemWord(folded)


@lru_cache(maxsize=1)
def _stemmer():  # type: ignore[no-untyped-def]  # PyStemmer has no type information
    import Stemmer

    return Stemmer.Stemmer("english", 0)  # its own cache is off: `term_of` keeps one
