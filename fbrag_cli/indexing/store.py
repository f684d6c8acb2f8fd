"""`IndexStore`: the cache entries of indexing, their kinds and their keys. It does not know what an entry means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache, entry_key

#: documents: a digest of one file. corpora: the pool of several digests. listings: which pool the files of a folder made.
#: embeddings: vectors or lexical weights of some chunks of one document.
Kind = Literal["documents", "corpora", "listings", "embeddings"]

_FORM = 3  # to be increased when the content of any entry changes within a version


def index_key(*parts: object) -> str:
    """Return the key of an entry of indexing that is made from `parts`."""
    return entry_key(_FORM, *parts)


@dataclass(frozen=True, slots=True)
class IndexStore:
    """The entries of indexing in `cache`. An entry is a file of arrays with a record of metadata (`storage.arrays`)."""

    cache: Cache

    def load(self, kind: Kind, key: str) -> tuple[dict[str, Any], dict[str, arrays.Array]] | None:
        """Return an entry's metadata and arrays (mapped, read-only), and mark it as used; None if there is no such entry.

        A damaged entry is discarded.
        """
        return self.cache.load(kind, key, arrays.load)

    def save(self, kind: Kind, key: str, meta: Mapping[str, Any], held: Mapping[str, arrays.Array]) -> bool:
        """Write an entry. Return False where the cache cannot be written: that costs only the time to make it again."""
        return self.cache.store(kind, key, lambda path: arrays.save(path, meta, held))

    def new(self, kind: Kind, key: str) -> AbstractContextManager[Path]:
        """Return a context with the path of a file that becomes the entry at its end. Raises OSError if that fails."""
        return self.cache.new(kind, key)

    def has_all(self, kind: Kind, keys: Iterable[str]) -> bool:
        """Return whether all these entries are there. They are not opened."""
        return self.cache.keys(kind).issuperset(keys)

    def touch(self, kind: Kind, keys: Iterable[str]) -> bool:
        """Mark entries as used. Return whether any of them was last used more than an hour ago."""
        return self.cache.touch(kind, keys)
