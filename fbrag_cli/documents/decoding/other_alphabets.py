"""Guess the one-byte encoding of a text in Cyrillic, Greek, Hebrew, Arabic or Thai by the frequent letters of the alphabet.

charset-normalizer takes a few words of Cyrillic for Baltic, and of Hebrew for Cyrillic. What it finds as well has no row here.
"""

from __future__ import annotations

import re
from unicodedata import category

_CYRILLIC = frozenset("оеаинтсрвлкмії")
_GREEK = frozenset("αοιετσνηυρπκάίέόήύώς")
_HEBREW = frozenset("יוהלאתמברשםנ")
_ARABIC = frozenset("اليمنترهبوعدكةسفقأح")
_THAI = frozenset("านรกอเงมยลวดทสต่้ัีไ")

# The commonest first: it wins a tie.
_FREQUENT = {
    **dict.fromkeys(("cp1251", "koi8_r", "koi8_u", "iso8859_5", "mac_cyrillic"), _CYRILLIC),
    **dict.fromkeys(("cp1253", "iso8859_7"), _GREEK),
    **dict.fromkeys(("cp1256", "iso8859_6"), _ARABIC),
    "cp1255": _HEBREW,
    "cp874": _THAI,
}
_RUNS = re.compile(rb"[\x80-\xff]+")
_MIN_RUN = 2.5  # mean length of the runs of bytes beyond ASCII: whole words, not accented letters in Latin words
_MIN_SHARE = 0.6


def likeliest_alphabet(sample: bytes) -> str | None:
    """Return the encoding in which most characters beyond ASCII in `sample` are frequent letters; None if none fits."""
    if mean_run(sample) < _MIN_RUN:
        return None
    shares = {encoding: _share(sample, encoding) for encoding in _FREQUENT}
    best = max(shares, key=lambda encoding: shares[encoding])  # of equals the first
    return best if shares[best] >= _MIN_SHARE else None


def mean_run(sample: bytes) -> float:
    """Return the mean length of the runs of bytes beyond ASCII. It is less than two in words of Latin letters."""
    runs = _RUNS.findall(sample)
    return sum(map(len, runs)) / max(1, len(runs))


def _share(sample: bytes, encoding: str) -> float:
    try:
        text = sample.decode(encoding).lower()
    except UnicodeDecodeError:
        return 0
    letters = [letter for letter in text if letter > "\x7f" and category(letter)[0] not in "PZ"]
    return sum(letter in _FREQUENT[encoding] for letter in letters) / max(1, len(letters))
