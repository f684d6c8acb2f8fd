"""Look up the styles of an OpenDocument text: numbers of lists and headings, text that is hidden, struck out or raised."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from fbrag_cli.documents.readers import number_formats
from fbrag_cli.documents.readers.package import number

_LEVELS = 10
_MAX_LABEL = 60  # characters
_MAX_PARENTS = 20  # styles may be based on each other in a circle
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
_READ = _LEVEL_NAMES | {"list-style", "outline-style", "style", "text-properties"}
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
    """A style. parent: key of that which it is based on. list: key of its list. struck: whether it strikes out. shift: "^" if its
    text is raised, "_" if lowered. These are None if unsaid."""

    parent: str = ""
    list: str | None = None
    hidden: bool = False
    struck: bool | None = None
    shift: str | None = None


@dataclass(slots=True)
class Styles:
    """The styles of a document, added by their elements in its order. lists: the levels of each list. pages: names of the pages
    that paragraphs begin, in their order."""

    lists: dict[str, dict[int, Level]] = field(default_factory=dict)
    pages: dict[str, None] = field(default_factory=dict)
    _styles: dict[str, _Style] = field(default_factory=dict)
    _hidden: dict[tuple[str, str], bool] = field(default_factory=dict)
    _open_list: str = ""
    _open: _Style | None = None

    def add(self, name: str, attributes: dict[str, str]) -> None:
        """Add an element, by its local name, if it says something of these."""
        if name not in _READ:
            return
        given = {key.rpartition("}")[2]: value for key, value in attributes.items()}
        match name:
            case "list-style" | "outline-style":
                self._open_list = OUTLINE if name == "outline-style" else given.get("name", "")
                self.lists[self._open_list] = {}
            case _ if name in _LEVEL_NAMES:
                level = min(number(given.get("level", ""), 1), _LEVELS)
                self.lists.setdefault(self._open_list, {})[level] = _level(given, is_bullet=name.endswith(("bullet", "image")))
            case "style":
                if page := given.get("master-page-name"):
                    self.pages[page] = None
                self._hidden.clear()
                self._open = self._styles[f"{given.get('family')} {given.get('name')}"] = _Style(
                    given.get("parent-style-name", ""), given.get("list-style-name")
                )
            case "text-properties" if self._open is not None:
                self._open.hidden = given.get("display") == "none"
                if (line := given.get("text-line-through-style", given.get("text-line-through-type"))) is not None:
                    self._open.struck = line != "none"
                if position := given.get("text-position", "").split():
                    self._open.shift = _SHIFTS.get(position[0], "_" if position[0][0] == "-" else "^")

    def is_hidden(self, family: str, name: str) -> bool:
        hidden = self._hidden.get((family, name))
        if hidden is None:
            hidden = self._hidden[family, name] = any(style.hidden for style in self._line(family, name))
        return hidden

    def look_of(self, family: str, name: str, struck: bool = False, shift: str = "") -> tuple[bool, str]:
        """Return whether a style strikes out, and how it shifts (`_Style.shift`). struck, shift: those of the text around it."""
        line = self._line(family, name)
        return (
            next((style.struck for style in line if style.struck is not None), struck),
            next((style.shift for style in line if style.shift is not None), shift),
        )

    def list_of(self, name: str) -> str | None:
        """Return the key of the list that paragraphs of a style belong to; "" if they have no number, None if unsaid."""
        return next((style.list for style in self._line("paragraph", name) if style.list is not None), None)

    def _line(self, family: str, name: str) -> list[_Style]:
        line: list[_Style] = []
        while len(line) < _MAX_PARENTS and (style := self._styles.get(f"{family} {name}")):
            line.append(style)
            name = style.parent
        return line


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
