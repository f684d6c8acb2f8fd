"""Cache entries in anonymous temporary files. They disappear with the process, also when it is killed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.storage import arrays

_FIRST, _MOST = 1 << 20, 1 << 26  # bytes of a file: each is twice the one before, for few files serve many entries
_ALIGNED = 64  # bytes


class TemporaryEntries:
    """Entries as of a `Cache`, each the bytes of a file of arrays. They lie in files of the temporary folder that have no name.

    Where there is no such folder or no room in it, and on Windows, where every file has a name, they lie in memory.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], NDArray[np.uint8]] = {}
        self._free = np.zeros(0, np.uint8)  # what is left of the last file
        self._next = _FIRST

    def add(self, kind: str, key: str, data: bytes) -> None:
        """Add an entry. data: as of `arrays.packed`."""
        place = self._room(len(data))
        place[:] = np.frombuffer(data, np.uint8)
        self._entries[kind, key] = place

    @contextmanager
    def create(self, kind: str, key: str, meta: Mapping[str, Any], layout: arrays.Layout) -> Iterator[dict[str, arrays.Array]]:
        """Yield arrays of zeros, which become an entry when the block ends."""
        made: list[NDArray[np.uint8]] = []

        def room(size: int) -> NDArray[np.uint8]:
            made.append(self._room(size))
            return made[0]

        with arrays.create_in(room, f"{kind}/{key}", meta, layout) as views:
            yield views
        self._entries[kind, key] = made[0]

    def load(self, kind: str, key: str) -> tuple[dict[str, Any], dict[str, arrays.Array]] | None:
        """Return an entry's metadata and arrays; None if there is no such entry."""
        found = self._entries.get((kind, key))
        return None if found is None else arrays.unpack(found, f"{kind}/{key}")

    def __contains__(self, entry: tuple[str, str]) -> bool:
        return entry in self._entries

    def _room(self, size: int) -> NDArray[np.uint8]:
        if size > len(self._free):
            self._free = _file(max(size, self._next))
            self._next = min(2 * self._next, _MOST)
        place, self._free = self._free[:size], self._free[-(-size // _ALIGNED) * _ALIGNED :]
        return place


def _file(size: int) -> NDArray[np.uint8]:
    if os.name != "nt":
        try:
            with tempfile.TemporaryFile(prefix="fbrag-") as file:
                return arrays.mapped(file, size)
        except OSError:
            pass
    return np.zeros(size, np.uint8)
