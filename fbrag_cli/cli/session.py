"""The session of a command: it reports to the console. On the first run, a person is asked whether to download models."""

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
from fbrag_cli.text.printable import byte_size, plural

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

    private: whether nothing of the documents is cached. report_original_costs: whether cached replies have the cost of their
    first time.
    """
    if console.offline:
        from fbrag_cli.generation.server.address import check_offline

        check_offline(name for names in (models.small, models.large) if names for name in names.split(","))
    listener = Listener(progress=progress, cancellation=console.cancellation)

    opened = cache.opened(private=private, progress=progress)
    reuse = CachePolicy(refresh=cache.again, report_original_costs=report_original_costs)
    download = partial(fetch, console=console)
    with Session.open(models, opened, listener, fetch=download, verbose=console.verbosity >= 2, reuse=reuse) as session:
        session.models.offline = console.offline
        session.models.offer = partial(offer, console=console, gpu=models.gpu != "off")
        yield session


# -- the first run -----------------------------------------------------------------------------------------------------------


def offer(names: Sequence[str], store: Path, console: Console, *, gpu: bool) -> tuple[str, str] | None:
    """Ask which pair of models to download, where another one than the default suits this machine.

    names: missing models of the default pair. gpu: whether a GPU may be used. Return the names of the other pair if it was taken:
    it is downloaded, and in the configuration file. None: the question is settled as for any missing model (`fetch`).
    Raises FbragError `model_missing` if the answer is no.
    """
    from fbrag_cli.models.advice import speed_sentence, suggested
    from fbrag_cli.models.catalog import load_catalog

    catalog = load_catalog()
    if console.yes or console.offline or not _is_asked() or {*names} != {entry.id for entry in catalog.default.models}:
        return None
    pair = suggested(catalog, _machine(gpu=gpu))
    if pair.models == catalog.default.models:
        return None
    _mention_servers(console)
    choices = {
        key: f"{_to_fetch(each, store)}; {speed_sentence(each, catalog)}" for key, each in (("1", catalog.default), ("2", pair))
    }
    answer = console.chosen("first run: which models shall be downloaded?", choices | {"n": "none"}, "1")
    if answer == "1":
        _download(names, store, console)
    if answer in ("n", None):
        raise FbragError("model_missing", f"{_named(names)} is not here", f"fbrag models pull {' '.join(names)}")
    return _taken(pair, store, console) if answer == "2" else None


def fetch(names: Sequence[str], store: Path, console: Console) -> None:
    """Download models after a yes, or with -y. Off a terminal and with --offline it is an error that names the command."""
    from fbrag_cli.models.advice import first_run
    from fbrag_cli.models.catalog import load_catalog

    what, command = _named(names), f"fbrag models pull {' '.join(names)}"
    if (not console.yes or console.offline) and {*names} & {entry.id for entry in load_catalog().default.models}:
        _mention_servers(console)
    if console.offline:
        raise FbragError("offline", f"{what} is not here, and --offline forbids the download", command)
    if not console.yes:
        if not _is_asked():
            raise FbragError("model_missing", f"{what} is not here; -y fetches it", command)
        console.prompt(f"{first_run(names, load_catalog())} [Y/n]")
        if not (line := sys.stdin.readline()) or line.strip().lower() not in ("", "y", "yes"):
            raise FbragError("model_missing", f"{what} is not here", command)
    _download(names, store, console)


def _mention_servers(console: Console) -> None:
    """Say which servers of models run on this machine, and how to use them. They are asked for their models alone."""
    from fbrag_cli.generation.server.local import find, listed, options

    if found := find(os.environ, console.cancellation):
        console.info(f"{listed(found)}: no download is needed with {options(found)}")


def _machine(*, gpu: bool) -> Machine:
    from fbrag_cli.models.advice import this_machine

    return this_machine() if gpu else replace(this_machine(), gpu_memory=0)


def _is_asked() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _named(names: Sequence[str]) -> str:
    from fbrag_cli.models.catalog import load_catalog

    size = byte_size(sum(load_catalog().models[name].bytes for name in names))
    return f"{', '.join(names)} ({plural(len(names), 'model')}, {size})"


def _to_fetch(pair: Pair, store: Path) -> str:
    """Name the models of a pair, and the bytes that a download takes."""
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
    """Download a pair and make it that of the configuration. Return its names; None where it cannot be had, which is said."""
    names = [entry.id for entry in pair.models]
    console.info(f"fetching {' and '.join(names)} from {pair.large.sources[0].where(os.environ)}", dim=True)
    try:
        _download(names, store, console)
    except FbragError as error:
        if console.cancellation.requested:  # the time is over (--timeout): nobody is asked again
            raise
        console.warning(error.message)
        return None
    _keep(pair, console)
    return pair.small.id, pair.large.id


def _keep(pair: Pair, console: Console) -> None:
    """Write a pair into the configuration file, and say how to undo it. Where it cannot be written, say how to name the pair."""
    from fbrag_cli.storage.config_file import locate as locate_file
    from fbrag_cli.storage.config_file import set_value

    file = locate_file(console.config, os.environ)
    try:
        if file is None:
            raise FbragError("config", "no configuration file is used")
        set_value(file, "large", pair.large.id)
        set_value(file, "small", pair.small.id)
    except FbragError as error:
        console.warning(f"{error.message}: these models are for this run alone")
        console.hint(f"for the next runs: --large {pair.large.id} --small {pair.small.id}")
    else:
        undo = "fbrag config unset large && fbrag config unset small"
        console.info(f"{file.path} has these models for the next runs; for the default again: {undo}")
