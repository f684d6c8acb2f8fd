"""Which files a client may name: those below the folders that the user allows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line, plural

MOST_PATHS = 1000  # of one call


@dataclass(frozen=True, slots=True)
class Door:
    """Lets paths below `roots` through, which are absolute and without links. Relative paths count from the working folder."""

    roots: tuple[Path, ...]

    @classmethod
    def to(cls, folders: Sequence[str]) -> Door:
        """Return the door to these folders. Raises FbragError `usage` for what is no folder."""
        for each in folders:
            if not os.path.isdir(each):
                raise FbragError("usage", f"--allow {one_line(each)}: there is no such folder", "name a folder that is there")
        return cls(tuple(Path(each).resolve() for each in folders))

    def paths(self, named: Sequence[str]) -> list[str]:
        """Return the paths of files and folders, relative where they lie in the working folder.

        Raises FbragError `usage` for one that lies outside of the roots, also by a link, for none and for more than 1,000;
        `doc_not_found` for one that is not there.
        """
        if not 0 < len(named) <= MOST_PATHS:
            raise FbragError("usage", f"paths: {plural(len(named), 'path')}", f"name 1 to {MOST_PATHS:,} files or folders")
        return [self.path(each) for each in named]

    def path(self, named: str) -> str:
        """Return one path. Raises as `paths`."""
        shown = one_line(named, 200)
        try:
            found = Path(named).resolve()
        except (OSError, ValueError, RuntimeError):  # a null byte, a circle of links
            raise FbragError("usage", f"{shown} is no path", "name a file or a folder") from None
        if not any(found == root or root in found.parents for root in self.roots):
            allowed = ", ".join(one_line(str(root)) for root in self.roots)
            raise FbragError("usage", f"{shown} lies outside of {allowed}", "start fbrag with --allow FOLDER to let it be read")
        if not os.path.exists(found):  # nor is a name that is too long, of which Path.exists raises OSError
            raise FbragError("doc_not_found", f"{shown} is not there", "name a file or a folder that is", document=named)
        here = Path.cwd()
        near = str(found.relative_to(here)) if here in found.parents else "-"
        return near if near != "-" else str(found)  # "-" alone would be stdin
