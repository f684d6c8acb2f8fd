"""Which files a client may name: those below the folders that the user allows, as far as a walk of the folder reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path

from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.ignore import left_out
from fbrag_cli.storage.config_file import expanded
from fbrag_cli.storage.files import listed, on_disk
from fbrag_cli.text.printable import one_line, plural

MOST_PATHS = 1000  # of one call
_MOST_COMPARED = 1000  # names of a folder, with one that it does not have
_MOST_NAMED = 5  # of them, in a hint


@dataclass(frozen=True)
class Door:
    """Lets paths below `roots` through, which are absolute and without links. names: paths that a name such as @papers
    means; they have to lie below the roots, too."""

    roots: tuple[Path, ...]
    names: Mapping[str, list[str]] = field(default_factory=dict)

    @cached_property
    def _bases(self) -> list[str]:
        """Where relative paths begin: in the working folder, then in each root."""
        return ["", *(str(each) for each in self.roots if each.is_dir())]

    @classmethod
    def to(cls, folders: Sequence[str], names: Mapping[str, list[str]] | None = None) -> Door:
        """Return the door to these folders. Raises FbragError `usage` for what is no folder."""
        for folder in folders:
            if not os.path.isdir(folder):
                raise FbragError("usage", f"--allow {one_line(folder)}: there is no such folder", "name a folder that is there")
        return cls(tuple(Path(each).resolve() for each in folders), names or {})

    def paths(self, named: Sequence[str]) -> list[str]:
        """Return the paths of files and folders. Those named by a relative path are relative if they lie in the working folder.

        Raises FbragError `doc_not_found` for one that is outside of the roots, also by a link, and for one that does not exist;
        `usage` for one that is hidden or git-ignored below them, for none and for more than 1,000.
        """
        if not 0 < len(named) <= MOST_PATHS:
            raise FbragError("usage", f"paths: {plural(len(named), 'path')}", f"name 1 to {MOST_PATHS:,} files or folders")
        return [self.path(each) for each in expanded(named, self.names)]

    def path(self, named: str) -> str:
        """Return one path. A relative one counts from the working folder, or else from the root that has it.

        Raises as `paths`, and FbragError `usage` for one that several roots have.
        """
        shown, allowed = one_line(named, 200), ", ".join(one_line(str(root)) for root in self.roots)
        shown_as = str if os.path.isabs(named) else _shown
        try:
            here, *below = [Path(on_disk(os.path.join(each, named))).resolve() for each in self._bases]
        except (OSError, ValueError, RuntimeError):  # a null byte, a circle of links
            raise FbragError("usage", f"{shown} is not a path", "name a file or a folder") from None
        inside = [each for each in dict.fromkeys((here, *below)) if not {each, *each.parents}.isdisjoint(self.roots)]
        if not inside:
            what = f"{shown} is not in a folder that may be read: {allowed}"
            hint = "name a path in it; the user can start fbrag with another --allow FOLDER"
            raise FbragError("doc_not_found", what, hint, document=named)
        existing = [each for each in inside if os.path.exists(each)]  # Path.exists raises OSError for a name that is too long
        if not existing:
            beside = (each for one in inside for each in islice(listed(one.parent), _MOST_COMPARED))
            near_by = {each.name: shown_as(Path(each.path)) for each in beside if not each.name.startswith(".")}
            near = [one_line(near_by[name]) for name in get_close_matches(inside[-1].name, near_by, _MOST_NAMED, 0)]
            hint = f"there are {', '.join(near)}" if near else f"name a file or a folder in {allowed}"
            raise FbragError("doc_not_found", f"there is no {shown} in {allowed}", hint, document=named)
        if existing[0] != here and len(existing) > 1:
            several = ", ".join(one_line(str(each)) for each in existing)
            raise FbragError("usage", f"{shown} is in several folders", f"name one of {several}")
        reasons = [left_out(root, existing[0]) for root in self.roots if root in (existing[0], *existing[0].parents)]
        if all(reasons):
            hint = "name another file; the user can allow its folder by name, with --allow FOLDER"
            raise FbragError("usage", f"{shown} is {reasons[0]}: such a file is not read", hint)
        return shown_as(existing[0])


def _shown(path: Path) -> str:
    """Return a path, relative if it is in the working folder."""
    near = os.path.relpath(path) if Path.cwd() in path.parents else "-"
    return near if near != "-" else str(path)  # "-" alone would be stdin
