"""Tell how a page's own style sheets, and the styles of its elements, draw its text, as far as it bears on whether it is seen.

A condition that only a window can check (`:hover`, `[open]`, a sibling, a width) counts as met if it shows text, and as unmet if
it hides it. So what a person can open without a script is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from fbrag_cli.documents.hidden import Look, parse_color

# The properties that are kept, by their names and those of their short forms.
_PROPERTIES = {
    name: names or (name,)
    for name, names in {
        **dict.fromkeys(("display", "visibility", "color", "font-size", "background-color", "background-image"), ()),
        "font": ("font-size",),
        "background": ("background-color", "background-image"),
        "list-style": (),
        "list-style-type": ("list-style",),
        "text-decoration": (),
        "text-decoration-line": ("text-decoration",),
    }.items()
}
_MAX_CHARS = 2_000_000  # of all style sheets
_MAX_PARTS = 20  # of a selector
_MAX_STEPS = 500_000  # comparisons of an element with a part of a selector: hostile pages have both by the thousand

_TEXT = r"\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?|url\([^)]*\)?"
_NO_RULE = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->|<!\[CDATA\[|\]\]>", re.DOTALL)
_TOKEN = re.compile(rf"{_TEXT}|[{{}};]|(?:[^{{}};\"'u]|u(?!rl\())+|.", re.DOTALL | re.IGNORECASE)
_DECLARATION = re.compile(rf"(?<![-\w])([-\w]+)\s*:((?:{_TEXT}|[^;\"'])*)", re.IGNORECASE)
_NAME = r"(?:[-\w]|\\.)+"
_COMPOUND = re.compile(rf"({_NAME}|\*)?((?:[.#]{_NAME})*)((?:\[[^\]]*\]|:[-\w]+(?:\([^)]*\))?)*)")
_COMBINATOR = re.compile(r"\s*([>+~])\s*|\s+")
_ON_SCREEN = re.compile(r"(?:(?:only\s+)?(?:all|screen)|not\s+print)?")
_ON_PAPER = re.compile(r"(?:only\s+)?print\b.*|not\s+(?:all|screen)", re.DOTALL)
_SIZE = re.compile(r"(?<![\d.])(\d{0,9}\.?\d{1,9})(px|pt|em|rem|%)|(?<![\d.])0(?=[/\s]|$)")
_POINTS = {"px": 0.75, "pt": 1.0, "rem": 12.0}
_PICTURE = re.compile(r"(?:url|gradient|image|image-set|var)\(|\?")
_UNKNOWN = "?"  # a background that may be there or not
_INLINE = (1 << 30, 0, 0, 0)  # rank of an element's own style


@dataclass(frozen=True, slots=True)
class _Value:
    """rank: that of the highest rank counts. It is whether it is important, the numbers of ids, classes and tags of its selector,
    and its place among the rules."""

    rank: tuple[bool, int, int, int, int]
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """An open element, as selectors see it. values: what the rules say of it, by property."""

    tag: str
    id: str
    classes: frozenset[str]
    parent: Element | None
    values: dict[str, _Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a selector. is_child: whether the part to its left is of its parent, and not of any element around it."""

    tag: str
    ids: frozenset[str]
    classes: frozenset[str]
    is_child: bool

    def fits(self, element: Element) -> bool:
        return self.tag in ("", element.tag) and self.classes <= element.classes and self.ids <= {element.id}


class StyleSheet:
    """The rules of a page. sheets: each style sheet, with the media that it is for ("" for all)."""

    def __init__(self, sheets: Iterable[tuple[str, str]]) -> None:
        self._rules: dict[str, list[tuple[list[_Part], dict[str, _Value]]]] = {}  # by a name that its elements have
        self._elements: dict[tuple[Element | None, str, str, str], Element] = {}
        self._own: dict[str, dict[str, _Value]] = {}  # by the text of a style
        self._steps = _MAX_STEPS
        order, room = 0, _MAX_CHARS
        for sheet, media in sheets:
            for selectors, body, conditions in _rules(sheet[:room]):
                states = [_state(media), *map(_state, conditions)]
                for selector in selectors.split(",") if None not in states else ():
                    order += 1
                    self._add(selector.strip(), body, order, is_sure=all(states))
            room = max(0, room - len(sheet))

    def _add(self, selector: str, body: str, order: int, *, is_sure: bool) -> None:
        pieces = _COMBINATOR.split(selector.replace(":root", "html"), _MAX_PARTS)
        parts: list[_Part] = []  # from right to left
        for written, combinator in zip(pieces[::-2], [*pieces[-2::-2], None], strict=True):
            compound = _COMPOUND.fullmatch(written)
            if compound is None or not written or "::" in written:
                return
            marked = [(name[0], re.sub(r"\\(.)", r"\1", name[1:])) for name in re.findall(rf"[.#]{_NAME}", compound[2])]
            ids, classes = (frozenset(name for mark, name in marked if mark == each) for each in "#.")
            parts.append(_Part((compound[1] or "").strip("*").lower(), ids, classes, combinator == ">"))
            is_sure = is_sure and not compound[3] and combinator not in ("+", "~")
            if combinator in ("+", "~"):
                break
        n_ids, n_classes = sum(len(part.ids) for part in parts), sum(len(part.classes) for part in parts)
        values = _values(body, (n_ids, n_classes, sum(bool(part.tag) for part in parts), order))
        if values := values if is_sure else dict(_showing(values)):
            last = parts[0]
            names = [*(f"#{name}" for name in last.ids), *(f".{name}" for name in last.classes), last.tag]
            self._rules.setdefault(names[0], []).append((parts, values))

    def element(self, parent: Element | None, tag: str, attributes: Mapping[str, str]) -> Element | None:
        """Return an element within `parent`; None if there are no rules."""
        if not self._rules:
            return None
        key = parent, tag, attributes.get("id", ""), attributes.get("class", "")
        if key not in self._elements:
            element = self._elements[key] = Element(tag, key[2], frozenset(key[3].split()), parent)
            names = ["", tag, f"#{element.id}", *(f".{name}" for name in element.classes)]
            for parts, values in chain.from_iterable(self._rules.get(name, ()) for name in names):
                if self._steps <= 0:
                    break
                if self._fits(parts, element):
                    _override(element.values, values)
        return self._elements[key]

    def _fits(self, parts: list[_Part], element: Element) -> bool:
        self._steps -= 1
        first, *rest = parts
        if not first.fits(element):
            return False
        around = element.parent
        while rest and around is not None and self._steps > 0:
            if self._fits(rest, around):
                return True
            around = None if first.is_child else around.parent
        return not rest

    def styles(self, element: Element | None, own: str) -> dict[str, str]:
        """Return the properties of an element, by the rules and by its own `style`."""
        if own not in self._own:
            self._own[own] = _values(own, _INLINE)
        values = self._own[own]
        if element is not None and element.values:
            values = dict(element.values)
            _override(values, self._own[own])
        return {name: value.text for name, value in values.items()} if values else {}


def drawn(look: Look, styles: Mapping[str, str]) -> Look:
    """Return how the text of an element is drawn. look: how that around it is."""
    size, color, ground, on_picture = look.size, look.color, look.ground, look.on_picture
    if "(" not in styles.get("font-size", "(") and (match := _SIZE.search(styles["font-size"])):
        unit = _POINTS.get(match[2] or "px") or (12.0 if size is None else size) / (100 if match[2] == "%" else 1)
        size = float(match[1] or 0) * unit
    if (written := styles.get("color", "inherit")) != "inherit":
        color = parse_color(written)
    ground_color, picture = styles.get("background-color", ""), styles.get("background-image", "")
    if _PICTURE.search(picture) or _UNKNOWN in ground_color:
        ground, on_picture = None, True
    elif opaque := next(filter(None, map(parse_color, re.findall(r"[^\s()]+(?:\([^)]*\))?", ground_color))), None):
        ground, on_picture = opaque, False
    elif "(" in ground_color or "#" in ground_color:  # what lies below shines through
        ground, on_picture = None, True
    hidden = {"visible": False, "hidden": True, "collapse": True}.get(styles.get("visibility", ""), look.hidden)
    return Look(size, color, ground, on_picture, hidden)


def _rules(sheet: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the selectors and the declarations of each rule, and the preludes of the blocks around it, as "@media print"."""
    opened: list[str] = []
    parts: list[str] = []
    for token in _TOKEN.findall(_NO_RULE.sub(" ", sheet)):
        if token == "{":
            opened.append("".join(parts).strip())
        elif token == "}":
            prelude = opened.pop() if opened else "@"
            if parts and all(around.startswith("@") for around in opened) and not prelude.startswith("@"):
                yield prelude, "".join(parts), opened
        elif token != ";" or (opened and not opened[-1].startswith("@")):
            parts.append(token)
            continue
        parts.clear()


def _state(condition: str) -> bool | None:
    """Return whether a condition is met on a screen: a prelude as "@media print", or a list of media. False if that cannot be
    known, None if it is for paper."""
    name, media, *_ = (*condition.lower().split(None, 1), "") if condition.startswith("@") else ("@media", condition.lower())
    if name != "@media":
        return name == "@layer"
    kinds = [each.strip() for each in media.split(",")]
    if any(map(_ON_SCREEN.fullmatch, kinds)):
        return True
    return None if all(map(_ON_PAPER.fullmatch, kinds)) else False


def _values(body: str, weight: tuple[int, int, int, int]) -> dict[str, _Value]:
    """Return the values of declarations, as "color: red; display: none", by property."""
    values: dict[str, _Value] = {}
    for name, written in _DECLARATION.findall(body):
        text, important, _ = written.lower().partition("!")
        found = _Value((bool(important), *weight), text.strip())
        _override(values, dict.fromkeys(_PROPERTIES.get(name.lower(), ()), found))
    return values


def _showing(values: Mapping[str, _Value]) -> Iterator[tuple[str, _Value]]:
    """Yield what a rule that may be met or not can show: elements, and backgrounds."""
    for name, value in values.items():
        if name.startswith("background"):
            yield name, replace(value, text=_UNKNOWN)
        elif (name == "display" and value.text != "none") or (name == "visibility" and value.text == "visible"):
            yield name, value


def _override(values: dict[str, _Value], others: Mapping[str, _Value]) -> None:
    values.update({name: other for name, other in others.items() if name not in values or values[name].rank <= other.rank})
