"""The session of a command: it reports to the console, and offers to download the models that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from fbrag_cli.cli.console import Console
from fbrag_cli.generation.cached import Reuse
from fbrag_cli.progress import Listener, Progress
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, ModelSettings


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
    from fbrag_cli.cli.first_run import fetch, offer

    if console.offline:
        from fbrag_cli.generation.server.address import check_offline

        check_offline(name for names in (models.small, models.large) if names for name in names.split(","))
    listener = Listener(progress=progress, cancellation=console.cancellation)

    opened = cache.opened(private=private, progress=progress)
    reuse = Reuse(again=cache.again, first_costs=first_costs)
    download = partial(fetch, console=console)
    with Session.open(models, opened, listener, fetch=download, verbose=console.verbosity >= 2, reuse=reuse) as session:
        session.models.offline = console.offline
        session.models.offer = partial(offer, console=console, gpu=models.gpu != "off")
        yield session
