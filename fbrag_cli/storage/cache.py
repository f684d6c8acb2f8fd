"""A cache on the disk: entries that exist whole or not at all, of which the least recently used are removed first.

ROOT/KIND/KEY is an entry: a file of `storage.arrays`, which holds its kind, its key and checksums. Its time of change is the time
of its last use. A link below ROOT is never followed.
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
from fbrag_cli.storage.files import delete, flush, listed, open_plain, overwrite, put_in_place

T = TypeVar("T")

#: The size limit in bytes where the user sets none.
DEFAULT_LIMIT = 5_000_000_000

_NOWHERE = Path(os.devnull) / "cache"
_KIND = re.compile(r"[a-z][a-z0-9_-]*")
_KEY = re.compile(r"[0-9a-f]{8,128}")
_TOUCH_AFTER_SECONDS = 3600
_COUNT_AGAIN_SECONDS = 86400
_COUNT_AGAIN_ENTRIES = 10_000
_ROOM = 0.1  # share of the limit that is freed at once, so that not every new entry has to look for an old one
_TAG = "CACHEDIR.TAG"
_MARK = b"Signature: 8a477f597d28d172789f06886806bc55\n# fbrag"
_SIGNATURE = (
    _MARK + b" keeps here what it can compute again, and may delete it at any time.\n# See https://bford.info/cachedir/\n"
)

_ABANDONED_SECONDS = 86400
# What reading a damaged entry raises.
_DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError)


class NotACacheFolderError(OSError):
    """The folder is not empty and not a cache of fbrag's, or not the user's alone: nothing is read, written or deleted there."""


def entry_key(*parts: object) -> str:
    """Return the key of the entry that this version of fbrag makes from `parts` (whatever JSON can hold): 64 hex digits."""
    return sha256(json.dumps([__version__, *parts]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry on the disk. bytes: its size. used: time of the last use, seconds since the epoch."""

    kind: str
    path: Path
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of about `limit` bytes in the folder `root`, which may not exist yet. Many processes may use it at once.

    A cache that cannot be read or written is no error, for everything in it can be computed again: `path` and `load` return
    None, and `store`, `touch`, `discard` and `trim` do what is possible. Only `new` raises OSError.
    kind: a word as "documents"; key: 8 to 128 hexadecimal digits, lower case. Others are a ValueError.
    """

    root: Path
    limit: int = DEFAULT_LIMIT

    # -- one entry ---------------------------------------------------------------------------------------------------------

    def path(self, kind: str, key: str) -> Path | None:
        """Return the file of an entry, which is whole; None if there is none.

        Another process may remove it at any time. A file that is open or mapped stays readable; opening one later may raise
        FileNotFoundError, which means the same as None.
        """
        try:
            place = self._place(kind, key)
        except OSError:
            return None
        return Path(place) if os.path.exists(place) else None

    @contextmanager
    def new(self, kind: str, key: str) -> Iterator[Path]:
        """Yield a path where the block makes a file, which becomes the entry when the block ends.

        It is removed if the block raises or another process was faster. It is flushed before it becomes an entry, so that a
        crash, even of the machine, leaves no damaged entry.
        Raises OSError where nothing can be written: a full disk, a folder without permission, NotACacheFolderError.
        """
        place = Path(self._place(kind, key))
        self._folder.prepare()
        _make_folder(place.parent)
        temporary = self._folder.temporary()
        try:
            yield temporary
            size = flush(temporary)
            os.utime(temporary)
            if os.path.exists(place):
                return
            try:
                os.rename(temporary, place)
                self._sizes.add(size)
            except OSError:
                if not os.path.exists(place):
                    raise
        finally:
            delete(temporary)

    def load(self, kind: str, key: str, read: Callable[[Path], T]) -> T | None:
        """Return what `read` makes of an entry, and mark the entry as used; None if there is none. A damaged one is removed.

        Raises FbragError `out_of_memory` where memory or open files run out: the entry may be sound.
        """
        if (path := self.path(kind, key)) is None:
            return None
        try:
            value = read(path)
        except _DAMAGED as error:
            if shortage := lacking(error):
                raise shortage from error
            self.discard(kind, key)
            return None
        self.touch(kind, [key])
        return value

    def store(self, kind: str, key: str, write: Callable[[Path], object]) -> bool:
        """Add the entry that `write` makes at the path that it gets; an entry that exists stays. Return False if that fails."""
        try:
            with self.new(kind, key) as path:
                write(path)
        except OSError:
            return False
        return True

    def read_json(self, kind: str, key: str, made_from: Callable[[dict[str, Any]], T]) -> T | None:
        """Return what `made_from` makes of an entry of `write_json`; None if there is none. A wrong key or type there, or a
        ValueError, means a damaged entry. Raises as `load`."""
        from fbrag_cli.storage import arrays

        return self.load(kind, key, lambda path: made_from(arrays.load(path, f"{kind}/{key}")[0]))

    def write_json(self, kind: str, key: str, value: Mapping[str, Any]) -> bool:
        """Add an entry that holds a JSON object, in place of one with the same key. Return False if that fails."""
        from fbrag_cli.storage import arrays

        self.discard(kind, key)
        return self.store(kind, key, lambda path: arrays.save(path, f"{kind}/{key}", value, {}))

    def keys(self, kind: str) -> set[str]:
        """Return the keys of all entries of a kind."""
        return set() if os.path.islink(self.root / kind) else {entry.name for entry in listed(self.root / kind)}

    def touch(self, kind: str, keys: Iterable[str]) -> bool:
        """Mark entries as used now. Returns False if all of them were already marked within the hour."""
        now, noted = time.time(), False
        for key in keys:
            with suppress(OSError):  # gone, or not ours to change
                place = self._place(kind, key)
                if not 0 <= now - os.stat(place).st_mtime < _TOUCH_AFTER_SECONDS:
                    os.utime(place)
                    noted = True
        return noted

    def discard(self, kind: str, key: str) -> None:
        """Remove an entry, if that is possible."""
        with suppress(OSError):
            self._folder.remove(Path(self._place(kind, key)))

    # -- all of them -------------------------------------------------------------------------------------------------------

    def entries(self, kind: str | None = None, older_than: float | None = None) -> Iterator[CacheEntry]:
        """Yield the entries of one kind or of all, also of kinds of newer versions; with `older_than`, only those that were not
        used for so many seconds. Links, and files not named as entries are, are left out.
        """
        now = time.time()
        for folder in listed(self.root):
            if kind in (None, folder.name) and _KIND.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
                for found in listed(Path(folder.path)):
                    if _KEY.fullmatch(found.name) and not found.is_symlink():
                        with suppress(OSError):  # another process removed it just now
                            about = found.stat(follow_symlinks=False)
                            if older_than is None or about.st_mtime <= now - older_than:
                                yield CacheEntry(folder.name, Path(found.path), about.st_size, about.st_mtime)

    def size(self) -> dict[str, tuple[int, int]]:
        """Return (number of entries, bytes) by kind, in alphabetical order."""
        sizes: dict[str, tuple[int, int]] = {}
        for entry in self.entries():
            count, total = sizes.get(entry.kind, (0, 0))
            sizes[entry.kind] = (count + 1, total + entry.bytes)
        return dict(sorted(sizes.items()))

    def trim(self) -> None:
        """Remove the least recently used entries if the cache exceeds `limit` bytes, until it is a tenth below; also remove
        unfinished entries of yesterday. Call it after adding entries; it costs little while there is room.
        """
        with suppress(OSError):
            if self._folder.is_ours():
                self._folder.remove_abandoned()
                if self._sizes.may_exceed(self.limit):
                    self.check_usable()  # counting is useless where nothing can be removed
                    self._evict()

    def _evict(self) -> None:
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        total = sum(entry.bytes for entry in entries)
        if total > self.limit:
            for entry in entries:
                if total <= self.limit * (1 - _ROOM):
                    break
                with suppress(OSError):  # Windows: it is open
                    self._folder.remove(entry.path)
                    total -= entry.bytes
        self._sizes.counted(total, self._folder.temporary())

    def clear(self, kind: str | None = None, older_than: float | None = None) -> int:
        """Remove the entries that `entries` yields. Returns the bytes freed.

        Raises NotACacheFolderError; OSError for an entry that cannot be removed, after removing all others.
        """
        if not self.root.exists():
            return 0
        self._folder.check_ours()
        freed, failures = 0, list[OSError]()
        for entry in self.entries(kind, older_than):
            try:
                freed += entry.bytes if self._folder.remove(entry.path) else 0
            except OSError as error:  # noqa: PERF203
                failures.append(error)
        self._folder.remove_abandoned()
        if failures:
            raise failures[0]
        self._sizes.forget()
        return freed

    # -- the folder --------------------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether entries can be written. Makes the folder."""
        try:
            self.check_usable()
        except OSError:
            return False
        return True

    def check_usable(self) -> None:
        """Make the folder, and try to make a file there. Raises OSError, NotACacheFolderError."""
        self._folder.prepare()
        probe = self._folder.temporary()
        try:
            probe.touch()
        finally:
            delete(probe)

    def check_ours(self) -> None:
        """Raise NotACacheFolderError for a folder that is not a cache of fbrag's, OSError for one that cannot be read."""
        if self.root.exists():
            self._folder.check_ours()

    def _place(self, kind: str, key: str) -> str:
        """Return the path of an entry. Raises OSError where the folder of the kind is a link, and for NOWHERE."""
        if not (_KIND.fullmatch(kind) and _KEY.fullmatch(key)):
            raise ValueError(f"not an entry of a cache: {kind}/{key}")
        if self.root == _NOWHERE:
            raise OSError(errno.EROFS, "nothing is cached here")
        folder = os.path.join(self.root, kind)
        if os.path.islink(folder):
            raise OSError(errno.ELOOP, "it is a link", folder)
        return os.path.join(folder, key)

    @property
    def _folder(self) -> _Folder:
        return _Folder(self.root)

    @property
    def _sizes(self) -> _Sizes:
        return _Sizes(self.root / ".sizes")


#: A cache that holds nothing, for what may not be cached. It touches no folder.
NOWHERE = Cache(_NOWHERE)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """A file that notes a cache's size: on its first line the bytes of all entries and the time of that count (seconds since the
    epoch), then a line with the bytes of each entry added since. An entry added during a count is in the next one.
    """

    path: Path

    def add(self, size: int) -> None:
        """Add the bytes of a new entry."""
        with suppress(OSError):  # the next count sees it
            overwrite(self.path, f"{size}\n".encode("ascii"), os.O_APPEND)

    def may_exceed(self, limit: int) -> bool:
        """Return whether the cache may have more than `limit` bytes: by these notes, or because they are too old to believe."""
        try:
            with os.fdopen(open_plain(self.path), encoding="ascii") as file:
                first, *added = file.read().splitlines()
            total, counted = map(int, first.split())
            fresh = 0 <= time.time() - counted < _COUNT_AGAIN_SECONDS and len(added) < _COUNT_AGAIN_ENTRIES
            return not fresh or total + sum(map(int, added)) > limit
        except (OSError, ValueError):  # never counted, or no longer readable
            return True

    def counted(self, total: int, temporary: Path) -> None:
        """Note a new count. `temporary` is where the file is written first. Raises OSError."""
        overwrite(temporary, f"{total} {int(time.time())}\n".encode("ascii"))
        put_in_place(temporary, self.path)

    def forget(self) -> None:
        """Drop the notes after a removal, so that the next question to `may_exceed` leads to a count."""
        with suppress(OSError):
            self.path.unlink()


# -- the folder, which many processes change at once ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Folder:
    """The folder `root`. `root`/CACHEDIR.TAG marks it as fbrag's, and excludes it from backups.

    New things are made in `root`/.unfinished and renamed into place; removed things are renamed to there and then deleted. So
    no process ever sees a part of one.
    """

    root: Path

    # -- the mark --------------------------------------------------------------------------------------------------------

    def is_ours(self) -> bool:
        """Return whether the folder carries the mark. Raises OSError if the mark cannot be read."""
        return self._mark().startswith(_MARK)

    def check_ours(self) -> None:
        """Raise NotACacheFolderError for a folder that is not empty and lacks the mark, that is another user's, or that others
        can write: what they put there would be taken for the user's documents. Raises OSError.
        """
        self._check_private()
        others = set(os.listdir(self.root)) - {_TAG}  # listed first: another process makes the mark before anything else
        mark = self._mark()
        if not mark.startswith(_MARK) and (others or not _SIGNATURE.startswith(mark)):
            raise NotACacheFolderError(errno.ENOTEMPTY, "it is not empty, and no cache of fbrag's", str(self.root))

    def prepare(self) -> None:
        """Make the folder and its mark, readable for the owner only. Raises OSError, NotACacheFolderError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_private()
        if not self.is_ours():
            self.check_ours()
            overwrite(self.root / _TAG, _SIGNATURE)  # another process may write the same at this moment
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
        group = 0 if about.st_gid == about.st_uid else 0o020  # a group of the same number is the user's own
        if about.st_mode & (0o002 | group):
            raise NotACacheFolderError(errno.EPERM, "other users can write it", str(self.root))

    # -- additions and removals --------------------------------------------------------------------------------------------

    @property
    def _unfinished(self) -> Path:
        return self.root / ".unfinished"

    def temporary(self) -> Path:
        """Return a new path where this process may make a file or a folder, to be renamed then."""
        return self._unfinished / os.urandom(8).hex()

    def remove(self, path: Path) -> bool:
        """Remove a file or folder in one step, then delete it. Returns False if another process did. Raises OSError."""
        _make_folder(self._unfinished)
        doomed = self.temporary()
        try:
            os.rename(path, doomed)
        except FileNotFoundError:
            return False
        delete(doomed)
        return True

    def remove_abandoned(self) -> None:
        """Remove the unfinished things that nobody has changed for a day: their processes have died."""
        for found in listed(self._unfinished):
            with suppress(OSError):
                if time.time() - found.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS:
                    self.remove(Path(found.path))  # renamed first: if its process lives after all, it cannot publish a part


def _make_folder(path: Path) -> None:
    """Make a folder for the owner only, or leave the one that is there. Raises OSError, also for a link."""
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
