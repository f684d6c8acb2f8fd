"""Guess the encoding of a Chinese, Japanese or Korean text by the share of everyday characters.

charset-normalizer takes short texts in them for Thai or half-width kana, and Japanese in EUC for Korean.
"""

from __future__ import annotations

import re

# For each encoding: the first bytes of punctuation and kana, those of hangul or everyday characters, the lowest second byte.
_EVERYDAY = {
    "cp949": ((0xA1, 0xA3), (0xB0, 0xC8), 0xA1),
    "gb18030": ((0xA1, 0xA3), (0xB0, 0xD7), 0xA1),
    "euc_jp": ((0xA1, 0xA5), (0xB0, 0xCF), 0xA1),
    "cp932": ((0x81, 0x83), (0x88, 0x97), 0x40),
    "big5": ((0xA1, 0xA3), (0xA4, 0xC6), 0x40),
}
_RUNS = re.compile(r"[^\x00-\x7f]+")
_MIN_CHARACTERS = 4
_MIN_SHARE = 0.9


def likeliest_east_asian(sample: bytes) -> str | None:
    """Return the encoding in which at least 90% of the characters in `sample` are everyday ones; None if none fits.

    Most of them must stand beside each other. On a tie the encoding with fewer everyday characters wins: the Korean ones lie
    within the range of the Chinese ones.
    """
    shares = {encoding: _share(sample, encoding) for encoding in _EVERYDAY}
    best = max(shares, key=lambda encoding: shares[encoding])  # of equals the first
    return best if shares[best] >= _MIN_SHARE else None


def _share(sample: bytes, encoding: str) -> float:
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return 0
    runs = _RUNS.findall(text)
    characters = "".join(runs)
    if len(characters) < max(_MIN_CHARACTERS, 2 * len(runs)):  # "25°C" would make one Chinese character, all alone
        return 0
    (mark, last_mark), (first, last), lowest = _EVERYDAY[encoding]
    n_everyday = 0
    for written in (character.encode(encoding) for character in characters):
        is_pair = len(written) == 2 and written[1] >= lowest
        n_everyday += is_pair and (mark <= written[0] <= last_mark or first <= written[0] <= last)
    return n_everyday / len(characters)


def is_east_asian(character: str) -> bool:
    """Return whether `character` is an ideograph, kana, hangul or their punctuation."""
    return "\u3000" <= character <= "\u30ff" or "\u4e00" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7a3"
