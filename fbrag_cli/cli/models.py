"""`fbrag models`: fetch, list, verify and delete models."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from fbrag_cli.cli.completion import model_names
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.help import Command, Group
from fbrag_cli.cli.options import argument, option
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.storage.places import models_dir
from fbrag_cli.text.printable import byte_size, dumps, printable

if TYPE_CHECKING:
    from fbrag_cli.models.store import StoredModel

HELP = """Fetch, list, verify and delete models.

\b
Examples:
  fbrag models pull
  fbrag models list --all
  fbrag models verify
"""

models_app = typer.Typer(cls=Group, help=HELP, no_args_is_help=True, rich_markup_mode=None)

Role = Literal["small", "large"]


_names = partial(argument, autocompletion=model_names)


@dataclass(frozen=True, slots=True)
class ListOptions:
    all: bool = option(
        False, "--all", help="also models that can be fetched, and whether they fit this machine", group="Output", envvar=None
    )
    json: bool = option(False, "--json", help="one JSON object", group="Output", envvar=None)


@dataclass(frozen=True, slots=True)
class PullOptions:
    names: list[str] = _names("names from 'list --all', hf:ORG/REPO/FILE or a URL (the default pair)", "NAME", default=())
    role: Role | None = option(
        None,
        "--role",
        help="small or large: print how to use it; without a NAME, fetch the default one",
        group="Pull",
        envvar=None,
    )
    suggested: bool = option(
        False, "--suggested", help="the pair that 'list --all' suggests for this machine", group="Pull", envvar=None
    )
    sha256: str | None = option(
        None, "--sha256", help="the SHA-256 that the file must have; a URL needs it", group="Pull", metavar="HEX", envvar=None
    )
    dry_run: bool = option(False, "--dry-run", help="print addresses and sizes; fetch nothing", group="Pull", envvar=None)


@dataclass(frozen=True, slots=True)
class InstalledNames:
    names: list[str] = _names("names from 'list' (all installed)", "NAME", default=())


@dataclass(frozen=True, slots=True)
class NamesToDelete:
    names: list[str] = _names("names from 'list'", "NAME")


@dataclass(frozen=True, slots=True)
class OneName:
    name: str | None = _names("a name from 'list', or a path (the folder of all models)", "NAME", default=None)


@models_app.command("list", cls=Command)
@takes(ListOptions)
def list_(console: Console, options: ListOptions) -> None:
    """List the installed models: role, size, quantisation, context (tokens), licence and state.

    \b
    Examples:
      fbrag models list
      fbrag models list --all
      fbrag models list --json | jq -r '.models[].path'
    """
    from fbrag_cli.models.advice import advise, described
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import describe, installed
    from fbrag_cli.render.model_list import advice_record, record, table

    store, catalogue = models_dir(), load_catalogue()
    models = list(installed(store, catalogue))
    if options.all:
        here = {model.path: model for model in models}
        known = [entry for entry in catalogue.models.values() if not entry.replaced_by or store / entry.file in here]
        others = [model for path, model in here.items() if not catalogue.find(path.name)]
        models = [*(describe(store / entry.file, entry) for entry in known), *others]
    roles = _roles(models, store, console)
    advice = advise(catalogue) if options.all else None
    if options.json:
        records = [record(model, roles, advice) for model in models]
        about = advice_record(advice) if advice else {}
        print(dumps({"schema": "fbrag.models/1", "store": str(store), "models": records, **about}))
    elif models:
        print("\n".join(table(models, roles, advice)), flush=True)  # before what stderr says of it
        if advice:
            console.note(f"suggested for this machine: {described(advice.pair)}")
            console.hint("fbrag models pull --suggested")
    else:
        console.note(f"no models in {store}")
        console.hint("fbrag models pull")


@models_app.command(cls=Command)
@takes(PullOptions)
def pull(console: Console, options: PullOptions) -> None:
    """Fetch models, verify them, and print the path of each. An interrupted pull goes on where it stopped.

    \b
    Examples:
      fbrag models pull
      fbrag models pull smollm2-135m
      fbrag models pull llama-3.1-8b --role large
      fbrag models pull hf:Qwen/Qwen2.5-Coder-3B-Instruct-GGUF/qwen2.5-coder-3b-instruct-q4_k_m.gguf
      fbrag models pull --suggested --dry-run
    """
    from fbrag_cli.cli.live import download_bar
    from fbrag_cli.models.advice import advise
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.pull import plan, read_spec
    from fbrag_cli.models.pull import pull as pull_model

    store = models_dir()
    downloads = [read_spec(name, load_catalogue(), options.sha256) for name in _names_to_pull(options, console)]
    if not downloads:
        console.note("nothing to fetch: the models are files of yours, or servers")
        return
    if options.dry_run:
        for each in downloads:
            print(printable("\n".join(plan(each, store, os.environ))))
        return
    with download_bar(console) as progress:
        for each in downloads:
            model = pull_model(each, store, progress=progress, offline=console.offline, environ=os.environ)
            print(printable(str(model.path)), flush=True)
            if each.sha256 is None:
                console.note(f"{model.name}: sha256 {model.sha256}")
    if options.suggested:
        pair = advise(load_catalogue()).pair
        for role, entry in (("small", pair.small), ("large", pair.large)):
            console.hint(f"fbrag config set {role} {entry.id}")
    if options.role:
        console.hint(f"fbrag config set {options.role} {shlex.quote(model.name)}")


@models_app.command(cls=Command)
@takes(InstalledNames)
def verify(console: Console, options: InstalledNames) -> int:
    """Read every byte again and compare the SHA-256. Exit code 1 if a file is damaged.

    \b
    Examples:
      fbrag models verify
      fbrag models verify qwen2.5-coder-1.5b
    """
    from fbrag_cli.cli.live import download_bar
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import installed, stored_path
    from fbrag_cli.models.verification import check

    store, catalogue = models_dir(), load_catalogue()
    paths = [stored_path(name, store, catalogue) for name in options.names]
    paths = paths or [model.path for model in installed(store, catalogue)]
    if not paths:
        console.note(f"no models in {store}")
    result = ExitCode.DONE
    with download_bar(console) as progress:
        for path in paths:
            entry = catalogue.find(path.name)
            name = entry.id if entry else path.stem
            try:
                digest = check(path, entry, again=True, progress=progress)
            except FbragError as error:
                if error.code != "model_corrupt":
                    raise
                print(printable(f"corrupt  {name}"), flush=True)
                console.error(error)
                result = ExitCode.NEGATIVE
            else:
                print(printable(f"ok       {name}  {digest}"), flush=True)
    return result


@models_app.command(cls=Command)
@takes(NamesToDelete)
def rm(console: Console, options: NamesToDelete) -> int:
    """Delete models and the remains of interrupted pulls; print the bytes freed. Asks on a terminal; 1 if the answer is no.

    \b
    Examples:
      fbrag models rm smollm2-135m
      fbrag models rm -y llama-3.1-8b llama-3.2-1b
    """
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import files_of, remove

    store, catalogue = models_dir(), load_catalogue()
    files = {name: files_of(name, store, catalogue) for name in options.names}  # all of them exist, or none is deleted
    sizes = [f"{name} ({byte_size(sum(path.lstat().st_size for path in paths))})" for name, paths in files.items()]
    if not console.confirms(f"delete {', '.join(sizes)}"):
        console.note("nothing is deleted")
        return ExitCode.NEGATIVE
    freed = 0
    try:
        for name in files:
            freed += remove(name, store, catalogue)
    finally:
        print(freed)
    return ExitCode.DONE


@models_app.command(cls=Command)
@takes(OneName)
def path(console: Console, options: OneName) -> None:
    """Print the path of a model; without a name, the folder of all models.

    \b
    Examples:
      ls -l "$(fbrag models path)"
      fbrag models path smollm2-135m
    """
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import resolve

    store = models_dir()
    print(printable(str(resolve(options.name, store, load_catalogue()).path if options.name else store)))


# -- which models ----------------------------------------------------------------------------------------------------------


def _pair(console: Console) -> Mapping[str, str]:
    """Return the model of each role, by the environment, the configuration file, or the catalogue."""
    from fbrag_cli.cli.config_keys import configured

    small, large = configured(console, "small", "large")
    return {"small": small, "large": large}


def _roles(models: Iterable[StoredModel], store: Path, console: Console) -> dict[str, tuple[str, ...]]:
    """Return the roles of each model by its name."""
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import locate

    catalogue, pair = load_catalogue(), _pair(console)
    files = {role: locate(name, store, catalogue) for role, name in pair.items()}
    return {
        model.name: tuple(role for role, name in pair.items() if name == model.name or files[role] == model.path)
        for model in models
    }


def _names_to_pull(options: PullOptions, console: Console) -> list[str]:
    """Return the names that are given or suggested, else those of the pair that need a download. Raises FbragError `usage`."""
    if options.suggested and (options.names or options.role or options.sha256):
        raise FbragError("usage", "--suggested names the models itself", "leave out NAME, --role and --sha256")
    if len(options.names) > 1 and (options.role or options.sha256):
        raise FbragError("usage", "--role and --sha256 are for one model", "pull one model at a time")
    if options.suggested:
        from fbrag_cli.models.advice import advise
        from fbrag_cli.models.catalogue import load_catalogue

        return [entry.id for entry in advise(load_catalogue()).pair.models]
    if options.names:
        return list(dict.fromkeys(options.names))
    from fbrag_cli.generation.server.address import is_server

    pair = _pair(console)
    needed = [pair[options.role]] if options.role else list(dict.fromkeys(pair.values()))
    return [name for name in needed if not (is_server(name) or os.path.isfile(os.path.expanduser(name)))]
