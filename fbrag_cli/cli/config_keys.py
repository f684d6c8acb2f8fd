"""The options that the configuration file can set, and the defaults that it gives them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.listen import ListenOptions
from fbrag_cli.cli.options import (
    AnswerOptions,
    BatchOptions,
    ExplainOptions,
    GlobalOptions,
    OutputOptions,
    QuestionRunOptions,
    RunOptions,
)
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import settings_of
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.storage.config_file import MOST_NAMED, Config, ConfigFile, Effective, effective, load, locate
from fbrag_cli.storage.config_key import Accepted, Key, Keys, canonical, nearest

_NAMES = {"large": "models.large", "small": "models.small"}
_DEFAULTS: dict[str, Any] = {"color": "auto"}  # of options whose own default stands for "not given"
_REPAIRING = ("config", "doctor")  # commands that report or mend a broken file have to start with one

#: The option groups of ask and explain. Those that are named by a string are in `method_options`, which loads all methods.
_OF_A_QUESTION = (
    OutputOptions,
    DocumentSettings,
    "MethodOptions",
    "MethodKnobs",
    ModelSettings,
    CacheSettings,
    QuestionRunOptions,
)
_OF_MODELS = (ModelSettings, CacheSettings)
#: The tables of the file: the commands whose options it can set, with their groups.
_TABLES: dict[str, Sequence[type[Any] | str]] = {
    "ask": (*_OF_A_QUESTION, AnswerOptions),
    "explain": (*_OF_A_QUESTION, ExplainOptions),
    "chat": (AnswerOptions, DocumentSettings, "MethodOptions", "MethodKnobs", *_OF_MODELS, RunOptions),
    "mcp": _OF_MODELS,
    "serve": (ListenOptions, DocumentSettings, ModelSettings, CacheSettings),
    "batch": (BatchOptions, DocumentSettings, "MethodOptions", "MethodKnobs", *_OF_MODELS, RunOptions),
}


def known_keys() -> Keys:
    """Return the keys by name: options of all commands, of several ("samples"), and of one ("ask.samples")."""
    return Keys(_keys(_TABLES), lambda: _keys({command: [*_resolved(groups)] for command, groups in _TABLES.items()}))


def _keys(tables: Mapping[str, Sequence[type[Any] | str]]) -> dict[str, Key]:
    """Return the keys of the groups that are named by their types."""
    commands = {command: [group for group in groups if not isinstance(group, str)] for command, groups in tables.items()}
    keys = [*_keys_of(GlobalOptions)]
    having: dict[type[Any], tuple[str, ...]] = {}
    for command, groups in commands.items():
        for group in groups:
            having[group] = (*having.get(group, ()), command)
    for group, several in having.items():
        if len(several) > 1:
            keys += _keys_of(group, several)
    for command, groups in commands.items():
        for group in groups:
            keys += _keys_of(group, (command,), table=command + ".", is_shared=len(having[group]) > 1)
    return {key.name: key for key in keys}


def _resolved(groups: Sequence[type[Any] | str]) -> Iterator[type[Any]]:
    from fbrag_cli.cli import method_options

    return (getattr(method_options, group) if isinstance(group, str) else group for group in groups)


def _keys_of(group: type[Any], commands: tuple[str, ...] = (), table: str = "", *, is_shared: bool = False) -> Iterator[Key]:
    for name, setting in settings_of(group).items():
        if setting.variables and not setting.knob.once:
            shared = _NAMES.get(name, name)
            yield Key(
                **{each.name: getattr(setting, each.name) for each in fields(Accepted)},
                name=table + name if table else shared,
                default=_DEFAULTS.get(name, setting.default),
                variables=setting.variables,
                commands=commands,
                shared=shared if is_shared else "",
            )


def config_defaults(command: str | None, console: Console, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the file's values as the `default_map` that Click reads: `{"color": …, "ask": {"samples": …}, "explain": {…}}`.

    An unknown key is a warning. Raises FbragError `config` for a file that is broken, unless the command mends it.
    """
    file = locate(console.config, environ)
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
    defaults: dict[str, Any] = {}
    for name in sorted(config.values, key=lambda name: keys[name].shared):  # the keys of one command come last, and count
        for table in [defaults.setdefault(each, {}) for each in keys[name].commands] or [defaults]:
            table[keys[name].option] = config.values[name]
    defaults["ui"] = defaults.get("serve", {})  # which it is, with a page
    return defaults


def warn_of_unknown(file: ConfigFile, config: Config, keys: Keys, console: Console) -> None:
    """Warn of the first unknown keys, a line each, and of the number of the others."""
    for name in config.unknown[:MOST_NAMED]:
        console.warn(f"{file.path}: {unknown_key(name, keys)}")
    if (more := len(config.unknown) - MOST_NAMED) > 0:
        console.warn(f"{file.path}: there are {more:,} more unknown keys")


def unknown_key(name: str, keys: Keys) -> str:
    near = nearest(canonical(name), keys)
    return f"there is no key {name}" + (f"; did you mean {near}?" if near else "")


def setting(name: str, keys: Keys, config: Config, environ: Mapping[str, str]) -> Effective:
    """Return the value of the key `name` that counts. The default pair of models is the catalogue's."""
    found = effective(keys[name], config, environ)
    if found.value is None and keys[name].option in _NAMES:
        from fbrag_cli.models.catalogue import load_catalogue

        catalogue = load_catalogue()
        return Effective(catalogue.default_large if keys[name].option == "large" else catalogue.default_small, found.origin)
    return found


def configured(names: Sequence[str], console: Console) -> list[Any]:
    """Return the values of these keys without flags: from the environment, else the configuration file, else the default."""
    keys = known_keys()
    config = load(locate(console.config, os.environ), keys)
    return [setting(name, keys, config, os.environ).value for name in names]
