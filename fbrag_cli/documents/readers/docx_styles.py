"""Look up what the styles of a Word document say of its paragraphs: level of a heading, number, whether they are hidden."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fbrag_cli.documents.readers.xml import attribute

if TYPE_CHECKING:
    from lxml.etree import _Element

_MAX_BASES = 20  # styles may be based on each other in a circle
_RUNNING_TEXT = 9  # outline level that means none
_HEADING = re.compile(r"heading ?([1-9])", re.IGNORECASE | re.ASCII)


@dataclass(slots=True)
class Style:
    """A style with what it has from those it is based on. outline: level of a heading, from 1; 0 for none. number: key of its
    numbering (numId); "" for none. numbered_by: key of the style that says so. depth: level in the numbering, from 0; None if
    unsaid.
    """

    outline: int = 0
    number: str = ""
    numbered_by: str = ""
    depth: int | None = None
    hidden: bool = False


class Styles:
    """The styles of a document. root: w:styles; None without styles."""

    def __init__(self, root: _Element | None) -> None:
        self._elements: dict[str, _Element] = {}
        self._resolved: dict[str, Style] = {}
        self.default = ""
        for style in () if root is None else root.iterchildren("{*}style"):
            name = attribute(style.attrib, "styleId")
            self._elements.setdefault(name, style)
            if attribute(style.attrib, "type") == "paragraph" and attribute(style.attrib, "default") in ("1", "true", "on"):
                self.default = name

    def __getitem__(self, name: str) -> Style:
        """Return the style `name`, with what it has from those it is based on."""
        if name not in self._resolved:
            self._resolved[name] = self._resolve(name)
        return self._resolved[name]

    def _resolve(self, name: str) -> Style:
        style = Style()
        outline: int | None = None
        hidden: bool | None = None
        if name not in self._elements and (found := _HEADING.fullmatch(name)):  # of programs that leave the styles out
            outline = int(found[1]) - 1
        for _ in range(_MAX_BASES):
            element = self._elements.get(name)
            if element is None:
                break
            if outline is None:
                outline = _outline(element)
            if style.number == "" and (number := _value(element, "numPr/numId")):
                style.number, style.numbered_by = number, name
            if style.depth is None and (depth := _value(element, "numPr/ilvl")).isdecimal():
                style.depth = int(depth[:9])
            if hidden is None and (vanish := element.find("{*}rPr/{*}vanish")) is not None:
                hidden = is_on(attribute(vanish.attrib, "val"))
            name = _value(element, "basedOn", "")
        style.outline = 0 if outline is None or outline >= _RUNNING_TEXT else outline + 1
        style.hidden = bool(hidden)
        return style


def is_on(value: str) -> bool:
    """Return whether a switch, as w:vanish, with this value is on."""
    return value not in ("0", "false", "off")


def _outline(style: _Element) -> int | None:
    """Return the outline level that a style itself has (from 0), by its number or by its name; None without one."""
    level, name = _value(style, "outlineLvl"), _value(style, "name", "")
    if level.isdecimal():
        return min(int(level[:9]), _RUNNING_TEXT)
    if found := _HEADING.fullmatch(name):
        return int(found[1]) - 1
    return 0 if name == "Title" else None


def _value(style: _Element, path: str, folder: str = "pPr/") -> str:
    found = style.find("/".join("{*}" + step for step in f"{folder}{path}".split("/")))
    return "" if found is None else attribute(found.attrib, "val")
