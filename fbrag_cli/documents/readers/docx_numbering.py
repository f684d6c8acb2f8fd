"""Count the numbered paragraphs and headings of a Word document, and write their numbers as Word shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from fbrag_cli.documents.readers import number_formats
from fbrag_cli.documents.readers.docx_styles import Styles, is_on
from fbrag_cli.documents.readers.xml import attribute

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
    "none": lambda number: "",
}


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
    """A numbering (w:num). counts: last number by level, shared by all of one kind. starts: numbers with which it begins anew."""

    levels: dict[int, _Level]
    counts: dict[int, int]
    of_style: dict[str, int]
    starts: dict[int, int] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Label:
    """The number of a paragraph. text: as "4.2" with the space after it, or "- "; "" if none is shown. is_outline: whether it
    repeats the numbers of the levels above."""

    text: str
    is_outline: bool = False


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

    def label(self, key: str, depth: int) -> Label:
        """Count a paragraph at level `depth` (from 0) of numbering `key`, and return its label."""
        found = self._list(key)
        if found is None or depth not in found.levels:
            return Label("")
        counts, level = found.counts, found.levels[depth]
        if depth in found.starts and depth not in found.begun:
            counts[depth] = found.starts[depth]
        else:
            counts[depth] = counts[depth] + 1 if depth in counts else found.starts.get(depth, level.start)
        found.begun.add(depth)
        for deeper in range(depth + 1, _LEVELS):
            restart = found.levels[deeper].restart if deeper in found.levels else None
            if restart is None or depth < restart:
                counts.pop(deeper, None)
        if level.format == "bullet":
            return Label(f"{_BULLET} " if level.text else "")

        def number(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            other = found.levels.get(at, _Level())
            value = counts.get(at, found.starts.get(at, other.start))
            write = _FORMATS.get(other.format, str)
            return str(value) if level.legal and other.format != "none" else write(value)

        text = _PLACE.sub(number, level.text)[:_MAX_LABEL].strip()
        return Label(text + level.space if text else "", is_outline=len(_PLACE.findall(level.text)) > 1)

    def _list(self, key: str) -> _List | None:
        if key not in self._lists:
            self._lists[key] = self._read(key)
        return self._lists[key]

    def _read(self, key: str) -> _List | None:
        element = self._numbers.get(key)
        if element is None:
            return None
        abstract = self._kind(element)
        if abstract is None:
            return None
        found = _List({}, self._counts.setdefault(attribute(abstract.attrib, "abstractNumId"), {}), {})
        for level in abstract.iterchildren("{*}lvl"):
            _add(found, level)
        for override in element.iterchildren("{*}lvlOverride"):
            for level in override.iterchildren("{*}lvl"):
                _add(found, level)
            start, depth = _value(override, "startOverride"), attribute(override.attrib, "ilvl")
            if _is_number(start) and _is_number(depth):
                found.starts[int(depth)] = int(start)
        return found

    def _kind(self, element: _Element) -> _Element | None:
        """Return the abstract numbering of a numbering, which may be that of a style."""
        for _ in range(_MAX_LINKS):
            abstract = self._abstract.get(_value(element, "abstractNumId"))
            link = "" if abstract is None else _value(abstract, "numStyleLink")
            if not link:
                return abstract
            other = self._numbers.get(self._styles[link].number)
            if other is None:
                return abstract
            element = other
        return None


def _add(found: _List, element: _Element) -> None:
    depth = attribute(element.attrib, "ilvl")
    if not _is_number(depth) or int(depth) >= _LEVELS:
        return
    start, restart, legal = _value(element, "start"), _value(element, "lvlRestart"), element.find("{*}isLgl")
    found.levels[int(depth)] = _Level(
        start=int(start) if _is_number(start) else 0 if element.find("{*}start") is None else 1,
        format=_value(element, "numFmt") or "decimal",
        text=_value(element, "lvlText")[:_MAX_LABEL],
        legal=legal is not None and is_on(attribute(legal.attrib, "val")),
        restart=int(restart) if _is_number(restart) else None,
        space="" if _value(element, "suff") == "nothing" else " ",
    )
    if style := _value(element, "pStyle"):
        found.of_style[style] = int(depth)


def _value(element: _Element, name: str) -> str:
    found = element.find("{*}" + name)
    return "" if found is None else attribute(found.attrib, "val")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d{1,9}", text, re.ASCII) is not None
