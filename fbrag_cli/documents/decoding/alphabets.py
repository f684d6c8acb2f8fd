"""Guess the one-byte encoding of a text in Latin script by the alphabets of its languages.

charset-normalizer finds the script, but not always the encoding among those that share it: it reads "garçon" as "garēon".
"""

from __future__ import annotations

from collections import Counter

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
_TURKISH = ("çğıöşüâîû\u0307",)  # U+0307 is what lower case leaves of "İ" beside the i
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

_TYPOGRAPHY = frozenset("“”„‟‘’‚‹›«»–—…•·°§€£©®™¿¡†‡\u00a0\u00ad")


def likeliest_latin(sample: bytes) -> str:
    """Return the encoding in which the alphabet of one language covers most of the letters beyond ASCII in `sample`."""
    return max(LATIN_ENCODINGS, key=lambda encoding: _fit(sample, encoding))  # of equals the first


def _fit(sample: bytes, encoding: str) -> float:
    """Return the share of the letters beyond ASCII in the best language of `encoding`; -1 if `sample` is not decodable."""
    try:
        text = sample.decode(encoding).lower()
    except UnicodeDecodeError:
        return -1
    counts = Counter(character for character in text if character > "\x7f" and character not in _TYPOGRAPHY)
    if not counts:
        return 1
    return max(sum(counts[letter] for letter in alphabet) for alphabet in LATIN_ENCODINGS[encoding]) / counts.total()
