"""The help of a command: its examples first, then its options in groups; `--help` the most needed, `--help-all` all of them."""

from __future__ import annotations

import os
import re
import sys
from copy import copy
from functools import cached_property, partial
from typing import Any, TextIO

from typer.core import TyperCommand, TyperGroup

from fbrag_cli.cli.argv import value_of
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import FORMATS
from fbrag_cli.cli.values import OptionValue
from fbrag_cli.methods.knobs import kind_of
from fbrag_cli.text.printable import counted
from fbrag_cli.text.terminal import BOLD

#: The options that `--help` shows of a command with many, at most the ten that people need. Other commands show all of theirs.
FIRST = {
    "fbrag": "--version --quiet --verbose --offline --yes --config",
    "ask": "--format --answer-only --context --html --fast --thorough --more --large --small --quiet",
    "explain": "--json --html --pages --select --limit --find --chunk --samples-text --prompt --text",
    "chat": "--format --answer-only --sources --fast --thorough --plain --large --small --gpu --quiet",
    "batch": "--questions --jobs --together --output --html --resume --retry-errors --parallel --large --gpu",
    "ui": "--port --password-file --lang --include --exclude --large --small --gpu --idle --timeout",
    "serve": "--host --port --token-file --open --json --large --small --gpu --idle --timeout",
    "mcp": "--allow --large --small --gpu --threads --offline --verbose --quiet --config",
    "eval": "--limit --method --select --retrieval-only --output --json --compare --min --large --gpu",
    "models pull": "--role --suggested --sha256 --dry-run --quiet --offline --yes",
    "bench": "--json --tokens --repeat --max --large --small --gpu --threads --timeout",
}

_ORDER = ("Jobs", "Output", "Document", "Method", "Explain", "Models", "Run", "Advanced", "Trained", "Global")
#: Groups of options whose heading is not their name and "options".
_HEADINGS = {
    "Arguments": "Arguments",
    "Jobs": "Job options",
    "Explain": "Table options",
    "Models": "Model options",
    "Trained": "Options of methods with trained parts",
    "Global": "General options",
}
_ALL = "fbrag.help_all"  # where the context of a command keeps that all options are asked for
_HEADING = re.compile(r"^(?:Usage:|(?: {2})?(?:Examples|Arguments|Commands):$|[A-Z][a-z ]*options[a-z ]*:$)", re.MULTILINE)
_NAME = re.compile(  # of options, commands
    r"(?<=^ {2})(?:-\w, )?-[\w-]+(?: / --[\w-]+)?(?= {2}| [A-Z<]|$)|(?<=^ {2})[a-z]+(?= {2})",
    re.MULTILINE,
)
_RANGE = re.compile(r"\s*\[[^][]*x[<>=][^][]*\]$")  # of the values, which an error says


class _Helping:
    """Gives a command of Typer its help, the option --help-all, and our reading of values.

    first: the options that `--help` shows, of a command that is not in `FIRST`; "" for all.
    """

    first = ""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        found += [self._help_all] if self._help_all else []
        for each in found:
            each._runtime_param = OptionValue(each)
        return found

    def get_help_option(self, ctx: Any) -> Any:
        if option := super().get_help_option(ctx):  # type: ignore[misc]
            option.help, option.callback = "show this help", partial(_show, of_all=False)
        return option

    @cached_property
    def _help_all(self) -> Any:
        option = copy(self._help_option)  # type: ignore[attr-defined]  # which `get_params` has made
        if option:
            option.name, option.opts = "help_all", ["--help-all"]
            option.help, option.callback = "show this help with all options", partial(_show, of_all=True)
        return option

    def _write_options(self, ctx: Any, formatter: Any) -> int:
        """Write the options in groups. Return how many of them are left out."""
        shown = None if ctx.meta.get(_ALL) else FIRST.get(ctx.command_path.removeprefix("fbrag "), self.first)
        groups: dict[str, list[tuple[str, str]]] = {}
        hidden = 0
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument":
                groups.setdefault("Arguments", []).append((_plain(parameter), parameter.help))
            elif shown and not {*shown.split(), "--help"}.intersection(parameter.opts):
                hidden += parameter.name != "help_all"
            elif row := parameter.get_help_record(ctx):
                group = getattr(parameter, "rich_help_panel", None) or "Global"
                groups.setdefault(group, []).append((row[0], _RANGE.sub("", row[1])))
        order = ["Arguments", *(name for name in groups if name not in ("Arguments", *_ORDER)), *_ORDER]
        for name in order:
            if rows := groups.get(name):
                with formatter.section(_HEADINGS.get(name, f"{name} options")):
                    formatter.write_dl(rows)
        return hidden

    def format_options(self, ctx: Any, formatter: Any) -> None:
        hidden = self._write_options(ctx, formatter)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)
        if hidden:
            formatter.write(f"\n`{ctx.command_path} --help-all` shows {counted(hidden, 'more option')}\n")


class Command(_Helping, TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave out a format of the environment or of the file that only other commands have."""
        for each in self.params:
            if each.name == "format":
                others = {*FORMATS} - {*kind_of(each.type_descriptor.annotation)[1]}  # type: ignore[attr-defined]
                if any(os.environ.get(name) in others for name in each.envvar or ()):
                    each.envvar = None
                if ctx.default_map and ctx.default_map.get("format") in others:
                    del ctx.default_map["format"]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(_plain(each) if each.required else f"[{_plain(each)}]" for each in arguments)]


class Group(_Helping, TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            self.write_commands(formatter)

    def write_commands(self, formatter: Any) -> None:
        """Write each command with the whole first sentence of its help."""
        formatter.write_dl([(name, each.get_short_help_str(limit=1000)) for name, each in self.commands.items()])


def _plain(argument: Any) -> str:
    """Return an argument as the usage line names it: "KEY", "NAME...", "DOC... QUESTION"."""
    name: str = argument.metavar
    return name.strip("[]") if argument.nargs == 1 or "..." in name or "[" in name else f"{name}..."


def print_help(text: str, stream: TextIO) -> None:
    """Print a help text. Where the stream gets colour (--color, FBRAG_COLOR, NO_COLOR, FORCE_COLOR), headings are bold and
    underlined, and the names of options and commands bold."""
    mode: Any = value_of("--color", sys.argv[1:]) or os.environ.get("FBRAG_COLOR")
    if Console(color=mode if mode in ("always", "never") else "auto").colored(stream):
        text = _NAME.sub(lambda name: f"\x1b[{BOLD}m{name[0]}\x1b[0m", text)
        text = _HEADING.sub(lambda heading: f"\x1b[{BOLD};4m{heading[0]}\x1b[0m", text)
    print(text, file=stream)


def _show(ctx: Any, parameter: Any, asked: bool, *, of_all: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = of_all
        print_help(ctx.get_help(), sys.stdout)
        ctx.exit()
