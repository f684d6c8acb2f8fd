"""The streams of the process, and the output of a command: stdout, or a file that is written whole or not at all."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import not_writable, whole_file

if TYPE_CHECKING:
    from fbrag_cli.trace import Trace


class _Stream(io.TextIOWrapper):
    """A stream of UTF-8, whatever the locale is. Where it cannot be written, it writes to nowhere from then on."""

    def write(self, text: str) -> int:
        try:
            return 0 if text == "" else super().write(text)  # Click tries a stream with "", and swallows the error
        except BrokenPipeError:
            raise
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        _write_to_nowhere(self)


class _Stdout(_Stream):
    """The stream of the answer. Raises FbragError `disk_full` where it cannot be written."""

    def _fail(self, error: OSError) -> None:
        super()._fail(error)
        what = f"stdout cannot be written: {error.strerror or error}"
        raise FbragError("disk_full", what, "free some space, or send it elsewhere") from None


def open_streams() -> None:
    """Prepare stdin, stdout and stderr. One that the caller has closed becomes the null device.

    Else the next file that is opened would get its number, and whatever is written to the stream.
    """
    for number in range(3):
        if _is_closed(number):
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number is this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = sys.__stdout__ = _opened(sys.stdout, 1, _Stdout)  # type: ignore[misc]  # shutil asks __stdout__ for its width
    sys.stderr = sys.__stderr__ = _opened(sys.stderr, 2, _Stream)  # type: ignore[misc]


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


def _opened(stream: TextIO | None, number: int, kind: type[_Stream]) -> _Stream:
    lines = bool(getattr(stream, "line_buffering", number == 2))
    through = bool(getattr(stream, "write_through", False))  # python -u
    if stream is None:
        buffer: Any = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    else:
        buffer = stream.detach()  # type: ignore[attr-defined]
    return kind(buffer, encoding="utf-8", errors="replace", line_buffering=lines, write_through=through)


def _write_to_nowhere(stream: TextIO) -> None:
    """Let the rest of a stream, also what is in its buffer, go to the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


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
