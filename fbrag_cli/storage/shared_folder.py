"""A folder that many processes change at once: marked as fbrag's, with one-step additions and removals."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fbrag_cli.storage.files import delete, listed, open_plain, overwrite

_TAG = "CACHEDIR.TAG"
_MARK = b"Signature: 8a477f597d28d172789f06886806bc55\n# fbrag"
_SIGNATURE = (
    _MARK + b" keeps here what it can compute again, and may delete it at any time.\n# See https://bford.info/cachedir/\n"
)

_ABANDONED_SECONDS = 86400


class ForeignFolderError(OSError):
    """The folder is not empty and not a cache of fbrag's, or not the user's alone: nothing is read, written or deleted there."""


@dataclass(frozen=True, slots=True)
class SharedFolder:
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
        """Raise ForeignFolderError for a folder that is not empty and lacks the mark, that is another user's, or that others can
        write: what they put there would be taken for the user's documents. Raises OSError.
        """
        self._check_private()
        others = set(os.listdir(self.root)) - {_TAG}  # listed first: another process makes the mark before anything else
        mark = self._mark()
        if not mark.startswith(_MARK) and (others or not _SIGNATURE.startswith(mark)):
            raise ForeignFolderError(errno.ENOTEMPTY, "it is not empty, and no cache of fbrag's", str(self.root))

    def prepare(self) -> None:
        """Make the folder and its mark, readable for the owner only. Raises OSError, ForeignFolderError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_private()
        if not self.is_ours():
            self.check_ours()
            overwrite(self.root / _TAG, _SIGNATURE)  # another process may write the same at this moment
        make_folder(self._unfinished)

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
            raise ForeignFolderError(errno.EPERM, "it belongs to another user", str(self.root))
        group = 0 if about.st_gid == about.st_uid else 0o020  # a group of the same number is the user's own
        if about.st_mode & (0o002 | group):
            raise ForeignFolderError(errno.EPERM, "other users can write it", str(self.root))

    # -- additions and removals --------------------------------------------------------------------------------------------

    @property
    def _unfinished(self) -> Path:
        return self.root / ".unfinished"

    def temporary(self) -> Path:
        """Return a new path where this process may make a file or a folder, to be renamed then."""
        return self._unfinished / os.urandom(8).hex()

    def remove(self, path: Path) -> bool:
        """Remove a file or folder in one step, then delete it. Returns False if another process did. Raises OSError."""
        make_folder(self._unfinished)
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


def make_folder(path: Path) -> None:
    """Make a folder for the owner only, or leave the one that is there. Raises OSError, also for a link."""
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
