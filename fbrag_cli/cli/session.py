"""The session of a command: it reports to the console, and offers to download the models that are missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fbrag_cli.cli.console import Console
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cached import Reuse
from fbrag_cli.progress import Listener, Progress
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.text.printable import byte_size, counted


@contextmanager
def open_session(
    models: ModelSettings,
    cache: CacheSettings,
    console: Console,
    progress: Progress,
    *,
    private: bool = False,
    first_costs: bool = False,
) -> Iterator[Session]:
    """Open a session that reports to the console and offers to download missing models. Raises FbragError `offline` for a server
    on another machine.

    private: whether nothing of the documents is cached. first_costs: whether cached replies have the cost of their first time.
    """
    if console.offline:
        from fbrag_cli.generation.server.address import check_offline

        check_offline(name for names in (models.small, models.large) if names for name in names.split(","))
    listener = Listener(progress=progress, cancellation=console.cancellation)

    def fetch(names: Sequence[str], store: Path) -> None:
        _fetch(names, store, console)

    opened = cache.opened(private=private, progress=progress)
    reuse = Reuse(again=cache.again, first_costs=first_costs)
    with Session.open(models, opened, listener, fetch=fetch, verbose=console.verbosity >= 2, reuse=reuse) as session:
        yield session


def _fetch(names: Sequence[str], store: Path, console: Console) -> None:
    """Ask once whether to download, with the size; -y accepts. Off a terminal it is an error that names the command."""
    from fbrag_cli.cli.bars import download_bar
    from fbrag_cli.models.advice import first_run, this_machine
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.pull import pull_all

    size = sum(load_catalogue().models[name].bytes for name in names)
    what = f"{counted(len(names), 'model')}, {byte_size(size)}"
    command = f"fbrag models pull {' '.join(names)}"
    if console.offline:
        raise FbragError("offline", f"{', '.join(names)} ({what}) is not here, and --offline forbids the download", command)
    if not console.yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise FbragError("model_missing", f"{', '.join(names)} ({what}) is not here; -y fetches it", command)
        question, larger = first_run(names, load_catalogue(), this_machine())
        if larger:
            console.note(larger, dim=True)
        console.prompt(f"{question} [Y/n]")
        if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
            raise FbragError("model_missing", f"{', '.join(names)} ({what}) is not here", command)
    with download_bar(console) as progress:
        pull_all(names, store, progress)
