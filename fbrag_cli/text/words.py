"""Words and terms of a text: the tokenizer that indexing, scoring and highlighting share.

Words are found by Unicode's default word boundaries (UAX #29). BM25 counts terms: a word in lower case and compatibility form,
reduced to its stem by the Snowball stemmer of its language. Function words have no term. Scripts without spaces between words
(Han, kana, Thai, Lao, Khmer, Myanmar) have a term for each two neighbouring characters, as in search engines. So have Korean
words, whose endings would hide them otherwise. A traditional character counts as its simplified one. A month that a date has as
a number also has the term of its name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, islice, pairwise
from operator import add, itemgetter
from pathlib import Path
from unicodedata import digit, is_normalized, normalize

import regex

from fbrag_cli.text.languages import codes, months_of, stemmer_of, stop_words
from fbrag_cli.text.sentences import sentence_starts

_PERSIAN = str.maketrans("يىك", "ییک")
_STRETCH, _NO_SPACE = re.compile(r"\S+"), re.compile(r"\S")
_AROUND = ".,;:!?'\"()[]{}<>*/-–—…“”‘’«»"  # often next to a word
_LONGEST_CACHED = 40  # characters; a longer stretch without spaces is not cached in a table of terms
_MOST_CACHED = 1 << 18  # stretches
_MOST_WORDS = 1 << 30  # in a chunk
# The weight of a word, in words of prose: 1; of one of more than 16 characters 1 for each 4, and 1 for each 4 digits. With the
# default model's vocabulary, a word of a novel has 1.3 tokens, and one by weight up to 2.6: base64 2.6, JWTs 2.5, times 2.4,
# hashes 2.2, DNA 2.1, minified code 1.2. Prose with names and addresses weighs up to 1.3 of its words.
_LONG, _UNIT, _DIGITS = 16, 4, 4
_DENSE = 1.5  # times its words: more is not prose
_NEVER_CUT = 250  # words: a chunk of a few words may contain a long URL
_PLACES = tuple(re.compile(pattern, re.DOTALL) for pattern in (r".*\n", r".*\s", r".*[,;]", r".*"))  # to cut at, best first

# 1. Scripts without spaces: Line_Break=SA is Unicode's list of the South East Asian ones.
_MARK = r"\p{GCB=Extend}\p{GCB=SpacingMark}"
_HAN_KANA = rf"[[\p{{Han}}\p{{Hiragana}}\p{{WB=Katakana}}]--[{_MARK}]]"
_SOUTH_EAST = rf"[\p{{LB=SA}}--[{_MARK}]]"
_RUN = rf"(?P<run>(?:{_HAN_KANA}[{_MARK}]*+)++|{_SOUTH_EAST}[\p{{LB=SA}}\p{{GCB=Extend}}]*+)"

# 2. All others: rules WB4 to WB13 of UAX #29. regex's own boundaries, (?w)\b, are as fast and find the same words in our texts,
# but break WB4 next to punctuation: they split "café’s" with a combining accent, and 0.6% of random strings that test the rules.
_LETTER, _HEBREW = r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]", r"\p{WB=Hebrew_Letter}"
_DIGIT = r"\p{WB=Numeric}"
_INSIDE = rf"[\p{{WB=ALetter}}{_HEBREW}{_DIGIT}\p{{WB=ExtendNumLet}}]++"
_TAIL = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"
_QUOTE = r"\p{WB=MidNumLet}\p{WB=Single_Quote}"
_WORD = regex.compile(
    rf"""(?x) {_INSIDE} (?:
        {_INSIDE} | {_TAIL}++
      | [\p{{WB=MidLetter}}{_QUOTE}] {_TAIL}*+ (?={_LETTER}) (?<={_LETTER}{_TAIL}*[\p{{WB=MidLetter}}{_QUOTE}]{_TAIL}*)
      | [\p{{WB=MidNum}}{_QUOTE}]    {_TAIL}*+ (?={_DIGIT})  (?<={_DIGIT}{_TAIL}*[\p{{WB=MidNum}}{_QUOTE}]{_TAIL}*)
      | \p{{WB=Double_Quote}}        {_TAIL}*+ (?={_HEBREW}) (?<={_HEBREW}{_TAIL}*\p{{WB=Double_Quote}}{_TAIL}*)
    )*+ (?: \p{{WB=Single_Quote}} {_TAIL}*+ (?<={_HEBREW}{_TAIL}*\p{{WB=Single_Quote}}{_TAIL}*)
        | (?<=\p{{WB=ZWJ}})\p{{ExtPict}} {_TAIL}*+ )?+
    | {_RUN}""",
    regex.V1,
)

# 3. Inside a word: an abbreviation is one term ("U.S.A"), "example.com" and "end.Then" are two; "GPU" loses a Korean ending.
_ABBREVIATION = regex.compile(r"\p{L}(?:\.\p{L})+")
_COMPOUND = regex.compile(r"[.:．：\p{Hangul}]")
_BASE, _TRAILING = rf"[\w--[{_MARK}\p{{Cf}}\p{{Hangul}}]]", rf"[{_MARK}\p{{Cf}}]"
_PART = regex.compile(
    rf"""(?x) (?P<run> \p{{Hangul}} [\p{{Hangul}}{_MARK}\p{{Cf}}]*+ )
    | {_BASE} (?: {_BASE} | {_TRAILING} | (?<=\p{{Nd}})[.．](?=\p{{Nd}}) | [^\p{{Hangul}}.:．：]{_TRAILING}*+(?={_BASE}) )*+""",
    regex.V1,
)
_CLUSTER = regex.compile(r"\X")
_MARKED = regex.compile(rf"[{_MARK}\p{{DI}}\p{{GCB=Prepend}}\p{{GCB=L}}\p{{GCB=V}}\p{{GCB=T}}]", regex.V1)

# 4. Removed from terms, as writers may omit them: invisible characters, tatweel, vowel points, nukta, the dot of a lower-case İ.
_LEFT_OUT = regex.compile(r"\p{DI}|\u0640|[\p{Mn}&&[\p{Arabic}\p{Hebrew}\u064b-\u0655\u0670]]|\u093c|(?<=i)\u0307", regex.V1)
_AND_THE = regex.compile("^وال")
_ACCENTED = regex.compile(r"(\p{Latin})\p{Mn}+")
_GROUPED = regex.compile(r"(?<=\d)[.,'](?=(?:\d{3})+(?!\d))")  # the separators of "1,000,000"
# NFKC takes quadratic time to sort a run of marks. Unicode defines a safe limit (UAX #15).
_MOST_MARKS = 30
_MORE_MARKS = regex.compile(r"([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+")

# 5. The month of a date in digits: "2025-12", "2025/12/31", "12/2025", "31.12.2025" or "12.2025", of which the last two are one
# word, so that their year is a word as well. In "03/04/2025" the month is uncertain.
_DATE = re.compile(
    r"""(?x) (?<![\w./-]) (?: (?:19|20)\d\d [-/] (0[1-9]|1[0-2]) (?!\d) | (0?[1-9]|1[0-2]) / (?:19|20)\d\d (?![\w/])
    | (?:(?:0?[1-9]|[12]\d|3[01]) \. (?=\d{1,2}\.) | (?=\d\d\.\d{4})) (0?[1-9]|1[0-2]) \. (?P<year>(?:19|20)\d\d) (?!\w) )"""
)
_MAYBE_DATE = re.compile(r"[0-9][-/.][0-9]")  # ten times as fast

# 6. Words in a chunk's length: stretches without spaces; in scripts without spaces two characters of Han or kana, or three
# clusters of another script, with the punctuation next to them. So 300 words are about as much text as in English: XQuAD has
# 29,724 words in English and 26,905 in Chinese; translators count 1.3 to 1.8 Chinese characters a word, 2 to 2.5 Japanese ones,
# 4 letters of Thai.
_COUNTED = regex.compile(
    rf"""(?x) [\p{{Ps}}\p{{Pi}}]*+ (?: (?: {_HAN_KANA}[{_MARK}]*+ ){{1,2}} | (?: (?={_SOUTH_EAST})\X ){{1,3}} )
        (?: [^\w\s\p{{Ps}}\p{{Pi}}][{_MARK}]*+ )*+
    | (?: (?!{_HAN_KANA}|{_SOUTH_EAST})\S )++""",
    regex.V1,
)
_WITHOUT_SPACES = regex.compile(rf"{_HAN_KANA}|{_SOUTH_EAST}", regex.V1)
_FAR = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u1aaf\u2e80-\uabff\uf900-\uffff\U00010000-\U0010ffff]"
)  # the range that has them all


def terms(text: str, languages: Sequence[str] = ("en",), spoken: str = "") -> list[str]:
    """Return the terms of `text` in order, with repetitions: the same as `term_spans`, but faster.

    languages: as for `term_spans`. spoken: the language of the text, if `languages` has others as well. Its function words have
    no term in those either: "the" is rare in a French document, but no reason to select it.
    """
    return list(chain.from_iterable(map(_table(tuple(languages), spoken).__getitem__, text.split())))


def term_spans(text: str, languages: Sequence[str] = ("en",)) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, term) for each term of `text`, by ascending start; offsets are in characters.

    languages: ISO 639-1 codes; "" for an unknown one. With several, a word has one term per language, in their order, without
    duplicates. The spans of character pairs overlap.
    """
    for start, end, kind in _pieces(text):
        piece = text[start:end]
        if kind == "run":
            yield from ((start + first, start + last, term) for first, last, term in _pair_spans(piece))
        else:
            found = (month_term(piece, each) if kind == "month" else term_of(piece, each) for each in languages)
            for term in dict.fromkeys(found):
                if term:
                    yield start, end, term


@lru_cache(maxsize=1 << 18)
def term_of(word: str, language: str = "en") -> str:
    """Return the term of one word; "" for a function word."""
    stops = stop_words(language)
    if word.isascii() and word.isalpha() and language != "tr":
        folded = word.lower()
        return "" if folded in stops else _stemmer(language)(folded)
    folded = _folded(word, language)
    if _ABBREVIATION.fullmatch(folded):
        return folded.replace(".", "")
    kept = [part for part in folded.split("'") if part and part not in stops]
    return _stemmer(language)("'".join(kept)) if kept else ""


def words_of(text: str) -> list[str]:
    """Return the words of `text` that have a term each, in order, without those in scripts without spaces."""
    return [text[start:end] for start, end, kind in _words(text) if kind == "word"]


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) for each word of `text` as counted in chunks, with adjacent punctuation."""
    spaced = _puts_spaces(text)
    for stretch in _STRETCH.finditer(text):
        if spaced or stretch.group().isascii():
            yield stretch.span()
        else:
            yield from (word.span() for word in _COUNTED.finditer(text, *stretch.span()))


def count_words(text: str) -> int:
    """Return the number of words of `text`; of base64, numbers or code without spaces its weight, which is higher."""
    words = [text[start:end] for start, end in word_spans(text)]
    weight = sum(map(_weight, words))
    return round(weight) if weight > _DENSE * len(words) else len(words)


def _weight(word: str) -> float:
    """Return how many words of prose have about as many tokens as `word`."""
    return len(word) / _UNIT + sum(map(word.count, "0123456789")) / _DIGITS if len(word) > _LONG else 1


def cut(text: str, n_words: int, in_rows: Callable[[int], bool] | None = None) -> list[tuple[int, int, int]]:
    """Return (start, end, words) for each chunk of about `n_words` words of `text`, in order; the last may be shorter.

    A chunk ends with a sentence, up to a tenth of `n_words` before or after `n_words`: preferably at the end of a paragraph, else
    as near to `n_words` as possible. If no sentence ends there, it has exactly `n_words`. Every word is in one chunk. in_rows:
    returns whether an offset is in the rows of a table, in which a chunk ends with a row, best before a blank line. A chunk
    that weighs more than prose (`count_words`) is cut again, at the end of a line if it has one.
    """
    n_words = min(n_words, _MOST_WORDS)
    slack = n_words // 10
    skipped, size = n_words - slack - 1, 2 * slack + 2  # a window: the words that may end a chunk, and one more
    spans = None if _puts_spaces(text) else list(word_spans(text))
    chunks: list[tuple[int, int, int]] = []
    n_cut, start = 0, len(text) - len(text.lstrip())
    while True:
        first = n_cut + skipped
        window = _stretches_after(text, start, skipped, size) if spans is None else spans[first : first + size]
        if len(window) < size:
            break
        last = _last_word(text, window, rows=in_rows is not None and in_rows(window[size // 2 - 1][0]))
        chunks += _shortened(text, start, window[last][1], skipped + last + 1, n_words)
        start, n_cut = window[last + 1][0], first + last + 1
    rest = len(text[start:].split()) if spans is None else len(spans) - n_cut
    return [*chunks, *_shortened(text, start, len(text.rstrip()), rest, n_words)] if rest else chunks


def _shortened(text: str, start: int, end: int, words: int, n_words: int) -> Iterator[tuple[int, int, int]]:
    """Yield the chunk (start, end, words); its parts of up to `n_words` words each if it weighs far more than these."""
    chunk, most = text[start:end], max(_DENSE * n_words, _NEVER_CUT)
    # Fast, and no less than the weight: without regard to scripts without spaces.
    if words + sum(len(each) for each in chunk.split() if len(each) > _LONG) * (1 / _UNIT + 1 / _DIGITS) <= most:
        yield start, end, words
        return
    weighed = [(span, _weight(chunk[slice(*span)])) for span in word_spans(chunk)]
    if sum(weight for _, weight in weighed) <= most:
        yield start, end, words
        return
    # Where each word ends, or each of the equal parts of a heavy one.
    parts = ((first, last, round(weight)) for (first, last), weight in weighed)
    ends = [start + first + (last - first) * part // n for first, last, n in parts for part in range(1, n + 1)]
    while start < end:
        before = bisect_right(ends, start)
        n_left, last = len(ends) - before, end
        if n_left > n_words:
            size = -(n_left // (n_left // -n_words))  # as many parts as needed, of equal size
            middle, most = ends[before + size // 2], ends[before + size - 1]
            last = next(found.end() for place in _PLACES if (found := place.match(text, middle, most + 1)))
        part = text[start:last].rstrip()
        yield start, start + len(part), bisect_right(ends, last) - before
        start = next((found.start() for found in _NO_SPACE.finditer(text, last, end)), end)


def _puts_spaces(text: str) -> bool:
    return not (_FAR.search(text) and _WITHOUT_SPACES.search(text))


def _stretches_after(text: str, start: int, skipped: int, n: int) -> list[tuple[int, int]]:
    """Return the spans of up to `n` stretches without spaces that follow the first `skipped` ones from `start`."""
    found = _stretches(skipped).match(text, start)
    return [stretch.span() for stretch in islice(_STRETCH.finditer(text, found.end()), n)] if found else []


@lru_cache(maxsize=8)
def _stretches(n: int) -> re.Pattern[str]:
    """Return a pattern for `n` stretches without spaces, and the spaces after each."""
    return re.compile(rf"(?:\S+\s+){{{n}}}")


def _last_word(text: str, window: list[tuple[int, int]], *, rows: bool) -> int:
    """Return the position of the word in `window` after which to cut: as near to the middle as possible, never the last."""
    middle = len(window) // 2 - 1
    gaps = ((text[end:start], start) for (_, end), (start, _) in pairwise(window)) if rows else ()
    starts = {start: "\n\n" in gap for gap, start in gaps if "\n" in gap}
    starts = starts or sentence_starts(text, window[0][0], window[-1][1])
    ends = [(not starts[start], abs(i - middle), i) for i, (start, _) in enumerate(window[1:]) if start in starts]
    return min(ends)[2] if ends else middle


class _Terms(dict[str, tuple[str, ...]]):
    """A cache of terms by stretch without spaces. A lookup computes the terms of a new stretch."""

    def __init__(self, languages: tuple[str, ...], spoken: str) -> None:
        self._languages, self._spoken = languages, spoken

    def __missing__(self, stretch: str) -> tuple[str, ...]:
        word = stretch.strip(_AROUND)
        if word.isascii() and word.isalnum():
            forms = self._of(word)
        else:
            pieces = ((stretch[start:end], kind) for start, end, kind in _pieces(stretch))
            forms = tuple(term for piece, kind in pieces for term in self._of_piece(piece, kind))
        if len(stretch) <= _LONGEST_CACHED:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[stretch] = forms
        return forms

    def _of_piece(self, piece: str, kind: str) -> Sequence[str]:
        if kind == "run":
            return _pairs(piece)
        if kind == "month":
            return [term for term in dict.fromkeys(month_term(piece, each) for each in self._languages) if term]
        return self._of(piece)

    def _of(self, word: str) -> tuple[str, ...]:
        if self._spoken and not term_of(word, self._spoken):
            return ()
        if len(self._languages) == 1:
            term = term_of(word, self._languages[0])
            return (term,) if term else ()
        return tuple(dict.fromkeys(term for language in self._languages if (term := term_of(word, language))))


@lru_cache(maxsize=1 << 10)
def month_term(month: str, language: str) -> str:
    """Return the term of the name of a month, by its number: "05"; that of the number alone for a language without names.

    If the language is unknown, as that of a table may be, the names in all languages have the term of the English one.
    """
    names = months_of(language or "en")
    return _stemmer(language)(_folded(names[int(month) - 1], language)) if names else month.lstrip("0")


@lru_cache(maxsize=32)
def _table(languages: tuple[str, ...], spoken: str) -> _Terms:
    return _Terms(languages, spoken)


def _pieces(text: str) -> Iterable[tuple[int, int, str]]:
    """Return (start, end, kind) of each "word" or part of one, "run" whose terms are pairs of characters, and "month" in digits,
    which is also a word or in one; by ascending start."""
    dates = [*_DATE.finditer(text)] if _MAYBE_DATE.search(text) else []
    months = [(*date.span(group), "month") for date in dates for group in (1, 2, 3) if date[group]]
    years = [(*date.span("year"), "word") for date in dates if date["year"]]
    return sorted([*_words(text), *months, *years], key=itemgetter(0)) if dates else _words(text)


def _words(text: str) -> Iterator[tuple[int, int, str]]:
    for match in chain.from_iterable(_WORD.finditer(text, *stretch.span()) for stretch in _STRETCH.finditer(text)):
        start, end = match.span()
        word = match.group()
        if match.lastgroup or not _COMPOUND.search(word) or _ABBREVIATION.fullmatch(word):
            yield start, end, match.lastgroup or "word"
        else:
            for part in _PART.finditer(word):
                yield start + part.start(), start + part.end(), part.lastgroup or "word"


def _pairs(run: str) -> list[str]:
    """Return a term for each two adjacent clusters of `run`, or the only cluster."""
    run = run.translate(_simplified())
    if not is_normalized("NFKC", run) or _MARKED.search(run):
        return [term for _, _, term in _pair_spans(run)]
    return list(map(add, run, run[1:])) if len(run) > 1 else [run]


def _pair_spans(run: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, term) for each term of `_pairs(run)`."""
    folded = ((*found.span(), _folded(found.group(), "")) for found in _CLUSTER.finditer(run.translate(_simplified())))
    clusters = [cluster for cluster in folded if cluster[2]]
    if len(clusters) == 1:
        yield clusters[0]
    for (start, _, one), (_, end, other) in pairwise(clusters):
        yield start, end, one + other


@cache
def _simplified() -> dict[int, int]:
    """Return the simplified character of each traditional one that has one (OpenCC's TSCharacters, Apache License 2.0)."""
    traditional, simplified = Path(__file__).with_name("simplified.txt").read_text(encoding="utf-8").splitlines()
    return dict(zip(map(ord, traditional), map(ord, simplified), strict=True))


def _folded(word: str, language: str) -> str:
    """Return one spelling of a word for all its variants in case, compatibility forms and optional marks."""
    if word.isascii():
        folded = word.lower() if language != "tr" else word.replace("I", "ı").lower()
    else:
        if language == "tr":
            word = word.replace("I", "ı").replace("İ", "i")
        if len(word) > _MOST_MARKS:
            word = _MORE_MARKS.sub(r"\1", word)
        folded = normalize("NFKC", normalize("NFKC", word).casefold()).replace("’", "'")
        folded = _LEFT_OUT.sub("", folded)
        if language == "en":  # accents are optional in English: "naïve", "café"
            folded = normalize("NFC", _ACCENTED.sub(r"\1", normalize("NFD", folded)))
        if language == "ar" and len(folded) > 5:  # Snowball removes "the", but not "and the"
            folded = _AND_THE.sub("ال", folded)
        if language in ("fa", "ur"):  # also typed on Arabic keyboards
            folded = folded.translate(_PERSIAN)
        if not folded.isascii() and any(map(str.isdecimal, folded)):
            folded = "".join(str(digit(c)) if c.isdecimal() else c for c in folded)
    return _GROUPED.sub("", folded) if folded[:1].isdigit() else folded


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    if not language:
        english = {name: months_of("en")[i] for each in codes() for i, name in enumerate(months_of(each))}
        return lambda word: english.get(word, word)
    if not (name := stemmer_of(language)):
        return str

    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer(name, 0).stemWord  # its own cache is off: `term_of` has one
    return stem
