"""`fbrag config`: view and change settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fbrag_cli.cli.command import Group
from fbrag_cli.cli.completion import usable_models
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import find_key, known_keys, value_of, warn_of_unknown
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options, argument
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.storage.config_file import ConfigFile, load, locate, set_value, toml, unset_value
from fbrag_cli.text.printable import dumps, printable

HELP = """View and change settings.

\b
Examples:
  fbrag config show --origin
  fbrag config set gpu off
  fbrag config set large qwen2.5-coder-1.5b
  fbrag config unset gpu
"""

config = Group("config", HELP)


class ShowOptions(Options):
    group = "Output"

    origin: bool = option(False, "also show where each value comes from", once=True)
    json: bool = option(False, "print JSON", once=True)


def _words(ctx: Any) -> list[str]:
    """Return the values that the setting on the command line takes, for tab completion."""
    key = find_key(ctx.params["key"])
    if key.metavar == "MODEL":
        return usable_models()
    return ["true", "false"] if key.kind is bool else list(key.choices)


class KeyArgument(Options):
    key: str = argument(
        "a setting from 'fbrag config show': gpu, large, sources", "KEY", autocompletion=lambda: list(known_keys())
    )


class ValueArgument(Options):
    value: str = argument("the value, as for its option", "VALUE", autocompletion=_words)


@config.command(ShowOptions)
def show(console: Console, options: ShowOptions) -> None:
    """Show all settings and their values (from the environment, else the file, else the default).

    \b
    Examples:
      fbrag config show
      fbrag config show --origin | grep -v default
    """
    file, keys = locate(console.config, os.environ), known_keys()
    content = load(file, keys)
    if file:
        warn_of_unknown(file, content, console)
    effective_values = {name: value_of(key, content, os.environ) for name, key in keys.items()}
    origins = {name: str(file.path) if file and each.origin == "file" else each.origin for name, each in effective_values.items()}
    if options.json:
        place = str(file.path) if file else None
        values = {name: {"value": each.value, "origin": origins[name]} for name, each in effective_values.items()}
        print(
            dumps(
                {
                    "schema": "fbrag.config/1",
                    "path": place,
                    "values": values,
                    "folders": content.folders,
                    "unknown": content.unknown,
                }
            )
        )
        return
    lines = [
        f"# {name} = (default)" if each.value is None else f"{name} = {toml(each.value)}"
        for name, each in effective_values.items()
    ]
    width = max(map(len, lines))
    for line, origin in zip(lines, origins.values(), strict=True):
        print(printable(f"{line:<{width}}  # {origin}" if options.origin else line))
    if content.folders:
        print("", "[folders]", *(printable(f"{toml(name)} = {toml(paths)}") for name, paths in content.folders.items()), sep="\n")


@config.command(KeyArgument)
def get(console: Console, argument: KeyArgument) -> int:
    """Print the value of a setting. Exit code 1 if it has none.

    \b
    Examples:
      fbrag config get large
    """
    key = find_key(argument.key)
    value = value_of(key, load(locate(console.config, os.environ), {key.name: key}), os.environ).value
    if value is None:
        return ExitCode.NEGATIVE
    text = " ".join(value) if isinstance(value, list) else str(value)
    print(printable(toml(value) if isinstance(value, bool) else text))
    return ExitCode.DONE


@config.command(KeyArgument, ValueArgument)
def set_(console: Console, argument: KeyArgument, value: ValueArgument) -> None:
    """Save a setting to the configuration file.

    \b
    Examples:
      fbrag config set gpu off
      fbrag config set max_tokens 200
    """
    key = find_key(argument.key)
    parsed = key.parse(value.value, key.name, code="config")
    file = save(console, {key.name: parsed})
    console.info(f"saved {key.name} = {toml(parsed)} to {file.path}", level=1)


@config.command(KeyArgument)
def unset(console: Console, argument: KeyArgument) -> None:
    """Remove a setting, which restores its default.

    \b
    Examples:
      fbrag config unset gpu
    """
    key, file = find_key(argument.key), _file_to_write(console)
    if not unset_value(file, key.name):
        console.info(f"{key.name} is not in {file.path}")


@config.command()
def path(console: Console) -> None:
    """Print the path of the file, which need not exist; 'none' with --config none.

    \b
    Examples:
      $EDITOR "$(fbrag config path)"
    """
    file = locate(console.config, os.environ)
    print(file.path if file else "none")


def save_models(console: Console, small: str, large: str) -> None:
    """Save the models of both roles in the configuration file, and print how to undo it. Raises the errors of `save`."""
    file = save(console, {"large": large, "small": small})
    undo = "fbrag config unset large && fbrag config unset small"
    console.info(f"saved as your default models in {file.path}; to undo: {undo}")


def save(console: Console, values: Mapping[str, Any]) -> ConfigFile:
    """Save settings, by name, in the configuration file, and return it. Warns of variables that override it.

    Raises FbragError `usage` without a file, and `config` if it cannot be written.
    """
    file = _file_to_write(console)
    for name, value in values.items():
        set_value(file, name, value)
        for variable in find_key(name).variables:
            if os.environ.get(variable):
                console.warning(f"{variable} is set and overrides the file")
    return file


def _file_to_write(console: Console) -> ConfigFile:
    if file := locate(console.config, os.environ):
        return file
    raise FbragError("usage", "--config none: no file to write", "name a file, or drop --config")
