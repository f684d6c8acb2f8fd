"""A row file of a training stage that goes on where it was stopped: it begins with a row that names what all others depend on.

Data files may be added later, or left out: rows depend only on the file that their question comes from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.rows import JsonLines, Row, RowFile, open_rows
from fbrag_cli.text.printable import dumps

Key = TypeVar("Key", bound=Hashable)

_ANOTHER = "choose another -o FOLDER, or add --restart"


@contextmanager
def resumed(
    path: Path, head: Mapping[str, Any], key_of: Callable[[Row], Key], *, restart: bool = False
) -> Iterator[tuple[RowFile, dict[Key, Row]]]:
    """Open a row file, and yield it with the rows of earlier runs by their keys.

    head: the first row, with `schema`, `kind` "run" and, where the rows depend on data files, `data`: their SHA-256 by name. It
    is written again when there are new files. restart: begin with an empty file. Raises FbragError `usage` for a file that
    another run began, or that holds other rows.
    """
    with open_rows(path, JsonLines(head["schema"], dumps), restart=restart) as file:
        heads = [row for row in file.rows if row.get("kind") == "run"] or file.rows[:1]
        try:
            data = {name: digest for each in heads for name, digest in each.get("data", {}).items()}
            differing = [told for each in heads for told in _differing(each, head)]
            before: dict[Key, Row] = {key_of(row): row for row in file.rows if row not in heads}
        except (AttributeError, LookupError, TypeError):
            raise FbragError("usage", f"{path} holds other rows", _ANOTHER) from None
        if differing:
            raise FbragError("usage", f"{path} is of another run: {'; '.join(differing)}", _ANOTHER)
        if not heads or head.get("data", {}).keys() - data.keys():
            file.write(head)
        yield file, before


def begun_with(path: Path) -> Row:
    """Return the first row of a file; an empty one where it has none that is whole."""
    try:
        with path.open("rb") as file:
            row = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _differing(before: Row, head: Mapping[str, Any]) -> Iterator[str]:
    """Yield, in words, what a head of an earlier run tells otherwise."""
    for name, value in head.items():
        if name != "data" and before.get(name) != value:
            yield f"{name} was {before.get(name)}, is {value}"
    for name, digest in before.get("data", {}).items():
        if head.get("data", {}).get(name, digest) != digest:
            yield f"{name} has changed"
