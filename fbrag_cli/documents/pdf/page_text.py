"""Lines of pages; recognize the text that a font without a table of letters has garbled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


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
