"""Files as a cache needs them: on the disk for good before they count, deleted as far as it goes, listed if they can be."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def listed(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def files_of(path: Path) -> list[Path]:
    """The file itself, or all files below the folder."""
    return [each for each in path.rglob("*") if not each.is_dir()] if path.is_dir() else [path]


def flush(path: Path) -> int:
    """Have a file, or a folder of files, on the disk for good; its bytes. Raises OSError."""
    size = 0
    for file in files_of(path):
        with file.open("r+b") as stream:
            os.fsync(stream.fileno())
            size += os.fstat(stream.fileno()).st_size
    if path.is_dir() and os.name != "nt":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return size


def write(path: Path, data: bytes, flags: int = 0) -> None:
    """Write over the start of a file, or with O_APPEND after its end, and leave the rest of it. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def delete(path: Path) -> None:
    """A file or a folder, as far as it goes; a link, not what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
