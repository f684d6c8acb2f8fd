"""Values of answers: a question of a type gives a number, a date, yes or no, or one of several choices, if its answer says one.

Nothing is forced. An answer with two values or a condition has no value, and neither has one that cannot be read for certain.
"""

from __future__ import annotations

import re
from datetime import date

from fbrag_cli.text.languages import condition_words, months_of, yes_or_no

#: A value in a row: a date is "2027-03-31", yes is True.
Value = str | int | float | bool

TYPES = ("text", "number", "date", "yes-no")

_POINT = frozenset("en zh ja ko th he ga hi bn ta te ml mr gu pa kn si ms sw am".split())  # languages that write 1,234.5
_MONTH_FIRST_TOO = frozenset({"en", ""})  # languages in which 03/04/2025 is in March or in April
_MOST_DIGITS = 15  # which a spreadsheet keeps
_SPACES = "\u00a0\u2009\u202f"
# A number may have a sign, and a code of a currency or a unit next to it: "EUR18,400", "-5%".
_NUMBER = re.compile(rf"(?<![\w.,'’{_SPACES}-])(?:[A-Z]{{3}})?([-−]?\d+(?:[.,'’{_SPACES} ]\d+)*)(?:[A-Z]{{3}})?(?![\w]|[.,]\d)")
# "1.5 million" is not 1.5.
_SCALE = re.compile(r"\W*(?:thousand|hundred|dozen|k|mn|bn|mio|mrd|tsd|tausend|(?:m|b|tr)[ií]l+(?:i[oaóe]|ard)\w*)\b", re.I)
_DAY, _YEAR = r"(\d{1,2})(?:st|nd|rd|th|er|º|ª|\.)?", r"(\d{4})"
_DATES = (
    (re.compile(rf"(?<![\w./-]){_YEAR}[-/.](\d\d?)[-/.](\d\d?)(?![\w/-])"), "ymd"),
    (re.compile(rf"{_YEAR}\s?[年년]\s?(\d\d?)\s?[月월]\s?(\d\d?)\s?[日일]"), "ymd"),
    (re.compile(rf"(?<![\w./-])(\d\d?)[./-](\d\d?)[./-]{_YEAR}(?![\w/-])"), "dmy"),
    (re.compile(rf"(?<![\w./-]){_DAY}\s(?:(?:of|de|di|d'|the)\s?)?([^\W\d_]{{3,}})\.?,?\s(?:(?:de|del)\s)?{_YEAR}(?!\w)"), "dmy"),
    (re.compile(rf"(?<!\w)([^\W\d_]{{3,}})\.?\s{_DAY},?\s{_YEAR}(?!\w)"), "mdy"),
)


def checked_type(text: str) -> str:
    """Return the type of a question in a file of questions: one of `TYPES`, or choices ("a;b;c"). Raises ValueError."""
    choices = [choice.strip() for choice in text.split(";")]
    if text.lower() in TYPES:
        return text.lower()
    if len(choices) < 2 or not all(choices) or len({choice.casefold() for choice in choices}) < len(choices):
        raise ValueError(f"unknown type {text[:40]!r}: expected {', '.join(TYPES)}, or choices such as low;high")
    return ";".join(choices)


def value_of(answer: str, type: str, language: str, sentence: str = "") -> Value | None:
    """Return the value of an answer; None if it has none for certain. type: as `checked_type` returns it. language: of the
    document, ISO 639-1. sentence: of the document, which shows the answer, and may add a condition."""
    said = answer.replace("\n", " ").strip()
    if type == "text":
        return said or None
    if _has_condition(f"{said} {sentence}", language):
        return None
    if type == "number":
        return _number(said, language)
    if type == "date":
        return _date(said, language)
    return _yes_or_no(said, language) if type == "yes-no" else _choice(said, type.split(";"))


def _has_condition(text: str, language: str) -> bool:
    words = set(re.findall(r"\w+", text.lower()))
    return not words.isdisjoint(condition_words(language) | condition_words("en"))


def _number(text: str, language: str) -> float | None:
    """Return the only number in a text, by the signs of a language."""
    found = list(_NUMBER.finditer(text))
    values = {_read_number(each[1], language) for each in found}
    if len(values) != 1 or any(_SCALE.match(text, each.end()) for each in found):
        return None
    return values.pop()


def _read_number(text: str, language: str) -> float | None:
    point, comma = (".", ",") if language in _POINT else (",", ".")
    spaces = _SPACES if language in _POINT else f"{_SPACES} "
    grouped = rf"\d{{1,3}}(?:([{re.escape(comma)}'’{spaces}])\d{{3}})(?:\1\d{{3}})*"
    if not re.fullmatch(rf"[-−]?(?:{grouped}|\d+)(?:{re.escape(point)}\d+)?", text):
        return None
    plain = re.sub(rf"[{re.escape(comma)}'’{_SPACES} ]", "", text).replace("−", "-").replace(point, ".")
    if len(plain) > _MOST_DIGITS:
        return None
    return int(value) if (value := float(plain)).is_integer() else value


def _date(text: str, language: str) -> str | None:
    """Return the only date in a text; None also for one that may be read in two ways."""
    found = set()
    for pattern, order in _DATES:
        for match in pattern.finditer(text):
            parts = dict(zip(order, match.groups(), strict=True))
            if parts["m"].isdigit() and order == "dmy" and language in _MONTH_FIRST_TOO:
                if int(parts["d"]) <= 12 and int(parts["m"]) <= 12 and parts["d"] != parts["m"]:
                    return None
                if int(parts["m"]) > 12:
                    parts = {**parts, "d": parts["m"], "m": parts["d"]}
            month = int(parts["m"]) if parts["m"].isdigit() else _month(parts["m"], language)
            try:
                found.add(date(int(parts["y"]), month, int(parts["d"])).isoformat())
            except ValueError:
                continue
    # A second year may be of a date that is not read: "from March 2025 to 1 April 2027".
    years = {*re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", text)}
    return found.pop() if len(found) == 1 and len(years) < 2 else None


def _month(word: str, language: str) -> int:
    """Return the number of the month that a word names, also if it is inflected or cut after three letters; 0 for none."""
    word = word.casefold()
    for each in dict.fromkeys((language, "en")):
        shared = [len(_common(word, name)) for name in months_of(each)]
        longest = max(shared, default=0)
        if longest >= 3 and shared.count(longest) == 1 and longest >= min(len(word), 3) and len(word) - longest <= 2:
            return shared.index(longest) + 1
    return 0


def _common(one: str, other: str) -> str:
    n = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:n]


def _yes_or_no(text: str, language: str) -> bool | None:
    """Return whether an answer begins with yes, not with no: "No, …", but not "No later than …"."""
    begun = re.match(r"\W*(\w+)(?:\W*$|\s*[,.;:!–—])", text.lower())
    return {**yes_or_no("en"), **yes_or_no(language)}.get(begun[1]) if begun else None


def _choice(text: str, choices: list[str]) -> str | None:
    """Return the only choice that an answer names. A choice within a longer one is not named by it."""
    named = list[str]()
    for choice in sorted(choices, key=len, reverse=True):
        pattern = re.compile(rf"(?<!\w){re.escape(choice)}(?!\w)", re.I)
        if pattern.search(text):
            named.append(choice)
            text = pattern.sub(" ", text)
    return named[0] if len(named) == 1 else None
