"""A row file of a training stage that goes on where it was stopped: it begins with a row that names what all others depend on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.rows import JsonLines, Row, RowFile, open_rows
from fbrag_cli.text.printable import dumps

Key = TypeVar("Key", bound=Hashable)


@contextmanager
def resumed(
    path: Path, head: Mapping[str, Any], key_of: Callable[[Row], Key], *, restart: bool = False
) -> Iterator[tuple[RowFile, dict[Key, Row]]]:
    """Open a row file, and yield it with the rows of earlier runs by their keys.

    head: the first row, with `schema`. restart: begin with an empty file. Raises FbragError `usage` for a file that another run
    began, or that holds other rows.
    """
    with open_rows(path, JsonLines(head["schema"], dumps), restart=restart) as file:
        if not file.rows:
            file.write(head)
            yield file, {}
            return
        first, *others = file.rows
        if differing := [name for name in head if first.get(name) != head[name]]:
            told = "; ".join(f"{name} was {first.get(name)}, is {head[name]}" for name in differing)
            raise FbragError("usage", f"{path} is of another run: {told}", "choose another -o FOLDER, or add --restart")
        try:
            before: dict[Key, Row] = {key_of(row): row for row in others}
        except (LookupError, TypeError):
            raise FbragError("usage", f"{path} holds other rows", "choose another -o FOLDER, or add --restart") from None
        yield file, before
