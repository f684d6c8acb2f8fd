"""What a command reads: none of it may be an output, which would destroy it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import settings_of
from fbrag_cli.storage.files import listed

#: The options that name a file to write, by field.
OUTPUTS = {"output": "-o", "html": "--html", "wide": "--wide"}

Outputs = Mapping[str, str]  # paths by option


def outputs_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that a command writes. values: of its options, by field."""
    named = {option: values.get(name) for name, option in OUTPUTS.items()}
    return {option: path for option, path in named.items() if isinstance(path, str) and path != "-"}


def check_outputs(groups: Iterable[type[Any]], values: Mapping[str, Any]) -> None:
    """Raise FbragError `usage` where an output is a file that an option or argument names, or another output, by whatever link.

    groups: the records of options of the command. values: of the options, by field.
    """
    outputs = outputs_of(values)
    places: dict[str, str] = {}
    for option, path in outputs.items():
        if not _is_special(path) and (before := places.setdefault(_place(path), option)) != option:
            raise FbragError("usage", f"{before} and {option} name the same file", "name two files")
    if any(map(os.path.isfile, outputs.values())):
        check_apart(outputs, _inputs(groups, values))


def check_apart(outputs: Outputs, inputs: Iterable[str]) -> None:
    """Raise FbragError `usage` where an output is one of the files `inputs`, by whatever link."""
    existing = {identity: option for option, path in outputs.items() if (identity := _identity(path))}
    for path in inputs if existing else ():
        if option := existing.get(_identity(path) or (0, 0)):
            same = "" if path == outputs[option] else f", the same file as {path}"
            what = f"{option} {outputs[option]}{same}: it is read, and would be overwritten"
            raise FbragError("usage", what, f"choose another {option} FILE")


def may_lie_in(outputs: Outputs, folder: str) -> bool:
    """Return whether a file of a folder may be an output: one of them lies in it, or has a second name (a hard link)."""
    home = os.path.join(_place(folder), "")
    for path in outputs.values():
        with suppress(OSError, ValueError):  # there is no such file: it can be no input
            if os.path.isfile(path) and (os.stat(path).st_nlink > 1 or _place(path).startswith(home)):
                return True
    return False


def _identity(path: str) -> tuple[int, int] | None:
    """Return what a regular file has alone, whatever its names; None for a path that is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL, as in a question
        return None
    return (status.st_dev, status.st_ino) if os.path.isfile(path) else None


def _place(path: str) -> str:
    """Return the path without links; the path as it is in a working folder that was deleted, in which nothing can be written."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _is_special(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)


def _inputs(groups: Iterable[type[Any]], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield each text among the values that may name a file, in each way in which options name one; and all models that are here.

    Of a folder of documents or data no file: which of them are read is known later.
    """
    from fbrag_cli.storage.places import config_path, models_dir

    yield values.get("config") or os.environ.get("FBRAG_CONFIG") or str(config_path())
    yield from _files_of(str(models_dir()))
    for group in groups:
        for name in (each.name for each in fields(group) if each.name not in OUTPUTS):
            setting, value = settings_of(group).get(name), values[name]
            texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
            if name == "arguments" and "exit_zero" in values and not values.get("text"):
                texts = texts[:-1]  # the last one is the question
            for text in texts if setting is None or not setting.choices else ():
                for part in (text, *text.split(",")):  # FILE,FILE and FILE:NAME and @FILE
                    yield from (part, part.removeprefix("@"), part.rpartition(":")[0], os.path.expanduser(part))
                if name not in ("arguments", "documents"):
                    yield from _files_of(text)


def _files_of(folder: str) -> Iterator[str]:
    return (entry.path for entry in listed(Path(folder))) if os.path.isdir(folder) else iter(())
