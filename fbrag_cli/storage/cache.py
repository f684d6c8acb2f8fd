"""What was computed once, kept on the disk by content: entries that are there whole or not at all, the least recently used
going first. It knows nothing of what it keeps.

ROOT/KIND/KEY is an entry: a file, or a folder of files. Its time of change is when it was last used.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fbrag_cli.storage.cache_sizes import Sizes
from fbrag_cli.storage.files import delete, files_of, flush, listed
from fbrag_cli.storage.shared_folder import ForeignFolderError as ForeignFolderError
from fbrag_cli.storage.shared_folder import SharedFolder

#: Bytes that a cache keeps unless it is told otherwise.
DEFAULT_LIMIT = 5_000_000_000

_KIND = re.compile(r"[a-z][a-z0-9_-]*")
_KEY = re.compile(r"[0-9a-f]{8,128}")
_TOUCH_AFTER_SECONDS = 3600
_ROOM = 0.1  # of the limit, made at once, so that not every new entry has to look for an old one


@dataclass(frozen=True, slots=True)
class Entry:
    """bytes: of its files. used: when last, seconds since the epoch."""

    kind: str
    path: Path
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of about `limit` bytes in the folder `root`, which need not be there. Any number of processes may use it at once.

    It never stands in the way of a question; what cannot be kept is computed again. So `path` is None where nothing can be
    read, `touch`, `discard` and `trim` do what can be done, and who calls `new` catches OSError and goes on without an entry.
    kind: a word as "documents"; key: 8 to 128 hexadecimal digits, lower case. Others are a ValueError.
    """

    root: Path
    limit: int = DEFAULT_LIMIT

    # -- one entry ---------------------------------------------------------------------------------------------------------

    def path(self, kind: str, key: str) -> Path | None:
        """The file or folder of an entry, which is whole; None if there is none.

        Another process may remove it at any time. What is open or mapped then stays readable; a file that is opened later
        is a FileNotFoundError, and to be taken as if there had been no entry.
        """
        place = self._place(kind, key)
        return Path(place) if os.path.exists(place) else None

    @contextmanager
    def new(self, kind: str, key: str) -> Iterator[Path]:
        """A path where the block makes a file or a folder of files. That becomes the entry when the block ends, and is removed
        if the block raises, or if another process was faster.

        All of it is on the disk before it is an entry, so that a crash, even of the machine, leaves no damaged one.
        Raises OSError where it cannot be kept: a full disk, a folder that cannot be written, ForeignFolderError.
        """
        place = Path(self._place(kind, key))
        self._folder.prepare()
        place.parent.mkdir(mode=0o700, exist_ok=True)
        temporary = self._folder.temporary()
        try:
            yield temporary
            size = flush(temporary)
            os.utime(temporary)
            if not os.path.exists(place):
                self._publish(temporary, place, size)
        finally:
            delete(temporary)

    def _publish(self, temporary: Path, place: Path, size: int) -> None:
        try:
            os.rename(temporary, place)
        except OSError:
            if not os.path.exists(place):
                raise
        else:
            self._sizes.add(size)

    def keys(self, kind: str) -> set[str]:
        """The keys of all entries of a kind."""
        return {entry.name for entry in listed(self.root / kind)}

    def touch(self, kind: str, keys: Iterable[str]) -> bool:
        """Say that these entries were used. One that was used within the hour costs a look only; whether any was not."""
        now, noted = time.time(), False
        for key in keys:
            place = self._place(kind, key)
            with suppress(OSError):  # gone, or not ours to change
                if not 0 <= now - os.stat(place).st_mtime < _TOUCH_AFTER_SECONDS:
                    os.utime(place)
                    noted = True
        return noted

    def discard(self, kind: str, key: str) -> None:
        """Remove an entry that its reader could not make sense of."""
        with suppress(OSError):
            self._folder.remove(Path(self._place(kind, key)))

    # -- all of them -------------------------------------------------------------------------------------------------------

    def entries(self, kind: str | None = None, older_than: float | None = None) -> Iterator[Entry]:
        """The entries, also those of kinds that only a newer version knows; of one kind only, or only those that were not used
        for `older_than` seconds. What is not named as an entry, and a link, is none.
        """
        now = time.time()
        for folder in listed(self.root):
            if kind in (None, folder.name) and _KIND.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
                for found in listed(Path(folder.path)):
                    if _KEY.fullmatch(found.name) and not found.is_symlink():
                        with suppress(OSError):  # another process removed it just now
                            entry = _entry(folder.name, found)
                            if older_than is None or entry.used <= now - older_than:
                                yield entry

    def size(self) -> dict[str, tuple[int, int]]:
        """By kind, in the order of their names: the number of entries, and their bytes."""
        sizes: dict[str, tuple[int, int]] = {}
        for entry in self.entries():
            count, total = sizes.get(entry.kind, (0, 0))
            sizes[entry.kind] = (count + 1, total + entry.bytes)
        return dict(sorted(sizes.items()))

    def trim(self) -> None:
        """Remove the least recently used entries if there are more than `limit` bytes, down to a tenth below it; and what
        processes left unfinished that died. To be called when entries have been made; costs little while there is room.
        """
        with suppress(OSError):
            if self._folder.is_ours():
                self._folder.remove_abandoned()
                if self._sizes.may_exceed(self.limit):
                    self.check_usable()  # where nothing can be removed, there is no use in counting
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
        """Remove the entries that `entries` tells. The number of bytes freed.

        Raises ForeignFolderError; OSError for an entry that cannot be removed, when all that can be are.
        """
        if not self.root.exists():
            return 0
        self._folder.check_ours()
        failures: list[OSError] = []
        freed = sum(self._freed(entry, failures) for entry in self.entries(kind, older_than))
        self._folder.remove_abandoned()
        if failures:
            raise failures[0]
        self._sizes.forget()
        return freed

    def _freed(self, entry: Entry, failures: list[OSError]) -> int:
        try:
            return entry.bytes if self._folder.remove(entry.path) else 0
        except OSError as error:
            failures.append(error)
            return 0

    # -- the folder --------------------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether entries can be kept. Makes the folder."""
        try:
            self.check_usable()
        except OSError:
            return False
        return True

    def check_usable(self) -> None:
        """Make the folder, and a file there. Raises OSError if that cannot be, ForeignFolderError."""
        self._folder.prepare()
        probe = self._folder.temporary()
        try:
            probe.touch()
        finally:
            delete(probe)

    def check_ours(self) -> None:
        """Raises ForeignFolderError for a folder that is something else, OSError for one that cannot be read."""
        if self.root.exists():
            self._folder.check_ours()

    def _place(self, kind: str, key: str) -> str:
        if not (_KIND.fullmatch(kind) and _KEY.fullmatch(key)):
            raise ValueError(f"not an entry of a cache: {kind}/{key}")
        return os.path.join(self.root, kind, key)

    @property
    def _folder(self) -> SharedFolder:
        return SharedFolder(self.root)

    @property
    def _sizes(self) -> Sizes:
        return Sizes(self.root / ".sizes")


def _entry(kind: str, found: os.DirEntry[str]) -> Entry:
    about = found.stat(follow_symlinks=False)
    size = sum(path.lstat().st_size for path in files_of(Path(found.path))) if found.is_dir() else about.st_size
    return Entry(kind, Path(found.path), size, about.st_mtime)
