"""`Library`: the documents that clients may ask about, by short ids. Each is read once, as long as its files are unchanged."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.originals import Originals
from fbrag_cli.documents.source import Source, stat_file
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Listener, Stopwatch
from fbrag_cli.render.passages import has_pictures
from fbrag_cli.serving.door import MOST_PATHS, Door
from fbrag_cli.session.pool import Lease, Pool
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import DocumentSettings
from fbrag_cli.storage.files import is_same_name
from fbrag_cli.text.printable import one_line, plural
from fbrag_cli.text.suggest import suggestion

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Document
    from fbrag_cli.query import Collection

#: Limits of uploads: bytes of one, characters of the texts of all, and their number. The least recently used one goes first.
MOST_BYTES = 100_000_000
MOST_CHARACTERS_KEPT = 400_000_000
MOST_UPLOADS = 32
MOST_BYTES_KEPT = 500_000_000  # of those whose pages can be shown

_MOST_READ = 8  # collections that are kept
_MOST_OF_A_NAME = 200  # characters
_NAMED = 5  # documents that a hint names
_HINT = "upload it, or start fbrag with --allow FOLDER to let it be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """A document or a folder that clients may name.

    id: short; of the same path always the same. name: as shown, unique among those of a server. paths: of files and folders;
    none of an upload. document: an upload, as it was read. markup: whether comments, tracked deletions and struck-out text of
    files are read too.
    """

    id: str
    name: str
    kind: Literal["document", "folder", "upload"]
    paths: tuple[str, ...] = ()
    document: Document | None = field(default=None, compare=False, repr=False)
    markup: bool = False


class Library:
    """The documents that a server was started with, what lies behind its door, and what was uploaded. For several threads.

    documents: paths of files and folders, which are served and shown; files of the folders may be named. door: lets other paths
    through. settings: how files are read. password: opens PDFs that are encrypted. Raises FbragError `usage` for stdin, and as
    `stat_file` for a path that cannot be read.
    """

    def __init__(
        self,
        session: Session,
        documents: Sequence[str] = (),
        door: Door | None = None,
        settings: DocumentSettings | None = None,
        *,
        password: str | None = None,
    ) -> None:
        self._session, self._settings, self._password = session, settings or DocumentSettings(), password
        self._served = _named([_entry(each) for each in documents])
        named = (Path(each).resolve() for each in documents)
        self._door = Door((*(door.roots if door else ()), *named), door.names if door else {})
        self._uploads: OrderedDict[str, LibraryEntry] = OrderedDict()  # the least recently used first
        self._bytes: dict[str, bytes] = {}  # of the uploads whose pages can be shown, the first one first
        self._lock = threading.Lock()  # of the uploads
        self._read: Pool[str, Collection] = Pool(most=_MOST_READ)

    def entries(self) -> list[LibraryEntry]:
        """Return what is served, in the order in which it was named, then what was uploaded, the oldest first."""
        with self._lock:
            return [*self._served.values(), *self._uploads.values()]

    def find(self, names: Sequence[str] = (), *, markup: bool = False) -> tuple[LibraryEntry, ...]:
        """Return the entries of ids, of names as shown, or of paths that the door lets through; all that is served without any.
        A file of a folder is named as `files` names it, too, and a named folder as @NAME.

        markup: as of `LibraryEntry`; if it is not asked for, the settings of the server decide. Raises FbragError
        `doc_not_found` for another name, as `Door.path` for another path, and `usage` for more than 1,000, or for none if
        nothing is served.
        """
        if not names and not self._served:
            raise FbragError("usage", "documents: none is named, and none is served", "name a document")
        if len(names) > MOST_PATHS:
            raise FbragError("usage", f"documents: {plural(len(names), 'name')}", f"name {MOST_PATHS:,} at most")
        known = {f"@{name}": paths for name, paths in self._door.names.items()}
        documents = [self._find(path) for each in names for path in known.get(each, [each])] or [*self._served.values()]
        markup = markup or self._settings.markup
        return tuple({each.id: replace(each, markup=markup) for each in documents}.values())

    def collection(self, names: Sequence[str], listener: Listener, chunk_words: int = 300) -> Collection:
        """Return the collection of documents. names: as of `find`. Raises as that does, and as `Session.collect`."""
        return self.read(self.find(names), listener, chunk_words)

    def read(self, entries: Sequence[LibraryEntry], listener: Listener, chunk_words: int = 300) -> Collection:
        """Return the collection of entries. Raises as `Session.collect`."""
        with Lease(listener) as lease:
            return self._collected(entries, chunk_words, lease)

    def source(
        self, name: str, place: Mapping[str, int], most: int, listener: Listener, *, markup: bool = False
    ) -> dict[str, Any]:
        """Return the text of a place in one document, cut at `most` characters, and if it is.

        name, markup: as of `find`, or the `document` of a source. place: start_line and end_line, from 1, or start_char and
        end_char; the document's first or last without one. Raises as `collection`, and FbragError `usage` for a folder, and for a
        place that the document does not have.
        """
        from fbrag_cli.corpus import Passage
        from fbrag_cli.documents.lines import line_index
        from fbrag_cli.render.as_json import place_of

        (entry,) = self.find([name], markup=markup)
        if entry.kind == "folder":
            raise FbragError("usage", f"{one_line(entry.name)} is a folder", "name a file of it")
        document = self.read([entry], listener).corpus.documents[0]
        lines, size = line_index(document), document.n_chars
        unit, least, greatest = ("char", 0, size) if "start_char" in place or "end_char" in place else ("line", 1, len(lines))
        first, last = place.get(f"start_{unit}", least), place.get(f"end_{unit}", greatest)
        if not least <= first <= min(last, greatest):
            fault = "the last comes before the first" if first > last else f"{one_line(document.name)} has {greatest}"
            raise FbragError("usage", f"{unit}s {first} to {last}: {fault}", f"name {unit}s from {least} to {greatest}")
        last = min(last, greatest)
        start, end = (first, last) if unit == "char" else (lines.span(first)[0], lines.span(last)[1])
        cut = min(end, start + most)
        at = min(start, size - 1)  # a place without text is at a character, too
        shown = place_of(Passage(0, document, at, max(at + 1, cut))) | {"start_char": start, "end_char": cut}
        del shown["chunk"]
        return shown | {"lines": len(lines), "chars": size, "text": document.text[start:cut], "truncated": cut < end}

    def is_private(self, entries: Sequence[LibraryEntry]) -> bool:
        """Return whether nothing that was made of these documents may be written to the disk."""
        return any(each.kind == "upload" for each in entries)

    def files(self, entry: LibraryEntry) -> list[str]:
        """Return the names of the files of a folder, which begin with its own. Raises as `find_files`."""
        from fbrag_cli.indexing.walk import find_files

        (folder,), settings = entry.paths, self._settings
        below = (os.path.relpath(each.path, folder) for each in find_files([folder], *settings.chosen).files)
        return ["/".join([entry.name, *Path(each).parts]) for each in below]

    def upload(self, name: str, content: bytes, listener: Listener | None = None) -> LibraryEntry:
        """Read a file that a client sends, and return its entry. It is in memory alone, until others take its place.

        name: its suffix counts; no file of that name is opened. listener: can stop the reading. Raises FbragError as
        `Session.collect`.
        """
        shown = _as_name(name)
        id = _id("upload", shown, sha256(content).hexdigest())
        if (found := self._used(id)) is not None:
            self._keep_bytes(found, content)
            return found
        (document,) = self._session.collect_bytes(shown, content, self._settings, listener=listener).corpus.documents
        with self._lock:
            taken = {each.name for each in (*self._served.values(), *self._uploads.values())}
            free = next(each for n in count(1) if (each := f"{shown} ({n})" if n > 1 else shown) not in taken)
            entry = LibraryEntry(id=id, name=free, kind="upload", document=document)
            self._uploads[id] = entry
            while len(self._uploads) > 1 and (len(self._uploads) > MOST_UPLOADS or self._n_chars > MOST_CHARACTERS_KEPT):
                self._bytes.pop(self._uploads.popitem(last=False)[0], None)
        self._keep_bytes(entry, content)
        return entry

    def remove(self, name: str) -> None:
        """Let go of an upload. name: as of `find`. Raises as that does, and FbragError `usage` for what is served."""
        (entry,) = self.find([name])
        if entry.kind != "upload":
            raise FbragError("usage", f"{one_line(entry.name)} is not an upload", "leave it out of the documents that you ask")
        with self._lock:
            self._uploads.pop(entry.id, None)
            self._bytes.pop(entry.id, None)

    def evict_idle(self, seconds: float) -> None:
        """Let go of the collections that nobody has used for this many seconds. Uploads stay."""
        self._read.evict_idle(seconds)

    # -- names -----------------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> LibraryEntry:
        if name in self._served:
            return self._served[name]
        if (upload := self._used(name)) is not None:
            return upload
        entries = self.entries()
        for entry in entries:
            if is_same_name(entry.name, name):
                return self._used(entry.id) or entry
        for entry in entries:
            if entry.kind == "folder" and name.startswith(f"{entry.name}/"):
                path = os.path.join(entry.paths[0], name.removeprefix(f"{entry.name}/"))
                if os.path.exists(path):
                    return replace(_entry(self._door.path(path)), name=name)
        try:
            return _entry(self._door.path(name))
        except FbragError as error:
            if error.code != "doc_not_found" or os.path.dirname(name):
                raise
            names = [each.name for each in entries]
            hint = suggestion(name, names, f"there are {', '.join(names[:_NAMED])}" if names else _HINT)
            what = f"there is no document {one_line(name, _MOST_OF_A_NAME)}"
            raise FbragError("doc_not_found", what, hint, document=name) from None

    # -- reading ---------------------------------------------------------------------------------------------------------

    def _collected(self, entries: Sequence[LibraryEntry], chunk_words: int, lease: Lease) -> Collection:
        watch, read = Stopwatch(), False

        def make() -> Collection:
            nonlocal read
            read = True
            if uploads:
                return self._joined(entries, chunk_words, lease)
            return self._session.collect(paths, settings, chunk_words, password=self._password, listener=lease.listener)

        uploads = [each.id for each in entries if each.kind == "upload"]
        paths = [path for each in entries for path in each.paths]
        settings = replace(self._settings, markup=any(each.markup for each in entries))
        lease.listener.progress(Event("read", "start"))
        key = self._key(paths, uploads, chunk_words, settings, lease.listener.cancellation)
        collection = self._read.get(key, lambda _: make(), lease)
        return collection if read else replace(collection, seconds=watch.seconds, cached=("text", "index"))

    def _key(
        self,
        paths: Sequence[str],
        uploads: Sequence[str],
        chunk_words: int,
        settings: DocumentSettings,
        cancellation: Cancellation,
    ) -> str:
        """Return what a collection depends on: its files with their sizes and times."""
        from fbrag_cli.indexing.walk import find_files

        files = find_files(paths, *settings.chosen, cancellation).files
        return _id(repr((paths, [(each.path, each.signature) for each in files], uploads, chunk_words, settings.markup)))

    def _joined(self, entries: Sequence[LibraryEntry], chunk_words: int, lease: Lease) -> Collection:
        """Return the collection of uploads, and of files next to them."""
        from fbrag_cli.corpus import build_corpus
        from fbrag_cli.query import Collection
        from fbrag_cli.retrieval.bm25 import BM25

        documents: list[Document] = []
        warnings: list[str] = []
        for entry in entries:
            if entry.document:
                documents.append(entry.document)
            else:
                others = self._collected([entry], chunk_words, lease)
                documents += others.corpus.documents
                warnings += others.warnings
        corpus = build_corpus(documents, chunk_words)
        originals = Originals(self._password, self._session.scanned_lines, partial(self._uploaded, tuple(entries)))
        return Collection(corpus, BM25.of(corpus), tuple(warnings), originals=originals)

    def _keep_bytes(self, entry: LibraryEntry, content: bytes) -> None:
        """Keep the bytes of an upload whose pages can be shown, as long as all such bytes are within the limit."""
        with self._lock:
            if entry.document and has_pictures(entry.document) and entry.id in self._uploads:
                self._bytes[entry.id] = content
            while sum(map(len, self._bytes.values())) > MOST_BYTES_KEPT:
                del self._bytes[next(iter(self._bytes))]

    def _uploaded(self, entries: Sequence[LibraryEntry], document: Document) -> Source | None:
        """Return the bytes of an upload among these entries; None for another document. Raises FbragError doc_not_found if it was
        let go."""
        for entry in entries:
            if entry.document and entry.document.sha256 == document.sha256:
                with self._lock:
                    content = self._bytes.get(entry.id)
                if content is None:
                    raise FbragError("doc_not_found", f"{one_line(entry.name)} is no longer in memory", "add it again")
                return Source(entry.name, entry.name, content)
        return None

    # -- uploads ---------------------------------------------------------------------------------------------------------

    def _used(self, id: str) -> LibraryEntry | None:
        """Return an upload, which is the most recently used one from now on; None for another id."""
        with self._lock:
            if id in self._uploads:
                self._uploads.move_to_end(id)
            return self._uploads.get(id)

    @property
    def _n_chars(self) -> int:
        return sum(each.document.n_chars for each in self._uploads.values() if each.document)


def _named(entries: Sequence[LibraryEntry]) -> dict[str, LibraryEntry]:
    """Return entries by their ids, each once, named by the last parts of its path: as many as make it unique."""
    by_id = {each.id: each for each in entries}
    parts = {id: Path(os.path.abspath(each.paths[0])).parts for id, each in by_id.items()}
    named = {}
    for id, entry in by_id.items():
        others = [each for other, each in parts.items() if other != id]
        n = next((n for n in range(1, len(parts[id])) if all(each[-n:] != parts[id][-n:] for each in others)), len(parts[id]))
        named[id] = replace(entry, name=one_line("/".join(parts[id][-n:])))
    return named


def _entry(path: str) -> LibraryEntry:
    """Return the entry of a path. Raises FbragError if it is not there."""
    if path == "-":
        raise FbragError("usage", "'-' is stdin, which can be read only once", "name a file instead of it")
    if not (is_folder := os.path.isdir(path)):
        stat_file(path)
    return LibraryEntry(id=_id(os.path.realpath(path)), name=path, kind="folder" if is_folder else "document", paths=(path,))


def _id(*parts: str) -> str:
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _as_name(sent: str) -> str:
    """Return the name of an upload: the last part of what was sent, as one printable line."""
    last = sent.encode("utf-8", "replace").decode().replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = one_line(last)
    if len(name) > _MOST_OF_A_NAME:  # its suffix counts
        name = name[: _MOST_OF_A_NAME - 12] + "…" + name[-11:]
    return "document" if name in ("", "-", ".", "..") else name
