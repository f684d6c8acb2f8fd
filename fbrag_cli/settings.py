"""A setting: a field of a record that a user may set, with its help, its bounds, and two readers, `parse` and `check`.

Flags, `--set`, environment variables, the configuration file, JSON and the lists of an evaluation all use these two, so an
invalid value gives the same error wherever it comes from.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

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

    help: one phrase. varies: the default in words, if it depends on more than this field. on_gpu: the default if the models run
    on a GPU, None for the same. group: heading in the help. flags: names of the option, () for the field's own name. variables:
    environment variables. once: whether it applies to a single run, so that no file sets it. expert: whether it is set with --set
    and has no option of its own. compared: whether an evaluation takes a list of values. option: arguments for
    Typer.
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
    varies: str | None = None
    on_gpu: Any = None
    group: str = "Method"
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    variables: tuple[str, ...] = ()
    once: bool = False
    expert: bool = False
    compared: bool = True
    option: Mapping[str, Any] = field(default_factory=dict)

    # -- values ----------------------------------------------------------------------------------------------------------------

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
        return FbragError(code, f"{where or self.typed} is {shown}, expected {self.expects}", near or hint)

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

    # -- names and help ----------------------------------------------------------------------------------------------------------

    @property
    def long_flag(self) -> str:
        """The long option, such as "--forward-tokens"."""
        return next(flag for flag in self.flags if flag.startswith("--")).split("/")[0]

    @property
    def typed(self) -> str:
        """The setting as a user types it: "--samples", "--set recall"."""
        return f"--set {self.long_flag[2:]}" if self.expert else self.long_flag

    @property
    def shown_default(self) -> str:
        """The default as the help shows it, "" for none."""
        if self.varies is not None:
            return self.varies
        if self.on_gpu is not None:
            return f"{self.on_gpu} on a GPU, {self.default} on a CPU"
        return "" if self.default is None or self.default is False or self.default == () else str(self.default)

    @property
    def in_file(self) -> bool:
        """Whether the configuration file may set it."""
        return bool(self.variables) and not self.once


def seconds_of(text: str, *, plain: bool = False) -> float:
    """Return the seconds in a duration such as "90s", "15m", "2h" or "30d". Raises ValueError for other text.

    plain: whether a number without a unit is in seconds.
    """
    found = _DURATION.fullmatch(text)
    if not found or not (found[2] or plain):
        raise ValueError(text)
    return float(found[1]) * _SECONDS[found[2]]


def knob(default: Any, help: str, **about: Any) -> Any:
    """Declare a field that is a setting. about: fields of `Setting`, and arguments for Typer."""
    return field(default=default, metadata={"setting": {"help": help, **about}})


@cache
def _settings(record: type[Any]) -> dict[str, Setting]:
    hints = get_type_hints(record)
    own = {name: _made(name, *each, hints[name]) for name, each in _declared(record).items()}
    return {**own, **getattr(record, "borrowed", {})}


def settings_of(record: type[Any]) -> dict[str, Setting]:
    """Return the settings of a record by name, in the order of its fields, followed by those in its `borrowed`, if it has any.

    The record is a dataclass, or a class whose attributes are the fields. Its `group` is the default group of its settings.
    """
    return _settings(record)  # type: ignore[arg-type]  # mypy takes no class for hashable


def _declared(record: type[Any]) -> dict[str, tuple[Field[Any], str]]:
    """Return the fields that are settings by name, each with the group of its class."""
    if is_dataclass(record):
        group = getattr(record, "group", "Method")
        return {each.name: (each, group) for each in fields(record) if "setting" in each.metadata}
    found: dict[str, tuple[Field[Any], str]] = {}
    for kind in reversed(record.__mro__):
        group = vars(kind).get("group", "")
        found |= {name: (each, group) for name, each in vars(kind).items() if isinstance(each, Field)}
    return found


def _made(name: str, declared: Field[Any], group: str, hint: Any) -> Setting:
    kind, choices, is_list = _kind_of(hint)
    found: dict[str, Any] = {"name": name, "kind": kind, "choices": choices, "default": declared.default, "group": group}
    found |= {"separator": " " if is_list else "", "option": {}}
    for key, value in declared.metadata["setting"].items():
        (found if key in Setting.__dataclass_fields__ else found["option"])[key] = value
    if kind is int or found.get("words"):
        found.setdefault("metavar", "N")
    if not found.get("flags"):
        found["flags"] = (f"--{name.replace('_', '-')}",)
    if "variables" not in found:
        long = next((flag for flag in found["flags"] if flag.startswith("--")), "--").split("/")[0]
        found["variables"] = (f"FBRAG_{long[2:].replace('-', '_').upper()}",)
    return Setting(**found)


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


class Effective(NamedTuple):
    """The value in effect for a setting, None if there is none. origin: a variable's name, "file" or "default"."""

    value: Any
    origin: str


def effective(setting: Setting, of_file: Mapping[str, Value], environ: Mapping[str, str]) -> Effective:
    """Return the value in effect without a flag: from a variable, else from the file, else the default.

    of_file: values by name. Raises FbragError `config` if a variable has an invalid value.
    """
    for variable in setting.variables:
        if (text := environ.get(variable)) and text not in setting.ignored:
            return Effective(setting.parse(text, variable, f"fix or unset {variable}", code="config"), variable)
    if setting.name in of_file:
        return Effective(of_file[setting.name], "file")
    return Effective(setting.default, "default")
