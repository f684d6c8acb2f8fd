"""The options that the configuration file sets, and the defaults that it gives them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fbrag_cli.cli.argv import COMMANDS
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.listen import ListenOptions
from fbrag_cli.cli.options import AnswerOptions, BatchOptions, ExplainOptions, GlobalOptions, OutputOptions, RunOptions
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import Effective, Setting, effective, settings_of
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.storage.config_file import Config, ConfigFile, load, locate
from fbrag_cli.text.near import suggestion

#: The commands that read the file. The others read of it what all commands have.
READERS = ("ask", "explain", "chat", "batch", "mcp", "serve", "ui")
_REPAIRING = ("config", "doctor")  # commands that report or mend a broken file have to start with one
_MODELS = (ModelSettings, CacheSettings)
_GROUPS = (
    GlobalOptions,
    OutputOptions,
    AnswerOptions,
    ExplainOptions,
    DocumentSettings,
    *_MODELS,
    RunOptions,
    ListenOptions,
    BatchOptions,
)
_FIRST = 5  # unknown keys that are named; each is compared with all that are known


def known_keys() -> dict[str, Setting]:
    """Return the options that the file sets, by name."""
    from fbrag_cli.cli.method_options import MethodKnobs, MethodOptions  # loads all methods

    return _keys_of(*_GROUPS, MethodOptions, MethodKnobs)


def _keys_of(*groups: type[Any]) -> dict[str, Setting]:
    settings = (each for group in groups for each in settings_of(group).items())
    return {name: setting for name, setting in settings if setting.variables and not setting.knob.once}


def find_key(name: str) -> Setting:
    """Return the key with this name, which may be spelled with hyphens. Raises FbragError `config`."""
    keys, name = _keys_of(*_GROUPS), name.replace("-", "_")
    if name not in keys and name not in (keys := known_keys()):
        raise FbragError("config", f"there is no key {name}", suggestion(name, keys, "fbrag config show"))
    return keys[name]


def config_defaults(command: str | None, console: Console, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the file's values as the `default_map` that Click reads: `{"color": …, "ask": {"samples": …}}`.

    An unknown key is a warning. Raises FbragError `config` for a file that is broken, unless the command mends it.
    """
    file = locate(console.config, environ)
    if file is None or not (file.named or os.path.exists(file.path)):
        return {}
    command = command if command and command in COMMANDS else "ask"  # a word that is no command was meant for it
    of_all = _keys_of(GlobalOptions)
    try:
        config = load(file, known_keys() if command in READERS else of_all)
    except FbragError:
        if command in _REPAIRING:
            return {}
        raise
    if command in READERS:
        warn_of_unknown(file, config, console)
    own = {name: value for name, value in config.values.items() if name not in of_all}
    return {command: own, **{name: value for name, value in config.values.items() if name in of_all}}


def warn_of_unknown(file: ConfigFile, config: Config, console: Console) -> None:
    """Warn of the first unknown keys, a line each."""
    for name in config.unknown[:_FIRST]:
        console.warn(f"{file.path}: there is no key {name}; {suggestion(name, known_keys(), 'fbrag config show lists them')}")


def value_of(setting: Setting, config: Config, environ: Mapping[str, str]) -> Effective:
    """Return the value of a setting that counts without flags. The default pair of models is the catalogue's."""
    found = effective(setting, config.values, environ)
    if found.value is None and setting.name in ("large", "small"):
        from fbrag_cli.models.catalogue import load_catalogue

        return Effective(getattr(load_catalogue(), f"default_{setting.name}"), found.origin)
    return found


def configured(console: Console, *names: str) -> list[Any]:
    """Return the values that count without flags, of options of the models and of the cache."""
    keys = _keys_of(*_MODELS)
    config = load(locate(console.config, os.environ), keys)
    return [value_of(keys[name], config, os.environ).value for name in names]
