"""Read the XML of a document by its elements: what is begun in an element holds in it, and ends with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fbrag_cli.documents.readers.equations import Equation

#: What to do at the beginning of an element, whose attributes it gets.
Start = Callable[[dict[str, str]], object]


class Target:
    """What lxml's parser calls, besides `start`, `end` and `data`. It makes no result."""

    def close(self) -> None:
        """End the document."""


@dataclass
class Context:
    """What holds in an open element, also in those within it that have no other. end: what to do at its end. starts: what to do
    at the beginning of each element in it, by its name."""

    starts: Mapping[str, Start]
    end: Callable[[], object] | None = None
    is_skipped: bool = False
    equation: Equation | None = None


Held = TypeVar("Held", bound=Context)


class Nested(Target, Generic[Held]):
    """The target of lxml's parser for elements in elements.

    context: what holds in the open one. innermost: its name, if no other has begun or ended in it. prefixes: of names, by
    namespace. beside_equation: names of elements within an equation that are no part of it.
    """

    def __init__(self, context: Held, prefixes: Mapping[str, str], beside_equation: frozenset[str] = frozenset()) -> None:
        self.context, self.innermost = context, ""
        self._outer: list[Held] = []  # those of the elements around
        self._names, self._beside_equation = _Names(prefixes), beside_equation

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = self.innermost = self._names[tag]
        context = self.context
        self._outer.append(context)
        if context.is_skipped:
            return
        if context.equation is not None and name not in self._beside_equation:
            context.equation.start(name.partition(":")[2], attributes)
        elif (start := context.starts.get(name)) is not None:
            start(attributes)

    def end(self, tag: str) -> None:
        self.innermost = ""
        context, outer = self.context, self._outer.pop()
        if context is not outer:
            if context.end is not None:
                context.end()
            self.context = outer
        elif context.equation is not None and not context.is_skipped:
            context.equation.end()

    def enter(self, end: Callable[[], object] | None = None, **changes: Any) -> None:
        """Let something else hold in the open element. end: what to do at its end."""
        inner = object.__new__(type(self.context))
        vars(inner).update(vars(self.context), end=end, **changes)  # some times faster than `replace`
        self.context = inner

    def skip(self, _: object = None) -> None:
        """Leave out the open element."""
        self.enter(is_skipped=True)

    def begin_equation(self, _: object) -> None:
        """Read the open element as an equation."""
        equation = Equation()
        self.enter(lambda: self.end_equation(equation.text()), equation=equation)

    def end_equation(self, text: str) -> None:
        """Take the text of an equation."""


class _Names(dict[str, str]):
    """Names of elements with the prefix of their namespace, as "w:p", by their names in lxml. prefixes: by namespace."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._prefixes = prefixes

    def __missing__(self, tag: str) -> str:
        namespace, _, name = tag[1:].rpartition("}")
        self[tag] = found = self._prefixes.get(namespace, "?:") + name
        return found
