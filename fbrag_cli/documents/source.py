"""Read the bytes of a file or of stdin, or raise an error with the reason."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import sys
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import on_disk
from fbrag_cli.text.printable import byte_size
from fbrag_cli.text.suggest import closest

#: Larger files are refused: reading one takes several times its size in memory.
MAX_BYTES = 2_000_000_000

_MAX_NAMES = 5_000  # of a folder, compared with a name that is not in it
_CHUNK = 1 << 20


class Signature(NamedTuple):
    """The state of a file, without reading it. size: bytes. mtime_ns, ctime_ns: last change of its content, and of its content or
    attributes (nanoseconds since 1970)."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True)
class Source:
    """A file in memory. path: path as the user gave it. name: its name in messages. data: all its bytes. signature: its state
    when it was read; None for stdin."""

    path: str
    name: str
    data: bytes = field(repr=False)
    signature: Signature | None = None

    def __reduce__(self) -> tuple[type[Source], tuple[object, ...]]:
        """Send the file to another process without its opened zip."""
        return Source, (self.path, self.name, self.data, self.signature)

    @cached_property
    def zip(self) -> zipfile.ZipFile:
        """Open the file as a zip, once for all who look into it. zipfile raises half a dozen types of errors for other files."""
        return zipfile.ZipFile(BytesIO(self.data))

    @property
    def shell_path(self) -> str:
        """Return the path quoted for a shell command in a hint."""
        return "FILE" if self.path == "-" else shlex.quote(self.path)

    def damaged(self, kind: str, reason: str) -> FbragError:
        """Return the error for a damaged file. kind: kind of document, as "an EPUB book". reason: a clause that follows "but"."""
        what = f"{self.name} is damaged: {kind}, but {reason}"
        return FbragError("doc_unreadable", what, "get a new copy of it", document=self.path)


def read_source(path: str, stdin: BinaryIO | None = None) -> Source:
    """Read all bytes of the file `path`, or of `stdin` (by default the process's own) for "-".

    Raises FbragError: doc_not_found; unsupported_format for a folder; doc_unreadable for a path that is not a regular file,
    cannot be read, has more than MAX_BYTES, or changes while it is read.
    """
    if path == "-":
        return Source(path, "stdin", _read_stdin(stdin))
    path = on_disk(path)
    stat_file(path)  # before opening it: opening a device can have effects
    try:
        for _ in range(2):
            with open(path, "rb", opener=_open) as file:
                before = os.fstat(file.fileno())
                _check(path, before)
                data = file.read(before.st_size + 1) if before.st_size else _read_unsized(file, path, path)
                if data is None:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                if Signature.of(before) == Signature.of(os.fstat(file.fileno())):
                    return Source(path, path, data, Signature.of(before))
    except OSError as error:
        raise _unreadable(path, path, error) from None
    what = f"{path} cannot be read: it changes while it is read"
    raise FbragError("doc_unreadable", what, f"read a copy: cp {shlex.quote(path)} COPY", document=path)


def stat_file(path: str) -> Signature:
    """Return the signature of a file without opening it. Raises as `read_source` if it cannot be read."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the path
        raise _not_found(path) from None
    except OSError as error:
        raise _unreadable(path, path, error) from None
    _check(path, status)
    return Signature.of(status)


def _open(path: str, flags: int) -> int:
    """Open a file as `os.open`, but never wait: it may have become a pipe or a terminal in the meantime."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _read_unsized(file: BinaryIO, path: str, name: str) -> bytes | None:
    """Read stdin, or a file whose size is 0 but that may have content, as in /proc; None if reading would have to wait.

    Raises FbragError doc_unreadable if there are more than MAX_BYTES.
    """
    chunks: list[bytes] = []
    size = 0
    while chunk := file.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise FbragError(
                "doc_unreadable", f"{name} gives more than {byte_size(MAX_BYTES)}", "give it in parts", document=path
            )
    return None if chunk is None and not chunks else b"".join(chunks)


def _read_stdin(stdin: BinaryIO | None) -> bytes:
    if stdin is None:
        if sys.stdin is None:
            raise FbragError("doc_unreadable", "stdin is closed", 'COMMAND | fbrag ask - "…"', document="-")
        stdin = sys.stdin.buffer
    with suppress(AttributeError, OSError, ValueError):  # not a file of the operating system
        os.set_blocking(stdin.fileno(), True)  # otherwise late input would be lost
    try:
        return _read_unsized(stdin, "-", "stdin") or b""
    except OSError as error:
        raise _unreadable("-", "stdin", error) from None


def _check(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        files = f"{shlex.quote(path.rstrip('/') or '/')}/*.txt"
        raise FbragError("unsupported_format", f"{path} is a folder", f'name the files: fbrag ask {files} "…"', document=path)
    if not stat.S_ISREG(status.st_mode):
        kind = "a pipe" if stat.S_ISFIFO(status.st_mode) else "a socket" if stat.S_ISSOCK(status.st_mode) else "a device"
        hint = f'pass it through stdin: fbrag ask - "…" < {shlex.quote(path)}'
        raise FbragError("doc_unreadable", f"{path} is {kind}, not a file", hint, document=path)
    if status.st_size > MAX_BYTES:
        what = f"{path} has {byte_size(status.st_size)}; files up to {byte_size(MAX_BYTES)} are read"
        raise FbragError("doc_unreadable", what, f"give it in parts: split -C 500M {shlex.quote(path)} part-", document=path)


def _not_found(path: str) -> FbragError:
    folder, name = os.path.split(path)
    if os.path.islink(path):
        what = f"{path} is a link to {os.readlink(path)}, which does not exist"
        return FbragError("doc_not_found", what, f"ls -l {shlex.quote(path)}", document=path)
    if near := _nearest(folder or ".", name):
        hint = f"did you mean {shlex.quote(os.path.join(folder, near))}?"
    elif folder and not os.path.isdir(folder):
        hint = f"{folder} is not a folder that exists"
    else:
        hint = f"ls {shlex.quote(folder)}" if folder else "check its name, or give its folder too"
    return FbragError("doc_not_found", f"there is no file {path}", hint, document=path)


def _nearest(folder: str, name: str) -> str | None:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MAX_NAMES) if not entry.is_dir(follow_symlinks=False)]
    except (OSError, ValueError):
        return None
    near = closest(name, names) or ""
    stem = os.path.splitext(near)[0]
    return near if stem and closest(os.path.splitext(name)[0], [stem]) else None  # not for the same ending alone


def _unreadable(path: str, name: str, error: OSError) -> FbragError:
    reason = (error.strerror or type(error).__name__).lower()
    hint = "redirect a file or a pipe into it" if path == "-" else f"ls -l {shlex.quote(str(Path(path)))}"
    return FbragError("doc_unreadable", f"{name} cannot be read: {reason}", hint, document=path)
