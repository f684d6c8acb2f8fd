"""Text of pages: undo words broken at line ends, and recognize what a font without a table of letters has garbled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

SOFT_HYPHEN = "\u00ad"
_HYPHENS = ("-", "\u2010", SOFT_HYPHEN)
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(_WORD.pattern + "$")
_SETTLED = -5  # so many compounds at line ends, and no word broken for its length, are beyond doubt
_LONGEST = 60  # characters; longer is not a word

# "mid- and long-term", "Haupt- und Nebensatz": this hyphen replaces the rest of a later word.
_CONJUNCTIONS = frozenset({"and", "or", "und", "oder"})


class Cell(NamedTuple):
    """A part of a line that has more room on its sides than there is between words. left, right: its edges, in points."""

    left: float
    right: float
    text: str


class Line(NamedTuple):
    """A line of a page. height: of its baseline above the page's lower edge; nan if it is not upright. size: of its font.

    cells: its parts; none if its direction is not that of most lines. Their edges, and baseline, are measured in that direction:
    in a table that is set sideways, as if the page were turned. All in points.
    """

    text: str
    height: float
    size: float
    cells: tuple[Cell, ...]
    baseline: float


@dataclass(frozen=True, slots=True)
class PageLines:
    """The lines of a page in reading order, without line ends, and without blank lines.

    heights: distance of each line's baseline above the page's lower edge, in points; nan if it is unknown or the text is not
    upright. height: height of the page, in points. sizes, cells, baselines: as in `Line`; empty if they are unknown. cut:
    whether text that lies outside of the page was left out. n_hidden: number of passages that
    the page does not show, which were left out.
    """

    lines: tuple[str, ...] = ()
    heights: tuple[float, ...] = ()
    height: float = 0.0
    sizes: tuple[float, ...] = ()
    cells: tuple[tuple[Cell, ...], ...] = ()
    baselines: tuple[float, ...] = ()
    cut: bool = False
    n_hidden: int = 0

    @classmethod
    def of(cls, lines: Sequence[Line]) -> PageLines:
        texts, heights, sizes, cells, baselines = zip(*lines, strict=True) if lines else ((),) * 5
        return cls(texts, heights, sizes=sizes, cells=cells, baselines=baselines)


def rejoin_words(pages: Sequence[str], apart: Collection[int] = ()) -> list[str]:
    """Rejoin words that are broken at line ends, on the line (and page) where they begin.

    apart: indices of pages that do not continue the page before. A word continues only with a small letter. Whether the hyphen
    goes ("exam-ple") or stays ("well-known") depends on the unbroken words of these pages. No page becomes empty.
    """
    split = [page.split("\n") for page in pages]
    chains: list[list[list[str]]] = []  # runs of pages in which a word may continue from one to the next
    for index, page in enumerate(split):
        if index == 0 or index in apart:
            chains.append([])
        chains[-1].append(page)
    words = _learn(chains)
    for chain in chains:
        _rejoin(chain, words)
    return ["\n".join(lines).replace(SOFT_HYPHEN, "") for lines in split]


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of the pages. known: unbroken words and the parts of compounds, in lower case. typesetting: above 0, words are
    broken at line ends; below 0, lines end only at hyphens of the words themselves; 0, unknown."""

    known: frozenset[str]
    typesetting: int


@dataclass(frozen=True, slots=True)
class _Break:
    """A break in a word: `before` ends a line, without its hyphen; `after` begins the next. Lower case."""

    before: str
    after: str

    @property
    def plain(self) -> str:
        return self.before + self.after

    @property
    def compound(self) -> str:
        return f"{self.before}-{self.after}"


def _learn(chains: Sequence[Sequence[Sequence[str]]]) -> _Words:
    known: set[str] = set()
    breaks: list[_Break] = []
    for chain in chains:
        for line, broken in _unbroken(line.lower() for page in chain for line in page):
            known.update(_WORD.findall(line), _LETTERS.findall(line))
            breaks += [broken] if broken else []
    votes = ((found.plain in known) - (found.compound in known) for found in breaks)
    return _Words(frozenset(known), sum(votes))


def _unbroken(lines: Iterable[str]) -> Iterator[tuple[str, _Break | None]]:
    """Yield each line without the broken words at its ends, and the break at its beginning, if any."""
    above = ""
    for line in lines:
        found = None
        middle = line
        if _continues(above, line):
            first, _, middle = line.partition(" ")
            found = _break(above.rpartition(" ")[2], first)
        yield middle.rpartition(" ")[0] if middle.endswith(_HYPHENS) else middle, found
        above = line


def _rejoin(chain: Sequence[list[str]], words: _Words) -> None:
    """Join the broken words of these pages' lines, in place."""
    above = [""]  # the page before
    for page in chain:
        whole: list[str] = []
        for position, line in enumerate(page):
            only = not whole and position == len(page) - 1 and " " not in line
            remainder = line if only else _carry(whole or above, line, words)
            if remainder is not None:
                whole.append(remainder)
        page[:] = whole
        above = page


def _carry(above: list[str], line: str, words: _Words) -> str | None:
    """Return the rest of `line` after its first word is joined to the end of `above`; None if nothing is joined."""
    if not _continues(above[-1], line):
        return line
    before, space, broken = above[-1].rpartition(" ")
    rest, _, remainder = line.partition(" ")
    if (word := _whole_word(broken, rest, words)) is None:
        return line
    above[-1] = before + space + word
    return remainder or None


def _continues(above: str, line: str) -> bool:
    return above.endswith(_HYPHENS) and line[:1].islower() and "\t" not in above + line  # rows of tables stay apart


def _whole_word(broken: str, rest: str, words: _Words) -> str | None:
    """Return the word of `broken` (with its hyphen) at a line's end and `rest` on the next; None if these are two words."""
    stem = broken[:-1]
    if broken.endswith(SOFT_HYPHEN):
        return stem + rest
    if (found := _break(broken, rest)) is None:
        return None
    if found.plain in words.known:
        return stem + rest
    if "-" in found.before or found.compound in words.known:
        return f"{stem}-{rest}"
    if found.after in _CONJUNCTIONS:
        return None
    # Not found unbroken: "empty-headed" is a compound of two words, and "under-stand" could be one; "exam-ple" could not.
    n_words = (found.before in words.known) + (found.after in words.known)
    needed = 2 if words.typesetting >= 0 else 1 if words.typesetting > _SETTLED else 0
    return f"{stem}-{rest}" if n_words >= needed and words.typesetting <= 0 else stem + rest


def _break(broken: str, rest: str) -> _Break | None:
    if not 3 <= len(broken) <= _LONGEST:
        return None
    before, after = _LAST_WORD.search(broken[:-1].lower()), _LETTERS.match(rest.lower())
    return _Break(before.group(), after.group()) if before and after else None


# -- garbled text -------------------------------------------------------------------------------------------------------------


_NO_LETTERS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")
_GLYPHS = re.compile(  # names and numbers of glyphs: "/G21/G22", "(cid:12)(cid:13)", "uni0041uni0042", "/uni0041"
    r"(/[A-Za-z]{1,5})[0-9]{1,5}(?: ?\1[0-9]{1,5})+|\(cid:[0-9]{1,5}\)"
    r"|/?(?<![0-9A-Za-z])(?:uni[0-9A-Fa-f]{4}[ /]?)+(?![0-9A-Za-z])"
)
_FOREIGN = re.compile(r"[^\W\d_\x00-\u024f]+")  # letters outside of the Latin alphabet
_MOST = 0.1  # of the characters that are not white space
_ENOUGH = 20_000  # characters of a page that are looked at

# Scripts that are in one word with each other.
_TOGETHER = dict.fromkeys(
    "CJK IDEOGRAPHIC HIRAGANA KATAKANA KATAKANA-HIRAGANA HANGUL BOPOMOFO FULLWIDTH HALFWIDTH".split(), "CJK"
)
_WITH_ANY = frozenset("GREEK LATIN MODIFIER MATHEMATICAL SCRIPT MICRO OHM ANGSTROM KELVIN".split())


def is_garbled(text: str) -> bool:
    """Return whether more than a tenth of a page cannot be read: characters without meaning, names of glyphs instead of letters,
    and words that mix scripts."""
    text = text[:_ENOUGH]
    mixed = (word for word in _FOREIGN.findall(text) if len(set(map(_script, word)) - {""}) > 1)
    named = (glyphs[0] for glyphs in _GLYPHS.finditer(text))
    bad = len(_NO_LETTERS.findall(text)) + sum(len("".join(each.split())) for each in named) + sum(map(len, mixed))
    return bad > _MOST * len("".join(text.split()))


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the script of a letter by the first word of its name; "" for one that is with any script, and for numbers."""
    name = unicodedata.name(letter, "?").partition(" ")[0]
    return "" if name in _WITH_ANY or not letter.isalpha() else _TOGETHER.get(name, name)
