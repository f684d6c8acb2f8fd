"""A file of numpy arrays with metadata. It is memory-mapped, so that a file of any size opens at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: Name -> type and shape.
Layout = Mapping[str, tuple[Any, tuple[int, ...]]]

_MAGIC = b"fbrag\x00\x00\x01"  # the last byte is the version of this format
_ALIGNED = 64  # bytes


def save(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write `meta` (any JSON object) and the arrays to a file. Raises OSError."""
    created = create(path, meta, {name: (array.dtype, array.shape) for name, array in arrays.items()})
    for name, array in arrays.items():
        created[name][...] = array


def create(path: Path, meta: Mapping[str, Any], layout: Layout) -> dict[str, Array]:
    """Make a file with arrays of zeros, mapped for writing: they may be larger than memory. Raises OSError."""
    described, size = {}, 0
    for name, (dtype, shape) in layout.items():
        described[name] = [np.dtype(dtype).str, list(shape), size]
        size += -(-np.dtype(dtype).itemsize * int(np.prod(shape)) // _ALIGNED) * _ALIGNED
    header = json.dumps({"meta": meta, "arrays": described, "size": size}, ensure_ascii=True).encode()
    start = _start(len(header))
    with path.open("wb") as file:
        file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
        file.truncate(start + size)
    data = np.memmap(path, np.uint8, "r+", offset=start, shape=(size,)) if size else np.zeros(0, np.uint8)
    return _views(data, described)


def load(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return `meta` and the arrays, mapped read-only. Raises ValueError if the file is damaged, OSError if it cannot be read."""
    with path.open("rb") as file:
        magic, length = file.read(len(_MAGIC)), int.from_bytes(file.read(8), "little")
        whole = path.stat().st_size
        if magic != _MAGIC or length > whole:
            raise ValueError(f"{path} is not a file of arrays")
        header = json.loads(file.read(length))
    start, size = _start(length), header["size"]
    if whole != start + size:
        raise ValueError(f"{path} is not whole")
    data = np.memmap(path, np.uint8, "r", offset=start, shape=(size,)) if size else np.zeros(0, np.uint8)
    return header["meta"], _views(data, header["arrays"])


def _start(header: int) -> int:
    """Return the offset (bytes) of the arrays after a header of so many bytes."""
    return -(-(len(_MAGIC) + 8 + header) // _ALIGNED) * _ALIGNED


def _views(data: NDArray[np.uint8], described: Mapping[str, Any]) -> dict[str, Array]:
    views = {}
    for name, (dtype, shape, at) in described.items():
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        views[name] = np.asarray(data[at : at + size]).view(dtype).reshape(shape)
    return views
