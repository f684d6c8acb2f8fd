"""The configuration file: TOML, one line per setting, and a table of named folders. An edit changes nothing else in the file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.settings import Setting, Value
from fbrag_cli.storage.files import not_writable, on_disk, read_small, whole_file
from fbrag_cli.storage.paths import config_path
from fbrag_cli.text.printable import one_line


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The path of the file. named: whether the user named it, so that it must exist."""

    path: Path
    named: bool


@dataclass(frozen=True, slots=True)
class Config:
    """The content of the file: values by setting, the names of unknown settings, and the paths that each name of the table
    [folders] means."""

    values: Mapping[str, Value]
    unknown: tuple[str, ...] = ()
    folders: Mapping[str, list[str]] = field(default_factory=dict)


def locate(named: str | None, environ: Mapping[str, str]) -> ConfigFile | None:
    """Return the file named by `--config` (`named`) or FBRAG_CONFIG, else the user's default; None if they say "none"."""
    if named := named or environ.get("FBRAG_CONFIG"):
        return None if named == "none" else ConfigFile(Path(on_disk(os.path.expanduser(named))), named=True)
    return ConfigFile(config_path(), named=False)


def load(file: ConfigFile | None, keys: Mapping[str, Setting]) -> Config:
    """Return the content of `file`. Raises FbragError `config` if it is not TOML or has an invalid value."""
    if file is None or (text := _read(file)) is None:
        return Config({})
    values: dict[str, Value] = {}
    unknown = []
    table = _parse(text, file.path)
    folders = _folders(table.pop("folders", {}), file.path)
    for spelled, value in table.items():
        if not (key := keys.get(name := spelled.replace("-", "_"))):
            unknown.append(spelled)
        elif value not in key.ignored:
            values[name] = key.check(value, f"{file.path}: {spelled}", f"fbrag config unset {name}", code="config")
    return Config(values, tuple(unknown), folders)


def _folders(table: Any, path: Path) -> dict[str, list[str]]:
    """Return the paths by name. Relative ones count from the folder of the file. Raises FbragError `config`."""
    near, folders = path.absolute().parent, dict[str, list[str]]()
    for name, value in table.items() if isinstance(table, dict) else [("", table)]:
        paths = value if isinstance(value, list) else [value]
        if not name or not all(isinstance(each, str) and each for each in paths):
            example = 'write a table: [folders], and below it papers = ["~/papers"]'
            raise FbragError("config", f"{path}: folders has no name with paths: {one_line(str(value), 60)}", example)
        folders[name] = [os.path.join(near, os.path.expanduser(each)) for each in paths]
    return folders


def expanded(paths: Iterable[str], folders: Mapping[str, list[str]]) -> list[str]:
    """Return the paths, with the paths that a name such as "@papers" means instead of the name.

    folders: paths by name. Raises FbragError `usage` for an unknown name.
    """
    found: list[str] = []
    for path in paths:
        if path.startswith("@") and (name := path[1:]) not in folders:
            known = f"one of {', '.join(f'@{each}' for each in folders)}" if folders else "name folders in the configuration file"
            raise FbragError("usage", f"unknown folder name {path}", f"{known}; a file of that name is ./{path}")
        found += folders[name] if path.startswith("@") else [path]
    return found


def set_value(file: ConfigFile, name: str, value: Value) -> None:
    """Save a setting to the file, which is otherwise unchanged. Raises FbragError `config`."""
    document = _editable(_read(replace(file, named=False)) or "", file.path)
    document[_spelled(name, document)] = value
    _write(file.path, document)


def unset_value(file: ConfigFile, name: str) -> bool:
    """Remove a setting from the file. Return False if the file does not have it. Raises FbragError `config`."""
    document = _editable(_read(file) or "", file.path)
    if document.pop(_spelled(name, document), None) is None:
        return False
    _write(file.path, document)
    return True


def toml(value: Value) -> str:
    """Return `value` in TOML syntax."""
    return json.dumps(value, ensure_ascii=False)


def _read(file: ConfigFile) -> str | None:
    """Return the text of the file; None if it does not exist and was not named. Raises FbragError `config`."""
    try:
        return read_small(file.path).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        if not file.named:
            return None
        hint = "fix --config or FBRAG_CONFIG ('none': use no file)"
        raise FbragError("config", f"configuration file not found: {file.path}", hint) from None
    except OSError as error:
        raise FbragError("config", f"{file.path} cannot be read: {error.strerror}", "--config none ignores it") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FbragError("config", f"{file.path}, line {line}: not UTF-8", "save it as UTF-8") from None


def _parse(text: str, path: Path) -> dict[str, Any]:
    import tomllib

    try:
        table: dict[str, Any] = tomllib.loads(text)
        return table
    except (RecursionError, ValueError) as error:  # includes numbers with thousands of digits
        problem, _, place = str(error).partition(" (at ")
        line = place.removeprefix("line ").partition(",")[0]
        if not line.isdigit():  # "end of document"
            line = str(max(1, len(text.splitlines())))
        problem = problem[:1].lower() + problem[1:]
        raise FbragError("config", f"{path}, line {line}: {problem}", "fix the line (see https://toml.io)") from None


def _editable(text: str, path: Path) -> Any:
    """Return the file as an editable document. Raises FbragError `config`."""
    import tomlkit

    _parse(text, path)
    try:
        return tomlkit.parse(text)
    except (RecursionError, ValueError) as error:  # the editor allows less nesting than the reader
        raise FbragError("config", f"could not edit {path}: {str(error)[:200]}", "edit it by hand") from None


def _spelled(name: str, document: Mapping[str, object]) -> str:
    """Return a setting's name as the file spells it, perhaps with hyphens; `name` if it is not in the file."""
    return next((each for each in document if each.replace("-", "_") == name), name)


def _write(path: Path, document: Any) -> None:
    try:
        path.resolve().parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary:
            temporary.write_bytes(document.as_string().encode("utf-8"))
    except UnicodeEncodeError:
        raise FbragError("config", f"{path}: a value is not valid UTF-8", "write it in UTF-8") from None
    except OSError as error:
        raise not_writable(path, error, "config", "name another file with --config") from None
