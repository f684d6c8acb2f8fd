"""The commands, each loaded when it is asked for, and the FBRAG_* variables that their options read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer

from fbrag_cli.cli.argv import COMMANDS
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.help import Command, Group
from fbrag_cli.cli.options import GlobalOptions
from fbrag_cli.methods.knobs import settings_of
from fbrag_cli.storage.config_key import suggested_variable, unread_variables

#: Variables that are no option's.
_OTHER_VARIABLES = ("FBRAG_CONFIG", "FBRAG_MODELS_DIR", "FBRAG_CACHE_DIR", "FBRAG_KEY")


class Commands(Group):
    """The group of all commands. Its help loads none of them, and no command loads another."""

    def __init__(self, **about: Any) -> None:
        super().__init__(**about)
        self.commands = _Loaded()  # type: ignore[assignment]  # nothing is added to it

    def write_commands(self, formatter: Any) -> None:
        formatter.write_dl([*COMMANDS.items()])


class _Loaded(Mapping[str, Any]):
    """Typer's commands by name."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _load(name: str) -> Any:
    """Return Typer's command. A module with several commands has its own Typer."""
    module, app = _module(name), typer.Typer(rich_markup_mode=None)
    if group := getattr(module, f"{name}_app", None):
        app.add_typer(group, name=name)
    else:
        app.command(name, cls=Command)(getattr(module, name))
    return typer.main.get_group(app).commands[name]


def _module(name: str) -> Any:
    return import_module(f"fbrag_cli.cli.{name}")


# -- variables -------------------------------------------------------------------------------------------------------------


def every_group(commands: Iterable[str] = COMMANDS) -> list[type[Any]]:
    """Return the option groups of these commands, and the global one."""
    groups = [group for name in commands for function in _functions(name) for group in function.groups]
    return [GlobalOptions, *dict.fromkeys(groups)]


def _functions(name: str) -> list[Any]:
    """Return the function of a command, or those of the commands of its group."""
    group = getattr(_module(name), f"{name}_app", None)
    return [each.callback for each in group.registered_commands] if group else [getattr(_module(name), name)]


def known_variables(commands: Iterable[str] = COMMANDS) -> tuple[str, ...]:
    """Return the FBRAG_* variables that something reads: the options of these commands, and what is no option."""
    settings = (each for group in every_group(commands) for each in settings_of(group).values())
    return (*dict.fromkeys(name for each in settings for name in each.variables), *_OTHER_VARIABLES)


def warn_of_variables(environ: Mapping[str, str], console: Console, command: str | None) -> None:
    """Warn of each variable FBRAG_* that nothing reads, a line each. Loads all commands if `command` does not read it."""
    unread, own = unread_variables(environ, _OTHER_VARIABLES), [command] if command and command in COMMANDS else []
    if unread and unread_variables(unread, known_variables(own)):
        known = known_variables()
        for name in unread_variables(unread, known):
            near = suggested_variable(name, known, "")
            console.warn(f"fbrag reads no {name}" + (f"; {near}" if near else ""))
