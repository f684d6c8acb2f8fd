"""An output is never one of the documents or data files that a command reads: it would destroy them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from fbrag_cli.errors import FbragError
from fbrag_cli.session.settings import DocumentSettings


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str]) -> None:
    """Raise FbragError `usage` where an output is one of the files `inputs`, whatever its name is.

    outputs: paths by option. inputs: looked at only where an output exists.
    """
    existing = {identity: option for option, path in outputs.items() if (identity := _identity(path))}
    for path in inputs if existing else ():
        if option := existing.get(_identity(path) or (0, 0)):
            what = f"{option} {outputs[option]}: it is read, and would be overwritten"
            raise FbragError("usage", what, f"choose another {option} FILE")


def files_of(documents: Iterable[str], reading: DocumentSettings) -> Iterator[str]:
    """Yield the files that documents stand for: of a folder those that are read."""
    from fbrag_cli.indexing.files import find_files

    for path in documents:
        if os.path.isdir(path):
            with suppress(FbragError):  # a folder without any is reported when it is read
                yield from (file.path for file in find_files([path], reading.include, reading.exclude).files)
        else:
            yield path


def _identity(path: str | None) -> tuple[int, int] | None:
    """Return the device and the inode of a regular file; None for a path that is none."""
    if not path or not os.path.isfile(path):
        return None
    status = os.stat(path)
    return status.st_dev, status.st_ino
