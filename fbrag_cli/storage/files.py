"""File helpers: names as the disk spells them, whole-or-nothing writes, durable writes (fsync), locks, hashes, best-effort delete
and list."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO
from unicodedata import normalize

from fbrag_cli.errors import FbragError

_BLOCK = 1 << 20  # bytes
# Links are not followed, and opening a pipe does not wait for the other end.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_LONGEST_NAME = 255  # characters of a file name, on all common file systems


# -- names -------------------------------------------------------------------------------------------------------------------


def on_disk(path: str) -> str:
    """Return a path with each part as the disk spells it: a name that is not there becomes one that is equal to it in NFC.

    A name from a Mac may be decomposed (NFD): it looks like the one that is typed, but has other characters. From the first part
    on that the disk does not have in any form, the path stays as it is.
    """
    if path.isascii() or os.path.lexists(path):
        return path
    spelled = ""
    parts = PurePath(path).parts
    for i, part in enumerate(parts):
        is_there = os.path.lexists(os.path.join(spelled, part))
        names = [part] if is_there else [each.name for each in listed(Path(spelled)) if is_same_name(each.name, part)]
        if not names:
            return os.path.join(spelled, *parts[i:])
        spelled = os.path.join(spelled, min(names))
    return spelled


def is_same_name(name: str, other: str) -> bool:
    """Return whether two names look the same: they are equal in NFC."""
    longest = max(len(name), len(other))  # a run of marks takes a time that grows with the square of its length
    return name == other or (longest <= _LONGEST_NAME and normalize("NFC", name) == normalize("NFC", other))


# -- atomic writes -----------------------------------------------------------------------------------------------------------


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Context manager: write a file atomically. The block writes to the path it is given, which becomes `path` when the block
    ends.

    If the block raises, `path` is unchanged. Links are followed, and the permissions of an existing file are kept. Raises
    OSError; before the block if `path` is a folder, or its folder is not writable.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    try:
        temporary.touch(0o666 if mode is None else 0o600, exist_ok=False)
        yield temporary
        put_in_place(temporary, target, mode)
    except BaseException:
        delete(temporary)
        raise


def put_in_place(temporary: Path, target: Path, mode: int | None = None) -> None:
    """Rename a finished file over `target`, durably even if the machine crashes. Raises OSError."""
    flush(temporary)
    if mode is not None:
        temporary.chmod(mode)
    os.replace(temporary, target)
    with suppress(OSError):  # some file systems cannot do this for folders
        _flush_folder(target.parent)


def is_full(error: OSError) -> bool:
    """Return whether the disk, or the user's quota, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def not_writable(path: object, error: OSError, code: str, hint: str) -> FbragError:
    """Return the error for an unwritable file or folder."""
    folder = os.path.dirname(os.fspath(path)) if isinstance(path, str | os.PathLike) else ""
    missing = folder if error.errno == errno.ENOENT and folder and not os.path.isdir(folder) else ""
    why = f"there is no folder {missing}" if missing else error.strerror or error
    return FbragError(code, f"{path} cannot be written: {why}", hint)


def flush(path: Path) -> int:
    """Flush a file, or all files in a folder, to disk (fsync). Return the size in bytes. Raises OSError."""
    size = 0
    for file in files_of(path):
        with file.open("r+b") as stream:
            os.fsync(stream.fileno())
            size += os.fstat(stream.fileno()).st_size
    if path.is_dir():
        _flush_folder(path)
    return size


def _flush_folder(path: Path) -> None:
    if os.name == "nt":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Context manager: hold the lock of a file (`.NAME.lock` next to it). The system releases it when the process ends.

    Raises BlockingIOError if another process has it. On a file system without locks, nothing is locked.
    """
    from filelock import FileLock, Timeout

    target = Path(os.path.realpath(path))
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BlockingIOError(errno.EAGAIN, "another process has it", str(path)) from None
    except OSError:
        pass
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):  # Windows does not remove open files
                os.unlink(lock.lock_file)  # filelock checks that the file it has locked is still there
            lock.release()


# -- reading and the rest ----------------------------------------------------------------------------------------------------


def sha256_of(path: Path, progress: Callable[[int], object] = lambda done: None, most: int | None = None) -> str:
    """Return the SHA-256 (hex) of a file. progress: called with the number of bytes read so far. most: maximum file size in
    bytes. Raises OSError."""
    import hashlib

    if most is not None:
        _check_size(path, os.stat(path).st_size, most)
    digest, done = hashlib.sha256(), 0
    for block in blocks_of(path):
        digest.update(block)
        progress(done := done + len(block))
    return digest.hexdigest()


def blocks_of(path: Path, limit: int | None = None) -> Iterator[bytes]:
    """Yield the file in blocks of 1 MiB, up to `limit` bytes. Raises OSError, also for a pipe or a device."""
    with open_regular(path) as file:
        while block := file.read(_BLOCK if limit is None else min(limit, _BLOCK)):
            limit = None if limit is None else limit - len(block)
            yield block


def read_small(path: Path, limit: int = 16_000_000) -> bytes:
    """Return the content of a file written by a person, such as a configuration file. Raises OSError, also if it exceeds `limit`
    bytes."""
    with open(on_disk(str(path)), "rb") as file:  # a pipe of the shell has no size to ask for
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of an untrusted file. Raises OSError as `open_regular` does, and if it has more than `most` bytes."""
    with open_regular(path) as file:
        _check_size(path, os.fstat(file.fileno()).st_size, most)
        data = file.read(most + 1)
    _check_size(path, len(data), most)
    return data


def _check_size(path: Path, size: int, most: int) -> None:
    if size > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or the target of a link, for reading. Raises OSError, at once for a pipe or a device, which may never
    end."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # checked before opening: opening a device can have effects
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))


def open_plain(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a file like `os.open`, but no link, pipe, device or folder. Raises OSError."""
    try:
        file = os.open(path, flags | _PLAIN, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def overwrite(path: Path, data: bytes, flags: int = 0) -> None:
    """Overwrite the start of a file, or with O_APPEND append to it; keep the rest. Raises OSError."""
    file = open_plain(path, os.O_WRONLY | os.O_CREAT | flags)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def listed(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; an empty list if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or all files below the folder."""
    return [each for each in path.rglob("*") if not each.is_dir()] if path.is_dir() else [path]


def delete(path: Path) -> None:
    """Delete a file or folder as far as possible; a link, not its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
