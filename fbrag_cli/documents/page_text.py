"""What typesetting did to the words of a page is undone: ligatures, and words broken at line ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fbrag_cli.documents.text import without_surrogates

_LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)
_SOFT_HYPHEN = "\u00ad"
_HYPHENS = ("-", "\u2010", _SOFT_HYPHEN)
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(_WORD.pattern + "$")
_LONGEST = 60  # characters; a longer "word" is none

# "mid- and long-term", "Haupt- und Nebensatz": such a hyphen stands for the rest of a later word.
_CONJUNCTIONS = frozenset({"and", "or", "und", "oder"})


def clean_page(text: str) -> str:
    """A page's text as pypdf gives it: ligatures as letters, line ends as "\\n", no white space around it or at line ends.

    Soft hyphens are left at line ends only, for `rejoin_words`.
    """
    text = without_surrogates(text).translate(_LIGATURES).replace("\r\n", "\n").replace("\r", "\n")
    lines = []
    for line in text.split("\n"):
        line = line.rstrip()
        end = _SOFT_HYPHEN if line.endswith(_SOFT_HYPHEN) else ""
        lines.append(line.replace(_SOFT_HYPHEN, "") + end)
    return "\n".join(lines).strip()


def rejoin_words(pages: Sequence[str]) -> list[str]:
    """The pages with the words broken at line ends whole again, on the line where they begin.

    Only a small letter continues a word. Whether the hyphen goes ("exam-ple") or stays ("well-known") is learnt from the words
    that stand unbroken on these pages.
    """
    words = _learn(pages)
    return ["\n".join(_rejoined(page.split("\n"), words)).replace(_SOFT_HYPHEN, "") for page in pages]


@dataclass(frozen=True, slots=True)
class _Words:
    """known: words that stand unbroken on the pages, and the parts of compounds, in lower case. typesetting: above 0, it
    breaks words; below 0, lines end only at hyphens that the words have anyway; 0, nothing tells."""

    known: frozenset[str]
    typesetting: int


@dataclass(frozen=True, slots=True)
class _Break:
    """`before` ends a line, without its hyphen; `after` begins the next. Lower case, letters and inner hyphens only."""

    before: str
    after: str

    @property
    def plain(self) -> str:
        return self.before + self.after

    @property
    def compound(self) -> str:
        return f"{self.before}-{self.after}"


def _learn(pages: Sequence[str]) -> _Words:
    known: set[str] = set()
    breaks: list[_Break] = []
    for page in pages:
        for line, broken in _unbroken(page.lower().split("\n")):
            known.update(_WORD.findall(line), _LETTERS.findall(line))
            breaks += [broken] if broken else []
    votes = ((found.plain in known) - (found.compound in known) for found in breaks)
    return _Words(frozenset(known), sum(votes))


def _unbroken(lines: Sequence[str]) -> Iterator[tuple[str, _Break | None]]:
    """Each line without the broken words at its ends, and the break at its beginning, if any."""
    above = ""
    for line in lines:
        found = None
        middle = line
        if _continues(above, line):
            first, _, middle = line.partition(" ")
            found = _break(above.rpartition(" ")[2], first)
        yield middle.rpartition(" ")[0] if middle.endswith(_HYPHENS) else middle, found
        above = line


def _rejoined(lines: Sequence[str], words: _Words) -> list[str]:
    whole: list[str] = []
    for line in lines:
        if whole and _continues(whole[-1], line):
            before, space, broken = whole[-1].rpartition(" ")
            rest, _, remainder = line.partition(" ")
            if (word := _whole_word(broken, rest, words)) is not None:
                whole[-1] = before + space + word
                line = remainder
                if not line:
                    continue
        whole.append(line)
    return whole


def _continues(above: str, line: str) -> bool:
    return above.endswith(_HYPHENS) and line[:1].islower()


def _whole_word(broken: str, rest: str, words: _Words) -> str | None:
    """The word that is `broken`, with its hyphen, at a line's end and goes on with `rest`; None if these are two words."""
    stem = broken[:-1]
    if broken.endswith(_SOFT_HYPHEN):
        return stem + rest
    if (found := _break(broken, rest)) is None:
        return None
    if found.plain in words.known:
        return stem + rest
    if "-" in found.before or found.compound in words.known:
        return f"{stem}-{rest}"
    if found.after in _CONJUNCTIONS:
        return None
    # Unseen elsewhere: "empty-headed" is a compound of two words, and so may "under-stand" be in doubt; "exam-ple" is not.
    n_words = (found.before in words.known) + (found.after in words.known)
    needed = 1 if words.typesetting < 0 else 2
    return f"{stem}-{rest}" if n_words >= needed and words.typesetting <= 0 else stem + rest


def _break(broken: str, rest: str) -> _Break | None:
    if not 3 <= len(broken) <= _LONGEST:
        return None
    before, after = _LAST_WORD.search(broken[:-1].lower()), _LETTERS.match(rest.lower())
    return _Break(before.group(), after.group()) if before and after else None
