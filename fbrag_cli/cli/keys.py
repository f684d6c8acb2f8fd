"""The settings of the configuration file and of the environment: which there are, and the values that count without flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.option import LOOKS, Effective, Option, effective, options_of
from fbrag_cli.cli.options import (
    AnswerOptions,
    BatchOptions,
    ExplainOptions,
    GlobalOptions,
    ListenOptions,
    OutputOptions,
    RunOptions,
)
from fbrag_cli.errors import FbragError
from fbrag_cli.text.suggest import closest, suggestion

if TYPE_CHECKING:
    from fbrag_cli.storage.config_file import Config, ConfigFile

_FIRST = 5  # unknown keys that are named; each is compared with all that are known


def known_keys(*, of_methods: bool = True) -> dict[str, Option]:
    """Return the settings that the configuration file may have, by name. of_methods: whether those of the methods, which takes
    time to load, are among them."""
    from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings

    groups: list[type[Any]] = [GlobalOptions, OutputOptions, AnswerOptions, ExplainOptions, RunOptions, ListenOptions]
    groups += [BatchOptions, DocumentSettings, ModelSettings, CacheSettings]
    if of_methods:
        from fbrag_cli.cli.method_options import MethodOptions

        groups.append(MethodOptions)
    return {name: each for group in groups for name, each in options_of(group).items() if not each.once}


def find_key(name: str) -> Option:
    """Return the key with this name, which may be spelled with hyphens. Raises FbragError `config`."""
    keys, name = known_keys(of_methods=False), name.replace("-", "_")
    if name not in keys and name not in (keys := known_keys()):
        raise FbragError("config", f"unknown setting {name}", suggestion(name, keys, "fbrag config show"))
    return keys[name]


def warn_of_variables(console: Console) -> None:
    """Warn of the first variables FBRAG_* that are not read, a line each."""
    for name, hint in [*unknown_variables(os.environ).items()][:_FIRST]:
        console.warning(f"unknown variable {name}; {hint}")


def warn_of_unknown(file: ConfigFile, config: Config, console: Console) -> None:
    """Warn of the first keys that no command knows, a line each."""
    if config.unknown:
        keys = known_keys()
        for name in [each for each in config.unknown if each.replace("-", "_") not in keys][:_FIRST]:
            console.warning(f"{file.path}: unknown setting {name}; {suggestion(name, keys, 'fbrag config show lists them')}")


# -- environment variables -------------------------------------------------------------------------------------------------------

#: Variables that no option has.
_OTHER_VARIABLES = ("FBRAG_CONFIG", "FBRAG_MODELS_DIR", "FBRAG_CACHE_DIR", "FBRAG_KEY")


def variables() -> list[str]:
    """Return the names of all environment variables that fbrag reads, those of other programs apart."""
    of_records = (about for looks in LOOKS.values() for about in looks.of.values())
    of_options = (each.variables for each in options_of(GlobalOptions).values())
    found = [*_OTHER_VARIABLES, *chain(*of_options, *(about.get("variables", ()) for about in of_records))]
    return sorted(each for each in found if each.startswith("FBRAG_"))


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables FBRAG_* that fbrag does not read, each with what to do."""
    known = [each.removeprefix("FBRAG_") for each in variables()]  # a common prefix does not make names similar
    unread = [name.removeprefix("FBRAG_") for name in environ if name.startswith("FBRAG_")]
    return {
        f"FBRAG_{name}": f"did you mean FBRAG_{near}?" if (near := closest(name, known)) else f"unset FBRAG_{name}"
        for name in unread
        if name not in known
    }


def value_of(setting: Option, config: Config, environ: Mapping[str, str]) -> Effective:
    """Return the value of a setting that counts without flags. The default pair of models is the catalog's."""
    value = effective(setting, config.values, environ)
    if value.value is None and setting.name in ("large", "small"):
        from fbrag_cli.models.catalog import load_catalog

        return Effective(getattr(load_catalog(), f"default_{setting.name}"), value.origin)
    return value


def named_folders(console: Console) -> Mapping[str, list[str]]:
    """Return the paths that each name such as @papers means. Raises FbragError `config` for a file that cannot be read."""
    from fbrag_cli.storage.config_file import load, locate

    return load(locate(console.config, os.environ), {}).folders


def configured(console: Console, *names: str) -> list[Any]:
    """Return the values that count without flags, of settings that no method has."""
    from fbrag_cli.storage.config_file import load, locate

    keys = known_keys(of_methods=False)
    config = load(locate(console.config, os.environ), keys)
    return [value_of(keys[name], config, os.environ).value for name in names]
