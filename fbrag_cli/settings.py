"""A setting: a field of a record that a user may set, with its help, its bounds, and two readers, `parse` and `check`. How it
looks on the command line is said there (`cli.option`).

Flags, `--set`, environment variables, the configuration file, JSON and the lists of an evaluation all use these two, so an
invalid value gives the same error wherever it comes from.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from fbrag_cli.errors import FbragError
from fbrag_cli.text.suggest import suggestion

Value: TypeAlias = "str | int | float | bool | list[str]"

_WORDS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True) | dict.fromkeys(("false", "f", "no", "n", "off", "0"), False)
_NUMBER = re.compile("[0-9]{1,9}")
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

#: What `seconds_of` accepts, for `Setting.accepts`.
DURATION = "a duration such as 90s, 15m, 2h or 30d"
_PHRASES = {bool: "true or false", int: "a whole number", float: "a number", str: "text in quotes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A field that a user may set.

    kind: bool, int, float or str. choices: the accepted words, () for any. words: words accepted besides a whole number, such as
    "auto"; () for any text. form: raises ValueError for invalid text. accepts: describes valid text. separator: separates the
    values of a list, " " for white space; "" if the setting has one value. Of a whole number the only word is "auto", which is
    None: not given. ignored: words that only other commands accept;
    ignored here if they come from the file or the environment.

    help: one phrase. path: "FILE" or "FOLDER" if the value names one. on_gpu: the default if the models run on a GPU, None for
    the same. compared: whether an evaluation takes a list of values.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    form: Callable[[str], object] | None = None
    accepts: str = ""
    separator: str = ""
    ignored: tuple[str, ...] = ()
    path: str = ""
    on_gpu: Any = None
    compared: bool = True

    @property
    def expects(self) -> str:
        """A description of the accepted values, for a message."""
        if self.accepts or self.choices:
            return self.accepts or "one of " + ", ".join(self.choices)
        phrase = _PHRASES[self.kind]
        if self.words:
            phrase = f"{', '.join(self.words)} or {phrase if self.kind is int else 'a number'}"
        if self.minimum is not None and self.maximum is not None:
            return f"{phrase} from {self.minimum:g} to {self.maximum:g}"
        return phrase if self.minimum is None else f"{phrase}, at least {self.minimum:g}"

    def parse(self, text: str, where: str = "", hint: str | None = None, *, code: str = "usage") -> Any:
        """Return the value of a text from the command line or a variable.

        where: names the input in the message, "" for the option. hint: what to do about it. Raises FbragError `code` if the text
        is invalid.
        """
        if self.separator:
            parts = text.split() if self.separator == " " else map(str.strip, text.split(self.separator))
            return [self._parsed(part, where, hint, code) for part in dict.fromkeys(parts)]
        return self._parsed(text, where, hint, code)

    def check(self, value: object, where: str = "", hint: str | None = None, *, code: str = "usage") -> Any:
        """Return a value from TOML, JSON or Python, converted to the setting's type. Raises the same errors as `parse`.

        Text that may be a number can be given as one, the choices "true" and "false" as booleans, and several values as one text
        with separators.
        """
        if self.separator and isinstance(value, str):
            return self.parse(value, where, hint, code=code)
        if self.separator and isinstance(value, list):
            return [replace(self, separator="").check(each, where, hint, code=code) for each in value]
        if self._is_auto(value):
            return None
        if (accepted := self._accepted(value)) is None:
            raise self._refused(value, where, hint, code)
        return accepted

    def _is_auto(self, value: object) -> bool:
        """Return whether a value of a whole number means that none is given."""
        return self.kind is int and value in self.words

    def _parsed(self, text: str, where: str, hint: str | None, code: str) -> Value | None:
        value: object
        if self._is_auto(text):
            return None
        try:
            value = _WORDS.get(text.strip().lower()) if self.kind is bool else self.kind(text)
        except ValueError:
            value = None
        if (accepted := self._accepted(value)) is None:
            raise self._refused(text, where, hint, code)
        return accepted

    def _refused(self, value: object, where: str, hint: str | None, code: str) -> FbragError:
        if isinstance(value, dict | list):
            shown = "a table" if isinstance(value, dict) else "a list"
        else:
            shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float) else str(value)
        near = suggestion(value.lower(), self.choices, "") if isinstance(value, str) else ""
        return FbragError(code, f"{where or self.name} is {shown}, expected {self.expects}", near or hint)

    def _accepted(self, value: object) -> Value | None:
        if self.kind is str and (self.words or self.form) and type(value) in (int, float):
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
        assert isinstance(value, str | int | float)
        if isinstance(value, str):
            return value if self._has_form(value) else None
        return value if self._is_within(value) else None

    def _has_form(self, text: str) -> bool:
        if self.form:
            try:
                self.form(text)
            except ValueError:
                return False
        return not self.words or text in self.words or (bool(_NUMBER.fullmatch(text)) and self._is_within(int(text)))

    def _is_within(self, number: float) -> bool:
        low = -math.inf if self.minimum is None else self.minimum
        return abs(number) != math.inf and low <= number <= (math.inf if self.maximum is None else self.maximum)


def seconds_of(text: str, *, plain: bool = False) -> float:
    """Return the seconds in a duration such as "90s", "15m", "2h" or "30d". Raises ValueError for other text.

    plain: whether a number without a unit is in seconds.
    """
    match = _DURATION.fullmatch(text)
    if not match or not (match[2] or plain):
        raise ValueError(text)
    return float(match[1]) * _SECONDS[match[2]]


def knob(default: Any, help: str, **about: Any) -> Any:
    """Declare a field that is a setting. about: fields of `Setting`."""
    return field(default=default, metadata={"setting": {"help": help, **about}})


def settings_of(record: type[Any]) -> dict[str, Setting]:
    """Return the settings of a record, a dataclass, by name, in the order of its fields."""
    return _settings(record)  # type: ignore[arg-type]  # mypy takes no class for hashable


@cache
def _settings(record: type[Any]) -> dict[str, Setting]:
    hints = get_type_hints(record)
    known = [each for each in fields(record) if "setting" in each.metadata]
    return {each.name: Setting(**setting_of(each.name, each.default, hints[each.name], declared(each))) for each in known}


def declared(field: Field[Any]) -> dict[str, Any]:
    """Return what the declaration of a field says about its setting."""
    return dict(field.metadata["setting"])


def setting_of(name: str, default: Any, hint: Any, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a setting. hint: the type of its values, a list for several. about: what its declaration says."""
    kind, choices, is_list = _kind_of(hint)
    separator = " " if is_list else ""
    return {"name": name, "kind": kind, "default": default, "choices": choices, "words": (), "separator": separator, **about}


def _kind_of(hint: Any) -> tuple[type, tuple[str, ...], bool]:
    """Return the type of the values of a hint such as `int | None` or `Literal["a", "b"]`, the words that it allows, and whether
    it has several values."""
    if get_origin(hint) is Literal:
        return str, get_args(hint), False
    for inner in get_args(hint):
        if inner is not type(None):
            kind, choices, _ = _kind_of(inner)
            return kind, choices, get_origin(hint) is list
    return hint, (), False
