"""Files become a corpus and its index. What was read once is not read again: text, chunks and index come from the cache.

One file is digested here. Several are digested in child processes, which none of them can hang or kill, and pooled. A folder
whose files have the sizes and times that they had is not even opened: its listing says which pool it was.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fbrag_cli import __version__
from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.digest import Digest, Reading, digest_file, stored
from fbrag_cli.indexing.pool import of_one, pool, pool_key, stored_pool
from fbrag_cli.indexing.workers import Failure, run_jobs
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.storage.cache import Cache

if TYPE_CHECKING:
    from fbrag_cli.indexing.files import Found

#: What one file of several may take before it is left out.
FILE_SECONDS = 120
FILE_MEMORY = 4_000_000_000  # bytes of its own, mapped files apart

_LISTINGS = "listings"
_OF_THE_FILE = ("doc_unreadable", "doc_empty", "pdf_encrypted", "pdf_bad_password", "pdf_no_text")  # not of what is installed
_SETTLED_SECONDS = 2  # a file changed more lately could change again without its size and time telling


@dataclass(frozen=True, slots=True)
class Collection:
    """warnings: a line for each file that was left out. cached: of "text" and "index", what came from the cache."""

    corpus: Corpus
    retriever: BM25
    warnings: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    seconds: float = 0.0


def collect_one(path: str, reading: Reading, cache: Cache, stdin: BinaryIO | None, progress: Progress) -> Collection:
    """The collection of one file, or of `stdin` for "-". Raises FbragError as `documents.load` does."""
    digest, _, cached = digest_file(path, reading, cache, stdin, progress)
    corpus, retriever = of_one(digest, reading.chunk_words)
    return Collection(corpus, retriever, cached=("text", "index") if cached else ())


def collect(
    files: Sequence[Found],
    reading: Reading,
    cache: Cache,
    *,
    strict: bool = False,
    stdin: BinaryIO | None = None,
    progress: Progress = silent,
) -> Collection:
    """The collection of several files, in their order, "-" being `stdin`. One that cannot be read is left out with a warning.

    progress: hears of stage "read" and then "index", in files. Raises FbragError: the first file's if none can be read, or,
    `strict`, of the first that cannot; `disk_full` where the cache cannot be written.
    """
    # 1. Nothing has changed: nothing is read.
    signature = _signature(files, reading)
    listed = _listed(signature, cache)
    if listed and not (strict and listed.warnings) and (found := stored_pool(listed.pool, listed.paths, cache)):
        return Collection(*found, listed.warnings, ("text", "index"))

    # 2. Each file is digested, unless its content is known.
    done = _digest_all(files, reading, cache, stdin, progress)
    if done.errors and (strict or not done.keys):
        raise done.errors[min(done.errors)]
    order = sorted(done.keys)
    paths = [files[i].path for i in order]
    keys = [done.keys[i] for i in order]

    # 3. The digests are pooled, unless this pool is known.
    key = pool_key(keys, paths)
    warnings = tuple(f"left out: {done.errors[i].message}" for i in sorted(done.errors))
    known = stored_pool(key, paths, cache)
    try:
        if known is None:
            _pool(key, paths, keys, reading, cache, progress)
        if done.settled:
            _list(signature, _Listing(key, tuple(paths), warnings), files, cache)
    except OSError as error:
        what = f"the index of {len(paths)} files cannot be written to the cache: {error.strerror or error}"
        raise FbragError("disk_full", what, "free some room, or set FBRAG_CACHE_DIR to a folder on another disk") from error
    if (found := known or stored_pool(key, paths, cache)) is None:
        raise FbragError("internal", "the index that was just written to the cache is not there", "ask again")
    return Collection(*found, warnings, (("text",) if done.cached else ()) + (("index",) if known else ()))


@dataclass(slots=True)
class _Digested:
    """By position of the file: the key of its digest, or the error why it has none. cached: whether all digests were there.

    settled: whether each error is the file's own, so that it would come again; a lack of time or memory might not.
    """

    keys: dict[int, str] = field(default_factory=dict)
    errors: dict[int, FbragError] = field(default_factory=dict)
    cached: bool = True
    settled: bool = True


def _digest_all(files: Sequence[Found], reading: Reading, cache: Cache, stdin: BinaryIO | None, progress: Progress) -> _Digested:
    digested = _Digested()
    for done, (i, outcome) in enumerate(_outcomes(files, reading, cache, stdin), 1):
        if isinstance(outcome, Failure):
            digested.errors[i] = outcome.about(files[i].path)
            digested.settled &= outcome.error is not None and outcome.error.code in _OF_THE_FILE
        else:
            digested.keys[i], cached = outcome
            digested.cached &= cached
        progress(Event("read", "progress", done, len(files), "files"))
    return digested


def _outcomes(
    files: Sequence[Found], reading: Reading, cache: Cache, stdin: BinaryIO | None
) -> Iterator[tuple[int, tuple[str, bool] | Failure]]:
    """What `_digest_job` gives for each file, or why it has no digest, as they come."""
    places = []
    for i, file in enumerate(files):
        if file.path != "-":
            places.append(i)
            continue
        try:
            yield i, _digest_job(reading, cache, "-", stdin)
        except FbragError as error:
            yield i, Failure("error", error.message, error)
    outcomes = run_jobs(
        partial(_digest_job, reading, cache),
        [files[i].path for i in places],
        processes=max(1, min(len(places), os.cpu_count() or 1)),
        seconds=FILE_SECONDS,
        memory=FILE_MEMORY,
    )
    for job, outcome in outcomes:
        yield places[job], outcome


def _digest_job(reading: Reading, cache: Cache, path: str, stdin: BinaryIO | None = None) -> tuple[str, bool]:
    """The key of the digest, which is in the cache now, and whether it was there before. In a child, but for stdin."""
    _, key, cached = digest_file(path, reading, cache, stdin)
    if not cached and stored(key, path, cache) is None:
        hint = "free some room, or set FBRAG_CACHE_DIR to a folder on another disk"
        raise FbragError("disk_full", f"the text of {path} cannot be written to the cache", hint, document=path)
    return key, cached


def _pool(key: str, paths: Sequence[str], keys: Sequence[str], reading: Reading, cache: Cache, progress: Progress) -> None:

    def tell(done: int, total: int) -> None:
        progress(Event("index", "progress", done // 2, total // 2, "files"))  # each is gone through twice

    progress(Event("index", "start"))
    pool(key, keys, lambda i: _stored(keys[i], paths[i], cache), reading.chunk_words, cache, tell)
    progress(Event("index", "done"))


def _stored(key: str, path: str, cache: Cache) -> Digest:
    if (digest := stored(key, path, cache)) is None:
        what = f"the text of {path} is no longer in the cache"
        raise FbragError("doc_unreadable", what, "the cache is too small or was cleared: ask again", document=path)
    return digest


# -- listings ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listing:
    """Which pool the files of a folder were, under which paths, and the warning of each that was left out."""

    pool: str
    paths: tuple[str, ...]
    warnings: tuple[str, ...]


def _signature(files: Sequence[Found], reading: Reading) -> str:
    """The cache's key of a listing: how the files are read, and what the file system says of each."""
    told = [__version__, astuple(replace(reading, password=None)), os.getcwd()]
    told += [(file.path, *file.signature) for file in files]
    return sha256(json.dumps(told).encode("utf-8", "surrogatepass")).hexdigest()


def _listed(signature: str, cache: Cache) -> _Listing | None:
    if (entry := cache.path(_LISTINGS, signature)) is None:
        return None
    try:
        told = json.loads(entry.read_text("utf-8", "surrogatepass"))
        cache.touch(_LISTINGS, [signature])
        return _Listing(told["pool"], tuple(told["paths"]), tuple(told["warnings"]))
    except (OSError, ValueError, KeyError):
        cache.discard(_LISTINGS, signature)
        return None


def _list(signature: str, listing: _Listing, files: Sequence[Found], cache: Cache) -> None:
    newest = max(max(file.signature.mtime_ns, file.signature.ctime_ns) for file in files) / 1e9
    if newest < time.time() - _SETTLED_SECONDS and cache.path(_LISTINGS, signature) is None:
        told = {"pool": listing.pool, "paths": listing.paths, "warnings": listing.warnings}
        with cache.new(_LISTINGS, signature) as entry:
            Path(entry).write_text(json.dumps(told), "utf-8", "surrogatepass")
