"""Files and folders become a `Collection`: a corpus with its index. What was read before comes from the cache.

Each file becomes an entry in a child process, so that no file can hang or kill the run; the entries of several files become a
folder index. A file alone is read here if it is a short text, or a PDF, whose reader starts a child process for its pages. A
folder whose files have the same sizes and times as before is not even opened: its listing names its folder index.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.formats import PDF, PICTURES, find_format
from fbrag_cli.documents.load import INCLUDING, included_files
from fbrag_cli.documents.ocr.scans import ScannedPages, Scans, ScansWantedError, read_scans
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.entry import (
    IndexedFile,
    ReadSettings,
    file_key,
    load_content,
    load_entry,
    make_entry,
    parts_of,
    save_entry,
)
from fbrag_cli.indexing.folder_index import FolderFile, folder_index_key, index_of, load_folder_index, make_folder_index
from fbrag_cli.indexing.store import Held, IndexStore, index_key
from fbrag_cli.limits import memory_of_a_child
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import Collection
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.storage.cache import NOWHERE, Cache
from fbrag_cli.workers import Failure, run_jobs

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Content, Document
    from fbrag_cli.indexing.walk import FoundFile

#: The limit for a file. Of several files, one that needs more is left out.
FILE_SECONDS = 120

#: Bytes of a text, and of an HTML page or a mail, that is read in a child process when it is the only file. Shorter ones take
#: about a second at most: the time of the HTML parser grows with the square of the number of unmatched end tags.
LONG_TEXT = 2_000_000
LONG_MARKUP = 100_000

_FULL_HINT = "free some disk space, or set FBRAG_CACHE_DIR to a folder on another disk"
# Errors of the file itself: reading it again would give the same one.
_LASTING = ("doc_unreadable", "doc_empty", "pdf_encrypted", "pdf_bad_password", "pdf_no_text", "unsupported_format")
_SMALL = 1 << 16  # bytes: with less the disk of the cache is full
_SETTLED_SECONDS = 2  # a file changed more recently could change again and keep its size and time


def collect_text(document: Document, chunk_words: int = 300) -> Collection:
    """Return the collection of a document in memory. Nothing is read from the cache or written to it."""
    corpus = build_corpus([document], chunk_words)
    return Collection(corpus, BM25.of(corpus))


def collect_one(path: str, settings: ReadSettings, cache: Cache, stdin: BinaryIO | None, listener: Listener) -> Collection:
    """Return the collection of one file, or of `stdin` for "-".

    Raises FbragError as `documents.load` does, doc_unreadable for a file beyond the limits, and the error of a cancellation.
    """
    store = IndexStore(cache)
    source = read_source(path, stdin)
    if (entry := _cached(file_key(source, settings), path, settings, store)) is not None:
        return Collection(*index_of(entry, settings.chunk_words), cached=("text", "index"))
    return Collection(*index_of(_entry(source, path != "-", settings, store, listener), settings.chunk_words))


def collect_bytes(name: str, data: bytes, settings: ReadSettings, listener: Listener) -> Collection:
    """Return the collection of a file that is in memory alone. It is in no cache, and no file of its name is opened.

    name: as shown; its suffix counts. Raises as `collect_one`.
    """
    source = Source(name, name, data)
    entry = _entry(source, False, settings, IndexStore(NOWHERE), listener)
    return Collection(*index_of(entry, settings.chunk_words))


def _entry(source: Source, on_disk: bool, settings: ReadSettings, store: IndexStore, listener: Listener) -> IndexedFile:
    """Read a file, so that the store has its entry. on_disk: whether its path names it."""
    path, detected = source.path, find_format(source)
    format_ = detected[0]
    limit = LONG_MARKUP if format_.media_type in ("text/html", "message/rfc822", "application/mbox") else LONG_TEXT
    # Packed formats and markup may hold more than their size shows.
    if format_ not in (PDF, *PICTURES) and (not format_.textual or len(source.data) > limit):
        ((_, outcome),) = _read_files([path if on_disk else source], settings, store, listener, must_cache=False)
        if isinstance(outcome, Failure):
            raise _error(path, outcome, store)
        return FolderFile(outcome.key, path).load(store)

    def scans(source: Source, numbers: Sequence[int]) -> ScannedPages:
        (found,) = _read_scans([Scans(source, numbers)], settings, store, listener)
        return found

    made = make_entry(source, settings, scans, listener, detected)
    save_entry(file_key(source, settings), made, store)
    return made


def collect(
    files: Sequence[FoundFile],
    settings: ReadSettings,
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
    run = _Run(tuple(files), settings, IndexStore(cache), stdin, listener or Listener())
    # 1. If nothing has changed, nothing is read.
    unchanged = None if settings.refresh else run.unchanged()
    if unchanged and not (strict and unchanged.warnings):
        return unchanged
    # 2. Each file becomes an entry, unless its entry is cached.
    entries = run.read()
    if entries.errors and (strict or not entries.keys):
        raise entries.errors[min(entries.errors)]
    # 3. The entries become a folder index, unless it is cached.
    return run.index(entries)


@dataclass(slots=True)
class _Entries:
    """The key of each file's entry, or its error, by the file's position. cached: whether all entries were cached.

    settled: whether each error is due to the file itself, so that it would come again; a lack of time or memory might not. Nor
    is a file settled whose text such a limit cut.
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
    settings: ReadSettings
    store: IndexStore
    stdin: BinaryIO | None
    listener: Listener

    # -- 1. a listing: which folder index these files made, when they had these sizes and times ----------------------------

    def unchanged(self) -> Collection | None:
        """Return the cached collection if all files are as they were; None otherwise."""
        if (about := self.store.restore("listings", self._listing_key(), lambda about, _: about)) is None:
            return None
        if (index := load_folder_index(about["index"], about["paths"], self.store, self._content_of)) is None:
            return None
        return Collection(*index, tuple(about["warnings"]), ("text", "index"))

    @property
    def _content_of(self) -> Callable[[str, str], Content]:
        return lru_cache(maxsize=16)(partial(_content, self.settings, self.store))

    def _listing_key(self) -> str:
        try:
            folder = os.getcwd()
        except OSError:  # deleted in the meantime
            folder = ""
        return index_key(self.settings.key_parts(), folder, [(file.path, *file.signature) for file in self.files])

    # -- 2. entries --------------------------------------------------------------------------------------------------------

    def read(self) -> _Entries:
        """Read each file, so that it has an entry."""
        within, all_known = self._within_others()
        entries = _Entries(settled=all_known)
        for done, (i, outcome) in enumerate(self._outcomes(within), 1):
            if isinstance(outcome, Failure):
                entries.errors[i] = _error(self.files[i].path, outcome, self.store)
                entries.settled &= outcome.error is not None and outcome.error.code in _LASTING
            else:
                entries.keys[i] = outcome.key
                entries.cached &= outcome.cached
                entries.settled &= not outcome.cut
            self.listener.progress(Event("read", "progress", done, len(self.files) - len(within), "files"))
        return entries

    def _within_others(self) -> tuple[set[int], bool]:
        """Return the positions of the files that others of these include, and are read with these; and whether all files that
        any includes are among these."""
        places = {os.path.realpath(file.path): i for i, file in enumerate(self.files) if file.path != "-"}
        included: dict[str, set[str]] = {}
        for path in places:
            with suppress(FbragError):
                if path.lower().endswith(INCLUDING):
                    included[path] = {each.path for each in included_files(read_source(path))}
        every = set[str]().union(*included.values())
        within = {part for path, parts in included.items() for part in parts if path not in included.get(part, ())}
        return {places[each] for each in within & places.keys()}, every <= places.keys()

    def _outcomes(self, within: set[int]) -> Iterator[tuple[int, _Outcome | Failure]]:
        """Yield the position of each file with its outcome, the first done first. within: positions that are no files of their
        own."""
        jobs: dict[int, str | Source] = {i: file.path for i, file in enumerate(self.files) if i not in within}
        for i in [i for i, path in jobs.items() if path == "-"]:
            try:
                jobs[i] = read_source("-", self.stdin)  # a child has no stdin
            except FbragError as error:  # stdin is named once
                del jobs[i]
                yield i, Failure("error", error.message, error)
        positions = list(jobs)
        waiting, must_cache = list(jobs.values()), self.store.cache != NOWHERE
        for job, outcome in _read_files(waiting, self.settings, self.store, self.listener, must_cache=must_cache):
            yield positions[job], outcome

    # -- 3. the folder index -----------------------------------------------------------------------------------------------

    def index(self, entries: _Entries) -> Collection:
        """Return the collection of the entries. Their folder index is made if it is not cached."""
        members = [FolderFile(entries.keys[i], self.files[i].path) for i in sorted(entries.keys)]
        paths = [member.path for member in members]
        key = folder_index_key(members)
        folder_index = None if self.settings.refresh else load_folder_index(key, paths, self.store, self._content_of)
        cached = (("text",) if entries.cached else ()) + (("index",) if folder_index else ())
        if folder_index is None:
            self._make_index(members)
            folder_index = load_folder_index(key, paths, self.store, self._content_of)
        if folder_index is None:
            raise FbragError("internal", "the index that was just written to the cache is not there", "ask again")
        newest = max(max(file.signature.mtime_ns, file.signature.ctime_ns) for file in self.files) / 1e9
        if entries.settled and newest < time.time() - _SETTLED_SECONDS:
            listing = {"index": key, "paths": paths, "warnings": entries.warnings}
            self.store.save("listings", self._listing_key(), listing, {})
        return Collection(*folder_index, entries.warnings, cached)

    def _make_index(self, members: Sequence[FolderFile]) -> None:
        def report(done: int, total: int) -> None:
            self.listener.cancellation.raise_if_requested()
            self.listener.progress(Event("index", "progress", done // 2, total // 2, "files"))  # there are two rounds

        self.listener.progress(Event("index", "start"))
        try:
            make_folder_index(members, self.settings.chunk_words, self.store, report)
        except OSError as error:
            what = f"the index of {len(members)} files cannot be written to the cache: {error.strerror or error}"
            raise FbragError("disk_full", what, _FULL_HINT) from error
        self.listener.progress(Event("index", "done"))


# -- in child processes -----------------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """A file to read. file: its path, or the file itself. scans: its pages that OCR has read; None if none were wanted so far."""

    file: str | Source
    scans: ScannedPages | None = None


class _Outcome(NamedTuple):
    """The entry of a file was made. cached: whether it was there before. held: the entry, if it is not in the cache. cut: as of
    its document. wanted: numbers of the pages that OCR has to read before there is an entry."""

    key: str
    cached: bool
    held: Held | None = None
    cut: bool = False
    wanted: tuple[int, ...] = ()


def _read_files(
    files: Sequence[str | Source], settings: ReadSettings, store: IndexStore, listener: Listener, *, must_cache: bool
) -> Iterator[tuple[int, _Outcome | Failure]]:
    """Entry files in child processes. Yield the position of each with its outcome, the first done first; `store` has it then.

    The scanned pages of all files are read after the other pages, in one pool. must_cache: whether an entry that cannot be cached
    is an error: those of many files could fill the memory.
    """
    wanted: dict[int, Scans] = {}
    for i, outcome in _outcomes([_Job(file) for file in files], settings, store, listener, must_cache=must_cache):
        if isinstance(outcome, _Outcome) and outcome.wanted:
            wanted[i] = Scans(files[i], outcome.wanted)
        else:
            yield i, outcome
    if wanted:
        found = _read_scans([*wanted.values()], settings, store, listener)
        jobs = [_Job(scans.file, pages) for scans, pages in zip(wanted.values(), found, strict=True)]
        positions = [*wanted]
        for i, outcome in _outcomes(jobs, settings, store, listener, must_cache=must_cache):
            yield positions[i], outcome


def _read_scans(scans: Sequence[Scans], settings: ReadSettings, store: IndexStore, listener: Listener) -> list[ScannedPages]:
    return read_scans(scans, store.cache, settings.password, listener, refresh=settings.refresh)


def _outcomes(
    jobs: Sequence[_Job], settings: ReadSettings, store: IndexStore, listener: Listener, *, must_cache: bool
) -> Iterator[tuple[int, _Outcome | Failure]]:
    outcomes = run_jobs(
        partial(_read_file, settings, store.cache),
        jobs,
        seconds=FILE_SECONDS,
        memory=memory_of_a_child(),
        cancellation=listener.cancellation,
    )
    for i, outcome in outcomes:
        if isinstance(outcome, Failure) and outcome.kind != "error":
            outcome = _read_by_pages(jobs[i], outcome, settings, store, listener.cancellation)
        if not isinstance(outcome, Failure) and outcome.held is not None:
            store.memory["documents", outcome.key] = outcome.held
            if must_cache and not outcome.cut:
                file = jobs[i].file
                path = file if isinstance(file, str) else file.path
                what = f"the text of {path} cannot be written to the cache"
                outcome = Failure("error", what, FbragError("disk_full", what, _FULL_HINT, document=path))
        yield i, outcome


def _read_by_pages(
    job: _Job, failure: Failure, settings: ReadSettings, store: IndexStore, cancellation: Cancellation
) -> _Outcome | Failure:
    """Read a PDF that has ended the child of its file here, where each page that ends a child costs only itself.

    Return the failure for a file of another format.
    """
    try:
        source = read_source(job.file) if isinstance(job.file, str) else job.file
        if find_format(source)[0] is not PDF:
            return failure
        return _read_file(settings, store.cache, job._replace(file=source), Listener(cancellation=cancellation))
    except FbragError as error:
        cancellation.raise_if_requested()
        return Failure("error", error.message, error)


def _read_file(settings: ReadSettings, cache: Cache, job: _Job, listener: Listener | None = None) -> _Outcome:
    """Make the entry of a file. Runs in a child process, but for `_read_by_pages`."""
    store = IndexStore(cache)
    source = read_source(job.file) if isinstance(job.file, str) else job.file
    key = file_key(source, settings)
    if job.scans is None and _cached(key, source.path, settings, store) is not None:
        return _Outcome(key, True)
    try:
        entry = make_entry(source, settings, partial(_scans_of, job), listener)
    except ScansWantedError as error:
        return _Outcome(key, False, wanted=error.pages)
    if entry.document.cut:  # another key, for the folder index of the complete entry may be cached
        return _Outcome(index_key(key, entry.document.text_sha256), False, parts_of(entry), True)
    return _Outcome(key, False, None if save_entry(key, entry, store) else parts_of(entry))


def _scans_of(job: _Job, source: Source, numbers: Sequence[int]) -> ScannedPages:
    if job.scans is None:
        raise ScansWantedError(tuple(numbers))
    return job.scans


def _cached(key: str, path: str, settings: ReadSettings, store: IndexStore) -> IndexedFile | None:
    """Return the entry of the file `path` from the cache; None if it is not there, or is to be made again."""
    if settings.refresh:
        store.cache.discard("documents", key)
    return load_entry(key, path, store)


def _content(settings: ReadSettings, store: IndexStore, key: str, path: str) -> Content:
    """Return the content of the entry of the file `path`. One that was damaged or removed is made again.

    Raises FbragError doc_unreadable where the file is no longer as it was either, and if it cannot be read.
    """
    content = load_content(key, store)
    if content is None and path != "-":
        for _, outcome in _read_files([path], settings, store, Listener(), must_cache=True):
            if isinstance(outcome, Failure):
                raise _error(path, outcome, store)
        content = load_content(key, store)
    if content is None:
        what = f"{path} has changed, and its text is no longer in the cache"
        raise FbragError("doc_unreadable", what, "ask again: it will be read again", document=path)
    return content


def _error(path: str, failure: Failure, store: IndexStore) -> FbragError:
    """Return the error of one file. Raises FbragError `disk_full` where the disk is at fault: other files would fail too."""
    message = f"{path} cannot be read: {failure.reason}"
    error = failure.error or FbragError("doc_unreadable", message, "leave it out, or convert it to plain text", document=path)
    if failure.kind != "error":  # of the process, which knows no path
        error = FbragError(error.code, message, error.hint, document=path)
    free = _SMALL
    with suppress(OSError):
        free = shutil.disk_usage(store.cache.root).free
    if failure.kind == "died" and free < _SMALL:
        error = FbragError("disk_full", f"{failure.reason}, and the disk of the cache is full", _FULL_HINT, document=path)
    if error.code == "disk_full":
        raise error
    return error
