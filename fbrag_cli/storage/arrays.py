"""A file of numpy arrays with metadata and checksums. It is memory-mapped, so that a file of any size opens at once.

It begins with a magic number, the length of a JSON header and the CRC-32 of the header. The header is followed by the CRC-32 of
each array. It has the kind and key of the entry: a file that was renamed to another key is damaged. `load` always checks the
header, and each array of up to 64 MB (50 ms for 100 MB). For a larger array it checks only the length, so that questions stay
fast; folders of more than about 30 million words and texts of 64 MB have such arrays.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.storage.files import open_plain

Array = NDArray[Any]

#: Name -> type and shape.
Layout = Mapping[str, tuple[Any, tuple[int, ...]]]

_MAGIC = b"fbrag\x00\x00\x02"  # the last byte is the version of this format
_START = struct.Struct("<8sQI")  # magic, bytes of the header, its checksum
_SUM = struct.Struct("<I")
_ALIGNED = 64  # bytes
#: Size in bytes of the largest array whose content is checked.
CHECKED = 64 << 20


def save(path: Path, entry: str, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write `meta` (any JSON object) and the arrays to the file of an entry ("KIND/KEY"). Raises OSError."""
    plan = _plan(entry, meta, {name: (array.dtype, array.shape) for name, array in arrays.items()})
    data = [_bytes(np.ascontiguousarray(array)) for array in arrays.values()]
    with path.open("wb") as file:
        file.write(plan.head)
        file.write(b"".join(_SUM.pack(crc32(each)) for each in data))
        for (_, _, at), values in zip(plan.described.values(), data, strict=True):
            file.seek(plan.start + at)
            file.write(values)
        file.truncate(plan.start + plan.size)


@contextmanager
def create(path: Path, entry: str, meta: Mapping[str, Any], layout: Layout) -> Iterator[dict[str, Array]]:
    """Context manager: make a file like `save`, with zeroed arrays that the block fills. They are mapped, and may exceed main
    memory.

    The block gets the arrays by name, and must not keep them. Raises OSError, for example if the disk is full.
    """
    plan = _plan(entry, meta, layout)
    with path.open("w+b") as file:
        _reserve(file, plan.start + plan.size)
        data = np.memmap(file, np.uint8, "r+", shape=(plan.start + plan.size,))
    data[: len(plan.head)] = np.frombuffer(plan.head, np.uint8)
    views = _views(data[plan.start :], plan.described)
    yield views
    sums = b"".join(_SUM.pack(crc32(_bytes(each))) for each in views.values())
    data[len(plan.head) : len(plan.head) + len(sums)] = np.frombuffer(sums, np.uint8)
    views.clear()


class DamagedError(ValueError):
    """The file is damaged, or belongs to another entry."""


def load(path: Path, entry: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return `meta` and the arrays, mapped read-only.

    Raises DamagedError if the file is damaged or is that of another entry than `entry` ("KIND/KEY"); OSError if it cannot be
    read.
    """
    try:
        return _load(path, entry)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise DamagedError(f"{entry} is damaged: {error}") from error


def _load(path: Path, entry: str) -> tuple[dict[str, Any], dict[str, Array]]:
    with os.fdopen(open_plain(path), "rb") as file:
        data = np.memmap(file, np.uint8, "r")
    magic, length, checksum = _START.unpack(data[: _START.size].tobytes().ljust(_START.size, b"\0"))
    end = _START.size + length
    written = data[_START.size : end].tobytes()
    if magic != _MAGIC or crc32(written) != checksum:
        raise ValueError(f"{entry} is not a file of arrays")
    header = json.loads(written)
    described, size = header["arrays"], header["size"]
    start = _start(length, len(described))
    if header["entry"] != entry or len(data) != start + size:
        raise ValueError(f"{entry}: truncated, or another entry")
    sums = _SUM.iter_unpack(data[end : end + _SUM.size * len(described)].tobytes())
    views = _views(data[start:], described)
    for view, (checksum,) in zip(views.values(), sums, strict=True):
        if view.nbytes <= CHECKED and crc32(_bytes(view)) != checksum:
            raise ValueError(f"{entry} is damaged")
    return dict(header["meta"]), views


class _Plan(NamedTuple):
    """The layout of a file. head: the bytes before the arrays' checksums. start, size: offset and size of the arrays, in bytes.

    described: name -> type, shape and offset (bytes after `start`).
    """

    head: bytes
    described: dict[str, tuple[str, list[int], int]]
    start: int
    size: int


def _plan(entry: str, meta: Mapping[str, Any], layout: Layout) -> _Plan:
    described, size = {}, 0
    for name, (dtype, shape) in layout.items():
        described[name] = (np.dtype(dtype).str, list(shape), size)
        size += -(-np.dtype(dtype).itemsize * int(np.prod(shape)) // _ALIGNED) * _ALIGNED
    header = json.dumps({"entry": entry, "meta": meta, "arrays": described, "size": size}, ensure_ascii=True).encode()
    head = _START.pack(_MAGIC, len(header), crc32(header)) + header
    return _Plan(head, described, _start(len(header), len(described)), size)


def _start(header: int, arrays: int) -> int:
    """Return the offset in bytes of the arrays, after a header of `header` bytes and the checksums of `arrays` arrays."""
    return -(-(_START.size + header + arrays * _SUM.size) // _ALIGNED) * _ALIGNED


def _reserve(file: BinaryIO, size: int) -> None:
    """Allocate `size` bytes for a new file. Without that, writing to its map would kill the process if the disk is full.

    Raises OSError.
    """
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except AttributeError:  # macOS, Windows
        file.truncate(size)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # not supported by some file systems
            raise
        file.truncate(size)


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _views(data: NDArray[np.uint8], described: Mapping[str, Any]) -> dict[str, Array]:
    views = {}
    for name, (dtype, shape, at) in described.items():
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        views[name] = np.asarray(data[at : at + size]).view(dtype).reshape(shape)
    return views
