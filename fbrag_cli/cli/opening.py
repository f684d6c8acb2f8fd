"""What the commands open before they begin: the question and its documents, the cache, a session."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import DocumentOptions
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Progress
from fbrag_cli.session.session import Listener, Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings

if TYPE_CHECKING:
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.storage.cache import Cache


def split_question(document: DocumentOptions, console: Console) -> tuple[list[str], str]:
    """The documents and the question, which comes last. "-" stands for stdin, once. Raises FbragError `usage`."""
    *paths, question = document.arguments
    is_document = question != "-" and os.path.exists(question)
    if not paths or is_document:
        what = f"{question!r} is a document, not a question" if is_document else "a document and a question are needed"
        raise FbragError("usage", what, 'the question comes last: fbrag ask book.txt "Who …?"')
    if [*document.arguments, document.password_file].count("-") > 1:
        raise FbragError("usage", "'-' stands for stdin, which can be read only once", "name a file in place of one of them")
    if question == "-":
        question = _stdin(console).read().decode("utf-8", "replace")
    if not (question := question.strip()):
        raise FbragError("usage", "the question is empty", 'put it last, in quotes: fbrag ask book.txt "Who …?"')
    return paths, question


def collect(
    session: Session,
    paths: Sequence[str],
    document: DocumentOptions,
    reading: DocumentSettings,
    chunk_words: int,
    console: Console,
) -> Collection:
    """Read the documents. Raises FbragError as `Session.collect`, and `usage` for a password file that cannot be read."""
    password = _password(document.password_file, console)
    stdin = _stdin(console) if "-" in paths else None
    return session.collect(paths, reading, chunk_words, password=password, stdin=stdin)


@contextmanager
def open_session(
    models: ModelSettings, cache: Cache, console: Console, progress: Progress, *, first_costs: bool = False
) -> Iterator[Session]:
    """A session that reports to the console, and offers to fetch missing models."""
    listener = Listener(progress=progress, cancellation=console.cancellation)

    def fetch(names: Sequence[str], store: Path) -> None:
        _fetch(names, store, console)

    verbose = console.verbosity >= 2
    with Session.open(models, cache, listener, fetch=fetch, verbose=verbose, first_costs=first_costs) as session:
        yield session


@contextmanager
def open_cache(settings: CacheSettings, console: Console, *, private: bool) -> Iterator[Cache]:
    """The user's cache; with --no-cache, for private documents, or where it cannot be used, one that goes with the run."""
    from fbrag_cli.storage.cache import Cache, cache_dir

    cache = Cache(cache_dir(os.environ), int(settings.cache_limit * 1e9))
    if not settings.no_cache and not private:
        if cache.usable:
            try:
                yield cache
            finally:
                cache.trim()
            return
        console.note(f"{cache.root} cannot be used as the cache: nothing is cached", level=1)
    with tempfile.TemporaryDirectory(prefix="fbrag-") as folder:
        yield Cache(Path(folder) / "cache")


def _password(path: str | None, console: Console) -> str | None:
    if path is None:
        return None
    try:
        raw = _stdin(console).read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise FbragError("usage", f"the password file {path} cannot be read: {error.strerror}", "check its path") from None
    return raw.decode("utf-8", "replace").rstrip("\r\n")


def _stdin(console: Console) -> BinaryIO:
    if sys.stdin.isatty():
        console.hint("reading stdin, end with Ctrl-D")
    return sys.stdin.buffer


def _fetch(names: Sequence[str], store: Path, console: Console) -> None:
    """Ask once, with the size; -y accepts. Off a terminal it is an error that names the command."""
    from fbrag_cli.cli.bars import download_bar
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.pull import pull

    size = sum(load_catalogue().models[name].bytes for name in names)
    what = f"{len(names)} model{'s' if len(names) > 1 else ''}, {size / 1e9:.1f} GB"
    command = f"fbrag models pull {' '.join(names)}"
    if console.offline:
        raise FbragError("offline", f"{', '.join(names)} ({what}) is not here, and --offline forbids the download", command)
    if not console.yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise FbragError("model_missing", f"{', '.join(names)} ({what}) is not here", f"{command}    or add -y")
        print(f"first run: {what}: {', '.join(names)}   Download now? [Y/n] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
            raise FbragError("model_missing", f"{', '.join(names)} ({what}) is not here", command)
    with download_bar(console) as progress:
        for name in names:
            pull(name, store, progress=progress, offline=False, environ=os.environ)
