"""Which options the configuration file can set, and the defaults that it gives them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, get_type_hints

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import MOST_AT_ONCE, GlobalOptions
from fbrag_cli.cli.takes import hint_of, option_of
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import kind_of
from fbrag_cli.storage.config_file import Config, ConfigFile, Effective, effective, load, locate
from fbrag_cli.storage.config_key import Key, Keys, canonical, nearest

#: Options that say what one run is to do: a file that set them would surprise. Those without a variable are all here.
OF_ONE_RUN = frozenset(
    "quiet verbose version show_completion install_completion config yes json output html arguments pages include exclude"
    " password_file dry_run find chunk prompt text all tokens repeat maximum retrieval_only restart compare plots minimum"
    " role sha256 older_than kind origin again suggested documents questions jobs together n_rows shard resume"
    " retry_errors more".split()
)
_NAMES = {"large": "models.large", "small": "models.small"}
_DEFAULTS: dict[str, Any] = {"color": "auto"}  # of options whose own default stands for "not given"
_REPAIRING = ("config", "doctor")  # commands that report or mend a broken file have to start with one

#: Options that take a word or a number -> what they match, and in words. Others take a number of chunks.
_WORDS = {
    "parallel": ("|".join(["auto", *map(str, range(1, MOST_AT_ONCE + 1))]), f"auto, or a number from 1 to {MOST_AT_ONCE}"),
    "gpu_layers": (r"auto|all|\d{1,9}", "auto, all or a number"),
}
_CHUNKS = (r"\s*(0*[1-9]\d*|\d*\.?\d+[kK])\s*", "a number, or words as 6k")

_WITH_FORMATS = ("ask", "explain", "eval")
_FORM = re.compile(r"(?:--format(?:=|$)|-[aqvy]*f)(.*)")

#: Variables that are no option's.
_OTHER_VARIABLES = ("FBRAG_CONFIG", "FBRAG_MODELS_DIR", "FBRAG_CACHE_DIR", "FBRAG_KEY")


def known_keys() -> dict[str, Key]:
    """Return the keys by name: options of all commands, of several ("samples"), and of one ("ask.samples")."""
    commands = _groups()
    keys = _keys_of(GlobalOptions)
    every: list[Any] = [group for groups in commands.values() for group in groups]
    for group in dict.fromkeys(every):
        having = tuple(command for command, groups in commands.items() if group in groups)
        if len(having) > 1:
            keys += _keys_of(group, having)
    for command, groups in commands.items():
        for group in groups:
            keys += _keys_of(group, (command,), table=command + ".")
    return {key.name: key for key in keys}


def known_variables(commands: Sequence[str] | None = None) -> tuple[str, ...]:
    """All FBRAG_* variables that something reads; with `commands`, those of their options only."""
    options = (option_of(each) for group in every_group(commands) for each in fields(group))
    return (*dict.fromkeys(name for each in options for name in _variables(each)), *_OTHER_VARIABLES)


def every_group(commands: Sequence[str] | None = None) -> list[Any]:
    """The option groups of these commands, of all where None are named."""
    from fbrag_cli.cli.main import COMMANDS

    modules = [import_module(f"fbrag_cli.cli.{name}") for name in (COMMANDS if commands is None else commands)]
    groups = [getattr(each, "groups", None) for module in modules for each in vars(module).values()]
    return [GlobalOptions, *dict.fromkeys(group for found in groups if isinstance(found, tuple) for group in found)]


def _groups() -> dict[str, tuple[type[Any], ...]]:
    """The option groups of each command that has a table in the file."""
    from fbrag_cli.cli import ask, batch, explain

    commands: dict[str, Any] = {"ask": ask.ask, "explain": explain.explain, "batch": batch.batch}
    return {name: command.groups for name, command in commands.items()}


def _variables(option: Any) -> tuple[str, ...]:
    return (option.envvar,) if isinstance(option.envvar, str) else tuple(option.envvar or ())


def _keys_of(group: type[Any], commands: tuple[str, ...] = (), table: str = "") -> list[Key]:
    hints = get_type_hints(group)
    keys = []
    for each in fields(group):
        if each.name in OF_ONE_RUN:
            continue
        option = option_of(each)
        kind, choices = kind_of(hint_of(each, hints))
        key = Key(
            name=table + each.name if table else _NAMES.get(each.name, each.name),
            kind=kind,
            default=_DEFAULTS.get(each.name, each.default),
            variables=_variables(option),
            choices=choices,
            minimum=option.min,
            maximum=option.max,
            word_or_number=kind is str and not choices and option.metavar == "N",
            option=each.name,
            commands=commands,
        )
        keys.append(key)
    return keys


def config_defaults(arguments: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the file's values as the `default_map` that Click reads: `{"color": …, "ask": {"samples": …}, "explain": {…}}`.

    A key or variable that nobody knows is a warning. Raises FbragError `config` for a file that is broken, unless the command
    is one that tells about the file, or help is all that is asked for.
    """
    flags = _flags(arguments)
    if {"-h", "--help", "--help-all", "-V", "--version"}.intersection(flags):
        return {}
    command = first_word(flags)
    console = Console(-1 if _is_quiet(flags) else 0, "never" if value_of("--color", flags) == "never" else "auto")
    if command != "doctor":  # which reports them itself
        warn_of_variables(environ, console, command)
    file = locate(value_of("--config", flags), environ)
    if file is None or not (file.named or os.path.exists(file.path)):
        return {}
    keys, tolerant = known_keys(), command in _REPAIRING
    try:
        config = load(file, keys)
    except FbragError:
        if tolerant:
            return {}
        raise
    if not tolerant:
        warn_of_unknown(file, config, keys, console)
    return _default_map(config, keys)


def _default_map(config: Config, keys: Keys) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for key in keys.values():  # the keys of one command come last, and count
        if key.name in config.values:
            for table in [defaults.setdefault(command, {}) for command in key.commands] or [defaults]:
                table[key.option] = config.values[key.name]
    return defaults


def warn_of_unknown(file: ConfigFile, config: Config, keys: Keys, console: Console) -> None:
    """Warn of each unknown key, a line each."""
    for name in config.unknown:
        console.warn(f"{file.path}: {unknown_key(name, keys)}")


def warn_of_variables(environ: Mapping[str, str], console: Console, command: str | None) -> None:
    """Warn of each variable FBRAG_* that nothing reads, a line each. Other commands than this one load only where one is left."""
    from fbrag_cli.cli.main import COMMANDS

    def unread(known: Sequence[str]) -> list[str]:
        return [name for name in environ if name.startswith("FBRAG_") and name not in known]

    if unread(_OTHER_VARIABLES) and unread(known_variables([command] if command in COMMANDS else [])):
        known = known_variables()
        for name in unread(known):
            near = nearest(name, known)
            console.warn(f"fbrag reads no {name}" + (f"; did you mean {near}?" if near else ""))


def unknown_key(name: str, keys: Keys) -> str:
    near = nearest(canonical(name), keys)
    return f"there is no key {name}" + (f"; did you mean {near}?" if near else "")


def expected(key: Key, text: str) -> str | None:
    """Return what `key` accepts, in words, where that is not `text`; None where it is."""
    if key.parsed(text) is None:
        return key.expects
    pattern, words = _WORDS.get(key.option, _CHUNKS)
    return words if key.word_or_number and not re.fullmatch(pattern, text) else None


def setting(name: str, keys: Keys, config: Config, environ: Mapping[str, str]) -> Effective:
    """The value of the key `name` that counts. The default pair of models is the catalogue's."""
    found = effective(keys[name], keys, config, environ)
    if found.value is None and keys[name].option in _NAMES:
        from fbrag_cli.models.catalogue import load_catalogue

        catalogue = load_catalogue()
        return Effective(catalogue.default_large if keys[name].option == "large" else catalogue.default_small, found.origin)
    return found


def configured(names: Sequence[str], console: Console) -> list[Any]:
    """The values of these keys that count where no flag sets them: of the environment, the configuration file, the default."""
    keys = known_keys()
    config = load(locate(console.config, os.environ), keys)
    return [setting(name, keys, config, os.environ).value for name in names]


# -- what has to be known before the command line is parsed -----------------------------------------------------------------


def value_of(option: str, arguments: list[str]) -> str | None:
    """The value of `--config X` or `--config=X`; the last one counts."""
    value = None
    rest = iter(arguments)
    for argument in rest:
        if argument == option:
            value = next(rest, value)
        elif argument.startswith(option + "="):
            value = argument.partition("=")[2]
    return value


def first_word(arguments: Sequence[str]) -> str | None:
    """The first argument that is no option, and no value of one: the command."""
    rest = iter(arguments)
    for argument in rest:
        if argument in ("--config", "--color"):
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return None


def in_json(arguments: list[str], environ: Mapping[str, str], defaults: Mapping[str, Any]) -> bool:
    """Return whether an error is JSON too: by the command line, else by FBRAG_FORMAT, else by the file's `defaults`."""
    from fbrag_cli.cli.main import COMMANDS

    flags = _flags(arguments)
    if "--json" in flags:
        return True
    form, rest = "", iter(flags)
    for argument in rest:
        if found := _FORM.fullmatch(argument):
            form = found[1] or next(rest, "")
    command = first_word(flags)
    if command not in COMMANDS:
        command = "ask"  # a word that is no command was meant for it
    if not form and command in _WITH_FORMATS:
        form = environ.get("FBRAG_FORMAT") or defaults.get(command, {}).get("format", "")
    return form in ("json", "jsonl")


def _flags(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _is_quiet(arguments: list[str]) -> bool:
    return any(argument == "--quiet" or re.fullmatch(r"-[aqvy]*q[aqvy]*", argument) for argument in arguments)
