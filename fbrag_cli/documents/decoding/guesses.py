"""Guess the encoding of a text without Unicode by what its languages write often.

charset-normalizer finds most scripts, but takes "garçon" for "garēon", a few words of Cyrillic for Baltic and of Hebrew for
Cyrillic, short Chinese for Thai, and Japanese in EUC for Korean. What it finds as well has no row here.
"""

from __future__ import annotations

import re
from collections import Counter
from unicodedata import category

_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")


def mean_run(sample: bytes) -> float:
    """Return the mean length of the runs of bytes beyond ASCII. It is less than two in words of Latin letters."""
    runs = _BEYOND_ASCII.findall(sample)
    return sum(map(len, runs)) / max(1, len(runs))


# -- Latin script: by the alphabets of languages ----------------------------------------------------------------------------


_WESTERN = (
    "àâæçèéêëîïôœùûüÿ",  # French
    "äöüß",  # German
    "áéíñóúüªº",  # Spanish
    "àáâãçéêíóôõúªº",  # Portuguese
    "àèéìíîòóù",  # Italian
    "áèéêëíïóöúü",  # Dutch
    "äåéö",  # Swedish, Finnish
    "åæéø",  # Danish, Norwegian
    "áæéíðóöúýþ",  # Icelandic
    "àçèéíïòóú·",  # Catalan
)
_CENTRAL = (
    "ąćęłńóśźż",  # Polish
    "áčďéěíňóřšťúůýž",  # Czech
    "áäčďéíĺľňóôŕšťúýž",  # Slovak
    "áéíóöőúüű",  # Hungarian
    "âîăşţ",  # Romanian
    "ćčđšž",  # Croatian, Bosnian, Slovene
)
_TURKISH = ("çğıöşüâîû\u0307",)  # U+0307 is what lower case leaves of "İ" next to the i
_BALTIC = (
    "ąčėęįšūųž",  # Lithuanian
    "āčēģīķļņšūž",  # Latvian
    "äõöüšž",  # Estonian
)

#: Encodings and the alphabets of their languages. The commonest first: it wins a tie.
LATIN_ENCODINGS = {
    "cp1252": _WESTERN,
    "cp1250": _CENTRAL,
    "cp1254": _TURKISH,
    "cp1257": _BALTIC,
    "iso8859_2": _CENTRAL,
    "mac_roman": _WESTERN,
    "cp850": _WESTERN,
    "cp852": _CENTRAL,
}

# A capital or a sign between two small letters: "espaÒol", "n„o". Apostrophes, dashes and soft hyphens do stand there.
_MISFIT = re.compile(r"(?<=[a-zß-öø-ÿ])[“”„‚‹›«»…•°§€£©®™¿¡†‡À-ÖØ-ÞĀ-ſ](?=[a-zß-öø-ÿ])")
_TYPOGRAPHY = frozenset("“”„‟‘’‚‹›«»–—…•·°§€£©®™¿¡†‡\u00a0\u00ad")


def likeliest_latin(sample: bytes) -> str:
    """Return the encoding in which the alphabet of one language covers most of the letters beyond ASCII in `sample`."""
    return max(LATIN_ENCODINGS, key=lambda encoding: _fit(sample, encoding))  # of equals the first


def _fit(sample: bytes, encoding: str) -> float:
    """Return the share of the letters beyond ASCII in the best language of `encoding`, less that of the characters that cannot
    stand if they do; -1 if `sample` is not decodable."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return -1
    counts = Counter(character for character in text.lower() if character > "\x7f" and character not in _TYPOGRAPHY)
    misfits = sum(not found.islower() for found in _MISFIT.findall(text))
    if not counts:
        return 1 - misfits
    return (max(sum(counts[letter] for letter in alphabet) for alphabet in LATIN_ENCODINGS[encoding]) - misfits) / counts.total()


# -- Cyrillic, Greek, Hebrew, Arabic, Thai: by frequent letters -----------------------------------------------------------------


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
_MIN_RUN = 2.5  # mean length of the runs of bytes beyond ASCII: whole words, not accented letters in Latin words
_MIN_FREQUENT = 0.6


def likeliest_alphabet(sample: bytes) -> str | None:
    """Return the encoding in which most characters beyond ASCII in `sample` are frequent letters; None if none fits."""
    if mean_run(sample) < _MIN_RUN:
        return None
    shares = {encoding: _frequent_share(sample, encoding) for encoding in _FREQUENT}
    best = max(shares, key=lambda encoding: shares[encoding])  # of equals the first
    return best if shares[best] >= _MIN_FREQUENT else None


def _frequent_share(sample: bytes, encoding: str) -> float:
    try:
        text = sample.decode(encoding).lower()
    except UnicodeDecodeError:
        return 0
    letters = [letter for letter in text if letter > "\x7f" and category(letter)[0] not in "PZ"]
    return sum(letter in _FREQUENT[encoding] for letter in letters) / max(1, len(letters))


# -- Chinese, Japanese, Korean: by everyday characters ---------------------------------------------------------------------------


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
_MIN_EVERYDAY = 0.9


def likeliest_east_asian(sample: bytes) -> str | None:
    """Return the encoding in which at least 90% of the characters in `sample` are everyday ones; None if none fits.

    Most of them must be next to each other. On a tie the encoding with fewer everyday characters wins: the Korean ones lie
    within the range of the Chinese ones.
    """
    shares = {encoding: _everyday_share(sample, encoding) for encoding in _EVERYDAY}
    best = max(shares, key=lambda encoding: shares[encoding])  # of equals the first
    return best if shares[best] >= _MIN_EVERYDAY else None


def _everyday_share(sample: bytes, encoding: str) -> float:
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
