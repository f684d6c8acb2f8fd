"""The keys of the configuration file, and the values that they and the options accept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from fbrag_cli.errors import FbragError
from fbrag_cli.text.near import closest

Value: TypeAlias = "str | int | float | bool"

_WORDS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True) | dict.fromkeys(("false", "f", "no", "n", "off", "0"), False)
_NUMBER = re.compile("[0-9]{1,9}")
_PHRASES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The values that a setting, an option or a key accepts.

    kind: bool, int, float or str. choices: the accepted words, () for any. words: those that a text may be beside a whole number,
    () for any text. A file may have such a text as a bare number, and the choices "true" and "false" as bare words.
    """

    kind: type
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    words: tuple[str, ...] = ()

    @property
    def expects(self) -> str:
        """A description of the accepted values, for a message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        phrase = f"{', '.join(self.words)} or a number" if self.words else _PHRASES[self.kind]
        if self.minimum is not None and self.maximum is not None:
            return f"{phrase} from {self.minimum:g} to {self.maximum:g}"
        return phrase if self.minimum is None else f"{phrase}, at least {self.minimum:g}"

    def checked(self, value: object) -> Value | None:
        """Return `value` as the option takes it, or None if it is not accepted."""
        if self.kind is str and self.words and type(value) in (int, float):
            value = str(value)
        if self.choices and type(value) is bool:
            value = str(value).lower()
        if self.kind is float and type(value) is int:
            try:
                value = float(value)
            except OverflowError:  # hundreds of digits
                return None
        if type(value) is not self.kind or (self.choices and value not in self.choices):
            return None
        assert isinstance(value, (str, int, float))
        if isinstance(value, str):
            return value if self._is_accepted(value) else None
        return value if self._is_within(value) else None

    def parsed(self, text: str) -> Value | None:
        """Return the value that `text` of a variable or a command line stands for, or None."""
        try:
            value: object = _WORDS.get(text.strip().lower()) if self.kind is bool else self.kind(text)
        except ValueError:
            return None
        return self.checked(value)

    def _is_accepted(self, text: str) -> bool:
        return not self.words or text in self.words or (bool(_NUMBER.fullmatch(text)) and self._is_within(int(text)))

    def _is_within(self, number: float) -> bool:
        low = -math.inf if self.minimum is None else self.minimum
        return abs(number) != math.inf and low <= number <= (math.inf if self.maximum is None else self.maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Accepted):
    """One key of the file: the default of an option.

    name: its spelling in the file, "gpu" or "ask.sources". variables: environment variables, of which the first that is set
    counts. commands: those that have the option; empty for all commands. shared: name of the key that sets the option for several
    commands, where this one sets it for one of them.
    """

    name: str
    default: Value | None = None
    variables: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    shared: str = ""

    @property
    def option(self) -> str:
        """The name of the option, without its table."""
        return self.name.rpartition(".")[2]


class Keys(Mapping[str, Key]):
    """Keys by name, some of which take long to make: these are made where a name is none of the others, or for a list of all.

    quick: the others, with keys of each table of the file. make_all: returns all keys, in their order.
    """

    def __init__(self, quick: Mapping[str, Key], make_all: Callable[[], Mapping[str, Key]]) -> None:
        self._quick, self._make_all = quick, cache(make_all)
        self.tables = {name.partition(".")[0] for name in quick if "." in name}

    def __getitem__(self, name: str) -> Key:
        return self._quick[name] if name in self._quick else self._make_all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make_all())

    def __len__(self) -> int:
        return len(self._make_all())


def canonical(name: str) -> str:
    """Return a key's name with underscores; hyphens, as in options, are accepted too."""
    return name.replace("-", "_")


def toml(value: Value) -> str:
    """Return `value` in TOML's syntax."""
    import json

    return json.dumps(value, ensure_ascii=False)


def find_key(name: str, keys: Keys) -> Key:
    """Return the key with this name. Raises FbragError `config`, with the most similar key as a hint."""
    if key := keys.get(canonical(name)):
        return key
    raise FbragError("config", f"there is no key {name}", suggested(canonical(name), keys, "fbrag config show"))


def unread_variables(environ: Iterable[str], known: Container[str]) -> list[str]:
    """Return the variables FBRAG_* that nothing reads. known: names of those that something reads."""
    return [name for name in environ if name.startswith("FBRAG_") and name not in known]


def suggested_variable(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a variable FBRAG_* that nothing reads, as `suggested`. The common beginning makes no names alike."""
    near = nearest(name.removeprefix("FBRAG_"), [each.removeprefix("FBRAG_") for each in known if each.startswith("FBRAG_")])
    return f"did you mean FBRAG_{near}?" if near else otherwise


def suggested(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return the hint "did you mean X?" for a misspelled key; `otherwise` where no name is like it."""
    near = nearest(name, names)
    return f"did you mean {near}?" if near else otherwise


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the full name most like a misspelled one, None if none is close; "large" may mean "models.large"."""

    full = {each: each for each in names}
    short = {each.rpartition(".")[2]: each for each in reversed(full)}  # the first of that name
    last = name.rpartition(".")[2]
    for candidates, spelled, likeness in ((short, last, 1.0), (full, name, 0.7), (short, last, 0.7)):
        if near := closest(spelled, candidates, likeness):
            return candidates[near]
    return None
