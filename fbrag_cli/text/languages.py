"""Languages by ISO 639-1 code: their names and words (`languages.toml`), and language detection."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal
from unicodedata import normalize

from fbrag_cli.errors import FbragError

_SYNONYMS = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "farsi": "fa", "myanmar": "my", "mandarin": "zh"}

# The languages of each script; if there are several, function words decide.
_SCRIPTS = {
    "Latin": "en de fr es it pt ca ro nl sv da no fi hu tr pl cs sk hr sl lt lv et eu ga eo id vi sq af sw st is la".split(),
    "Cyrillic": ["ru", "uk", "be", "bg", "mk", "sr"],
    "Arabic": ["ar", "fa", "ur"],
    "Hebrew": ["he", "yi"],
    "Devanagari": ["hi", "mr", "ne"],
    "Hiragana": ["ja"], "Katakana": ["ja"], "Han": ["zh"], "Bopomofo": ["zh"], "Hangul": ["ko"],
    "Greek": ["el"], "Armenian": ["hy"], "Georgian": ["ka"], "Ethiopic": ["am"],
    "Thai": ["th"], "Lao": ["lo"], "Khmer": ["km"], "Myanmar": ["my"], "Tibetan": ["bo"],
    "Bengali": ["bn"], "Gujarati": ["gu"], "Gurmukhi": ["pa"], "Kannada": ["kn"], "Malayalam": ["ml"], "Oriya": ["or"],
    "Sinhala": ["si"], "Tamil": ["ta"], "Telugu": ["te"],
}  # fmt: skip

_SAMPLES, _SAMPLE_CHARS = 8, 1000  # parts spread over a text, because beginnings are often licenses
_LETTERS_A_WORD = {"Han": 2, "Hiragana": 2, "Katakana": 2}  # about 5 in other scripts
_JAPANESE = 0.05  # minimum share of kana in a Japanese text; a Chinese one has almost none
_FEWEST = 0.1  # minimum share of a language's function words in a text
_LONG, _FEWEST_IN_LONG = 30, 3  # a text of 30 words has 3 function words: one of them may be a noun, such as "die"
_FEWEST_DISTINCT = 2  # minimum number of function words that show that a text is not in its document's language
_ALMOST_ALWAYS = {"Hebrew": "he", "Devanagari": "hi"}  # scripts for which function words do not decide


def resolve(name: str) -> str:
    """Return the ISO 639-1 code for a code ("de", "de-AT") or an English name, in any case.

    Raises FbragError: usage.
    """
    asked = name.strip().casefold()
    code = asked.replace("_", "-").partition("-")[0]
    for known, entry in _languages().items():
        if code == known or asked == entry["name"].casefold():
            return known
    if known := _SYNONYMS.get(code, ""):
        return known
    raise FbragError("usage", f"unknown language: {name!r}", "use an ISO 639-1 code or English name, such as de or German")


def script_of(language: str) -> str:
    """Return the first script in which a language (ISO 639-1) is written; "" for an unknown code."""
    return next((script for script, languages in _SCRIPTS.items() if language in languages), "")


def codes() -> list[str]:
    """Return the codes of all languages that have a name."""
    return list(_languages())


def name_of(language: str) -> str:
    """Return the English name of a language by its ISO 639-1 code; "" for an unknown code."""
    return _text(language, "name")


def stemmer_of(language: str) -> str:
    """Return the name of a language's Snowball stemmer; "" without one."""
    return _text(language, "stemmer")


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the function words of a language in lower case; empty for an unknown language."""
    return frozenset(normalize("NFKC", _text(language, "function_words")).casefold().split())


@cache
def asking_words(language: str) -> frozenset[str]:
    """Return the case-folded question words of a language; empty for a language without a list."""
    return frozenset(_text(language, "asking_words").casefold().split())


@cache
def referring_words(language: str) -> frozenset[str]:
    """Return the case-folded words that refer to something named before; empty for a language without a list.

    A word that counts only at the beginning of a question ends with "_". Two words are joined by "_".
    """
    return frozenset(_text(language, "referring_words").casefold().split())


def asks_for_many(question: str, language: str) -> Literal["whole", "count", "comparison", ""]:
    """Return whether a question in a language asks for the whole document ("summarize", "list all"), for a number of things, or
    for the most or a difference; "" if for none of these, or if the language has no lists."""
    apart = "" if language in ("zh", "ja") else " "  # is between words
    asked = apart + apart.join(re.findall(r"\w+", question.casefold())) + apart

    def has(words: str) -> bool:
        phrases = (each.replace("_", apart) + apart for each in words.casefold().split())
        return any(asked.startswith(apart + each[1:]) if each[0] == "^" else apart + each in asked for each in phrases)

    whole, _, count = _text(language, "whole_words").partition("|")
    if has(whole):
        return "whole"
    return "count" if has(count) else "comparison" if has(_text(language, "comparing_words")) else ""


@cache
def place_words(language: str, kind: Literal["page", "section"]) -> tuple[str, ...]:
    """Return the words of a language for a page or slide, or for a section or chapter; empty for a language without a list."""
    return tuple(_text(language, f"{kind}_words").split())


@cache
def months_of(language: str) -> tuple[str, ...]:
    """Return the names of the twelve months in lower case; empty for a language without a list."""
    return tuple(_text(language, "months").split())


@cache
def yes_or_no(language: str) -> dict[str, bool]:
    """Return the words of a language for yes (True) and no, in lower case; empty for a language without a list."""
    yes, _, no = _text(language, "yes_and_no").partition("|")
    return dict.fromkeys(yes.split(), True) | dict.fromkeys(no.split(), False)


@cache
def yes_and_no() -> frozenset[str]:
    """Return the words for yes and no in all languages, in lower case. They are no evidence that a text could contain."""
    return frozenset(word for language in codes() for word in yes_or_no(language))


@cache
def condition_words(language: str) -> frozenset[str]:
    """Return the words of a language that begin a condition or an exception, such as "unless"; empty without a list."""
    return frozenset(_text(language, "condition_words").split())


def sentence(language: str, name: Literal["not_found", "not_sure"]) -> str:
    """Return the sentence printed if no answer was found, or before an answer of low confidence; in English if the language has
    none."""
    return _text(language, name) or _text("en", name)


def _text(language: str, key: str) -> str:
    return _languages().get(language, {}).get(key, "")


@cache
def _languages() -> dict[str, dict[str, str]]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))


def detect(text: str) -> str:
    """Return the ISO 639-1 code of the main language of `text`; "" if it is unclear.

    The script decides, and within a script the share of each language's function words in a sample of the text.
    """
    sample = _sample(text)
    script = _script(sample)
    known = _SCRIPTS.get(script, [""])
    return known[0] if len(known) == 1 else _by_function_words(sample, tuple(known)) or _ALMOST_ALWAYS.get(script, "")


@lru_cache(maxsize=64)  # `explain` scores a sample for each chunk shown
def foreign_language(text: str, languages: tuple[str, ...]) -> str:
    """Return the language of `text` if it is not one of `languages`; "" if it is, or if it is unclear.

    If none of `languages` uses the Latin script, the language of the Latin words in `text` also counts, because a Chinese sample
    may quote English. Names and headings contain function words of other languages ("La Paz", "civil war"). Therefore a language
    needs two different ones in lower case, more than `languages` have, and one more word.
    """
    import regex

    parts = [text]
    if not any(language in _SCRIPTS["Latin"] for language in languages):
        parts.append(" ".join(regex.findall(r"\p{Latin}[\p{Latin}\p{M}]*", text)))
    for part in parts:
        language = detect(part)
        if language and language not in languages and _shows(part, language, languages):
            return language
    return ""


def _shows(text: str, language: str, others: tuple[str, ...]) -> bool:
    """Return whether words of `text` show that it is in `language`, and not in one of `others`."""
    import regex

    known = stop_words(language)
    words = regex.findall(r"[\p{L}\p{M}]+", normalize("NFKC", text[:1].lower() + text[1:]))
    own = frozenset[str]().union(*map(stop_words, others))
    lower = {word for word in words if not word[0].isupper()}
    shown = len(lower & (known - own))
    return shown >= _FEWEST_DISTINCT and shown > len(lower & (own - known)) and not known.issuperset(map(str.casefold, words))


def _sample(text: str) -> str:
    if len(text) <= _SAMPLES * _SAMPLE_CHARS:
        return text
    step = (len(text) - _SAMPLE_CHARS) // (_SAMPLES - 1)
    return "\n".join(text[i * step : i * step + _SAMPLE_CHARS] for i in range(_SAMPLES))


def _script(sample: str) -> str:
    """Return the script of most words in `sample`; "" if it has no letters of a known script."""
    words = {script: n / _LETTERS_A_WORD.get(script, 5) for script, n in _letters(sample).items()}
    kana, han = words.get("Hiragana", 0) + words.get("Katakana", 0), words.get("Han", 0)
    if kana > _JAPANESE * (kana + han):
        words["Hiragana"] = kana + words.pop("Han", 0)
    return max(words, key=lambda script: words[script], default="")


def _letters(sample: str) -> Counter[str]:
    if sample.isascii():
        return Counter(Latin=sum(map(str.isalpha, sample)))
    pattern = _letters_by_script()
    letters = Counter[str]()
    for character, n in Counter(sample).items():
        if found := pattern.match(character):
            letters[found.lastgroup] += n
    return letters


@lru_cache(maxsize=1)
def _letters_by_script():  # type: ignore[no-untyped-def]  # regex has no type information here
    import regex

    return regex.compile("|".join(rf"(?P<{script}>[\p{{Script={script}}}&&\p{{L}}])" for script in _SCRIPTS), regex.V1)


def _by_function_words(sample: str, languages: tuple[str, ...]) -> str:
    import regex

    counts = Counter(regex.findall(r"[\p{L}\p{M}]+", normalize("NFKC", sample).casefold()))
    known = _languages_by_word(languages)
    weights = dict.fromkeys(languages, 0.0)
    occurrences, distinct = Counter[str](), Counter[str]()
    for word in sorted(counts.keys() & known.keys()):  # sorted, because sums of floats depend on the order
        for language in known[word]:
            weights[language] += counts[word] / len(known[word])  # a word of many languages counts little
            occurrences[language] += counts[word]
            distinct[language] += 1
    best = max(weights, key=lambda language: weights[language])
    n_words = counts.total()
    is_shown = n_words < _LONG or distinct[best] >= _FEWEST_IN_LONG
    return best if is_shown and occurrences[best] >= _FEWEST * max(1, n_words) else ""


@cache
def _languages_by_word(languages: tuple[str, ...]) -> dict[str, list[str]]:
    """Return, for each function word, those of `languages` that have it."""
    known: dict[str, list[str]] = {}
    for language in languages:
        for word in stop_words(language):
            known.setdefault(word, []).append(language)
    return known
