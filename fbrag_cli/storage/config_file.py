"""The configuration file: reads it, edits it, and resolves a key: an FBRAG_* variable, else the file, else the default.

Flags come before all of these; the command line applies them. The caller passes the keys: nothing here knows the command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.config_key import Key, Keys, Value, canonical, toml
from fbrag_cli.storage.files import not_writable, read_small, whole_file
from fbrag_cli.storage.places import config_path

#: Unknown keys that are named; each is compared with all that are known.
MOST_NAMED = 5

# -- the file --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The path of the file. named: by the user, so that it must exist."""

    path: Path
    named: bool


@dataclass(frozen=True, slots=True)
class Config:
    """The content of the file: values by key, and the names of unknown keys."""

    values: Mapping[str, Value]
    unknown: tuple[str, ...] = ()


def locate(named: str | None, environ: Mapping[str, str]) -> ConfigFile | None:
    """Return the file that `--config` (`named`) or FBRAG_CONFIG names, else the user's own; None if they name "none"."""
    if named := named or environ.get("FBRAG_CONFIG"):
        return None if named == "none" else ConfigFile(Path(os.path.expanduser(named)), named=True)
    return ConfigFile(config_path(), named=False)


def read_text(file: ConfigFile) -> str | None:
    """Return the text of the file; None if it does not exist and need not. Raises FbragError `config`."""
    try:
        return read_small(file.path).decode("utf-8-sig")
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
    """Return the content of `file`. Raises FbragError `config` if it is not TOML, or a key does not accept its value."""
    if file is None or (text := read_text(file)) is None:
        return Config({})
    values: dict[str, Value] = {}
    unknown = []
    for name, value in _leaves(_parse(text, file.path), keys.tables):
        if key := keys.get(canonical(name)):
            checked = key.checked(value)
            if checked is None:
                what = f"{file.path}: {name} is {_shown(value)}, expected {key.expects}"
                raise FbragError("config", what, f"fbrag config unset {key.name}")
            values[key.name] = checked
        elif name in keys.tables:
            raise _no_table(file.path, name, value)
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
    except RecursionError:
        raise FbragError("config", f"{path}: lists or tables are nested too deeply", "no key needs more than one table") from None
    except ValueError as error:
        if not isinstance(error, tomllib.TOMLDecodeError):  # a number of thousands of digits
            raise FbragError("config", f"{path}: a number has too many digits", "write a shorter number") from None
        what, _, place = str(error).partition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        if not line.isdigit():  # "end of document"
            line = str(max(1, len(text.splitlines())))
        what = what[:1].lower() + what[1:]
        raise FbragError("config", f"{path}, line {line}: {what}", "correct the line: see https://toml.io") from None


def _leaves(table: Mapping[str, Any], tables: Container[str]) -> Iterator[tuple[str, object]]:
    """Yield (dotted name, value) for each entry; an unknown table counts as one."""
    for name, value in table.items():
        if isinstance(value, dict) and name in tables:
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def _no_table(path: Path, name: str, value: object) -> FbragError:
    what = f"{path}: {name} is {_shown(value)}, expected a table"
    return FbragError("config", what, f"write [{name}] on a line of its own")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return toml(value) if isinstance(value, (str, int, float)) else str(value)


# -- which value counts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that counts for a key, None where nothing is set. origin: a variable's name, "file" or "default"."""

    value: Value | None
    origin: str


def effective(key: Key, config: Config, environ: Mapping[str, str]) -> Effective:
    """Return the value that a command without flags uses. Raises FbragError `config` for a variable that the key rejects."""
    for variable in key.variables:
        if text := environ.get(variable):
            if (value := key.parsed(text)) is None:
                raise FbragError("config", f"{variable} is {text!r}, expected {key.expects}", f"correct or unset {variable}")
            return Effective(value, variable)
    for name in (key.name, key.shared):
        if name in config.values:
            return Effective(config.values[name], "file")
    return Effective(key.default, "default")


# -- writing ---------------------------------------------------------------------------------------------------------------


def set_value(file: ConfigFile, key: Key, value: Value) -> None:
    """Write `key = value` to the file; comments and all the rest stay as they are. Raises FbragError `config`."""
    import tomlkit

    document = _editable(read_text(replace(file, named=False)) or "", file.path)
    section, _, name = key.name.rpartition(".")
    table = _table(document, section, file.path)
    table[_spelled(name, table)] = value
    _write(file.path, tomlkit.dumps(document))


def unset_value(file: ConfigFile, key: Key) -> bool:
    """Remove `key` from the file; False if it was not there. Raises FbragError `config`."""
    import tomlkit

    if (text := read_text(file)) is None:
        return False
    document = _editable(text, file.path)
    section, _, name = key.name.rpartition(".")
    table = _table(document, section, file.path)
    if (spelled := _spelled(name, table)) not in table:
        return False
    del table[spelled]
    _write(file.path, tomlkit.dumps(document))
    return True


def _editable(text: str, path: Path) -> Any:
    """Return the file as it can be edited. Raises FbragError `config`."""
    import tomlkit

    _parse(text, path)
    try:
        return tomlkit.parse(text)
    except (RecursionError, ValueError) as error:  # it nests less deeply than the reader
        what = f"{path} cannot be edited: {str(error)[:200]}"
        raise FbragError("config", what, "edit it by hand") from None


def _table(document: Any, name: str, path: Path) -> Any:
    """Return a table of the file, new where it has none; for "" the file itself. Raises FbragError `config` for no table."""
    import tomlkit

    table = document.setdefault(name, tomlkit.table()) if name else document
    if not isinstance(table, dict):
        raise _no_table(path, name, table)
    return table


def _spelled(name: str, table: Mapping[str, object]) -> str:
    """Return the spelling of a key that the table has already, else `name`."""
    return next((each for each in table if canonical(each) == name), name)


def _write(path: Path, text: str) -> None:
    try:
        path.resolve().parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary:
            temporary.write_bytes(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise FbragError("config", f"{path} is UTF-8, and a value of it is not", "write it in UTF-8") from None
    except OSError as error:
        raise not_writable(path, error, "config", "name another file with --config") from None
