"""Find the files that the user means: named files, and of a folder those of a known type that git does not ignore."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.source import Signature, stat_file
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.patterns import Patterns, parse
from fbrag_cli.indexing.walk import FoundFile, PathPatterns, Walk


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that were found, in the order of the given paths. Those of a folder are sorted by path, chapter2 before
    chapter10.

    warnings: one line for each folder or .gitignore that could not be read."""

    files: tuple[FoundFile, ...]
    warnings: tuple[str, ...] = ()


def find_files(
    paths: Iterable[str], include: Sequence[str] = (), exclude: Sequence[str] = (), cancellation: Cancellation | None = None
) -> FoundFiles:
    """Return the files that `paths` name, each once. A named file is taken whatever its suffix; "-" stands for stdin.

    From a folder, at any depth, come the files that have a known suffix (or match a pattern in `include`), are not empty, and are
    not left out by `exclude` or, within a git repository, by .gitignore and .git/info/exclude. Hidden files and folders, links
    that lead out of the folder, pipes, sockets and devices are skipped. include, exclude: patterns as in a .gitignore of the
    folder.

    Raises FbragError: as `stat_file` for a path that is no folder; doc_unreadable for a folder that cannot be read; doc_empty
    if the folders have no such file and no file is named; usage for an invalid pattern. Raises the error of a cancellation.
    """
    patterns = PathPatterns(_option("--include", include), _option("--exclude", exclude))
    files: list[FoundFile] = []
    warnings: list[str] = []
    barren: list[FbragError] = []
    taken: set[str] = set()  # real paths
    for path in paths:
        if path == "-":
            files.append(FoundFile(path, Signature(0, now := time.time_ns(), now, 0)))
        elif os.path.isdir(path):
            walk = Walk(path, patterns, taken, cancellation or Cancellation())
            found = walk.run()
            files += found
            warnings += walk.warnings
            if not found and not walk.n_known:
                barren.append(walk.nothing_found())
        else:
            signature = stat_file(path)
            if (real := os.path.realpath(path)) not in taken:
                taken.add(real)
                files.append(FoundFile(path, signature))
    if barren and not files:
        raise barren[0]
    return FoundFiles(tuple(files), (*warnings, *(error.message for error in barren)))


def _option(name: str, globs: Sequence[str]) -> Patterns | None:
    if not globs:
        return None
    patterns, mistaken = parse(globs)
    for glob in (*mistaken, *(glob for glob in globs if not glob.strip() or glob.startswith("#"))):
        raise FbragError("usage", f"{name} {shlex.quote(glob)}: not a pattern", f"use one as in .gitignore files: {name} '*.txt'")
    return patterns
