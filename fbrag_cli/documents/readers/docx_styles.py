"""Read the properties of text in a Word document, its own or those of styles: outline levels, numberings, colors.

Properties are strings by the names of their elements, as {"ilvl": "2", "color": "FFFFFF"}. What is below the text is its "fill":
a color, "auto" for none, or PATTERN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fbrag_cli.documents.hidden import PATTERN
from fbrag_cli.documents.readers.package import attribute, number, theme_colors

if TYPE_CHECKING:
    from lxml.etree import _Element

Properties = dict[str, str]

_MAX_BASES = 20  # styles may be based on each other in a circle
_RUNNING_TEXT = 9  # outline level that means none
_HEADING = re.compile(r"heading ?([1-9])", re.IGNORECASE | re.ASCII)
_VALUES = {"rFonts": "ascii", "framePr": "dropCap"}  # attributes that count instead of "val"
_THEME_NAMES = {
    f"{name}{n}": f"{short}{n}"
    for short, names in (("lt", ("background", "bg", "light")), ("dk", ("text", "tx", "dark")))
    for name in names
    for n in (1, 2)
}
_HEX = re.compile("[0-9a-fA-F]{1,4}")
_LOOKS = {"firstRow": 0x20, "lastRow": 0x40, "firstColumn": 0x80, "lastColumn": 0x100, "noHBand": 0x200, "noVBand": 0x400}


class Theme:
    """The colors of a document by their names. root: a:theme; None without one."""

    def __init__(self, root: _Element | None) -> None:
        self._colors = theme_colors(root)

    def color(self, value: str, name: str) -> str:
        """Return a color. name: as "background1" or "accent3", which counts if there is no value."""
        return self._colors.get(_THEME_NAMES.get(name, name), "auto") if value in ("", "auto") else value

    def take(self, properties: Properties, name: str, given: Mapping[str, str]) -> None:
        """Take a property by the name of its element and its attributes, unless it is known already."""
        value = attribute(given, _VALUES.get(name, "val"))
        if name == "color":
            value = self.color(value, attribute(given, "themeColor"))
        elif name == "tblLook":
            bits = int(value, 16) if _HEX.fullmatch(value) else 0
            said = {key: is_on(own) for key in _LOOKS if (own := attribute(given, key))}
            value = " ".join(key for key, bit in _LOOKS.items() if said.get(key, bool(bits & bit)))
        elif name in ("shd", "highlight"):
            value = self._fill(given) if name == "shd" else {"none": "", "darkYellow": "olive"}.get(value, value)
            name = "fill" if value else ""
        properties.setdefault(name, value)

    def _fill(self, given: Mapping[str, str]) -> str:
        match attribute(given, "val"):
            case "clear" | "nil" | "":
                return self.color(attribute(given, "fill"), attribute(given, "themeFill"))
            case "solid":
                color = self.color(attribute(given, "color"), attribute(given, "themeColor"))
                return "000000" if color == "auto" else color
            case _:
                return PATTERN


class Styles:
    """The styles of a document: the properties of each, with those that it has from others. root: w:styles; None without styles.
    defaults: properties of text that no style or run has. default: name of the style of paragraphs that name none."""

    def __init__(self, root: _Element | None, theme: Theme) -> None:
        self._theme = theme
        self._elements: dict[str, _Element] = {}
        self._resolved: dict[str, Properties] = {}
        self._fills: dict[str, Properties] = {}
        self.default = ""
        self.defaults: Properties = {}
        for style in () if root is None else root.iterchildren("{*}style"):
            name = attribute(style.attrib, "styleId")
            if name:
                self._elements.setdefault(name, style)
            if attribute(style.attrib, "type") == "paragraph" and attribute(style.attrib, "default") in ("1", "true", "on"):
                self.default = name
        if root is not None:
            self._take(self.defaults, root, "docDefaults/rPrDefault/rPr")

    def __getitem__(self, name: str) -> Properties:
        if name not in self._resolved:
            self._resolved[name] = self._resolve(name)
        return self._resolved[name]

    def _line(self, name: str) -> Iterator[tuple[str, _Element]]:
        """Yield the names and elements of a style and of those that it is based on."""
        for _ in range(_MAX_BASES):
            element = self._elements.get(name)
            if element is None:
                return
            yield name, element
            name = value_at(element, "basedOn")

    def _resolve(self, name: str) -> Properties:
        style: Properties = {}
        if name not in self._elements and (heading := _HEADING.fullmatch(name)):  # of programs that leave the styles out
            style["outlineLvl"] = str(int(heading[1]) - 1)
        for style_id, element in self._line(name):
            if value_at(element, "pPr/numPr/numId"):
                style.setdefault("numbered by", style_id)
            for path in ("rPr", "pPr", "pPr/numPr"):
                self._take(style, element, path)
            name = value_at(element, "name")
            if heading := _HEADING.fullmatch(name):
                style.setdefault("outlineLvl", str(int(heading[1]) - 1))
            elif name == "Title":
                style.setdefault("outlineLvl", "0")
        return style

    def _take(self, properties: Properties, element: _Element, path: str) -> None:
        for each in element.iterfind("{*}" + path.replace("/", "/{*}") + "/{*}*"):
            self._theme.take(properties, each.tag.rpartition("}")[2], each.attrib)

    def fill_of_cell(self, table: Properties, row: int, column: int) -> str:
        """Return the fill of a cell by the style of its table. row, column: from 0.

        The last row and column are not known before the table ends: if they have a fill, that of all cells is unknown.
        """
        fills, look = self._fills_of(table.get("tblStyle", "")), table.get("tblLook", "firstRow firstColumn").split()
        if any(each in look and fills.get(key, "auto") != "auto" for each, key in (("lastRow",) * 2, ("lastColumn", "lastCol"))):
            return PATTERN
        kinds = [
            "firstCol" if column == 0 and "firstColumn" in look else "none",
            "firstRow" if row == 0 and "firstRow" in look else "none",
            "none" if "noHBand" in look else f"band{1 + (row - ('firstRow' in look)) % 2}Horz",
            "none" if "noVBand" in look else f"band{1 + (column - ('firstColumn' in look)) % 2}Vert",
            "wholeTable",
        ]
        return next((fills[kind] for kind in kinds if fills.get(kind, "auto") != "auto"), "auto")

    def _fills_of(self, name: str) -> Properties:
        """Return the fills of a table style by the cells that have them, as "firstRow" or "band1Horz"."""
        if name not in self._fills:
            fills = self._fills[name] = {}
            for _, element in self._line(name):
                for part in (element, *element.iterchildren("{*}tblStylePr")):
                    own: Properties = {}
                    for path in ("tcPr", "tblPr", "pPr", "rPr"):
                        self._take(own, part, path)
                    if "fill" in own:
                        fills.setdefault("wholeTable" if part is element else attribute(part.attrib, "type"), own["fill"])
        return self._fills[name]


def level_of(properties: Properties) -> int:
    """Return the level of a heading, from 1; 0 for running text."""
    level = number(properties.get("outlineLvl", ""), _RUNNING_TEXT)
    return level + 1 if level < _RUNNING_TEXT else 0


def is_on(value: str) -> bool:
    """Return whether a switch, as w:vanish, with this value is on."""
    return value not in ("0", "false", "off")


def value_at(element: _Element, path: str) -> str:
    """Return the value of the first element at a path, as "pPr/outlineLvl"; "" without one."""
    found = element.find("{*}" + path.replace("/", "/{*}"))
    return "" if found is None else attribute(found.attrib, "val")
