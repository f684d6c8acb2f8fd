"""A sandbox for the chat template of a model file: it bounds the size of each value that a template makes, and all its work.

Jinja's own sandbox stops a template from reaching Python, not from filling memory: 30 doublings make a string of gigabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MOST_CHARACTERS = 100_000  # in one value, with an item of a list as one; of a template; and of what it writes
_MOST_BEFORE = 10_000_000  # characters that an operation could make, before its result is measured
_MOST_STEPS = 500_000  # of one rendering; a chat of 1,000 messages takes about 60,000
_CHARACTERS_OF_A_STEP = 100
_WIDE = re.compile(r"\d{4}|%[^%a-zA-Z]*\*")  # a large width in a format of `%`, or one that is an argument
# Filters of chat templates. Others are slow for long texts, or make long ones.
_FILTERS = {
    *("abs", "attr", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "indent", "int"),
    *("items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse"),
    *("round", "safe", "select", "selectattr", "sort", "string", "title", "tojson", "trim", "unique", "upper"),
}
_BARRED = ("format", "format_map", "encode", "to_bytes")  # methods: formats with any width; bytes


class ExcessError(Exception):
    """A template exceeds a limit."""


class _Opaque(Namespace):
    """A namespace that is not printed with its values: it may contain itself, and other namespaces twice."""

    def __repr__(self) -> str:
        return "namespace"


class _Checking(CodeGenerator):
    """Writes code that counts the steps of each block, and measures values that jinja makes without a call."""

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        statements = list(nodes)
        self.writeline(f"environment.spend({1 + len(statements)})")
        super().blockvisit(statements, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.concat(")
        super().visit_List(nodes.List(node.nodes), frame)
        self.write(")")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self._write_measured(super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self._write_measured(super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self._write_measured(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        self._write_measured(super().visit_Getitem, node, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        node.iter = _measured(node.iter)
        super().visit_For(node, frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        for operand in node.ops:
            operand.expr = _measured(operand.expr)
        super().visit_Compare(node, frame)

    def _write_measured(self, visit: Callable[[Any, Frame], None], node: nodes.Expr, frame: Frame) -> None:
        self.write("environment.measured(")
        visit(node, frame)
        self.write(")")


def _measured(expression: nodes.Node) -> nodes.Expr:
    """Return the expression that measures the value of another one."""
    return nodes.Call(nodes.EnvironmentAttribute("measured"), [expression], [], None, None)


class _Generation(Extension):
    """The `generation` block, which templates put around the assistant's words for training."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one rendering of a chat template. Its methods raise ExcessError.

    No string and no list that a template makes is longer than `MOST_CHARACTERS`, as it would be written out, and no whole number
    exceeds `_MOST_BEFORE`. What an operation could make is estimated before: it is never longer than the product of the two
    longest things that it gets.
    """

    code_generator_class = _Checking
    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
            finalize=self._written,
            optimized=False,
        )
        self._steps = self._n_written = 0
        self.globals = {
            "dict": dict,
            "namespace": _Opaque,
            "raise_exception": _refuse,
            "range": self._range,
            "strftime_now": lambda form: "",  # a prompt with the date would differ every day
        }
        self.policies["json.dumps_function"] = lambda value, **form: json.dumps(value, sort_keys=True)  # with any indent
        filters: dict[str, Any] = self.filters
        tests: dict[str, Any] = self.tests
        filters |= {name: self._bounded(filters[name]) if name in _FILTERS else _unsupported for name in filters}
        tests |= {name: self._bounded(tests[name]) for name in tests}

    def spend(self, n_steps: int) -> None:
        self._steps += n_steps
        if self._steps > _MOST_STEPS:
            raise ExcessError("takes too many steps; it may loop without end")

    def measured(self, value: Any) -> Any:
        """Return a value that is not too long. Iterators become lists."""
        if isinstance(value, Iterator) and not isinstance(value, LoopContext):
            value = list(islice(value, MOST_CHARACTERS + 1))
        if isinstance(value, int):
            _check_length(abs(value), _MOST_BEFORE)
        self._length(value)
        return value

    def concat(self, pieces: Sequence[Any]) -> str:  # type: ignore[override]
        _check_length(sum(map(self._length, pieces)))
        return str(self.measured("".join(map(str, pieces))))

    def call(self, context: Context, function: Any, /, *values: Any, **named: Any) -> Any:
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str | int | float | Collection):  # a method of Python's
            self._check_product(owner, *values, *named.values())
        self._length((values, named))
        return self.measured(super().call(context, function, *values, **named))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise ExcessError("formats a text with a large width")
        if operator in ("*", "**", "%"):
            self._check_product(left, right)
        return self.measured(super().call_binop(context, operator, self.measured(left), self.measured(right)))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in _BARRED and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Leave `format` to `is_safe_attribute`."""

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)  # and its request for the context, if it has one
        def bounded(*values: Any, **named: Any) -> Any:
            self._check_product(*values, *named.values())
            return self.measured(function(*values, **named))

        return bounded

    def _range(self, *arguments: int) -> range:
        numbers = range(*arguments)
        self.spend(len(numbers[: _MOST_STEPS + 1]))
        return numbers

    def _written(self, value: Any) -> Any:
        self._n_written += self._length(value)
        _check_length(self._n_written, _MOST_BEFORE)
        return value

    def _check_product(self, *values: Any) -> None:
        """Check what an operation of these values could make: a number may be a width or a count."""
        lengths = [abs(value) if isinstance(value, int) else self._length(value) for value in values]
        shorter, longer = sorted([1, 1, *lengths])[-2:]
        _check_length(shorter * longer, _MOST_BEFORE)

    def _length(self, value: Any) -> int:
        """Return the length of a value: of its texts, with 1 for each item."""
        length, left = 0, [value]
        while left:
            item = left.pop()
            n = len(item) if isinstance(item, str) else 0
            length += 1 + n
            self.spend(1 + n // _CHARACTERS_OF_A_STEP)
            _check_length(length)
            if isinstance(item, str | Context):
                continue
            if isinstance(item, Mapping):
                left += [*item.keys(), *item.values()]
            elif isinstance(item, Collection):
                left += item
        return length


def _check_length(n: int, most: int = MOST_CHARACTERS) -> None:
    if n > most + 100:  # its items count as well
        raise ExcessError(f"makes a text, a list or a number that exceeds {most:,}")


def _unsupported(*values: Any, **named: Any) -> None:
    raise TemplateError("a filter that chat templates do not need")


def _refuse(message: str) -> None:
    raise TemplateError(message)
