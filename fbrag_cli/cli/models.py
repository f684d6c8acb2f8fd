"""`fbrag models`: download, list, verify and delete models."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Literal

from fbrag_cli.cli.command import Group
from fbrag_cli.cli.completion import model_names, usable_models
from fbrag_cli.cli.config import save_models
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.keys import configured
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options, argument
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.generation.server.address import Address, is_local, is_server
from fbrag_cli.models.advice import advise, pair_text
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.pull import plan, read_spec
from fbrag_cli.models.pull import pull as pull_model
from fbrag_cli.models.store import check, describe, files_of, installed, locate, remove, resolve, stored_path
from fbrag_cli.render.model_list import advice_record, record, table
from fbrag_cli.storage.paths import models_dir
from fbrag_cli.text.printable import byte_size, dumps, printable

HELP = """Download, choose, list, verify and delete models.

\b
Examples:
  fbrag models list --all
  fbrag models use recommended
  fbrag models verify
"""

models = Group("models", HELP)

Role = Literal["small", "large"]

#: The word for the pair that suits this machine best.
RECOMMENDED = "recommended"


_names = partial(argument, autocompletion=model_names)


class ListOptions(Options):
    group = "Output"

    all: bool = option(False, "include models to download, and whether they fit this machine", once=True)
    json: bool = option(False, "print JSON", once=True)


class PullOptions(Options):
    group = "Pull"

    names: list[str] = _names(
        "names from 'list --all', hf:ORG/REPO/FILE, or a URL (default: the default pair)", "NAME", default=()
    )
    role: Role | None = option(
        None, "small or large: print how to use the model in this role; without NAME, download the default for it", once=True
    )
    recommended: bool = option(False, "download the pair that 'list --all' recommends for this machine", once=True)
    sha256: str | None = option(None, "the file's expected SHA-256 (required for a URL)", once=True, metavar="HEX")
    dry_run: bool = option(False, "print URLs and sizes without downloading", once=True)


class NameToUse(Options):
    name: str = argument(
        "a name from 'list --all', 'recommended', hf:ORG/REPO/FILE, a GGUF file, or the URL of a server",
        "NAME",
        autocompletion=lambda: [RECOMMENDED, *usable_models()],
    )


class InstalledNames(Options):
    names: list[str] = _names("names from 'list' (default: all installed models)", "NAME", default=())


class NamesToDelete(Options):
    names: list[str] = _names("names from 'list'", "NAME")


class OneName(Options):
    name: str | None = _names("a name from 'list', or a path (default: the folder of all models)", "NAME", default=None)


@models.command(ListOptions)
def list_(console: Console, options: ListOptions) -> None:
    """List the installed models with role, size, quantization, context (tokens), license and state.

    \b
    Examples:
      fbrag models list
      fbrag models list --all
      fbrag models list --json | jq -r '.models[].path'
    """
    store, catalog = models_dir(), load_catalog()
    models = list(installed(store, catalog))
    if options.all:
        here = {model.path: model for model in models}
        known = [entry for entry in catalog.models.values() if not entry.replaced_by or store / entry.file in here]
        others = [model for path, model in here.items() if not catalog.find(path.name)]
        models = [*(describe(store / entry.file, entry) for entry in known), *others]
    pair = _pair(console)
    files = {role: locate(name, store, catalog) for role, name in pair.items()}
    roles = {
        model.name: tuple(role for role, name in pair.items() if name == model.name or files[role] == model.path)
        for model in models
    }
    advice = advise(catalog) if options.all else None
    if options.json:
        records = [record(model, roles, advice) for model in models]
        about = advice_record(advice) if advice else {}
        print(dumps({"schema": "fbrag.models/1", "store": str(store), "models": records, **about}))
    elif models:
        print("\n".join(table(models, roles, advice)), flush=True)  # before the notes on stderr
        if advice:
            console.info(f"recommended for this machine: {pair_text(advice.pair)}")
            console.hint("fbrag models use recommended")
    else:
        console.info(f"no models in {store}")
        console.hint("fbrag models pull")


@models.command(PullOptions)
def pull(console: Console, options: PullOptions) -> None:
    """Download and verify models, and print their paths. Interrupted downloads resume.

    \b
    Examples:
      fbrag models pull
      fbrag models pull smollm2-135m
      fbrag models pull llama-3.1-8b --role large
      fbrag models pull hf:Qwen/Qwen2.5-Coder-3B-Instruct-GGUF/qwen2.5-coder-3b-instruct-q4_k_m.gguf
      fbrag models pull --recommended --dry-run
    """
    from fbrag_cli.cli.live import download_bar

    store = models_dir()
    downloads = [read_spec(name, load_catalog(), options.sha256) for name in _names_to_pull(options, console)]
    if not downloads:
        console.info("nothing to download: your models are local files or servers")
        return
    if options.dry_run:
        for download in downloads:
            print(printable("\n".join(plan(download, store, os.environ))))
        return
    with download_bar(console) as progress:
        for download in downloads:
            model = pull_model(download, store, progress=progress, offline=console.offline, environ=os.environ)
            print(printable(str(model.path)), flush=True)
            if download.sha256 is None:
                console.info(f"{model.name}: sha256 {model.sha256}")
    if options.recommended:
        console.hint("fbrag models use recommended")
    if options.role:
        console.hint(f"fbrag config set {options.role} {shlex.quote(model.name)}")


@models.command(NameToUse)
def use(console: Console, options: NameToUse) -> None:
    """Set the model that fbrag uses from now on, for the answer and the forward samples. It is downloaded if needed.

    \b
    Examples:
      fbrag models use recommended
      fbrag models use qwen3.5-4b
      fbrag models use ~/models/own.gguf
      fbrag models use http://localhost:8080/v1
    \f
    'recommended' is the pair that 'list --all' recommends for this machine. 'fbrag config set small MODEL' sets the model for the
    forward samples alone.
    """
    small = large = options.name
    if options.name == RECOMMENDED:
        pair = advise(load_catalog()).pair
        small, large = pair.small.id, pair.large.id
    usable = {name: _usable(name, console) for name in dict.fromkeys((small, large))}
    save_models(console, usable[small], usable[large])


def _usable(name: str, console: Console) -> str:
    """Return the name of a model that the configuration file can have. Downloads a missing one. Raises the errors of `resolve`,
    `read_spec`, `pull` and `Address.parse`."""
    from fbrag_cli.cli.live import download_bar

    store, catalog = models_dir(), load_catalog()
    if is_server(name):
        if not is_local(name):
            Address.parse(name)
        return name
    if locate(name, store, catalog):
        model = resolve(name, store, catalog)
    else:
        with download_bar(console) as progress:
            download = read_spec(name, catalog)
            model = pull_model(download, store, progress=progress, offline=console.offline, environ=os.environ)
    return model.name if model.path.parent == store else str(model.path.absolute())


@models.command(InstalledNames)
def verify(console: Console, options: InstalledNames) -> int:
    """Reread the files of models and check their SHA-256. Exit code 1 if one is damaged.

    \b
    Examples:
      fbrag models verify
      fbrag models verify qwen2.5-coder-1.5b
    """
    from fbrag_cli.cli.live import download_bar

    store, catalog = models_dir(), load_catalog()
    paths = [stored_path(name, store, catalog) for name in options.names]
    paths = paths or [model.path for model in installed(store, catalog)]
    if not paths:
        console.info(f"no models in {store}")
    result = ExitCode.DONE
    with download_bar(console) as progress:
        for path in paths:
            entry = catalog.find(path.name)
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


@models.command(NamesToDelete)
def rm(console: Console, options: NamesToDelete) -> int:
    """Delete models and partial downloads, and print the bytes freed. Asks on a terminal; exit code 1 if the answer is no.

    \b
    Examples:
      fbrag models rm smollm2-135m
      fbrag models rm -y llama-3.1-8b llama-3.2-1b
    """
    store, catalog = models_dir(), load_catalog()
    files = {name: files_of(name, store, catalog) for name in options.names}  # if one does not exist, none is deleted
    sizes = [f"{name} ({byte_size(sum(path.lstat().st_size for path in paths))})" for name, paths in files.items()]
    if not console.confirms(f"delete {', '.join(sizes)}"):
        console.info("nothing deleted")
        return ExitCode.NEGATIVE
    freed = 0
    try:
        for name in files:
            freed += remove(name, store, catalog)
    finally:
        print(freed)
    return ExitCode.DONE


@models.command(OneName)
def path(console: Console, options: OneName) -> None:
    """Print the path of a model; without a name, the folder of all models.

    \b
    Examples:
      ls -l "$(fbrag models path)"
      fbrag models path smollm2-135m
    """
    store = models_dir()
    print(printable(str(resolve(options.name, store, load_catalog()).path if options.name else store)))


# -- which models ----------------------------------------------------------------------------------------------------------


def _pair(console: Console) -> Mapping[str, str]:
    """Return the model of each role, from the environment, the configuration file or the catalog."""
    small, large = configured(console, "small", "large")
    return {"small": small, "large": large}


def _names_to_pull(options: PullOptions, console: Console) -> list[str]:
    """Return the names given or recommended, else those of the default pair that can be downloaded. Raises FbragError `usage`."""
    if options.recommended and (options.names or options.role or options.sha256):
        raise FbragError(
            "usage", "--recommended cannot be combined with NAME, --role or --sha256", "fbrag models pull --recommended"
        )
    if len(options.names) > 1 and (options.role or options.sha256):
        raise FbragError("usage", "--role and --sha256 apply to one model", "pull one model at a time")
    if options.recommended:
        return [entry.id for entry in advise(load_catalog()).pair.models]
    if options.names:
        return list(dict.fromkeys(options.names))
    pair = _pair(console)
    needed = [pair[options.role]] if options.role else list(dict.fromkeys(pair.values()))
    return [name for name in needed if not (is_server(name) or os.path.isfile(os.path.expanduser(name)))]
