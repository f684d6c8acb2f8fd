"""Write equations of office documents (OMML of Word, MathML of OpenDocument) in a line, as "(a+b)/2", "x_1^2", "√(x+1)"."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_MAX_DEPTH = 60  # deeper structure is written as a plain sequence: each level copies its text
_MAX_SETTING = 20  # characters of a property, as a separator: it may be written many times
_SIMPLE = re.compile(r"[-−+]?[\w.,∞′]*|.", re.DOTALL)
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_SPACES = re.compile(r"\s+")
_INVISIBLE = dict.fromkeys(map(ord, "\u2061\u2062\u2063\u2064\u200b"))
_TOKENS = frozenset(("t", "mi", "mn", "mo", "mtext", "ms"))
_LEFT_OUT = frozenset(("annotation", "annotation-xml", "ctrlPr", "rPr"))


@dataclass(slots=True)
class _MathElement:
    """An open element. settings: values of its properties. parts: names and texts of what it holds."""

    name: str
    settings: dict[str, str]
    parts: list[tuple[str, str]] = field(default_factory=list)

    def of(self, name: str) -> str:
        return next((text for each, text in self.parts if each == name), "")

    def all(self, name: str) -> list[str]:
        return [text for each, text in self.parts if each == name]

    def at(self, place: int) -> str:
        return self.parts[place][1] if place < len(self.parts) else ""

    @property
    def joined(self) -> str:
        return "".join(text for _, text in self.parts)


class Equation:
    """An equation that is read by its elements (local names) and their text, in the document's order. `text` returns it in a
    line."""

    def __init__(self) -> None:
        self._open = [_MathElement("", {})]
        self._deeper = 0
        self._left_out = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._left_out or name in _LEFT_OUT:
            self._left_out += 1
        elif len(self._open) > _MAX_DEPTH:
            self._deeper += 1
        else:
            values = {key.rpartition("}")[2]: value for key, value in attributes.items()}
            outer = self._open[-1]
            if outer.name.endswith("Pr") and name != "ctrlPr":
                outer.settings[name] = values.get("val", "")[:_MAX_SETTING]
            self._open.append(_MathElement(name, outer.settings if name.endswith("Pr") else values if name == "mfenced" else {}))

    def end(self) -> bool:
        """End the innermost element. Return whether it is the equation itself."""
        if self._left_out:
            self._left_out -= 1
        elif self._deeper:
            self._deeper -= 1
        elif len(self._open) == 1:
            return True
        else:
            part = self._open.pop()
            if not part.name.endswith("Pr") and not self._open[-1].name.endswith("Pr"):
                write = _WRITERS.get(part.name)
                self._open[-1].parts.append((part.name, part.joined if write is None else write(part)))
        return False

    def data(self, text: str) -> None:
        part = self._open[-1]
        if not self._left_out and not self._deeper and len(self._open) > 1 and self._open[-2].name.endswith("Pr"):
            settings = self._open[-2].settings  # RTF has the values of properties as text
            settings[part.name] = (settings.get(part.name, "") + text.strip())[:_MAX_SETTING]
        elif not self._left_out and (part.name in _TOKENS or self._deeper):
            text = text.translate(_INVISIBLE)
            if part.name in ("mi", "mo", "mn"):
                text = text.strip()
            part.parts.append(("", text))

    def text(self) -> str:
        while len(self._open) > 1:
            self._deeper = self._left_out = 0
            self.end()
        return _SPACES.sub(" ", self._open[0].joined)


def _grouped(text: str) -> str:
    """Return a text in parentheses, unless it is a number, a word or a sign."""
    text = text.strip()
    whole = text[:1] == "(" and text.find(")") == len(text) - 1
    return text if _SIMPLE.fullmatch(text) or whole else f"({text})"


def _raised(base: str, above: str) -> str:
    return f"{base}^{_grouped(above)}" if above.strip() else base


def _lowered(base: str, below: str) -> str:
    return f"{base}_{_grouped(below)}" if below.strip() else base


def _fraction(above: str, below: str, *, bar: bool = True) -> str:
    return f"{_grouped(above)}/{_grouped(below)}" if bar else f"{above}¦{below}"


def _root(inner: str, degree: str = "") -> str:
    sign = _ROOTS.get(degree.strip())
    return f"{sign}{_grouped(inner)}" if sign else f"{_grouped(degree)}√{_grouped(inner)}"


def _sum(part: _MathElement) -> str:
    return f"{_raised(_lowered(part.settings.get('chr', '∫'), part.of('sub')), part.of('sup'))} {part.of('e')}"


def _delimited(part: _MathElement) -> str:
    settings = part.settings
    between = settings.get("sepChr", "|").join(part.all("e"))
    return settings.get("begChr", "(") + between + settings.get("endChr", ")")


def _function(part: _MathElement) -> str:
    name, of = part.of("fName"), part.of("e")
    return f"{name}{of}" if of[:1] in "([{" else f"{name} {of}"


def _fenced(part: _MathElement) -> str:
    between = (part.settings.get("separators", ",").strip() or ",")[0]
    inner = between.join(text for _, text in part.parts)
    return part.settings.get("open", "(") + inner + part.settings.get("close", ")")


def _word(part: _MathElement) -> str:
    return f" {part.joined} " if len(part.joined) > 1 and part.joined.isalpha() else part.joined


def _over(part: _MathElement) -> str:
    above = part.at(1).strip()
    return part.at(0) if len(above) == 1 and above in "¯‾_^~→⃗˙" else _raised(part.at(0), above)


def _rows(part: _MathElement) -> str:
    return "; ".join(text.strip() for name, text in part.parts if name in ("mr", "mtr", "e"))


def _cells(part: _MathElement) -> str:
    return ", ".join(text.strip() for name, text in part.parts if name in ("e", "mtd"))


def _accented(part: _MathElement) -> str:
    mark = part.settings.get("chr", "\u0302")
    return part.of("e") + (mark if len(mark) == 1 and len(part.of("e").strip()) == 1 else "")


_WRITERS: dict[str, Callable[[_MathElement], str]] = {
    # OMML
    "f": lambda part: _fraction(part.of("num"), part.of("den"), bar=part.settings.get("type") != "noBar"),
    "sSup": lambda part: _raised(part.of("e"), part.of("sup")),
    "sSub": lambda part: _lowered(part.of("e"), part.of("sub")),
    "sSubSup": lambda part: _raised(_lowered(part.of("e"), part.of("sub")), part.of("sup")),
    "sPre": lambda part: _raised(_lowered("", part.of("sub")), part.of("sup")) + " " + part.of("e"),
    "rad": lambda part: _root(part.of("e"), part.of("deg")),
    "nary": _sum,
    "d": _delimited,
    "func": _function,
    "acc": _accented,
    "limLow": lambda part: _lowered(part.of("e"), part.of("lim")),
    "limUpp": lambda part: _raised(part.of("e"), part.of("lim")),
    "m": _rows,
    "mr": _cells,
    "eqArr": lambda part: _rows(part).replace("&", "").replace("#", " "),
    # MathML
    "mfrac": lambda part: _fraction(part.at(0), part.at(1)),
    "msup": lambda part: _raised(part.at(0), part.at(1)),
    "msub": lambda part: _lowered(part.at(0), part.at(1)),
    "msubsup": lambda part: _raised(_lowered(part.at(0), part.at(1)), part.at(2)),
    "munder": lambda part: _lowered(part.at(0), part.at(1)) + " ",
    "mover": _over,
    "munderover": lambda part: _raised(_lowered(part.at(0), part.at(1)), part.at(2)) + " ",
    "msqrt": lambda part: _root(part.joined),
    "mroot": lambda part: _root(part.at(0), part.at(1)),
    "mfenced": _fenced,
    "mtable": _rows,
    "mtr": _cells,
    "mi": _word,
    "mspace": lambda part: " ",
}
