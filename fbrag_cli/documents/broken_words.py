"""Undo words broken at line ends, in pages and in plain text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

SOFT_HYPHEN = "\u00ad"
_HYPHENS = ("-", "\u2010", SOFT_HYPHEN)
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(_WORD.pattern + "$")
_SETTLED = -5  # five compounds at line ends, and no word broken for its length, are beyond doubt
_LONGEST = 60  # characters; longer is not a word

# "mid- and long-term", "Haupt- und Nebensatz": this hyphen replaces the rest of a later word.
_CONJUNCTIONS = frozenset({"and", "or", "und", "oder"})
_PROVEN = 3  # words broken at line ends that a text also has whole: it surely breaks words
_MAYBE_BROKEN = re.compile(rf"[^\W\d_][{''.join(_HYPHENS)}]\n[^\W\d_]")


def rejoin_lines(text: str) -> str:
    """Rejoin the broken words of a text that has them as one word elsewhere ("con-/veyance"); all broken words, if it has several
    of these. All its lines stay."""
    if not any(f"{hyphen}\n" in text for hyphen in _HYPHENS) or not _MAYBE_BROKEN.search(text):
        return text
    lines = text.split("\n")
    words = _learn([[lines]])
    for i in range(1, len(lines)):
        before, space, broken = lines[i - 1].rpartition(" ")
        rest, gap, remainder = lines[i].partition(" ")
        found = _break(broken, rest) if gap and _continues(lines[i - 1], lines[i]) else None
        if found and (words.typesetting >= _PROVEN or (found.plain in words.known and found.compound not in words.known)):
            word = _whole_word(broken, rest, words)
            lines[i - 1], lines[i] = (before + space + word, remainder) if word else (lines[i - 1], lines[i])
    return "\n".join(lines)


def rejoin_words(pages: Sequence[str], apart: Collection[int] = ()) -> list[str]:
    """Rejoin words that are broken at line ends, on the line (and page) on which they begin.

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
        broken = None
        middle = line
        if _continues(above, line):
            first, _, middle = line.partition(" ")
            broken = _break(above.rpartition(" ")[2], first)
        yield middle.rpartition(" ")[0] if middle.endswith(_HYPHENS) else middle, broken
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
    if (hyphenated := _break(broken, rest)) is None:
        return None
    if hyphenated.plain in words.known:
        return stem + rest
    if "-" in hyphenated.before or hyphenated.compound in words.known:
        return f"{stem}-{rest}"
    if hyphenated.after in _CONJUNCTIONS:
        return None
    # Not found unbroken: "empty-headed" joins two words, and "over-look" may; "exam-ple" does not.
    n_words = (hyphenated.before in words.known) + (hyphenated.after in words.known)
    needed = 2 if words.typesetting >= 0 else 1 if words.typesetting > _SETTLED else 0
    return f"{stem}-{rest}" if n_words >= needed and words.typesetting <= 0 else stem + rest


def _break(broken: str, rest: str) -> _Break | None:
    if not 3 <= len(broken) <= _LONGEST:
        return None
    before, after = _LAST_WORD.search(broken[:-1].lower()), _LETTERS.match(rest.lower())
    return _Break(before.group(), after.group()) if before and after else None
