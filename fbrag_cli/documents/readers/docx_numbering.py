"""Count the numbered paragraphs and headings of a Word document, and write their numbers as Word does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from fbrag_cli.documents.readers import number_formats
from fbrag_cli.documents.readers.docx_styles import Styles, is_on, value_at
from fbrag_cli.documents.readers.package import attribute, number

if TYPE_CHECKING:
    from lxml.etree import _Element

_LEVELS = 9
_MAX_LABEL = 60  # characters; people write "Article 12", hostile documents repeat the number
_MAX_LINKS = 5  # numberings may name each other in a circle
_PLACE = re.compile(r"%([1-9])")
_BULLET = "-"
_AIUEO = "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
_CYRILLIC = "абвгдежзиклмнопрстуфхцчшщыэюя"
_Write = Callable[[int], str]
_FORMATS: dict[str, _Write] = {
    "decimal": str,
    "decimalZero": lambda number: f"{number:02d}",
    "lowerLetter": number_formats.repeated,
    "upperLetter": number_formats.upper(number_formats.repeated),
    "lowerRoman": number_formats.roman,
    "upperRoman": number_formats.upper(number_formats.roman),
    "ordinal": number_formats.ordinal,
    "decimalFullWidth": lambda number: "".join(chr(ord(digit) + 0xFEE0) for digit in str(number)),
    "russianLower": partial(number_formats.repeated, alphabet=_CYRILLIC),
    "russianUpper": partial(number_formats.repeated, alphabet=_CYRILLIC.upper()),
    "ganada": partial(number_formats.repeated, alphabet="가나다라마바사아자차카타파하"),
    "aiueoFullWidth": partial(number_formats.repeated, alphabet=_AIUEO),
    "ideographTraditional": partial(number_formats.repeated, alphabet="甲乙丙丁戊己庚辛壬癸"),
    **dict.fromkeys(
        ("chineseCounting", "chineseCountingThousand", "taiwaneseCounting", "taiwaneseCountingThousand"), number_formats.chinese
    ),
    **dict.fromkeys(("japaneseCounting", "ideographDigital", "koreanDigital2"), number_formats.chinese),
    "chicago": partial(number_formats.repeated, alphabet="*†‡§"),
    "none": lambda number: "",
}


def written_number(number: int, form: str) -> str:
    """Write a number in the form that Word calls so, as "lowerRoman"."""
    return _FORMATS.get(form, str)(number)


@dataclass(slots=True)
class _Level:
    """A level of a numbering. text: with "%1" for the number of level 1. legal: whether all numbers of it are digits. restart:
    number of the level (from 1) that restarts it; None for each above it. space: what separates it from the paragraph."""

    start: int = 1
    format: str = "decimal"
    text: str = ""
    legal: bool = False
    restart: int | None = None
    space: str = " "


@dataclass(slots=True)
class _List:
    """A numbering (w:num). counts: last number by level, shared by all of one kind. starts: numbers to begin again with."""

    levels: dict[int, _Level]
    counts: dict[int, int]
    of_style: dict[str, int]
    starts: dict[int, int] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)


class Numbering:
    """The numberings of a document. root: w:numbering; None without one."""

    def __init__(self, root: _Element | None, styles: Styles) -> None:
        self._styles = styles
        self._abstract: dict[str, _Element] = {}
        self._numbers: dict[str, _Element] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._lists: dict[str, _List | None] = {}
        for element in () if root is None else root:
            if element.tag.endswith("}abstractNum"):
                self._abstract.setdefault(attribute(element.attrib, "abstractNumId"), element)
            elif element.tag.endswith("}num"):
                self._numbers.setdefault(attribute(element.attrib, "numId"), element)

    def depth_of(self, key: str, style: str) -> int | None:
        """Return the level (from 0) of numbering `key` that belongs to a style; None if none does."""
        found = self._list(key)
        return None if found is None else found.of_style.get(style)

    def label(self, key: str, depth: int) -> str:
        """Count a paragraph at level `depth` (from 0) of numbering `key`. Return its number, as "4.2" with the space after it, or
        "- ", indented unless it repeats the numbers of the levels above; "" if none is shown."""
        numbered = self._list(key)
        if numbered is None or depth not in numbered.levels:
            return ""
        counts, level = numbered.counts, numbered.levels[depth]
        if depth in numbered.starts and depth not in numbered.begun:
            counts[depth] = numbered.starts[depth]
        else:
            counts[depth] = counts[depth] + 1 if depth in counts else numbered.starts.get(depth, level.start)
        numbered.begun.add(depth)
        for deeper in range(depth + 1, _LEVELS):
            restart = numbered.levels[deeper].restart if deeper in numbered.levels else None
            if restart is None or depth < restart:
                counts.pop(deeper, None)
        indent = "  " * depth
        if level.format == "bullet":
            return f"{indent}{_BULLET} " if level.text else ""

        def written(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            other = numbered.levels.get(at, _Level())
            count = counts.get(at, numbered.starts.get(at, other.start))
            return str(count) if level.legal and other.format != "none" else written_number(count, other.format)

        text = _PLACE.sub(written, level.text)[:_MAX_LABEL].strip()
        is_outline = len(_PLACE.findall(level.text)) > 1
        return f"{'' if is_outline else indent}{text}{level.space}" if text else ""

    def _list(self, key: str) -> _List | None:
        if key not in self._lists:
            self._lists[key] = self._read(key)
        return self._lists[key]

    def _read(self, key: str) -> _List | None:
        element = self._numbers.get(key)
        abstract = None if element is None else self._kind(element)
        if element is None or abstract is None:
            return None
        numbered = _List({}, self._counts.setdefault(attribute(abstract.attrib, "abstractNumId"), {}), {})
        for level in (*abstract.iterchildren("{*}lvl"), *element.iterfind("{*}lvlOverride/{*}lvl")):
            _add(numbered, level)
        for override in element.iterchildren("{*}lvlOverride"):
            start, depth = number(value_at(override, "startOverride"), -1), number(attribute(override.attrib, "ilvl"), -1)
            if start >= 0 and depth >= 0:
                numbered.starts[depth] = start
        return numbered

    def _kind(self, element: _Element) -> _Element | None:
        """Return the abstract numbering of a numbering, which may be that of a style."""
        for _ in range(_MAX_LINKS):
            abstract = self._abstract.get(value_at(element, "abstractNumId"))
            link = "" if abstract is None else value_at(abstract, "numStyleLink")
            if not link:
                return abstract
            other = self._numbers.get(self._styles[link].get("numId", ""))
            if other is None:
                return abstract
            element = other
        return None


def _add(found: _List, element: _Element) -> None:
    depth = number(attribute(element.attrib, "ilvl"), -1)
    if not 0 <= depth < _LEVELS:
        return
    legal, restart = element.find("{*}isLgl"), number(value_at(element, "lvlRestart"), -1)
    found.levels[depth] = _Level(
        start=number(value_at(element, "start"), 0 if element.find("{*}start") is None else 1),
        format=value_at(element, "numFmt") or "decimal",
        text=value_at(element, "lvlText")[:_MAX_LABEL],
        legal=legal is not None and is_on(attribute(legal.attrib, "val")),
        restart=restart if restart >= 0 else None,
        space="" if value_at(element, "suff") == "nothing" else " ",
    )
    if style := value_at(element, "pStyle"):
        found.of_style[style] = depth
