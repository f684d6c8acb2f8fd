"""The session of a command, which reports to the console. On the first run it asks the user whether to download models."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cli.console import Console
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cached import CachePolicy
from fbrag_cli.progress import Listener, Progress
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.text.printable import byte_size

if TYPE_CHECKING:
    from fbrag_cli.models.advice import Machine
    from fbrag_cli.models.catalog import Pair


@contextmanager
def open_session(
    models: ModelSettings,
    cache: CacheSettings,
    console: Console,
    progress: Progress,
    *,
    private: bool = False,
    report_original_costs: bool = False,
) -> Iterator[Session]:
    """Open a session that reports to the console and offers to download missing models. Raises FbragError `offline` for a server
    on another machine.

    private: whether nothing about the documents is cached. report_original_costs: whether cached replies report the cost of their
    first run.
    """
    if console.offline:
        from fbrag_cli.generation.server.address import check_offline

        check_offline(name for names in (models.small, models.large) if names for name in names.split(","))
    listener = Listener(progress=progress, cancellation=console.cancellation)

    opened = cache.opened(private=private, progress=progress)
    reuse = CachePolicy(refresh=cache.refresh, report_original_costs=report_original_costs)
    with Session.open(
        models,
        opened,
        listener,
        fetch=partial(fetch, console=console),
        offer=partial(offer, console=console, gpu=models.gpu != "off"),
        offline=console.offline,
        verbose=console.verbosity >= 2,
        reuse=reuse,
    ) as session:
        try:
            yield session
        except FbragError as error:
            if error.code == "llama_unavailable":
                _mention_servers(console, "llama-cpp-python")
            raise


# -- the first run -----------------------------------------------------------------------------------------------------------


def offer(names: Sequence[str], store: Path, console: Console, *, gpu: bool) -> tuple[str, str] | None:
    """Ask which pair of models to download, if a pair other than the default suits this machine.

    names: missing models of the default pair. gpu: whether a GPU may be used. Return the names of the other pair if the user
    chose it; it is then downloaded and saved in the configuration file. None: any missing model is handled by `fetch`. Raises
    FbragError `model_missing` if the answer is no.
    """
    from fbrag_cli.models.advice import OF_THE_DEFAULT, recommended
    from fbrag_cli.models.catalog import load_catalog

    catalog = load_catalog()
    if console.yes or console.offline or not _is_asked() or {*names} != {entry.id for entry in catalog.default.models}:
        return None
    pair = recommended(catalog, _machine(gpu=gpu))
    if pair.models == catalog.default.models:
        return None
    console.info(OF_THE_DEFAULT)
    _mention_servers(console)
    choices = {key: _to_fetch(each, store) for key, each in (("1", catalog.default), ("2", pair))}
    answer = console.chosen("fbrag needs a model. Which one should it download?", choices | {"n": "cancel"}, "1")
    if answer == "1":
        _download(names, store, console)
    if answer in ("n", None):
        raise FbragError("model_missing", _not_installed(names), f"fbrag models pull {' '.join(names)}")
    return _taken(pair, store, console) if answer == "2" else None


def fetch(names: Sequence[str], store: Path, console: Console) -> None:
    """Download models after the user agrees, or with -y. Without a terminal or with --offline, raise an error whose hint is the
    command."""
    from fbrag_cli.models.advice import OF_THE_DEFAULT
    from fbrag_cli.models.catalog import load_catalog

    problem, command = _not_installed(names), f"fbrag models pull {' '.join(names)}"
    is_default = not {*names}.isdisjoint(entry.id for entry in load_catalog().default.models)
    if is_default and (not console.yes or console.offline):
        _mention_servers(console)
    if console.offline:
        raise FbragError("offline", f"{problem}, and --offline prevents the download", command)
    if not console.yes:
        if not _is_asked():
            raise FbragError("model_missing", problem, f"run {command}, or pass -y")
        if is_default:
            console.info(OF_THE_DEFAULT)
        catalog = load_catalog()
        what = "the default model" if {*names} == {entry.id for entry in catalog.default.models} else ", ".join(names)
        size = byte_size(sum(catalog.models[name].bytes for name in names))
        line = console.ask(f"Download {what} ({size})? [Y/n]")
        if not line or line.strip().lower() not in ("", "y", "yes"):
            raise FbragError("model_missing", problem, command)
    _download(names, store, console)


def _mention_servers(console: Console, without: str = "a download") -> None:
    """Name the model servers on this machine, and how to use them. They are only asked for their lists of models. without: what
    they do not need."""
    from fbrag_cli.generation.server.local import find, listed, options

    if found := find(os.environ, console.cancellation):
        console.info(f"found {listed(found)}; to use it without {without}: {options(found)}")


def _machine(*, gpu: bool) -> Machine:
    from fbrag_cli.models.advice import this_machine

    return this_machine() if gpu else replace(this_machine(), gpu_memory=0)


def _is_asked() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _not_installed(names: Sequence[str]) -> str:
    from fbrag_cli.models.catalog import load_catalog

    size = byte_size(sum(load_catalog().models[name].bytes for name in names))
    subject = f"model {names[0]} is" if len(names) == 1 else f"models {', '.join(names)} are"
    return f"{subject} not installed ({size} download)"


def _to_fetch(pair: Pair, store: Path) -> str:
    """Return the names of a pair's models, and the size of the download."""
    from fbrag_cli.models.catalog import load_catalog
    from fbrag_cli.models.store import locate

    missing = sum(entry.bytes for entry in pair.models if locate(entry.id, store, load_catalog()) is None)
    return f"{' and '.join(entry.id for entry in pair.models)}, {byte_size(missing) if missing else 'installed'}"


def _download(names: Sequence[str], store: Path, console: Console) -> None:
    from fbrag_cli.cli.live import download_bar
    from fbrag_cli.models.pull import pull_all

    with download_bar(console) as progress:
        pull_all(names, store, progress)


def _taken(pair: Pair, store: Path, console: Console) -> tuple[str, str] | None:
    """Download a pair and save it in the configuration file. Return its names; print a warning and return None if the download
    fails."""
    names = [entry.id for entry in pair.models]
    console.info(f"downloading {' and '.join(names)} from {pair.large.sources[0].where(os.environ)}", dim=True)
    try:
        _download(names, store, console)
    except FbragError as error:
        if console.cancellation.requested:  # --timeout: do not ask again
            raise
        console.warning(error.message)
        return None
    _keep(pair, console)
    return pair.small.id, pair.large.id


def _keep(pair: Pair, console: Console) -> None:
    """Save a pair in the configuration file, and print how to undo it. If that fails, print how to use the pair next time."""
    from fbrag_cli.cli.config import save_models

    try:
        save_models(console, pair.small.id, pair.large.id)
    except FbragError as error:
        console.warning(f"{error.message}; using these models for this run only")
        console.hint(f"next time, pass --large {pair.large.id} --small {pair.small.id}")
