"""A disk cache with atomic entries. The least recently used ones are removed first.

An entry is ROOT/KIND/KEY: a file of `storage.arrays` with its kind, key and checksums. Its modification time is the time of its
last use. Links below ROOT are never followed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from fbrag_cli import __version__
from fbrag_cli.errors import lacking
from fbrag_cli.storage.files import delete, flush, listed, open_plain, overwrite

T = TypeVar("T")

#: The default size limit in bytes.
DEFAULT_LIMIT = 5_000_000_000

_NOWHERE = Path(os.devnull) / "cache"
_KIND = re.compile(r"[a-z][a-z0-9_-]*")
_KEY = re.compile(r"[0-9a-f]{8,128}")
_TOUCH_AFTER_SECONDS = 3600
_ROOM = 0.1  # share of the limit to free at once, so that not every new entry causes a search for old ones
_TAG = "CACHEDIR.TAG"
_MARK = b"Signature: 8a477f597d28d172789f06886806bc55\n# fbrag"
_SIGNATURE = (
    _MARK + b" keeps here what it can compute again, and may delete it at any time.\n# See https://bford.info/cachedir/\n"
)

_ABANDONED_SECONDS = 86400


class NotACacheFolderError(OSError):
    """The folder is not empty and not an fbrag cache, or other users can write it. It is neither read nor changed."""


def entry_key(*parts: object) -> str:
    """Return the key of an entry that this version of fbrag makes from `parts` (any JSON values): 64 hex digits."""
    return sha256(json.dumps([__version__, *parts]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry on disk. bytes: its size. used: time of the last use, in seconds since the epoch."""

    kind: str
    path: Path
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of about `limit` bytes in the folder `root`, which need not exist. Many processes may use it at once.

    An unreadable or unwritable cache is not an error, because everything in it can be computed again: `path` and `load` return
    None, and `store`, `touch`, `discard` and `trim` do what they can. Only `new` raises OSError. kind: a word such as
    "documents"; key: 8 to 128 lower-case hexadecimal digits. Other values are a ValueError.
    """

    root: Path
    limit: int = DEFAULT_LIMIT

    # -- one entry ---------------------------------------------------------------------------------------------------------

    def path(self, kind: str, key: str) -> Path | None:
        """Return the file of an entry, None if there is none.

        Another process may remove it at any time. An open or mapped file stays readable; opening it later may raise
        FileNotFoundError, which means the same as None.
        """
        try:
            place = self._place(kind, key)
        except OSError:
            return None
        return Path(place) if os.path.exists(place) else None

    @contextmanager
    def new(self, kind: str, key: str) -> Iterator[Path]:
        """Context manager: yield a path at which the block makes a file, which becomes the entry when the block ends.

        The file is removed if the block raises or another process has made the entry. It is flushed before it becomes the entry,
        so that not even a crash of the machine leaves a damaged entry. Raises OSError if nothing can be written: full disk,
        missing permission, NotACacheFolderError.
        """
        place = Path(self._place(kind, key))
        self._folder.prepare()
        _make_folder(place.parent)
        temporary = self._folder.temporary()
        try:
            yield temporary
            flush(temporary)
            os.utime(temporary)
            if os.path.exists(place):
                return
            try:
                os.rename(temporary, place)
            except OSError:
                if not os.path.exists(place):
                    raise
        finally:
            delete(temporary)

    def load(self, kind: str, key: str, read: Callable[[Path], T]) -> T | None:
        """Return the result of `read` on an entry's file, and mark the entry as used; None if there is none. An entry for which
        `read` raises OSError or ValueError is damaged, and removed.

        Raises FbragError `out_of_memory` if memory or file handles run out, because the entry may be intact.
        """
        if (path := self.path(kind, key)) is None:
            return None
        try:
            value = read(path)
        except (OSError, ValueError) as error:
            if shortage := lacking(error):
                raise shortage from error
            self.discard(kind, key)
            return None
        self.touch(kind, [key])
        return value

    def store(self, kind: str, key: str, write: Callable[[Path], object]) -> bool:
        """Add an entry, which `write` makes at the path it is given, unless the entry exists. Return False if that fails."""
        try:
            with self.new(kind, key) as path:
                write(path)
        except OSError:
            return False
        return True

    def read_json(self, kind: str, key: str, made_from: Callable[[dict[str, Any]], T]) -> T | None:
        """Return the result of `made_from` on an entry written by `write_json`; None if there is none. If `made_from` raises
        ValueError, the entry is damaged. Raises the same errors as `load`."""
        from fbrag_cli.storage import arrays

        return self.load(kind, key, lambda path: made_from(arrays.load(path, f"{kind}/{key}")[0]))

    def write_json(self, kind: str, key: str, value: Mapping[str, Any]) -> bool:
        """Add an entry with a JSON object, replacing one with the same key. Return False if that fails."""
        from fbrag_cli.storage import arrays

        self.discard(kind, key)
        return self.store(kind, key, lambda path: arrays.save(path, f"{kind}/{key}", value, {}))

    def keys(self, kind: str) -> set[str]:
        """Return the keys of all entries of a kind."""
        return set() if os.path.islink(self.root / kind) else {entry.name for entry in listed(self.root / kind)}

    def touch(self, kind: str, keys: Iterable[str]) -> bool:
        """Mark entries as used now. Return False if all were already marked within the hour."""
        now, noted = time.time(), False
        for key in keys:
            with suppress(OSError):  # removed, or not writable
                place = self._place(kind, key)
                if not 0 <= now - os.stat(place).st_mtime < _TOUCH_AFTER_SECONDS:
                    os.utime(place)
                    noted = True
        return noted

    def discard(self, kind: str, key: str) -> None:
        """Remove an entry if possible."""
        with suppress(OSError):
            self._folder.remove(Path(self._place(kind, key)))

    # -- all of them -------------------------------------------------------------------------------------------------------

    def entries(self, kind: str | None = None, older_than: float | None = None) -> Iterator[CacheEntry]:
        """Yield the entries of one kind or of all kinds, including those of newer versions; with `older_than`, only those unused
        for that many seconds. Links and files not named like entries are skipped.
        """
        now = time.time()
        for folder in listed(self.root):
            if kind in (None, folder.name) and _KIND.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
                for file in listed(Path(folder.path)):
                    if _KEY.fullmatch(file.name) and not file.is_symlink():
                        with suppress(OSError):  # just removed by another process
                            about = file.stat(follow_symlinks=False)
                            if older_than is None or about.st_mtime <= now - older_than:
                                yield CacheEntry(folder.name, Path(file.path), about.st_size, about.st_mtime)

    def size(self) -> dict[str, tuple[int, int]]:
        """Return (number of entries, bytes) by kind, in alphabetical order."""
        sizes: dict[str, tuple[int, int]] = {}
        for entry in self.entries():
            count, total = sizes.get(entry.kind, (0, 0))
            sizes[entry.kind] = (count + 1, total + entry.bytes)
        return dict(sorted(sizes.items()))

    def trim(self) -> None:
        """If the cache exceeds `limit` bytes, remove the least recently used entries until it is a tenth below; also remove
        unfinished entries older than a day. Call it after adding entries: it takes 60 ms for 10,000 of them.
        """
        with suppress(OSError):
            if self._folder.is_ours():
                self._folder.remove_abandoned()
                self._evict()

    def _evict(self) -> None:
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        total = sum(entry.bytes for entry in entries)
        if total <= self.limit:
            return
        self.check_usable()  # or nothing can be removed
        for entry in entries:
            if total <= self.limit * (1 - _ROOM):
                break
            with suppress(OSError):  # Windows: it is open
                self._folder.remove(entry.path)
                total -= entry.bytes

    def clear(self, kind: str | None = None, older_than: float | None = None) -> int:
        """Remove the entries that `entries` yields. Return the bytes freed.

        Raises NotACacheFolderError; OSError for an entry that cannot be removed, after removing all others.
        """
        if not self.root.exists():
            return 0
        self._folder.check_ours()
        freed, failures = 0, list[OSError]()
        for entry in self.entries(kind, older_than):
            try:
                freed += entry.bytes if self._folder.remove(entry.path) else 0
            except OSError as error:
                failures.append(error)
        self._folder.remove_abandoned()
        if failures:
            raise failures[0]
        return freed

    # -- the folder --------------------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether entries can be written. Creates the folder."""
        try:
            self.check_usable()
        except OSError:
            return False
        return True

    def check_usable(self) -> None:
        """Create the folder, and try to create a file there. Raises OSError, NotACacheFolderError."""
        self._folder.prepare()
        probe = self._folder.temporary()
        try:
            probe.touch()
        finally:
            delete(probe)

    def check_ours(self) -> None:
        """Raise NotACacheFolderError if the folder is not an fbrag cache, OSError if it cannot be read."""
        if self.root.exists():
            self._folder.check_ours()

    def _place(self, kind: str, key: str) -> str:
        """Return the path of an entry. Raises OSError if the folder of the kind is a link, and for NOWHERE."""
        if not (_KIND.fullmatch(kind) and _KEY.fullmatch(key)):
            raise ValueError(f"not an entry of a cache: {kind}/{key}")
        if self.root == _NOWHERE:
            raise OSError(errno.EROFS, "this cache stores nothing")
        folder = os.path.join(self.root, kind)
        if os.path.islink(folder):
            raise OSError(errno.ELOOP, "it is a link", folder)
        return os.path.join(folder, key)

    @property
    def _folder(self) -> _Folder:
        return _Folder(self.root)


#: A cache that stores nothing, for private data. It touches no folder.
NOWHERE = Cache(_NOWHERE)


# -- the folder, which several processes may change at once --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Folder:
    """The folder `root`. `root`/CACHEDIR.TAG marks it as fbrag's, and excludes it from backups.

    New files are made in `root`/.unfinished and renamed into place; removed ones are renamed into it and then deleted. So no
    process ever sees a partial one.
    """

    root: Path

    # -- the mark --------------------------------------------------------------------------------------------------------

    def is_ours(self) -> bool:
        """Return whether the folder has the mark. Raises OSError if the mark cannot be read."""
        return self._mark().startswith(_MARK)

    def check_ours(self) -> None:
        """Raise NotACacheFolderError for a folder that is not empty and lacks the mark, that belongs to another user, or that
        others can write, whose files would be taken for the user's documents. Raises OSError.
        """
        self._check_private()
        others = set(os.listdir(self.root)) - {_TAG}  # listed first: another process makes the mark before anything else
        mark = self._mark()
        if not mark.startswith(_MARK) and (others or not _SIGNATURE.startswith(mark)):
            raise NotACacheFolderError(errno.ENOTEMPTY, "it is not empty, and not an fbrag cache", str(self.root))

    def prepare(self) -> None:
        """Create the folder and its mark, readable only by the owner. Raises OSError, NotACacheFolderError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_private()
        if not self.is_ours():
            self.check_ours()
            overwrite(self.root / _TAG, _SIGNATURE)  # another process may write the same at the same time
        _make_folder(self._unfinished)

    def _mark(self) -> bytes:
        try:
            with os.fdopen(open_plain(self.root / _TAG), "rb") as file:
                return file.read(len(_SIGNATURE))
        except FileNotFoundError:
            return b""

    def _check_private(self) -> None:
        if os.name == "nt":
            return
        about = self.root.stat()
        if about.st_uid not in (os.geteuid(), 0):
            raise NotACacheFolderError(errno.EPERM, "it belongs to another user", str(self.root))
        group = 0 if about.st_gid == about.st_uid else 0o020  # the user's private group has the same number
        if about.st_mode & (0o002 | group):
            raise NotACacheFolderError(errno.EPERM, "other users can write it", str(self.root))

    # -- additions and removals --------------------------------------------------------------------------------------------

    @property
    def _unfinished(self) -> Path:
        return self.root / ".unfinished"

    def temporary(self) -> Path:
        """Return a new path at which this process may create a file or folder, to be renamed later."""
        return self._unfinished / os.urandom(8).hex()

    def remove(self, path: Path) -> bool:
        """Atomically remove a file or folder, then delete it. Return False if another process did. Raises OSError."""
        _make_folder(self._unfinished)
        doomed = self.temporary()
        try:
            os.rename(path, doomed)
        except FileNotFoundError:
            return False
        delete(doomed)
        return True

    def remove_abandoned(self) -> None:
        """Remove the unfinished files unchanged for a day, whose processes must have died."""
        for file in listed(self._unfinished):
            with suppress(OSError):
                if time.time() - file.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS:
                    self.remove(Path(file.path))  # renamed first: a process that is still alive cannot publish it


def _make_folder(path: Path) -> None:
    """Create a folder only for the owner, unless it exists. Raises OSError, also for a link."""
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
