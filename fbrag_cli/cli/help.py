"""The help of a command: its examples first, then its options in groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

_ORDER = ("Output", "Document", "Method", "Explain", "Models", "Run", "Advanced", "Global")


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        if row := parameter.get_help_record(ctx):
            group = getattr(parameter, "rich_help_panel", None)
            default = "Arguments" if parameter.param_type_name == "argument" else "Global"
            groups.setdefault(group or default, []).append(row)
    order = ["Arguments", *(name for name in groups if name not in ("Arguments", *_ORDER)), *_ORDER]
    for name in order:
        if rows := groups.get(name):
            with formatter.section(name if name == "Arguments" else f"{name} options"):
                formatter.write_dl(rows)


class Command(TyperCommand):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)


class Group(TyperGroup):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)
