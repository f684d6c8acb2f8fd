"""The file of a model while it comes: counted, hashed, told of, and never longer than it may become."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.models.store import MAGIC, blocks
from fbrag_cli.progress import Event, Progress

_TELL_SECONDS = 0.1


class SourceFailedError(Exception):
    """Why one source cannot give the file, in one line. The next source is asked then."""


def disk_free(folder: Path) -> int:
    """Bytes that can still be written below `folder`."""
    return shutil.disk_usage(folder).free


class PartFile:
    """`path`.part, to go on from where an earlier attempt stopped, whichever source that one asked.

    name: what progress calls the model. limit: bytes that the whole has, None until a source tells. disk_free: see above.
    progress hears of stage "download", in bytes of the whole.
    """

    def __init__(self, path: Path, name: str, limit: int | None, progress: Progress, disk_free: Callable[[Path], int]) -> None:
        self.path = path.with_name(path.name + ".part")
        self.name = name
        self.limit = limit
        self._progress, self._disk_free = progress, disk_free
        try:
            self._file = self.path.open("r+b" if self.path.exists() else "w+b")
        except OSError as error:
            raise self._cannot_write(error) from None
        self._hash: hashlib._Hash | None = None
        self._told = (0.0, 0)
        self.size = self._file.seek(0, os.SEEK_END)
        if limit is not None and self.size > limit:
            self.cut(0)

    # -- what is there ---------------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        return self.size == self.limit

    def sha256(self) -> str:
        """Of all bytes so far (hex)."""
        return self._hashed().hexdigest()

    @property
    def etag(self) -> str | None:
        """What the server called this version of the file, for a file that nobody knows the checksum of."""
        try:
            return self._etag_path.read_text(encoding="utf-8")
        except OSError:
            return None

    @etag.setter
    def etag(self, value: str | None) -> None:
        if value:
            self._etag_path.write_text(value, encoding="utf-8")
        else:
            self._etag_path.unlink(missing_ok=True)

    def check_whole(self) -> None:
        """Raises SourceFailedError if a source is done, and the file cannot be."""
        if self.limit is not None and not self.complete:
            raise SourceFailedError(f"it ends there after {self.size:,} of {self.limit:,} bytes")
        if self.size < len(MAGIC):
            self.cut(0)
            raise SourceFailedError("it is not a GGUF file there")

    # -- how it grows ----------------------------------------------------------------------------------------------------

    def expect(self, total: int) -> None:
        """A source says how many bytes the whole has. Raises SourceFailedError if that is another number than it should be,
        FbragError `disk_full` if so many cannot be had.
        """
        if self.limit not in (None, total):
            raise SourceFailedError(f"it has {total:,} bytes there, and should have {self.limit:,}")
        self.limit = total
        self.reserve()

    def reserve(self, extra: int = 0) -> None:
        """Make sure that the disk takes what is missing, and `extra` bytes beside it. Raises FbragError `disk_full`."""
        folder = self.path.parent
        need = (self.limit or 0) - self.size + extra
        if (free := self._disk_free(folder)) < need:
            raise self._full(f"needs {_size(need)} more in {folder}, where {_size(free)} are free")

    def write(self, data: bytes) -> None:
        """Append. Raises SourceFailedError if the file gets longer than it may, or does not begin as GGUF files do;
        FbragError `disk_full`.
        """
        if self.size == 0 and not data.startswith(MAGIC[: len(data)]):
            raise SourceFailedError("it is not a GGUF file there")
        if self.limit is not None and self.size + len(data) > self.limit:
            raise SourceFailedError(f"it is longer there than the {self.limit:,} bytes that it should have")
        digest = self._hashed()
        try:
            self._file.write(data)
        except OSError as error:
            raise self._cannot_write(error) from None
        digest.update(data)
        self.size += len(data)
        self.tell()

    def cut(self, size: int) -> None:
        """Keep the first `size` bytes only."""
        if size < self.size:
            self._file.flush()
            self._file.truncate(size)
            self._hash, self.size = None, size
        if size == 0:
            self.etag, self._told = None, (0.0, 0)
        self._file.seek(self.size)

    def tell(self, on_the_way: int = 0) -> None:
        """Tell how far the download is; `on_the_way` bytes are here, but not yet in the file. What is told
        falls only where all begins again.
        """
        now = time.monotonic()
        when, told = self._told
        done = max(told, min(self.size + on_the_way, self.limit or self.size + on_the_way))
        if now - when >= _TELL_SECONDS or done == self.limit:
            self._told = (now, done)
            self._progress(Event("download", "progress", done, self.limit or 0, self.name))

    # -- how it ends -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the file as it is, for a later attempt; nothing is left of one that has not begun."""
        self._file.close()
        if self.size == 0:
            self.path.unlink(missing_ok=True)
            self.etag = None

    def become(self, path: Path) -> None:
        """Be on the disk for good, under that name."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self.path, path)
        except OSError as error:
            raise self._cannot_write(error) from None
        self.etag = None
        if os.name != "nt":
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _hashed(self) -> hashlib._Hash:
        if self._hash is None:
            self._file.flush()
            self._hash = hashlib.sha256()
            for block in blocks(self.path, self.size):
                self._hash.update(block)
        return self._hash

    @property
    def _etag_path(self) -> Path:
        return self.path.with_name(self.path.name + ".etag")

    def _cannot_write(self, error: OSError) -> FbragError:
        if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
            return self._full(f"cannot be written whole to {self.path.parent}: {error.strerror}")
        what = f"{self.path} cannot be written: {error.strerror}"
        return FbragError("download_failed", what, "choose another folder: FBRAG_MODELS_DIR")

    def _full(self, what: str) -> FbragError:
        return FbragError("disk_full", f"{self.name} {what}", "free some space, or choose another folder: FBRAG_MODELS_DIR")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(count, 0) / 1e6:.1f} MB"
