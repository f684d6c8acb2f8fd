"""Further terms of a text: other forms of its words, numbers and dates, which a question may use.

They count next to the terms of `words`, but not in a text's length: the parts of `max_retry_count`, `maxRetryCount` and
`10kg`, a part number without its hyphens, a number without the spaces between its digits, and the day of a date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import regex

from fbrag_cli.text.languages import months_of
from fbrag_cli.text.words import month_term, term_of, words_of

_MOST_PARTS = 10  # of an identifier; a hash has more
# Not parted, as they are words of prose: "12th", "1990s", "MP4", "A380", "McDonald", "TransLink".
_WHOLE = regex.compile(r"\d+(?:st|nd|rd|th|s)|\p{Lu}+\d{1,3}|\p{Lu}\p{Ll}+\p{Lu}\p{Ll}+(?:['’]s)?")

# 1. Parts of a word begin at an underscore, a capital, and between a letter and a digit. A part number: "KRW-114-W". Few words
# have such a joint; in bytes, one for the kind of each character, it is found at once.
_KINDS = bytes(
    ord(
        "A"
        if c.isupper()
        else "a"
        if c.isalpha() or c == "?"
        else "0"
        if c.isdigit()
        else " "
        if c.isspace()
        else c
        if c in "_-"
        else "."
    )
    for c in map(chr, range(256))
)
_JOINTS, _JOINTS_OF_DIGITS = (b"_", b"aA", b"AAaa"), (b"a0", b"A0", b"0a", b"0A", b"A-0", b"0-A")
_JOINT = regex.compile(r"_|\p{Ll}\p{Lu}|\p{L}\p{Nd}|\p{Nd}\p{L}|\p{Lu}{2}\p{Ll}{2}")
_PART = regex.compile(r"\p{Nd}+(?:[.,]\p{Nd}+)*|\p{Lu}+(?![\p{Ll}\p{M}])|\p{Lu}?[\p{Ll}\p{Lo}\p{M}]+|\p{Lu}")
_HYPHENED = re.compile(r"(?<![\w-])(?=[\d-]*[A-Z])(?=[A-Z-]*\d)(?!(?:19|20)\d\d-[01]\d-[0-3]\d)[A-Z\d]+(?:-[A-Z\d]+)+(?![\w-])")

# 2. What begins with a digit and goes over words: a number with spaces between its digits, and a day with its month.
_DIGITS = re.compile(r"\d(?<!\d\d)(?:\d{3}(?=[-/.])|\d\d(?=\s)|\d?(?!\d))")  # neither "2024 was" nor "12345"
_OTHER_SCRIPT = 8  # Latin-1 lacks one of 8 characters of such a text
_SPACED = re.compile(r"(?<![\w.,])\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?:[.,]\d+)?(?![\w]|[.,]\d)")
_DAY, _MONTH, _YEAR = r"(0?[1-9]|[12]\d|3[01])", r"(0?[1-9]|1[0-2])", r"(?:19|20)\d\d"
_ISO = re.compile(rf"(?<![\w./-]){_YEAR}(?:-{_MONTH}-|/{_MONTH}/|\.{_MONTH}\.){_DAY}(?!\d)")
_EAST = re.compile(rf"{_MONTH}\s?[月월]\s?{_DAY}\s?[日일号號]")
_NUMERIC = re.compile(rf"(?<![\w./-])(\d{{1,2}})[./](\d{{1,2}})[./]{_YEAR}(?!\d)")
_WITH_NAME = re.compile(rf"(?<![\w.,:/-]){_DAY}(?:st|nd|rd|th|er|º|ª|\.)?(?![\w:/-]|[.,]\d)")
_AFTER = re.compile(r"\s{1,2}(?:(?:of|de|di|d')\s?)?([^\W\d_]{3,})")
_NEAR = 20  # characters in which the name of a month is looked for


def further_terms(text: str, languages: Sequence[str] = ("en",), spoken: str = "") -> list[str]:
    """Return the further terms of `text`, with repetitions. languages, spoken: as for `words.terms`."""
    return [term for _, _, term in further_spans(text, languages, spoken)]


def further_spans(text: str, languages: Sequence[str] = ("en",), spoken: str = "") -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, term) for each of `further_terms`; the span of a part is that of its whole word."""
    known, letters = (*languages,), text.encode("latin-1", "replace")
    kinds = letters.translate(_KINDS)
    for start, end in _jointed(kinds):
        yield from ((start, end, term) for term in _parts(text[start:end], known))
    # Most of a novel has no digit. Another script may have its own digits.
    if b"0" in kinds or _OTHER_SCRIPT * letters.count(b"?") > len(letters):
        for digits in _DIGITS.finditer(text):
            yield from _from_digits(text, *digits.span(), known, spoken)


def day_term(month: int, day: int) -> str:
    """Return the term of a day of the year, which no word has: "03-12"."""
    return f"{month:02}-{day:02}"


def _jointed(kinds: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each stretch without spaces that may have parts. kinds: of the characters of a text."""
    ends = dict[int, int]()
    for joint in (*_JOINTS, *_JOINTS_OF_DIGITS) if b"0" in kinds else _JOINTS:
        at = kinds.find(joint)
        while at >= 0:
            end = kinds.find(b" ", at)
            ends[kinds.rfind(b" ", 0, at) + 1] = end = end if end >= 0 else len(kinds)
            at = kinds.find(joint, end)
    yield from ends.items()


@lru_cache(maxsize=1 << 16)
def _parts(stretch: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the terms of the parts of the words in a stretch without spaces."""
    parts = [each.group().replace("-", "") for each in _HYPHENED.finditer(stretch)]
    for word in words_of(stretch) if _JOINT.search(stretch) else ():
        own = _PART.findall(word) if _JOINT.search(word) and not _WHOLE.fullmatch(word) else []
        if 1 < len(own) <= _MOST_PARTS:
            parts += [part for i, part in enumerate(own) if len(part) > 1 or (not i and part.isdigit())]
    return tuple(term for part in parts for term in dict.fromkeys(term_of(part, each) for each in languages) if term)


def _from_digits(text: str, start: int, stop: int, languages: tuple[str, ...], spoken: str) -> Iterator[tuple[int, int, str]]:
    """Yield what begins with the digits `text[start:stop]` and goes over words."""
    n, following = stop - start, text[stop : stop + 2]
    if n == 4:
        if following[:1] in "-/." and (match := _ISO.match(text, start)):
            month, day = filter(None, match.groups())
            yield *match.span(), day_term(int(month), int(day))
    elif n <= 3 and following[:1].isspace() and following[1:].isdigit():
        if match := _SPACED.match(text, start):
            yield *match.span(), term_of("".join(match.group().split()), languages[0] if languages else "")
    elif n <= 2 and not following.isascii() and (match := _EAST.match(text, start)):
        yield *match.span(), day_term(int(match[1]), int(match[2]))
    elif n <= 2 and following[:1] in "./" and (match := _NUMERIC.match(text, start)):
        day, month = int(match[1]), int(match[2])
        if month > 12 and "en" in languages:
            day, month = month, day
        # In English "03/04/2025" may be in March or in April.
        if 1 <= day <= 31 and 1 <= month <= 12 and (day > 12 or not {"en", ""} & {*languages}):
            yield *match.span(), day_term(month, day)
    elif n <= 2 and (match := _WITH_NAME.match(text, start)):
        yield from _with_name(text, match, languages, spoken)


def _with_name(text: str, day: re.Match[str], languages: tuple[str, ...], spoken: str) -> Iterator[tuple[int, int, str]]:
    """Yield the term of a day next to the name of its month; if the name is cut short, also the term of the whole name."""
    start, end = day.span()
    name, month = "", 0
    if after := _AFTER.match(text, end):
        name, month = after[1], _month_of(after[1], languages, spoken)
        end = after.end() if month else end
    if not month:
        before = [each for each in text[max(0, start - _NEAR) : start].split() if each != "the"]
        name = before[-1].rstrip(".,") if before else ""
        month, start = _month_of(name, languages, spoken), max(0, start - len(name) - 1)
    if month:
        yield start, end, day_term(month, int(day[1]))
        named = ((month_term(f"{month:02}", each), term_of(name, each)) for each in languages)
        yield from ((start, end, whole) for whole, term in named if whole != term)


@lru_cache(maxsize=1 << 14)
def _month_of(word: str, languages: tuple[str, ...], spoken: str) -> int:
    """Return the number of the month that a word names, in full or cut after three letters or more; else 0."""
    for language in dict.fromkeys((*languages, spoken or "en", "en")):
        stem, folded = term_of(word, language), word.casefold()
        if len(word) < 3 or (not stem and word.islower()):  # "Section 12 may be left out"
            continue
        months = enumerate(_months(language), 1)
        alike = [i for i, (name, term) in months if name.startswith(folded) or (stem and stem == term)]
        if len(alike) == 1:
            return alike[0]
    return 0


@lru_cache(maxsize=32)
def _months(language: str) -> tuple[tuple[str, str], ...]:
    """Return the name and the term of each month."""
    return tuple((name, month_term(f"{i:02}", language)) for i, name in enumerate(months_of(language), 1))
