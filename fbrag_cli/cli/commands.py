"""The commands, each loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer

from fbrag_cli.cli.argv import COMMANDS
from fbrag_cli.cli.help import Command, Group

_MODULES = {"ui": "serve", "skill": "mcp"}  # of commands that have no module of their own


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
    module, app = import_module(f"fbrag_cli.cli.{_MODULES.get(name, name)}"), typer.Typer(rich_markup_mode=None)
    if group := getattr(module, f"{name}_app", None):
        app.add_typer(group, name=name)
    else:
        app.command(name, cls=Command)(getattr(module, name))
    return typer.main.get_group(app).commands[name]
