"""`IndexStore`: the cache entries of indexing, their kinds and their keys. It does not know what an entry means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache, entry_key

T = TypeVar("T")

#: documents: the entry of one file. corpora: the folder index of several files. listings: which folder index some files made.
#: embeddings: vectors of some chunks of one document.
EntryKind = Literal["documents", "corpora", "listings", "embeddings"]

Held = tuple[dict[str, Any], dict[str, arrays.Array]]

_FORM = 18  # to be increased when the content of any entry changes within a version


def index_key(*parts: object) -> str:
    """Return the key of an entry of indexing that is made from `parts`."""
    return entry_key(_FORM, *parts)


@dataclass(frozen=True, slots=True)
class IndexStore:
    """The entries of indexing in `cache`. An entry is a file of arrays with a record of metadata (`storage.arrays`).

    An entry that is damaged, or is that of another key, is discarded when it is loaded.
    memory: metadata and arrays of the entries of this run alone, by kind and key.
    """

    cache: Cache
    memory: dict[tuple[EntryKind, str], Held] = field(default_factory=dict)

    def restore(self, kind: EntryKind, key: str, made_from: Callable[[dict[str, Any], dict[str, arrays.Array]], T]) -> T | None:
        """Return what `made_from` makes of an entry's metadata and arrays (mapped, read-only), and mark the entry as used.

        Return None if there is no such entry. ValueError there means a damaged entry.
        """
        if (kind, key) in self.memory:
            return made_from(*self.memory[kind, key])
        return self.cache.load(kind, key, lambda path: made_from(*arrays.load(path, f"{kind}/{key}")))

    def save(self, kind: EntryKind, key: str, meta: Mapping[str, Any], held: Mapping[str, arrays.Array]) -> bool:
        """Write an entry. Return False where the cache cannot be written: that costs only the time to make it again."""
        return self.cache.store(kind, key, lambda path: arrays.save(path, f"{kind}/{key}", meta, held))

    @contextmanager
    def create(
        self, kind: EntryKind, key: str, meta: Mapping[str, Any], layout: arrays.Layout, *, in_cache: bool
    ) -> Iterator[dict[str, arrays.Array]]:
        """Yield arrays of zeros, which become an entry when the block ends. Raises OSError if that fails.

        in_cache: whether the entry goes into the cache; otherwise it is one of this run alone.
        """
        if not in_cache:
            held = {name: np.zeros(shape, dtype) for name, (dtype, shape) in layout.items()}
            yield held
            self.memory[kind, key] = dict(meta), held
            return
        with self.cache.new(kind, key) as path, arrays.create(path, f"{kind}/{key}", meta, layout) as held:
            yield held

    def has_all(self, kind: EntryKind, keys: Iterable[str]) -> bool:
        """Return whether all these entries are there. They are not opened."""
        missing = {key for key in keys if (kind, key) not in self.memory}
        return not missing or missing <= self.cache.keys(kind)
