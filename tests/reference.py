"""Prints docs/reference.md: all commands, options, settings, variables and exit codes, from the objects that the program uses.

python -m tests.reference > docs/reference.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from fbrag_cli.cli.keys import known_keys, variables
from fbrag_cli.cli.main import Commands
from fbrag_cli.errors import EXIT_CODES, ExitCode
from fbrag_cli.methods.registry import METHODS
from fbrag_cli.settings import settings_of

INTRODUCTION = """# Reference

All commands, options, settings, variables, and exit codes, as the program declares them.

`fbrag COMMAND --help` prints the common options of a command, `--help-all` all of them. Options may be before or after the
arguments. A value comes from the command line, else from a variable, else from the [configuration file](#configuration-file).
"""

#: What the exit codes mean.
MEANINGS = {
    ExitCode.DONE: "answered, or done",
    ExitCode.NEGATIVE: "no answer found (`--exit-zero` makes it 0), or a check failed",
    ExitCode.USAGE: "an error in the command or a setting",
    ExitCode.DOCUMENT: "a document cannot be read",
    ExitCode.MODEL: "a model is missing or fails",
    ExitCode.RESOURCES: "out of memory, disk, GPU, or time",
    ExitCode.INTERNAL: "a bug in fbrag",
    ExitCode.HUNG_UP: "the terminal was closed",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.TERMINATED: "stopped by SIGTERM",
}


@cache
def commands() -> Mapping[str, Any]:
    """Return the context of each command by its path, such as "fbrag models pull", in the order of the help."""

    def below(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, Any]]:
        context = command.make_context(name, [], parent, resilient_parsing=True)
        yield context.command_path, context
        for each in command.list_commands(context) if hasattr(command, "commands") else ():
            yield from below(command.commands[each], each, context)

    return dict(below(Commands(), "fbrag"))


def flags(context: Any) -> set[str]:
    """Return the options of a command, as a user types them."""
    return {flag for each in context.command.params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("-")}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _commands() -> Iterator[str]:
    yield "## Commands\n"
    rows = []
    for path, context in commands().items():
        if path != "fbrag":
            usage = " ".join(context.command.collect_usage_pieces(context)).replace("[OPTIONS] ", "").replace("[OPTIONS]", "")
            rows.append((f"`{f'{path} {usage}'.strip()}`", context.command.get_short_help_str(limit=1000)))
    yield table(("command", ""), rows)


def _options() -> Iterator[str]:
    yield "## Options\n"
    groups: dict[str, dict[tuple[str, str], list[str]]] = {}
    leaves = {path: each for path, each in commands().items() if not hasattr(each.command, "commands")}
    for path, context in [*leaves.items(), ("fbrag", commands()["fbrag"])]:
        for each in context.command.params:
            if each.param_type_name == "option":
                options = groups.setdefault(each.rich_help_panel, {})
                options.setdefault(each.get_help_record(context), []).append(path)
    for group, options in groups.items():
        yield f"### {group}\n"
        rows = []
        for (names, meaning), paths in options.items():
            of = "all" if {*leaves} <= {*paths} else code(path.removeprefix("fbrag ") for path in paths)
            rows.append((f"`{names}`", meaning, of))
        yield table(("option", "meaning", "commands"), rows)


def _settings() -> Iterator[str]:
    """Yield the settings that --set takes, and those of the configuration file."""
    yield "## Settings for experts\n"
    yield "`-s NAME=VALUE` or `--set NAME=VALUE` changes one. `fbrag eval` takes a list of values: `-s select=3,5,10`.\n"
    experts = {name: each for context in commands().values() for name, each in getattr(context.command, "experts", {}).items()}
    own = commands()["fbrag ask"].command.experts
    rows = []
    for name, each in sorted({**experts, **own}.items()):
        having = [method.name for method in METHODS if name in settings_of(method)]
        words = f"{', '.join(each.choices)}: " if each.choices else ""
        of = "all" if len(having) in (0, len(METHODS)) else code(having)
        rows.append((f"`{name.replace('_', '-')}`", each.shown_default, words + each.help, of))
    yield table(("name", "default", "meaning", "methods"), rows)


def _file() -> Iterator[str]:
    yield "## Configuration file\n"
    yield (
        "`fbrag config path` prints its path, `fbrag config set NAME VALUE` changes it, `fbrag config show --origin` prints the\n"
        'values in effect. A line is `NAME = VALUE` in TOML, such as `large = "qwen3.5-4b"`. The names:\n'
    )
    yield code(sorted(known_keys())) + "\n"


def _variables() -> Iterator[str]:
    yield "## Environment variables\n"
    of: dict[str, set[str]] = {}
    for context in commands().values():
        for each in getattr(context.command, "settings", {}).values():
            for variable in each.variables:
                of.setdefault(variable, set()).add(each.typed)
    yield table(("variable", "the same as"), [(f"`{name}`", code(sorted(of[name]))) for name in sorted(of)])
    others = code(each for each in variables() if each not in of)
    yield f"{others}: [folders](install.md#folders), [keys of model servers](use.md#models).\n"


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    rows = [(str(int(each)), MEANINGS[each], code(name for name, its in EXIT_CODES.items() if its == each)) for each in ExitCode]
    yield table(("exit code", "meaning", "error codes in [JSON](json.md)"), rows)


def page() -> str:
    """Return docs/reference.md."""
    parts = (_commands(), _options(), _settings(), _file(), _variables(), _exit_codes())
    return "\n".join((INTRODUCTION, *(line for part in parts for line in part)))


if __name__ == "__main__":
    print(page(), end="")
