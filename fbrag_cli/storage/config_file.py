"""The configuration file: where it is, what may stand in it, and which value counts: FBRAG_* variables, the file, the default.

Flags go before all of these; they never come here. Which keys there are is said by those who call: nothing here knows the
command line.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from fbrag_cli.errors import FbragError

Value: TypeAlias = "str | int | float | bool"

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_PHRASES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that can be configured.

    name: as the file spells it, "gpu" or "ask.sources". kind: bool, int, float or str. variables: of the environment, the
    first that is set counts. word_or_number: a text that may be written as a bare number. option and commands: whose default
    it is; no commands for an option of all.
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
        """What a value has to be, for a message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        phrase = "a number, or a text in quotes" if self.word_or_number else _PHRASES[self.kind]
        if self.minimum is not None and self.maximum is not None:
            return f"{phrase} from {self.minimum:g} to {self.maximum:g}"
        return phrase if self.minimum is None else f"{phrase}, at least {self.minimum:g}"

    def checked(self, value: object) -> Value | None:
        """`value` as the option takes it, or None if it is not what the key expects."""
        if self.kind is str and self.word_or_number and type(value) in (int, float):
            value = str(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not self.kind or (self.choices and value not in self.choices):
            return None
        assert isinstance(value, (str, int, float))
        if isinstance(value, str):
            return value
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return value if math.isfinite(value) and low <= value <= high else None

    def parsed(self, text: str) -> Value | None:
        """The value that `text` of a variable or a command line spells, or None."""
        try:
            value: object = _WORDS.get(text.lower()) if self.kind is bool else self.kind(text)
        except ValueError:
            return None
        return self.checked(value)


Keys: TypeAlias = Mapping[str, Key]


# -- the file --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A place; `named` if the user named it, so that it has to be there."""

    path: Path
    named: bool


@dataclass(frozen=True, slots=True)
class Config:
    """What a file sets: values by key, and the keys nobody knows."""

    values: Mapping[str, Value]
    unknown: tuple[str, ...] = ()


def locate(named: str | None, environ: Mapping[str, str]) -> ConfigFile | None:
    """The file that `--config` or FBRAG_CONFIG names, else the user's own; None if they name "none"."""
    if named := named or environ.get("FBRAG_CONFIG"):
        return None if named == "none" else ConfigFile(Path(named).expanduser(), named=True)
    if sys.platform == "win32":
        base = Path(environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        base = Path(environ.get("XDG_CONFIG_HOME") or "")
        if not base.is_absolute():  # the XDG specification: relative paths are invalid, and ignored
            base = Path(environ.get("HOME") or Path.home()) / ".config"
    return ConfigFile(base / "fbrag" / "config.toml", named=False)


def read_text(file: ConfigFile) -> str | None:
    """The text of the file; None if there is none and nobody named it. Raises FbragError `config`."""
    try:
        return file.path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        if not file.named:
            return None
        hint = "correct --config or FBRAG_CONFIG; 'none' stands for no file"
        raise FbragError("config", f"there is no configuration file {file.path}", hint) from None
    except OSError as error:
        raise FbragError("config", f"{file.path} cannot be read: {error.strerror}", "--config none does without it") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FbragError("config", f"{file.path}, line {line}: not UTF-8", "save it as UTF-8") from None


def load(file: ConfigFile | None, keys: Keys) -> Config:
    """What `file` sets. Raises FbragError `config` if it is not TOML, or a value is not what its key expects."""
    if file is None or (text := read_text(file)) is None:
        return Config({})
    values: dict[str, Value] = {}
    unknown = []
    tables = {name.partition(".")[0] for name in keys if "." in name}
    for name, value in _leaves(_parse(text, file.path), tables):
        if key := keys.get(canonical(name)):
            checked = key.checked(value)
            if checked is None:
                raise FbragError("config", f"{file.path}: {name} is {_shown(value)}, expected {key.expects}", _repair(key))
            values[key.name] = checked
        elif name in tables:
            what = f"{file.path}: {name} is {_shown(value)}, expected a table"
            raise FbragError("config", what, f"write [{name}] on a line of its own")
        else:
            unknown.append(name)
    return Config(values, tuple(unknown))


def _parse(text: str, path: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table: dict[str, Any] = tomllib.loads(text)
        return table
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        if not line.isdigit():  # "end of document"
            line = str(max(1, len(text.splitlines())))
        what = what[:1].lower() + what[1:]
        raise FbragError("config", f"{path}, line {line}: {what}", "correct the line: https://toml.io tells how") from None


def _leaves(table: Mapping[str, Any], tables: set[str]) -> Iterator[tuple[str, object]]:
    """(dotted name, value) of each setting; a table that nobody knows counts as one."""
    for name, value in table.items():
        if isinstance(value, dict) and name in tables:
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return toml(value) if isinstance(value, (str, int, float)) else str(value)


def _repair(key: Key) -> str:
    return f"fbrag config set {key.name} VALUE, or fbrag config unset {key.name}"


# -- keys and values -------------------------------------------------------------------------------------------------------


def canonical(name: str) -> str:
    """Keys are spelled with underscores; hyphens, as the options have them, are understood."""
    return name.replace("-", "_")


def toml(value: Value) -> str:
    """`value` as TOML writes it."""
    import json

    return json.dumps(value, ensure_ascii=False)


def find_key(name: str, keys: Keys) -> Key:
    """Raises FbragError `config`, with the nearest key there is."""
    if key := keys.get(canonical(name)):
        return key
    near = nearest(canonical(name), keys)
    hint = f"did you mean {near}?" if near else "fbrag config show lists all keys"
    raise FbragError("config", f"there is no key {name}", hint)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, in full; "large" may mean "models.large"."""
    import difflib

    full = {each: each for each in names}
    short = {each.rpartition(".")[2]: each for each in reversed(full)}  # the first of that name
    last = name.rpartition(".")[2]
    for candidates, spelled, likeness in ((short, last, 1.0), (full, name, 0.7), (short, last, 0.7)):
        if near := difflib.get_close_matches(spelled, candidates, 1, cutoff=likeness):
            return candidates[near[0]]
    return None


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that counts, None where nothing is set. origin: a variable's name, "file" or "default"."""

    value: Value | None
    origin: str


def effective(key: Key, keys: Keys, config: Config, environ: Mapping[str, str]) -> Effective:
    """What a command without flags would use. Raises FbragError `config` for a variable with a value that does not fit."""
    for variable in key.variables:
        if text := environ.get(variable):
            if (value := key.parsed(text)) is None:
                raise FbragError("config", f"{variable} is {text!r}, expected {key.expects}", f"correct or unset {variable}")
            return Effective(value, variable)
    for name in (key.name, shared_name(key, keys)):
        if name in config.values:
            return Effective(config.values[name], "file")
    return Effective(key.default, "default")


def shared_name(key: Key, keys: Keys) -> str:
    """The key that sets the same option for all commands: "samples" of "ask.samples"."""
    for other in keys.values():
        if other.option == key.option and set(other.commands) > set(key.commands):
            return other.name
    return key.name


# -- writing ---------------------------------------------------------------------------------------------------------------


def set_value(file: ConfigFile, key: Key, value: Value) -> None:
    """Write `key = value`, and leave comments and all the rest as they are. Raises FbragError `config`."""
    import tomlkit

    text = read_text(replace(file, named=False)) or ""
    _parse(text, file.path)
    document: Any = tomlkit.parse(text)
    name, table = key.name, document
    if "." in key.name:
        section, name = key.name.split(".")
        table = document.setdefault(section, tomlkit.table())
    table[_spelled(name, table)] = value
    _write(file.path, tomlkit.dumps(document))


def unset_value(file: ConfigFile, key: Key) -> bool:
    """Take `key` out of the file; False if it was not there. Raises FbragError `config`."""
    import tomlkit

    if (text := read_text(file)) is None:
        return False
    _parse(text, file.path)
    document: Any = tomlkit.parse(text)
    section, _, name = key.name.rpartition(".")
    table = document.get(section, {}) if section else document
    if (spelled := _spelled(name, table)) not in table:
        return False
    del table[spelled]
    _write(file.path, tomlkit.dumps(document))
    return True


def _spelled(name: str, table: Mapping[str, object]) -> str:
    """As the file spells it already, if it does."""
    return next((each for each in table if canonical(each) == name), name)


def _write(path: Path, text: str) -> None:
    """Whole or not at all; where `path` is a link, to what it points to."""
    import tempfile

    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".config.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(text.encode("utf-8"))
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FbragError("config", f"{path} cannot be written: {error.strerror}", "name another file with --config") from None
