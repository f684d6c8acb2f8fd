"""A model file during its download. It counts and hashes its bytes, reports progress, and never exceeds its size."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Progress
from fbrag_cli.storage.files import blocks_of, is_full, not_writable, open_plain, put_in_place
from fbrag_cli.text.printable import byte_size

#: The first bytes of every GGUF file.
MAGIC = b"GGUF"

_REPORT_SECONDS = 0.1


class SourceFailedError(Exception):
    """Raised if a source cannot provide the file; the next one is then tried. The message is one line."""


class PartialDownload:
    """The file `path`.part. It resumes where an earlier attempt stopped, from any source.

    name: name of the model, for progress and errors. limit: bytes of the whole file, None until a source reports it. progress:
    stage "download", in bytes of the whole file. expected: SHA-256 (hex) of the whole file, None if unknown.
    """

    def __init__(self, path: Path, name: str, limit: int | None, progress: Progress, expected: str | None = None) -> None:
        self.path = path.with_name(path.name + ".part")
        self.name = name
        self.limit = limit
        self.expected = expected
        self._progress = progress
        try:
            self._file = os.fdopen(open_plain(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        except OSError as error:
            raise self._cannot_write(error) from None
        self._hash: hashlib._Hash | None = None
        self._reported = (0.0, 0)
        self.size = self._file.seek(0, os.SEEK_END)
        if limit is not None and self.size > limit:
            self.cut(0)

    # -- its content so far ----------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        return self.size == self.limit

    def sha256(self) -> str:
        """Return the SHA-256 (hex) of all bytes so far."""
        return self._hashed().hexdigest()

    def check_whole(self) -> None:
        """Raise SourceFailedError if a source has ended and the file is not complete."""
        if self.limit is not None and not self.complete:
            raise SourceFailedError(f"the file there ends after {self.size:,} of {self.limit:,} bytes")
        if self.size < len(MAGIC):
            self.cut(0)
            raise SourceFailedError("the file there is not a GGUF file")

    # -- adding bytes ----------------------------------------------------------------------------------------------------

    def expect(self, total: int) -> None:
        """Set the size of the whole file in bytes, as reported by a source. Raises SourceFailedError if a different size is
        expected, FbragError `disk_full` if the disk has no room.
        """
        if self.limit not in (None, total):
            raise SourceFailedError(f"the file there has {total:,} bytes (expected {self.limit:,})")
        self.limit = total
        self.reserve()

    def reserve(self, extra: int = 0) -> None:
        """Check that the disk has room for the missing bytes and `extra` more. Raises FbragError `disk_full`."""
        folder = self.path.parent
        need = (self.limit or 0) - self.size + extra
        if (free := shutil.disk_usage(folder).free) < need:
            raise self._full(f"needs {byte_size(need)} more in {folder}; only {byte_size(free)} is free")

    def write(self, data: bytes) -> None:
        """Append bytes. Raises SourceFailedError if the file becomes too long or does not start like a GGUF file; FbragError
        `disk_full`.
        """
        if self.size == 0 and not data.startswith(MAGIC[: len(data)]):
            raise SourceFailedError("the file there is not a GGUF file")
        if self.limit is not None and self.size + len(data) > self.limit:
            raise SourceFailedError(f"the file there is longer than the expected {self.limit:,} bytes")
        digest = self._hashed()
        try:
            self._file.write(data)
        except OSError as error:
            raise self._cannot_write(error) from None
        digest.update(data)
        self.size += len(data)
        self.report()

    def cut(self, size: int) -> None:
        """Keep only the first `size` bytes. Raises FbragError `disk_full`, `download_failed`."""
        try:
            if size < self.size:
                self._file.truncate(size)
                self._hash, self.size = None, size
            self._file.seek(self.size)
        except OSError as error:  # from bytes that were still buffered
            raise self._cannot_write(error) from None
        if size == 0:
            self._reported = (0.0, 0)

    def report(self, on_the_way: int = 0) -> None:
        """Report progress. on_the_way: bytes that have arrived but are not yet in the file. The number falls only if the file
        starts over.
        """
        now = time.monotonic()
        when, reported = self._reported
        done = max(reported, min(self.size + on_the_way, self.limit or self.size + on_the_way))
        if now - when >= _REPORT_SECONDS or done == self.limit:
            self._reported = (now, done)
            self._progress(Event("download", "progress", done, self.limit or 0, self.name))

    # -- closing ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file and keep it for a later attempt; an empty one is deleted."""
        with suppress(OSError):  # a full disk: `write` has raised for it
            self._file.close()
        if self.size == 0:
            self.path.unlink(missing_ok=True)

    def become(self, path: Path) -> None:
        """Rename the file to `path`, and flush it to the disk. Raises FbragError `disk_full`, `download_failed`."""
        try:
            self._file.close()
            put_in_place(self.path, path)
        except OSError as error:
            raise self._cannot_write(error) from None

    def _hashed(self) -> hashlib._Hash:
        if self._hash is None:
            self._file.flush()
            self._hash = hashlib.sha256()
            for block in blocks_of(self.path, self.size):
                self._hash.update(block)
        return self._hash

    def _cannot_write(self, error: OSError) -> FbragError:
        if is_full(error):
            return self._full(f"does not fit in {self.path.parent}: {error.strerror}")
        return not_writable(self.path, error, "download_failed", "choose another folder: FBRAG_MODELS_DIR")

    def _full(self, what: str) -> FbragError:
        return FbragError("disk_full", f"{self.name} {what}", "free some space, or choose another folder: FBRAG_MODELS_DIR")


class ModelSource(Protocol):
    """A source of a model file. environ: environment variables of the pull."""

    def where(self, environ: Mapping[str, str]) -> str:
        """Return a short name of the source for messages."""
        ...

    def plan(self, environ: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines of a dry run, for downloading the file on another machine."""
        ...

    def fetch(self, part: PartialDownload, folder: Path, environ: Mapping[str, str], patience: float) -> str | None:
        """Complete `part`. Return the file's SHA-256 (hex) as published by the source, None if it publishes none.

        folder: for temporary downloads, deleted afterwards. patience: seconds within which a hub must reply. Raises
        SourceFailedError; FbragError `disk_full`.
        """
        ...
