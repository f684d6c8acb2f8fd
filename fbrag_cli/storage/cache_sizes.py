"""How many bytes a cache has, without looking at each entry."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fbrag_cli.storage.files import write

_COUNT_AGAIN_SECONDS = 86400
_COUNT_AGAIN_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """A file: bytes of everything and when they were counted (seconds since the epoch), then of each entry that came since,
    a line each. What a count does not see, because it comes while that goes on, the next one does.
    """

    path: Path

    def add(self, size: int) -> None:
        """An entry of so many bytes came."""
        with suppress(OSError):  # the next count sees it
            write(self.path, f"{size}\n".encode("ascii"), os.O_APPEND)

    def may_exceed(self, limit: int) -> bool:
        """Whether there are more bytes, or it is time to count again."""
        try:
            first, *added = self.path.read_text(encoding="ascii").splitlines()
            total, counted = map(int, first.split())
            fresh = 0 <= time.time() - counted < _COUNT_AGAIN_SECONDS and len(added) < _COUNT_AGAIN_ENTRIES
            return not fresh or total + sum(map(int, added)) > limit
        except (OSError, ValueError):  # never counted, or no longer readable
            return True

    def counted(self, total: int, temporary: Path) -> None:
        """All were counted. Written to `temporary` first. Raises OSError."""
        write(temporary, f"{total} {int(time.time())}\n".encode("ascii"))
        os.replace(temporary, self.path)

    def forget(self) -> None:
        """Entries have gone: it is time to count again."""
        with suppress(OSError):
            self.path.unlink()
