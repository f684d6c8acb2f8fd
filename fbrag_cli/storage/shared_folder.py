"""A folder that many processes change at once: whose it is, and how things come into it and leave it in one step."""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fbrag_cli.storage.files import delete, listed, overwrite

_TAG = "CACHEDIR.TAG"
_MARK = b"Signature: 8a477f597d28d172789f06886806bc55\n# fbrag"
_SIGNATURE = (
    _MARK + b" keeps here what it can compute again, and may delete it at any time.\n# See https://bford.info/cachedir/\n"
)

_TEMPORARY = re.compile(r"(\d+)-(\w*)-[0-9a-f]+")  # process, machine, chance
_ABANDONED_SECONDS = 86400


class ForeignFolderError(OSError):
    """The folder holds something, and it is not a cache of fbrag's: nothing is written there or deleted."""


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """`root`/CACHEDIR.TAG is the mark that it is ours, and keeps backups away. What is being made or removed lies in
    `root`/.unfinished, from where, or to where, it is renamed: so nobody ever sees a part of it.
    """

    root: Path

    # -- whose it is -----------------------------------------------------------------------------------------------------

    def is_ours(self) -> bool:
        """Whether it carries the mark. Raises OSError if that cannot be read."""
        return self._mark().startswith(_MARK)

    def check_ours(self) -> None:
        """Raises ForeignFolderError for a folder that holds something and lacks the mark; OSError."""
        others = set(os.listdir(self.root)) - {_TAG}  # looked at first: who makes a cache makes the mark before anything else
        mark = self._mark()
        if not mark.startswith(_MARK) and (others or not _SIGNATURE.startswith(mark)):
            raise ForeignFolderError(errno.ENOTEMPTY, "it is not empty, and no cache of fbrag's", str(self.root))

    def prepare(self) -> None:
        """Make the folder, for its owner only. Raises OSError."""
        if not self.is_ours():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.check_ours()
            overwrite(self.root / _TAG, _SIGNATURE)  # another process may write the same at this moment
        self._unfinished.mkdir(mode=0o700, exist_ok=True)

    def _mark(self) -> bytes:
        try:
            return (self.root / _TAG).read_bytes()
        except FileNotFoundError:
            return b""

    # -- what comes and goes -----------------------------------------------------------------------------------------------

    @property
    def _unfinished(self) -> Path:
        return self.root / ".unfinished"

    def temporary(self) -> Path:
        """Where this process may make a file or a folder that it then renames."""
        return self._unfinished / f"{os.getpid()}-{_machine()}-{secrets.token_hex(8)}"

    def remove(self, path: Path) -> bool:
        """Take a file or folder out in one step, then delete it. False if another process did. Raises OSError."""
        self._unfinished.mkdir(mode=0o700, exist_ok=True)
        doomed = self.temporary()
        try:
            os.rename(path, doomed)
        except FileNotFoundError:
            return False
        delete(doomed)
        return True

    def remove_abandoned(self) -> None:
        """Remove what processes left that did not come to an end."""
        for found in listed(self._unfinished):
            with suppress(OSError):
                if _is_abandoned(found):
                    self.remove(Path(found.path))  # renamed first: if its process lives after all, it cannot publish a part


def _is_abandoned(found: os.DirEntry[str]) -> bool:
    """Whether nobody will finish it: its process is no more, or it is a day old. Raises OSError."""
    made_by = _TEMPORARY.fullmatch(found.name)
    if made_by is None:
        return False
    if time.time() - found.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS:
        return True
    import psutil

    return made_by[2] == _machine() and not psutil.pid_exists(int(made_by[1]))


def _machine() -> str:
    """Its name, as far as it can stand in the name of a file: the number of a process means nothing on another machine."""
    return re.sub(r"[^A-Za-z0-9]", "", platform.node())[:40]
