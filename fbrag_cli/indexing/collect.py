"""Files and folders become a `Collection`: a corpus with its index. What was read before comes from the cache.

Files are digested in child processes, so that no file can hang or kill the run, and are then pooled. A file alone is digested
here if it is a short text, or a PDF: its reader has limits of its own, and shares the pages with other processes. A folder whose
files have the same sizes and times as before is not even opened: its listing says which pool it made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.children import Failure, run_jobs
from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.formats import PDF, find_format
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.digest import Digest, Reading, digest_key, load_digest, make_digest, packed_digest, save_digest
from fbrag_cli.indexing.pool import Member, load_pool, make_pool, pool_key, single
from fbrag_cli.indexing.store import IndexStore, index_key
from fbrag_cli.progress import Event, Listener
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.storage.cache import Cache
from fbrag_cli.storage.unnamed import Unnamed

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Document
    from fbrag_cli.indexing.walk import FoundFile

#: The limits for a file. Of several files, one that needs more is left out.
FILE_SECONDS = 120
FILE_MEMORY = 4_000_000_000  # bytes of its own, without mapped files

#: Bytes of a text, and of an HTML page or a mail, that is read in a child process when it is the only file. Shorter ones take
#: about a second at most: the time of the HTML parser grows with the square of the number of unmatched end tags.
LONG_TEXT = 2_000_000
LONG_MARKUP = 100_000

_FULL_HINT = "free some disk space, or set FBRAG_CACHE_DIR to a folder on another disk"
# Errors of the file itself: reading it again would give the same one.
_LASTING = ("doc_unreadable", "doc_empty", "pdf_encrypted", "pdf_bad_password", "pdf_no_text", "unsupported_format")
_SETTLED_SECONDS = 2  # a file changed more recently could change again and keep its size and time


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus with its index.

    warnings: one line for each file that was left out. cached: which of "text" and "index" came from the cache. seconds: how long
    collecting took, where the caller has timed it.
    """

    corpus: Corpus
    retriever: BM25
    warnings: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    seconds: float = 0.0


def collect_text(document: Document, chunk_words: int = 300) -> Collection:
    """Return the collection of a document in memory. Nothing is read from the cache or written to it."""
    corpus = build_corpus([document], chunk_words)
    return Collection(corpus, BM25.of(corpus))


def collect_one(path: str, reading: Reading, cache: Cache, stdin: BinaryIO | None, listener: Listener) -> Collection:
    """Return the collection of one file, or of `stdin` for "-".

    Raises FbragError as `documents.load` does, doc_unreadable for a file beyond the limits, and the error of a cancellation.
    """
    store = IndexStore(cache, Unnamed())
    source = read_source(path, stdin)
    key = digest_key(source, reading)
    if (digest := load_digest(key, path, store)) is not None:
        return _single(digest, reading, cached=("text", "index"))
    if _is_long(source):
        ((_, outcome),) = _digested([source if path == "-" else path], reading, store, listener.cancellation)
        if isinstance(outcome, Failure):
            raise _error(path, outcome, store)
        return _single(Member(outcome.key, path).load(store), reading)
    digest = make_digest(source, reading, listener)
    save_digest(key, digest, store)
    return _single(load_digest(key, path, store) or digest, reading)


def _single(digest: Digest, reading: Reading, cached: tuple[str, ...] = ()) -> Collection:
    return Collection(*single(digest, reading.chunk_words), cached=cached)


def _is_long(source: Source) -> bool:
    """Return whether reading a file may take long: packed formats and markup may hold more than their size shows."""
    found = find_format(source).format
    limit = LONG_MARKUP if found.reader in ("html", "mail") else LONG_TEXT
    return found is not PDF and (not found.textual or len(source.data) > limit)


def collect(
    files: Sequence[FoundFile],
    reading: Reading,
    cache: Cache,
    *,
    strict: bool = False,
    stdin: BinaryIO | None = None,
    listener: Listener | None = None,
) -> Collection:
    """Return the collection of several files, in their order; "-" is `stdin`. A file that cannot be read is left out with a
    warning.

    listener: receives the stages "read" and "index", in files; a cancellation ends the child processes. Raises FbragError: the
    first file's error if no file can be read, or, if `strict`, the error of the first file that cannot be; `disk_full` where the
    cache cannot be written. Raises the error of a cancellation.
    """
    run = _Run(tuple(files), reading, IndexStore.for_run(cache), stdin, listener or Listener())
    # 1. If nothing has changed, nothing is read.
    unchanged = run.unchanged()
    if unchanged and not (strict and unchanged.warnings):
        return unchanged
    # 2. Each file is digested, unless its digest is cached.
    digested = run.digest()
    if digested.errors and (strict or not digested.keys):
        raise digested.errors[min(digested.errors)]
    # 3. The digests are pooled, unless their pool is cached.
    return run.pool(digested)


@dataclass(slots=True)
class _Digested:
    """The key of each file's digest, or its error, by the file's position. cached: whether all digests were cached.

    settled: whether each error is due to the file itself, so that it would come again; a lack of time or memory might not.
    """

    keys: dict[int, str] = field(default_factory=dict)
    errors: dict[int, FbragError] = field(default_factory=dict)
    cached: bool = True
    settled: bool = True

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(f"left out: {self.errors[i].message}" for i in sorted(self.errors))


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of `collect`: its arguments, and its steps as methods."""

    files: tuple[FoundFile, ...]
    reading: Reading
    store: IndexStore
    stdin: BinaryIO | None
    listener: Listener

    # -- 1. a listing: which pool these files made, when they had these sizes and times ------------------------------------

    def unchanged(self) -> Collection | None:
        """Return the cached collection if all files are as they were; None otherwise."""
        if (found := self.store.load("listings", self._listing_key())) is None:
            return None
        listing, _ = found
        if (pool := load_pool(listing["pool"], listing["paths"], self.store)) is None:
            return None
        return Collection(*pool, tuple(listing["warnings"]), ("text", "index"))

    def _listing_key(self) -> str:
        try:
            folder = os.getcwd()
        except OSError:  # deleted in the meantime
            folder = ""
        return index_key(self.reading.key_parts(), folder, [(file.path, *file.signature) for file in self.files])

    def _list(self, members: Sequence[Member], warnings: Sequence[str]) -> None:
        """Cache the listing, if no file could change again within the resolution of its time."""
        newest = max(max(file.signature.mtime_ns, file.signature.ctime_ns) for file in self.files) / 1e9
        if newest < time.time() - _SETTLED_SECONDS:
            listing = {"pool": pool_key(members), "paths": [member.path for member in members], "warnings": warnings}
            self.store.save("listings", self._listing_key(), listing, {})

    # -- 2. digests --------------------------------------------------------------------------------------------------------

    def digest(self) -> _Digested:
        """Digest each file, so that its digest is cached."""
        digested = _Digested()
        for done, (i, outcome) in enumerate(self._outcomes(), 1):
            if isinstance(outcome, Failure):
                digested.errors[i] = _error(self.files[i].path, outcome, self.store)
                digested.settled &= outcome.error is not None and outcome.error.code in _LASTING
            else:
                digested.keys[i] = outcome.key
                digested.cached &= outcome.cached
            self.listener.progress(Event("read", "progress", done, len(self.files), "files"))
        return digested

    def _outcomes(self) -> Iterator[tuple[int, _Outcome | Failure]]:
        """Yield the position of each file with its outcome, the first done first."""
        jobs: dict[int, str | Source] = {i: file.path for i, file in enumerate(self.files)}
        for i in [i for i, path in jobs.items() if path == "-"]:
            try:
                jobs[i] = read_source("-", self.stdin)  # a child has no stdin
            except FbragError as error:  # noqa: PERF203  # stdin is named once
                del jobs[i]
                yield i, Failure("error", error.message, error)
        positions = list(jobs)
        for job, outcome in _digested(list(jobs.values()), self.reading, self.store, self.listener.cancellation):
            yield positions[job], outcome

    # -- 3. the pool -------------------------------------------------------------------------------------------------------

    def pool(self, digested: _Digested) -> Collection:
        """Return the collection of the digests. Their pool is made if it is not cached."""
        members = [Member(digested.keys[i], self.files[i].path) for i in sorted(digested.keys)]
        paths = [member.path for member in members]
        key = pool_key(members)
        found = load_pool(key, paths, self.store)
        cached = (("text",) if digested.cached else ()) + (("index",) if found else ())
        if found is None:
            self._make_pool(members)
            found = load_pool(key, paths, self.store)
        if found is None:
            raise FbragError("internal", "the index that was just written to the cache is not there", "ask again")
        if digested.settled:
            self._list(members, digested.warnings)
        return Collection(*found, digested.warnings, cached)

    def _make_pool(self, members: Sequence[Member]) -> None:
        def tell(done: int, total: int) -> None:
            self.listener.cancellation.raise_if_requested()
            self.listener.progress(Event("index", "progress", done // 2, total // 2, "files"))  # there are two rounds

        self.listener.progress(Event("index", "start"))
        try:
            make_pool(members, self.reading.chunk_words, self.store, tell)
        except OSError as error:
            what = f"the index of {len(members)} files cannot be written to the cache: {error.strerror or error}"
            raise FbragError("disk_full", what, _FULL_HINT) from error
        self.listener.progress(Event("index", "done"))


# -- in child processes -----------------------------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """The digest of a file. cached: whether it was cached before. data: the digest where it could not be cached, packed."""

    key: str
    cached: bool
    data: bytes | None = None


def _digested(
    jobs: Sequence[str | Source], reading: Reading, store: IndexStore, cancellation: Cancellation
) -> Iterator[tuple[int, _Outcome | Failure]]:
    """Digest files in child processes. Yield the position of each with its outcome, the first done first; `store` has it then."""
    outcomes = run_jobs(
        partial(_digest_job, reading, store.cache),
        jobs,
        seconds=FILE_SECONDS,
        memory=FILE_MEMORY,
        cancellation=cancellation,
    )
    for i, outcome in outcomes:
        if (
            not isinstance(outcome, Failure)
            and outcome.data is not None
            and not store.hold("documents", outcome.key, outcome.data)
        ):
            path = _path(jobs[i])
            what = f"the text of {path} cannot be written to the cache"
            yield i, Failure("error", what, FbragError("disk_full", what, _FULL_HINT, document=path))
        else:
            yield i, outcome


def _digest_job(reading: Reading, cache: Cache, job: str | Source) -> _Outcome:
    """Digest the file of this path, or that is at hand. Runs in a child process."""
    store = IndexStore(cache)
    source = read_source(job) if isinstance(job, str) else job
    key = digest_key(source, reading)
    if load_digest(key, source.path, store) is not None:
        return _Outcome(key, True)
    digest = make_digest(source, reading)
    return _Outcome(key, False, None if save_digest(key, digest, store) else packed_digest(key, digest))


def _error(path: str, failure: Failure, store: IndexStore) -> FbragError:
    """Return the error of one file. Raises FbragError `disk_full` where the disk is at fault: other files would fail too."""
    what = f"{path} cannot be read: {failure.reason}"
    hint = "leave it out, or convert it to plain text"
    error = failure.error or FbragError("doc_unreadable", what, hint, document=path)
    if failure.kind == "died" and store.is_full():
        error = FbragError("disk_full", f"{failure.reason}, and the disk of the cache is full", _FULL_HINT, document=path)
    if error.code == "disk_full":
        raise error
    return error


def _path(job: str | Source) -> str:
    return job if isinstance(job, str) else job.path
