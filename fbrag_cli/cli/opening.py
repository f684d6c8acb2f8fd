"""Opening of what a command works with: the question and its documents, the cache, a session."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.method_options import MethodKnobs, MethodOptions
from fbrag_cli.cli.options import DocumentOptions, OutputOptions, QuestionRunOptions
from fbrag_cli.cli.output import open_output, open_page
from fbrag_cli.cli.progress_line import ProgressLine, progress_line
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.cli.usage import EXAMPLE, check_words, typed
from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.cached import Reuse
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Listener, Progress
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.storage.files import read_small
from fbrag_cli.text.printable import byte_size, counted
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.storage.cache import Cache


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """The options that `ask` and `explain` share."""

    output: OutputOptions
    document: DocumentOptions
    reading: DocumentSettings
    method: MethodOptions
    knobs: MethodKnobs  # type: ignore[valid-type]
    models: ModelSettings
    cache: CacheSettings
    run: QuestionRunOptions


@dataclass(frozen=True, slots=True)
class Opened:
    """The output and the session of a question. page: writes a trace as the page of --html, where one is asked for."""

    stream: TextIO
    page: Callable[[Trace], None]
    progress: ProgressLine
    session: Session


@contextmanager
def open_question(options: QuestionOptions, console: Console, *, with_page: bool) -> Iterator[Opened]:
    """Open the output, the cache and a session, and start the time limit. with_page: whether --html counts."""
    if options.run.timeout:
        limit_time(options.run.timeout, console.cancellation)
    with (
        open_output(options.output.output) as stream,
        open_page(options.output.html if with_page else None) as page,
        progress_line(console) as progress,
        open_cache(options.cache, console, private=options.document.password_file is not None) as cache,
        open_session(options.models, cache, console, progress, Reuse(again=options.cache.again)) as session,
    ):
        yield Opened(stream, page, progress, session)


def split_question(document: DocumentOptions, console: Console) -> tuple[list[str], str]:
    """Return the documents and the question, which comes last. "-" stands for stdin, once. Raises FbragError `usage`."""
    *paths, question = document.arguments
    check_words(document.arguments)
    if [*document.arguments, document.password_file].count("-") > 1:
        raise FbragError("usage", "'-' stands for stdin, which can be read only once", "name a file in place of one of them")
    if question == "-":
        question = open_stdin(console).read().decode("utf-8", "replace")
    if not (question := _as_utf8(question).strip()):
        raise FbragError("usage", "the question is empty", typed(document.arguments, [*paths, EXAMPLE]))
    return paths, question


def _as_utf8(argument: str) -> str:
    """Return an argument as text. In a locale without UTF-8, as C, Python hands over its bytes as surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.fsencode(argument).decode("utf-8", "replace")
    return argument


def collect(session: Session, paths: Sequence[str], options: QuestionOptions, console: Console) -> Collection:
    """Read the documents. Raises FbragError as `Session.collect`, and `usage` for a password file that cannot be read."""
    password = read_password(options.document.password_file, console)
    stdin = open_stdin(console) if "-" in paths else None
    return session.collect(paths, options.reading, options.method.words, password=password, stdin=stdin)


def planned(corpus: Corpus, method: Method) -> str:
    """Return one line for --dry-run: what would be read and selected."""
    n_documents, n_chunks = len(corpus.documents), len(corpus.chunks)
    size = f"{counted(n_documents, 'document')}, {counted(corpus.n_words, 'word')}, {counted(n_chunks, 'chunk')}"
    return f"{size}: {', '.join(method.plan(n_chunks))}"


@contextmanager
def open_session(
    models: ModelSettings, cache: Cache, console: Console, progress: Progress, reuse: Reuse | None = None
) -> Iterator[Session]:
    """Open a session that reports to the console and offers to download missing models. Raises FbragError `offline` for a server
    on another machine."""
    if console.offline:
        from fbrag_cli.generation.server.address import check_offline

        check_offline(name for names in (models.small, models.large) if names for name in names.split(","))
    listener = Listener(progress=progress, cancellation=console.cancellation)

    def fetch(names: Sequence[str], store: Path) -> None:
        _fetch(names, store, console)

    verbose = console.verbosity >= 2
    with Session.open(models, cache, listener, fetch=fetch, verbose=verbose, reuse=reuse) as session:
        yield session


@contextmanager
def open_cache(settings: CacheSettings, console: Console, *, private: bool) -> Iterator[Cache]:
    """Open the user's cache; with --no-cache, for private documents, or where it cannot be used, one that holds nothing."""
    from fbrag_cli.storage.cache import NOWHERE, Cache
    from fbrag_cli.storage.places import cache_dir

    cache = NOWHERE
    if not settings.no_cache and not private:
        cache = Cache(cache_dir(), int(settings.cache_limit * 1e9))
        if not cache.usable:
            console.warn(f"{cache.root} cannot be used as the cache: each question reads the documents anew")
            console.hint("set FBRAG_CACHE_DIR to a folder that can be written, or use --no-cache")
            cache = NOWHERE
    try:
        yield cache
    finally:
        cache.trim()


def read_password(path: str | None, console: Console) -> str | None:
    """Return the password that a file holds, "-" for stdin. Raises FbragError `usage` where it cannot be read."""
    if path is None:
        return None
    try:
        raw = open_stdin(console).read() if path == "-" else read_small(Path(path))
    except OSError as error:
        raise FbragError("usage", f"the password file {path} cannot be read: {error.strerror}", "check its path") from None
    return raw.decode("utf-8", "replace").rstrip("\r\n")


def open_stdin(console: Console) -> BinaryIO:
    """Return stdin. On a terminal a hint says how to end it."""
    if sys.stdin.isatty():
        console.hint("reading stdin, end with Ctrl-D")
    return sys.stdin.buffer


def _fetch(names: Sequence[str], store: Path, console: Console) -> None:
    """Ask once whether to download, with the size; -y accepts. Off a terminal it is an error that names the command."""
    from fbrag_cli.cli.bars import download_bar
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
        _offer_suggested(names, console)
        print(f"first run: {what}: {', '.join(names)}   Download now? [Y/n] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
            raise FbragError("model_missing", f"{', '.join(names)} ({what}) is not here", command)
    with download_bar(console) as progress:
        pull_all(names, store, progress)


def _offer_suggested(names: Sequence[str], console: Console) -> None:
    """Beside the default pair, name the one that this machine would take, and the command that fetches it."""
    from fbrag_cli.models.advice import described, suggested, this_machine
    from fbrag_cli.models.catalogue import load_catalogue

    catalogue, machine = load_catalogue(), this_machine()
    pair, default = suggested(catalogue, machine), catalogue.default
    if pair.models != default.models and {entry.id for entry in default.models} <= set(names):
        console.note(f"the default is {described(default, catalogue, machine)}")
        console.note(f"this machine has room for {described(pair, catalogue, machine)}, from a hub")
        console.hint("for those, answer n; then: fbrag models pull --suggested")
