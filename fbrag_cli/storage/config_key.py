"""The keys of the configuration file: their names, their types, and the values that they accept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fbrag_cli.errors import FbragError
from fbrag_cli.text.near import closest

Value: TypeAlias = "str | int | float | bool"

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_PHRASES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file: the default of an option.

    name: its spelling in the file, "gpu" or "ask.sources". kind: bool, int, float or str. variables: environment variables, of
    which the first that is set counts. word_or_number: a text that may be written as a bare number. option: the option's name.
    commands: those that have the option; empty for all commands.
    """

    name: str
    kind: type
    default: Value | None = None
    variables: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    word_or_number: bool = False
    option: str = ""
    commands: tuple[str, ...] = ()

    @property
    def expects(self) -> str:
        """A description of the accepted values, for a message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        phrase = "a number, or a text in quotes" if self.word_or_number else _PHRASES[self.kind]
        if self.minimum is not None and self.maximum is not None:
            return f"{phrase} from {self.minimum:g} to {self.maximum:g}"
        return phrase if self.minimum is None else f"{phrase}, at least {self.minimum:g}"

    def checked(self, value: object) -> Value | None:
        """Return `value` as the option takes it, or None if the key does not accept it."""
        if self.kind is str and self.word_or_number and type(value) in (int, float):
            value = str(value)
        if self.kind is float and type(value) is int:
            try:
                value = float(value)
            except OverflowError:  # hundreds of digits
                return None
        if type(value) is not self.kind or (self.choices and value not in self.choices):
            return None
        assert isinstance(value, (str, int, float))
        if isinstance(value, str):
            return value
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return value if abs(value) != math.inf and low <= value <= high else None

    def parsed(self, text: str) -> Value | None:
        """Return the value that `text` of a variable or a command line stands for, or None."""
        try:
            value: object = _WORDS.get(text.lower()) if self.kind is bool else self.kind(text)
        except ValueError:
            return None
        return self.checked(value)


Keys: TypeAlias = Mapping[str, Key]


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
    near = nearest(canonical(name), keys)
    hint = f"did you mean {near}?" if near else "fbrag config show"
    raise FbragError("config", f"there is no key {name}", hint)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the full name most like a misspelled one, None if none is close; "large" may mean "models.large"."""

    full = {each: each for each in names}
    short = {each.rpartition(".")[2]: each for each in reversed(full)}  # the first of that name
    last = name.rpartition(".")[2]
    for candidates, spelled, likeness in ((short, last, 1.0), (full, name, 0.7), (short, last, 0.7)):
        if near := closest(spelled, candidates, likeness):
            return candidates[near]
    return None
