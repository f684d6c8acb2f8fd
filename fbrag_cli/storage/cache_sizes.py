"""The size of a cache in bytes, without looking at each entry."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fbrag_cli.storage.files import open_plain, overwrite, put_in_place

_COUNT_AGAIN_SECONDS = 86400
_COUNT_AGAIN_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """A file that notes a cache's size: on its first line the bytes of all entries and the time of that count (seconds since the
    epoch), then a line with the bytes of each entry added since. An entry added during a count is in the next one.
    """

    path: Path

    def add(self, size: int) -> None:
        """Add the bytes of a new entry."""
        with suppress(OSError):  # the next count sees it
            overwrite(self.path, f"{size}\n".encode("ascii"), os.O_APPEND)

    def may_exceed(self, limit: int) -> bool:
        """Return whether the cache may have more than `limit` bytes: by these notes, or because they are too old to believe."""
        try:
            with os.fdopen(open_plain(self.path), encoding="ascii") as file:
                first, *added = file.read().splitlines()
            total, counted = map(int, first.split())
            fresh = 0 <= time.time() - counted < _COUNT_AGAIN_SECONDS and len(added) < _COUNT_AGAIN_ENTRIES
            return not fresh or total + sum(map(int, added)) > limit
        except (OSError, ValueError):  # never counted, or no longer readable
            return True

    def counted(self, total: int, temporary: Path) -> None:
        """Note a new count. `temporary` is where the file is written first. Raises OSError."""
        overwrite(temporary, f"{total} {int(time.time())}\n".encode("ascii"))
        put_in_place(temporary, self.path)

    def forget(self) -> None:
        """Drop the notes after a removal, so that the next question to `may_exceed` leads to a count."""
        with suppress(OSError):
            self.path.unlink()
