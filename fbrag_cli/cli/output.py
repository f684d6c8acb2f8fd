"""The output of a command: stdout, or a file that is written whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import not_writable, whole_file

if TYPE_CHECKING:
    from fbrag_cli.trace import Trace


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """Open `path` for writing text; "-" is stdout. A file appears under its name only when the block ends without an error.

    Raises FbragError `output` if it cannot be written, before any work where possible.
    """
    if path == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    target = Path(path)
    special = target.exists() and not target.is_file() and not target.is_dir()  # /dev/null, a pipe: nothing to rename over
    try:
        if special:
            with target.open("w", encoding="utf-8") as stream:
                yield stream
        else:
            with whole_file(target) as temporary, temporary.open("w", encoding="utf-8") as stream:
                yield stream
    except OSError as error:
        raise not_writable(path, error, "output", "choose another -o FILE") from None


@contextmanager
def open_page(path: str | None) -> Iterator[Callable[[Trace], None]]:
    """Open the HTML page `path` for a trace, or nothing for None. Raises FbragError `output` as `open_output` does."""
    if path is None:
        yield lambda trace: None
        return
    if path == "-":
        raise FbragError("usage", "--html -: stdout carries the answer", "name a file for the page: --html page.html")
    with open_output(path) as stream:

        def write(trace: Trace) -> None:
            from fbrag_cli.render.html import page

            stream.write(page(trace))

        yield write
