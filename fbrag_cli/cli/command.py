"""`command`: turns a function of option groups into a Typer command, which reads the values and writes the help.

@command(DocumentOptions, MethodOptions)
def ask(console: Console, documents: DocumentOptions, method: MethodOptions) -> None: ...

Typer reads only the flags. A value comes from a flag or --set, else from a variable FBRAG_*, else from the configuration file.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TextIO, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from fbrag_cli.cli.completion import usable_models
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import named_folders, warn_of_unknown, warn_of_variables
from fbrag_cli.cli.option import Option, effective, option, options_of
from fbrag_cli.cli.options import (
    ARGUMENTS,
    CANCELLATION,
    DOCUMENTS,
    GlobalOptions,
    Layer,
    Options,
    action,
    leaves,
    made,
)
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.text.printable import plural
from fbrag_cli.text.suggest import suggestion
from fbrag_cli.text.table import align_columns, columns_of, width_of
from fbrag_cli.text.terminal import BOLD, wrap

#: The commands that use the whole file. The others read only the options that all commands have.
READERS = ("ask", "explain", "text", "chat", "batch", "mcp", "serve", "ui")
_REPAIRING = ("config", "doctor")  # commands that report or repair a broken file, so they must start with one

#: The options that `--help` shows for a command with many: the ten or so that most people need. Other commands show all.
FIRST = {
    "fbrag": "--version",
    "ask": "--answer-only --json --html --output --pages --fast --thorough --large --small",
    "explain": "--json --html --pages --rows --all --find --show-samples --large --small",
    "text": "--output --pages --password-file --encoding --lang --markup --ocr --include --exclude",
    "chat": "--answer-only --json --sources --resume --fast --thorough --large --small",
    "batch": "--questions --pairs --merge --limit --output --html --wide --dry-run --retry-errors --large",
    "ui": "--port --password-file --include --exclude --large --small --idle",
    "serve": "--host --port --token-file --open --json --large --small --idle",
    "mcp": "--allow --large --small --offline --verbose",
    "eval": "--limit --method --preset --set --retrieval-only --output --json --baseline --large",
    "models pull": "--role --recommended --sha256 --dry-run --yes",
    "models list": "--all --json",
    "models use": "--offline --yes",
    "models rm": "--yes",
    "doctor": "--json --skip-gpu --offline",
    "config show": "--origin --json",
    "cache size": "--json",
    "cache clear": "--older-than --kind --yes",
}

_ORDER = ("Jobs", "Output", "Document", "Method", "Explain", "Models", "Run", "Global")
#: The headings of option groups whose heading is not "NAME options".
_HEADINGS = {
    ARGUMENTS: ARGUMENTS,
    "Jobs": "Job options",
    "Explain": "Display options",
    "Models": "Model options",
    "Global": "General options",
}
_ALL = "fbrag.help_all"  # key in a command's context: --help-all was given


# -- options and arguments -----------------------------------------------------------------------------------------------------


class _Flag(TyperOption):
    """The command-line option of a setting."""

    def __init__(self, setting: Option) -> None:
        self.setting = setting
        default = setting.shown_default
        super().__init__(
            param_decls=[setting.name, *setting.flags],
            type_descriptor=cast(Any, None),  # Typer's own type is overridden below
            is_flag=setting.kind is bool,
            multiple=setting.separator == " ",
            help=f"{setting.help} (default: {default})" if default else setting.help,
            metavar=setting.metavar,
            rich_help_panel=setting.group,
            **{**setting.typer, "autocompletion": partial(_offered, setting)},
        )

    def process_value(self, ctx: Any, value: Any) -> Any:
        if isinstance(value, str):
            value = self.setting.parse(
                value, self.setting.long_flag, ctx.command.help_with(ctx.command_path, self.setting.long_flag)
            )
        return self.callback(ctx, self, value) if self.callback else value

    def display_type(self, ctx: Any) -> str:
        return f"<{'|'.join(self.setting.choices)}>"


class _Argument(TyperArgument):
    """The argument of a command, or all of its arguments."""

    def __init__(self, setting: Option) -> None:
        required = setting.typer["required"]
        super().__init__(
            param_decls=[setting.name],
            type_descriptor=cast(Any, None),
            required=required,
            nargs=-1 if setting.separator else 1,
            help=setting.help,
            metavar=setting.metavar,
            autocompletion=partial(_offered, setting),
        )

    def process_value(self, ctx: Any, value: Any) -> Any:
        if self.required and not value:
            ctx.fail(f"missing argument '{self.metavar}'")
        return list(value) if isinstance(value, tuple) else value


def _offered(setting: Option, ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """Return the words that Tab offers for a value."""
    words = usable_models if setting.metavar == "MODEL" else setting.typer.get("autocompletion")
    if words is None:
        return [*setting.choices]
    from typer.main import get_param_completion

    complete: Any = get_param_completion(words)
    found: list[str] = complete(ctx, args, incomplete)
    return found


# -- commands ------------------------------------------------------------------------------------------------------------------


class _Helping:
    """Adds fbrag's help, and the options that show it, to a Typer command.

    first: the options that `--help` shows for a command that is not in `FIRST`; "" for all.
    """

    first = ""
    help: Any
    params: list[Any]

    def _add_help(self) -> None:
        self.params += [_Flag(each) for each in options_of(_HelpOptions).values()]

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"{_heading('Usage')}: {ctx.command_path} {' '.join(ctx.command.collect_usage_pieces(ctx))}\n")

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the text of the help. Text after a form feed is only shown by --help-all."""
        text = inspect.cleandoc(self.help).replace("\nExamples:\n", f"\n{_heading('Examples')}:\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.replace("\f", "") if ctx.meta.get(_ALL) else text.partition("\f")[0].rstrip())

    def help_with(self, path: str, flag: str) -> str:
        """Return the command that prints the help with an option. path: of this command, such as "fbrag ask"."""
        shown = self._first(path)
        return f"{path} {'--help' if not shown or flag in shown.split() else '--help-all'}"

    def _first(self, path: str) -> str:
        """Return the options that `--help` shows; "" for all."""
        return FIRST.get(path.removeprefix("fbrag "), self.first)

    def _write_options(self, ctx: Any, formatter: Any) -> int:
        """Write the options in groups. Return how many are hidden."""
        shown = "" if ctx.meta.get(_ALL) else self._first(ctx.command_path)
        groups: dict[str, list[tuple[str, str]]] = {}
        hidden = 0
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                groups.setdefault(ARGUMENTS, []).append((_plain(parameter), parameter.help))
            elif shown and not {*shown.split(), "--help"}.intersection(parameter.opts):
                hidden += parameter.name != "help_all"
            else:
                names, help = parameter.get_help_record(ctx)
                value = "" if parameter.is_flag or parameter.count else f" {parameter.display_type_rich(ctx)}"
                groups.setdefault(parameter.rich_help_panel, []).append((_bold(names.removesuffix(value)) + value, help))
        order = [ARGUMENTS, *(name for name in groups if name not in (ARGUMENTS, *_ORDER)), *_ORDER]
        for name in order:
            if rows := groups.get(name):
                with formatter.section(_heading(_HEADINGS.get(name, f"{name} options"))):
                    formatter.write_dl(rows)
        return hidden

    def format_options(self, ctx: Any, formatter: Any) -> None:
        hidden = self._write_options(ctx, formatter)
        if isinstance(self, Group):
            with formatter.section(_heading("Commands")):
                formatter.write_dl([(_bold(name), summary) for name, summary in self.summaries().items()])
        if hidden:
            formatter.write(f"\nRun `{ctx.command_path} --help-all` for {plural(hidden, 'more option')}.\n")


class Command(_Helping, TyperCommand):
    """A command of fbrag: calls a function with the console and one record per group of options."""

    def __init__(self, function: Callable[..., Any], *groups: type[Any], name: str, first: str = "") -> None:
        self.function, self.groups, self.first = function, groups, first
        self.settings = {name: each for group in groups for leaf in leaves(group) for name, each in options_of(leaf).items()}
        self.experts = {name: each for name, each in self.settings.items() if each.expert}
        self.settings |= options_of(GlobalOptions)
        plain = [each for each in self.settings.values() if not each.expert]
        params: list[Any] = [_Argument(each) if each.group == ARGUMENTS else _Flag(each) for each in plain]
        if self.experts:
            params.append(_Flag(options_of(_SetOption)["set"]))
        super().__init__(name, params=params, help=function.__doc__, add_help_option=False, rich_markup_mode=None)
        self._add_help()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(_plain(each) if each.required else f"[{_plain(each)}]" for each in arguments)]

    def invoke(self, ctx: Any) -> Any:
        root, flags = ctx.find_root(), flags_of(ctx)
        flags |= self._set(flags.pop("set", ()), f"{ctx.command_path} --set list")
        root.obj = GlobalOptions(flags)  # how an error in a variable or in the file is printed
        of_variables = {name: effective(each, {}, os.environ) for name, each in self.settings.items()}
        environment = {name: each.value for name, each in of_variables.items() if each.origin != "default"}
        root.obj = GlobalOptions(environment, flags)
        name = ctx.command_path.split()[1]
        layers = (self._of_file(name, environment, flags), environment, flags)
        root.obj = GlobalOptions(*layers)
        console = root.obj.console(root.meta.get(CANCELLATION))
        general = options_of(GlobalOptions)
        if any(each.variables for name, each in self.settings.items() if name not in general):
            warn_of_variables(console)
        layers = (*layers[:-1], flags | self._documents(flags, console))
        return self.function(console, *(made(group, layers) for group in self.groups))

    def in_json(self, ctx: Any) -> bool:
        """Return whether errors are also printed as JSON: from the command line, else the configuration file."""
        flags = flags_of(ctx)
        form = flags.get("format")
        if form is None and "format" in self.settings:
            with suppress(FbragError):  # an unreadable file sets nothing
                form = self._of_file(ctx.info_name, flags, {"quiet": 1}).get("format")
        return bool(flags.get("json")) or form in ("json", "jsonl")

    def _of_file(self, command: str, *layers: Layer) -> Layer:
        """Return the file's values for the settings of this command. Warn of settings that no command has."""
        from fbrag_cli.storage.config_file import load, locate

        options = GlobalOptions(*layers)
        file = locate(options.config, os.environ)
        if file is None or not (file.named or os.path.exists(file.path)):
            return {}
        known = self.settings if command in READERS else options_of(GlobalOptions)
        try:
            config = load(file, {name: each for name, each in known.items() if not each.once})
        except FbragError:
            if command in _REPAIRING:
                return {}
            raise
        if command in READERS:
            warn_of_unknown(file, config, GlobalOptions(config.values, *layers).console())
        return config.values

    def _documents(self, flags: Layer, console: Console) -> dict[str, Any]:
        """Return the documents on the command line with the folders that a name such as @papers means."""
        from fbrag_cli.storage.config_file import expanded

        found: dict[str, Any] = {}
        for name, setting in self.settings.items():
            given = flags.get(name) or [] if setting.metavar in DOCUMENTS else []
            n = len(given) - (setting.metavar == "DOC... QUESTION")
            if any(each.startswith("@") for each in given[:n]):
                found[name] = expanded(given[:n], named_folders(console)) + given[n:]
        return found

    # -- --set ---------------------------------------------------------------------------------------------------------------

    def _set(self, texts: Iterable[str], hint: str) -> Layer:
        """Return the values given with --set. Raises FbragError `usage`."""
        values: dict[str, Any] = {}
        for text in texts:
            name, sign, value = text.partition("=")
            setting = self.experts.get(name.strip().replace("-", "_"))
            if setting is None:
                raise FbragError("usage", f"--set {name}: unknown setting", self._meant(name, hint))
            if not sign:
                raise FbragError("usage", f"--set {name}: missing value", f"--set {name}={setting.metavar or 'VALUE'}")
            values[setting.name] = setting.parse(value.strip(), f"--set {name}", hint)
        return values

    def _meant(self, name: str, otherwise: str) -> str:
        if (other := self.settings.get(name.replace("-", "_"))) and not other.expert and other.group != ARGUMENTS:
            return f"it is an option: {other.long_flag}"
        return suggestion(name, [_hyphened(each) for each in self.experts], otherwise)

    def table(self, columns: int | None) -> str:
        """Return the settings that --set takes as a table: name, default, meaning."""
        rows = [("NAME", "DEFAULT", "MEANING")]
        for name, setting in sorted(self.experts.items()):
            words = f"{'|'.join(setting.choices)}: " if setting.choices else ""
            rows.append(
                (_hyphened(name), setting.shown_default or ("false" if setting.kind is bool else "none"), words + setting.help)
            )
        first = [*align_columns([row[:2] for row in rows])]
        margin = max(map(width_of, first)) + 2
        return "\n".join(wrap(f"{line:<{margin}}{row[2]}", columns, " " * margin) for line, row in zip(first, rows, strict=True))


def _hyphened(name: str) -> str:
    return name.replace("_", "-")


# -- the words of a command line ------------------------------------------------------------------------------------------------


def read(root: Any, words: Sequence[str]) -> Any:
    """Return Typer's context of the command that the words name. What is wrong with them is passed over.

    root: the command `fbrag`. Words that name no command count as those of `ask`.
    """
    about: dict[str, bool] = {"resilient_parsing": True, "ignore_unknown_options": True}
    context = root.make_context("fbrag", [*words], **about)
    while isinstance(context.command, Group) and (words := [*context._protected_args, *context.args]):
        name, command, rest = context.command.resolve_command(context, words)
        if command is None:
            if context.parent:
                break
            name, command, rest = "ask", root.commands["ask"], words
        context = command.make_context(name, rest, context, **about)
    return context


def flags_of(ctx: Any) -> dict[str, Any]:
    """Return the values on the command line. -q and -v before and after the command add up."""
    contexts = [ctx.find_root(), ctx][: 2 if ctx.parent else 1]
    flags = {name: value for each in contexts for name, value in each.params.items() if value not in (None, [])}
    return flags | {name: sum(each.params.get(name) or 0 for each in contexts) for name in ("quiet", "verbose")}


def all_flags(ctx: Any) -> dict[str, Any]:
    """Return the values on the command line, for an option that is obeyed before Typer has read the others."""
    return flags_of(read(ctx.find_root().command, sys.argv[1:]))


def in_json(ctx: Any) -> bool:
    """Return whether errors are also printed as JSON."""
    return ctx.command.in_json(ctx) if isinstance(ctx.command, Command) else "--json" in ctx.args


def command(*groups: type[Any], name: str = "", first: str = "") -> Callable[[Callable[..., Any]], Command]:
    """Decorator: turn a function `(console, *groups)` into a command of the same name.

    A group is a subclass of `Options`, a dataclass of settings, or a record whose fields are such groups. first: the options that
    `--help` shows; "" for those in `FIRST`, or all if it has no entry.
    """
    return lambda function: Command(function, *groups, name=name or function.__name__.strip("_"), first=first)


class Group(_Helping, TyperGroup):
    """A command with subcommands. Without one, it shows its help."""

    def __init__(self, name: str, help: str, options: type[Options] | None = None, **about: Any) -> None:
        params = [_Flag(each) for each in options_of(options).values()] if options else []
        super().__init__(name=name, help=help, params=params, add_help_option=False, rich_markup_mode=None, **about)
        self._add_help()

    def command(self, *groups: type[Any], **about: str) -> Callable[[Callable[..., Any]], Command]:
        """Like `command`, and add the command to this group."""

        def add(function: Callable[..., Any]) -> Command:
            made = command(*groups, **about)(function)
            self.add_command(made)
            return made

        return add

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            print_help(ctx, sys.stderr)
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in ("help", "version"):  # `fbrag help ask` is `fbrag ask --help`
            args = [*args[1:], f"--{args[0]}"]
            if args[0].startswith("-") and not ctx.resilient_parsing:
                self.parse_args(ctx, args)  # prints it, and exits
        if args[0] not in self.commands and not ctx.resilient_parsing:
            from fbrag_cli.cli.usage import no_such_command

            raise no_such_command(ctx, args, read(ctx.find_root().command, args))
        return super().resolve_command(ctx, args)

    def summaries(self) -> Mapping[str, str]:
        """Return the first sentence of each command's help, by its name."""
        return {name: each.get_short_help_str(limit=1000) for name, each in self.commands.items()}


# -- help ----------------------------------------------------------------------------------------------------------------------


def _plain(argument: Any) -> str:
    """Return an argument as the usage line shows it: "KEY", "NAME...", "DOC... QUESTION"."""
    name: str = argument.metavar
    return name.strip("[]") if argument.nargs == 1 or "..." in name or "[" in name else f"{name}..."


def _bold(text: str) -> str:
    return f"\x1b[{BOLD}m{text}\x1b[0m"


def _heading(text: str) -> str:
    return f"\x1b[{BOLD};4m{text}\x1b[0m"


def print_help(ctx: Any, stream: TextIO) -> None:
    """Print the help of a command, in color if the stream gets it (--color, FBRAG_COLOR, NO_COLOR, FORCE_COLOR)."""
    mode: Any = all_flags(ctx).get("color") or os.environ.get("FBRAG_COLOR")
    console = Console(color=mode if mode in ("always", "never") else "auto")
    typer.echo(ctx.get_help(), file=stream, color=console.colored(stream))


def _show(ctx: Any, parameter: Any, asked: bool | None, *, of_all: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = of_all
        print_help(ctx, sys.stdout)
        ctx.exit()


class _HelpOptions(Options):
    group = "Global"

    help: bool = action("show this help", partial(_show, of_all=False), flags=("-h", "--help"))
    help_all: bool = action("show this help with all options", partial(_show, of_all=True))


def _list(ctx: Any, parameter: Any, given: list[str] | None) -> list[str] | None:
    """Print the settings if `--set list` asks for them."""
    if "list" in (given or ()) and not ctx.resilient_parsing:
        print(ctx.command.table(columns_of(sys.stdout)))
        ctx.exit()
    return given


class _SetOption(Options):
    group = "Run"

    set: list[str] = option(
        (),
        "change another setting, e.g. recall=4 (repeatable; 'list' prints all)",
        flags=("-s", "--set"),
        once=True,
        metavar="NAME=VALUE",
        is_eager=True,
        callback=_list,
        autocompletion=lambda ctx: [f"{_hyphened(name)}=" for name in ctx.command.experts],
    )
