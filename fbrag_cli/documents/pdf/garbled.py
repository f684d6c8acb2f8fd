"""Recognise text that a font without a table of letters has garbled."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_NO_LETTERS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")
_FOREIGN = re.compile(r"[^\W\d_\x00-\u024f]+")  # letters outside of the Latin alphabet
_MOST = 0.1  # of the characters that are not white space
_ENOUGH = 20_000  # characters of a page that are looked at

# Scripts that stand in one word with each other.
_TOGETHER = dict.fromkeys(
    "CJK IDEOGRAPHIC HIRAGANA KATAKANA KATAKANA-HIRAGANA HANGUL BOPOMOFO FULLWIDTH HALFWIDTH".split(), "CJK"
)
_WITH_ANY = frozenset("GREEK LATIN MODIFIER MATHEMATICAL SCRIPT MICRO OHM ANGSTROM KELVIN".split())


def is_garbled(text: str) -> bool:
    """Return whether more than a tenth of a page cannot be read: characters without meaning, and words that mix scripts."""
    text = text[:_ENOUGH]
    bad = len(_NO_LETTERS.findall(text)) + sum(len(word) for word in _FOREIGN.findall(text) if _mixes(word))
    return bad > _MOST * len("".join(text.split()))


def _mixes(word: str) -> bool:
    return len({_script(letter) for letter in word} - {""}) > 1


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the script of a letter by the first word of its name; "" for one that stands with any script, and for numbers."""
    name = unicodedata.name(letter, "?").partition(" ")[0]
    return "" if name in _WITH_ANY or not letter.isalpha() else _TOGETHER.get(name, name)
