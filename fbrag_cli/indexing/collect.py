"""Files and folders become a `Collection`: a corpus with its index. What was read before comes from the cache.

One file is digested here. Several files are digested in child processes, so that no file can hang or kill the run, and are then
pooled. A folder whose files have the same sizes and times as before is not even opened: its listing says which pool it made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.child import Failure
from fbrag_cli.indexing.digest import Reading, digest_file, load_digest
from fbrag_cli.indexing.pool import Member, load_pool, make_pool, pool_key, single
from fbrag_cli.indexing.store import IndexStore, index_key
from fbrag_cli.indexing.workers import run_jobs
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.storage.cache import Cache

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Document
    from fbrag_cli.indexing.walk import Found

#: The limits for one file of several. A file that needs more is left out.
FILE_SECONDS = 120
FILE_MEMORY = 4_000_000_000  # bytes of its own, without mapped files

_FULL_HINT = "free some disk space, or set FBRAG_CACHE_DIR to a folder on another disk"
# What a file itself is to blame for, so that it would come again.
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


def collect_one(path: str, reading: Reading, cache: Cache, stdin: BinaryIO | None, progress: Progress) -> Collection:
    """Return the collection of one file, or of `stdin` for "-". Raises FbragError as `documents.load` does."""
    digest, _, is_cached = digest_file(path, reading, IndexStore(cache), stdin, progress)
    corpus, retriever = single(digest, reading.chunk_words)
    return Collection(corpus, retriever, cached=("text", "index") if is_cached else ())


def collect(
    files: Sequence[Found],
    reading: Reading,
    cache: Cache,
    *,
    strict: bool = False,
    stdin: BinaryIO | None = None,
    progress: Progress = silent,
) -> Collection:
    """Return the collection of several files, in their order; "-" is `stdin`. A file that cannot be read is left out with a
    warning.

    progress: stages "read" and "index", in files. Raises FbragError: the first file's error if no file can be read, or, if
    `strict`, the error of the first file that cannot be; `disk_full` where the cache cannot be written.
    """
    run = _Run(tuple(files), reading, IndexStore(cache), stdin, progress)
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

    files: tuple[Found, ...]
    reading: Reading
    store: IndexStore
    stdin: BinaryIO | None
    progress: Progress

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
                digested.errors[i] = self._error(self.files[i].path, outcome)
                digested.settled &= outcome.error is not None and outcome.error.code in _LASTING
            else:
                digested.keys[i], is_cached = outcome
                digested.cached &= is_cached
            self.progress(Event("read", "progress", done, len(self.files), "files"))
        return digested

    def _error(self, path: str, failure: Failure) -> FbragError:
        """Return the error of one file. Raises FbragError `disk_full` where the disk is at fault: other files would fail too."""
        error = failure.about(path)
        if failure.kind == "died" and self.store.is_full():
            error = FbragError("disk_full", f"{failure.reason}, and the disk of the cache is full", _FULL_HINT, document=path)
        if error.code == "disk_full":
            raise error
        return error

    def _outcomes(self) -> Iterator[tuple[int, tuple[str, bool] | Failure]]:
        """Yield the position of each file with the result of `_digest_job` or a failure, the first done first."""
        positions = [i for i, file in enumerate(self.files) if file.path != "-"]
        for i in sorted({*range(len(self.files))} - {*positions}):
            yield i, self._digest_stdin()
        outcomes = run_jobs(
            partial(_digest_job, self.reading, self.store),
            [self.files[i].path for i in positions],
            processes=max(1, min(len(positions), os.cpu_count() or 1)),
            seconds=FILE_SECONDS,
            memory=FILE_MEMORY,
        )
        for job, outcome in outcomes:
            yield positions[job], outcome

    def _digest_stdin(self) -> tuple[str, bool] | Failure:
        """Digest stdin in this process: a child has none."""
        try:
            return _digest_job(self.reading, self.store, "-", self.stdin)
        except FbragError as error:
            return Failure("error", error.message, error)

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
            self.progress(Event("index", "progress", done // 2, total // 2, "files"))  # there are two rounds

        self.progress(Event("index", "start"))
        try:
            make_pool(members, self.reading.chunk_words, self.store, tell)
        except OSError as error:
            what = f"the index of {len(members)} files cannot be written to the cache: {error.strerror or error}"
            raise FbragError("disk_full", what, _FULL_HINT) from error
        self.progress(Event("index", "done"))


def _digest_job(reading: Reading, store: IndexStore, path: str, stdin: BinaryIO | None = None) -> tuple[str, bool]:
    """Return the key of a file's digest, which is cached now, and whether it was cached before. Runs in a child process."""
    _, key, is_cached = digest_file(path, reading, store, stdin)
    if not is_cached and load_digest(key, path, store) is None:
        raise FbragError("disk_full", f"the text of {path} cannot be written to the cache", _FULL_HINT, document=path)
    return key, is_cached
