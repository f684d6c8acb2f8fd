"""Look up the styles of an OpenDocument text: numbers of lists and headings, and how text is drawn and on what."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from fbrag_cli.documents.hidden import PATTERN
from fbrag_cli.documents.readers import number_formats
from fbrag_cli.documents.readers.package import number

_LEVELS = 10
_MAX_LABEL = 60  # characters
_MAX_PARENTS = 20  # styles may be based on each other in a circle
_POINTS = re.compile(r"\d{1,4}(?:\.\d{1,6})?pt", re.ASCII)
_PLACE = re.compile(r"%(\d\d?)%")
_FORMATS: dict[str, Callable[[int], str]] = {
    "1": str,
    "a": number_formats.lettered,
    "A": number_formats.upper(number_formats.lettered),
    "i": number_formats.roman,
    "I": number_formats.upper(number_formats.roman),
    "01": lambda number: f"{number:02d}",
    "1st": number_formats.ordinal,
    "一, 二, 三, ...": number_formats.chinese,
}
_SHIFTS = {"super": "^", "sub": "_", "0%": ""}
_LEVEL_NAMES = frozenset(("list-level-style-number", "outline-level-style", "list-level-style-bullet", "list-level-style-image"))
_AREAS = frozenset(f"{kind}-properties" for kind in ("paragraph", "table", "table-cell", "section", "graphic", "page-layout"))
#: Local names of the elements that say something of these.
READ = _LEVEL_NAMES | _AREAS | {"list-style", "outline-style", "style", "default-style", "page-layout", "text-properties"}
READ |= {"background-image"}
#: Key of the numbering of headings.
OUTLINE = "outline"


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a list. write: writes its numbers; None for one without. before, after: text around the number. shown: number of
    levels whose numbers it shows. form: the whole label, with "%1%" for the number of level 1; "" for none."""

    write: Callable[[int], str] | None = None
    before: str = ""
    after: str = ""
    shown: int = 1
    start: int = 1
    form: str = ""
    is_bullet: bool = False


@dataclass(slots=True)
class _Style:
    """A style. parent: key of that which it is based on. list: key of its list; None if unsaid. look: what it says of how text is
    drawn (`Styles.look`)."""

    parent: str = ""
    list: str | None = None
    look: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Styles:
    """The styles of a document, added by their elements in its order. lists: the levels of each list. pages: names of the pages
    that paragraphs begin, in their order."""

    lists: dict[str, dict[int, Level]] = field(default_factory=dict)
    pages: dict[str, None] = field(default_factory=dict)
    _styles: dict[str, _Style] = field(default_factory=dict)
    _looks: dict[str, dict[str, str]] = field(default_factory=dict)
    _open_list: str = ""
    _open: _Style | None = None

    def add(self, name: str, attributes: dict[str, str]) -> None:
        """Add an element by its local name, one of READ."""
        given = {key.rpartition("}")[2]: value for key, value in attributes.items()}
        match name:
            case "list-style" | "outline-style":
                self._open_list = OUTLINE if name == "outline-style" else given.get("name", "")
                self.lists[self._open_list] = {}
            case _ if name in _LEVEL_NAMES:
                level = min(number(given.get("level", ""), 1), _LEVELS)
                self.lists.setdefault(self._open_list, {})[level] = _level(given, is_bullet=name.endswith(("bullet", "image")))
            case "style" | "default-style" | "page-layout":
                if page := given.get("master-page-name"):
                    self.pages[page] = None
                self._looks.clear()
                key = f"{given.get('family', name)} {given.get('name', '')}"
                self._open = self._styles[key] = _Style(given.get("parent-style-name", ""), given.get("list-style-name"))
            case "text-properties" if self._open is not None:
                _add_look_of_text(self._open.look, given)
            case "background-image" if self._open is not None and "href" in given:
                self._open.look["fill"] = "bitmap"
            case _ if name in _AREAS and self._open is not None:
                named = {"fill": "fill", "fill-color": "fill color", "background-color": "area", "run-through": "run-through"}
                self._open.look |= {named[key]: value for key, value in given.items() if key in named}

    def look(self, family: str, name: str) -> dict[str, str]:
        """Return what a style says of how text is drawn: "hidden", "struck" ("" for no), "shift" ("^" if raised, "_" if lowered),
        "size" (points), "color", "highlight" (color below the text), "area" (that of the paragraph, cell or shape; PATTERN)."""
        key = f"{family} {name}"
        if key not in self._looks:
            look: dict[str, str] = {}
            for style in reversed(self._line(family, name)):
                look |= style.look
            fill = look.get("fill", "")
            if fill in ("solid", "none"):
                look["area"] = look.get("fill color", PATTERN) if fill == "solid" else "transparent"
            elif fill:
                look["area"] = PATTERN
            self._looks[key] = look
        return self._looks[key]

    @property
    def page_area(self) -> str:
        """Return the color of the pages, PATTERN if they have several, "" without one."""
        if "pages" not in self._looks:
            pages = [key.partition(" ") for key in self._styles if key.startswith("page-layout ")]
            areas = {self.look(kind, name).get("area", "transparent") for kind, _, name in pages}
            area = "" if areas <= {"transparent"} else areas.pop() if len(areas) == 1 else PATTERN
            self._looks["pages"] = {"area": area}
        return self._looks["pages"]["area"]

    def list_of(self, name: str) -> str | None:
        """Return the key of the list that paragraphs of a style belong to; "" if they have no number, None if unsaid."""
        return next((style.list for style in self._line("paragraph", name) if style.list is not None), None)

    def _line(self, family: str, name: str) -> list[_Style]:
        line: list[_Style] = []
        while len(line) < _MAX_PARENTS and (style := self._styles.get(f"{family} {name}")):
            line.append(style)
            if not name:  # the default
                break
            name = style.parent
        return line


def _add_look_of_text(look: dict[str, str], given: dict[str, str]) -> None:
    """Add what the properties of text say to `look`."""
    if "display" in given:
        look["hidden"] = "yes" if given["display"] == "none" else ""
    if (line := given.get("text-line-through-style", given.get("text-line-through-type"))) is not None:
        look["struck"] = "" if line == "none" else "yes"
    if position := given.get("text-position", "").split():
        look["shift"] = _SHIFTS.get(position[0], "_" if position[0][0] == "-" else "^")
    if given.get("use-window-font-color") == "true":
        look["color"] = "auto"
    elif "color" in given:
        look["color"] = given["color"]
    if _POINTS.fullmatch(size := given.get("font-size", "")):
        look["size"] = size.removesuffix("pt")
    if "background-color" in given:
        look["highlight"] = given["background-color"]


def label(levels: dict[int, Level], counts: dict[int, int], depth: int, start: int | None = None) -> str:
    """Count an item at level `depth` (from 1), and return its label with the space after it; "" if it shows none.

    counts: last number by level, which is changed. start: its own number; None for the next one.
    """
    level = levels.get(depth, Level())
    counts[depth] = start if start is not None else counts[depth] + 1 if depth in counts else level.start
    for deeper in [each for each in counts if each > depth]:
        del counts[deeper]
    if level.is_bullet:
        return "- "

    def written(at: int) -> str:
        other = levels.get(at, Level())
        return "" if other.write is None else other.write(counts.get(at, other.start))

    if level.write is None:
        text = level.before + level.after
    elif level.form:
        text = _PLACE.sub(lambda found: written(int(found[1])), level.form[:_MAX_LABEL])
    else:
        shown = (written(at) for at in range(max(1, depth - level.shown + 1), depth + 1))
        text = level.before + ".".join(each for each in shown if each) + level.after
    text = text[:_MAX_LABEL].strip()
    return f"{text} " if text else ""


def _level(given: dict[str, str], *, is_bullet: bool) -> Level:
    form = given.get("num-format", "")
    write = _FORMATS.get(form, str) if form else None
    if write in (_FORMATS["a"], _FORMATS["A"]) and given.get("num-letter-sync") == "true":
        write = number_formats.repeated if form == "a" else number_formats.upper(number_formats.repeated)
    return Level(
        write,
        given.get("num-prefix", "")[:_MAX_LABEL],
        given.get("num-suffix", "")[:_MAX_LABEL],
        min(number(given.get("display-levels", ""), 1), _LEVELS),
        number(given.get("start-value", ""), 1),
        given.get("num-list-format", ""),
        is_bullet,
    )
