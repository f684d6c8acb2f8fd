"""The streams of the process, and the output of a command: stdout, or a file that is written atomically."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from fbrag_cli.errors import FbragError, lacking
from fbrag_cli.storage.files import delete, is_full, listed, not_writable, read_small, whole_file

if TYPE_CHECKING:
    from fbrag_cli.cli.console import Console
    from fbrag_cli.trace import Trace


class _Stream(io.TextIOWrapper):
    """A UTF-8 text stream, whatever the locale.

    If a write fails, the rest goes to the null device, and the error that `blamed` returns is raised, if any.
    """

    def __init__(self, buffer: Any, blamed: Callable[[OSError], Exception | None], **about: Any) -> None:
        super().__init__(buffer, encoding="utf-8", **about)
        self._blamed = blamed

    def write(self, text: str) -> int:
        try:
            return 0 if text == "" else super().write(text)  # Typer tries a stream with "", and swallows the error
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        if blamed := self._blamed(error):
            raise blamed from None


def open_streams() -> None:
    """Prepare stdin, stdout and stderr. A stream that the caller has closed becomes the null device.

    Otherwise the next file to be opened would get its number, and the stream's output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:  # the lowest free number
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _opened(sys.stdout, 1, _blamed_on_stdout)  # type: ignore[misc]  # shutil asks __stdout__
    sys.stderr = sys.__stderr__ = _opened(sys.stderr, 2, lambda error: None)  # type: ignore[misc]  # no message is worth an answer


def _opened(stream: Any, number: int, blamed: Callable[[OSError], Exception | None]) -> _Stream:
    stream = stream or open(number, "w", closefd=False)  # noqa: SIM115
    how = {"line_buffering": stream.line_buffering or number == 2, "write_through": stream.write_through}
    return _Stream(stream.detach(), blamed, errors="replace", **how)


def _blamed_on_stdout(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error
    return FbragError(
        "disk_full", f"could not write to stdout: {error.strerror or error}", "free some space, or redirect the output"
    )


def print_after_error(text: str) -> None:
    """Print text that belongs to an error on stdout. If that fails, the exit code is still the error's."""
    with suppress(BrokenPipeError, FbragError):
        print(text, flush=True)


def is_special(path: str) -> bool:
    """Return whether `path` is a device or a pipe, such as /dev/null, which no file can be renamed over."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def open_output(path: str, option: str = "-o") -> Iterator[TextIO]:
    """Open `path` for writing text; "-" is stdout. The file appears only when the block ends without an error.

    option: the option that gave the path, for the hint. Raises FbragError `output` or `disk_full` if the file cannot be written,
    if possible before any work.
    """
    if path == "-":
        yield sys.stdout
        sys.stdout.flush()
        return

    def blamed(error: OSError) -> FbragError:
        code = "disk_full" if is_full(error) else "output"
        return lacking(error) or not_writable(path, error, code, f"choose another {option} FILE")

    target, at_work = Path(path), False
    try:
        with (
            nullcontext(target) if is_special(path) else whole_file(target) as place,
            _Stream(place.open("wb"), blamed) as stream,
        ):
            at_work = True  # an error in the block is not the file's
            yield stream
            at_work = False
    except OSError as error:
        if at_work:
            raise
        raise blamed(error) from None


def check_output(path: str, option: str = "-o") -> None:
    """Raise what `open_output` would raise, before work that takes long. Delete what a killed process left of the same output."""

    class Tried(Exception): ...

    if not is_special(path):
        target = Path(os.path.realpath(path))
        for part in listed(target.parent):
            if re.fullmatch(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.part", part.name):
                delete(Path(part))
        with suppress(Tried), open_output(path, option):
            raise Tried


@contextmanager
def open_page(path: str | None) -> Iterator[Callable[[Trace], None]]:
    """Open the HTML page `path` for a trace; do nothing for None. Raises FbragError `output` as `open_output` does.

    An error while the page is written is raised when the block has ended, so that the answer is kept.
    """
    if path is None:
        yield lambda trace: None
        return
    if path == "-":
        raise FbragError("usage", "--html cannot write to stdout, which has the answer", "name a file: --html page.html")
    failed: list[Exception] = []
    with open_output(path, "--html") as stream:

        def write(trace: Trace) -> None:
            from fbrag_cli.render.html import page
            from fbrag_cli.session.pictures import cited_pages

            try:
                stream.write(page(trace, cited_pages(trace)))
            except Exception as error:
                failed.append(error)

        yield write
        for error in failed:
            raise error


def read_password(path: str | None, console: Console) -> str | None:
    """Return the password in a file ("-" for stdin). Raises FbragError `usage` if it cannot be read."""
    if path is None:
        return None
    try:
        raw = open_stdin(console).read() if path == "-" else read_small(Path(path))
    except OSError as error:
        raise FbragError("usage", f"could not read the password file {path}: {error.strerror}", "check its path") from None
    return raw.decode("utf-8", "replace").rstrip("\r\n")


def open_stdin(console: Console) -> BinaryIO:
    """Return stdin. On a terminal, print a hint on how to end the input."""
    if sys.stdin.isatty():
        console.hint("reading from stdin; press Ctrl-D to end")
    return sys.stdin.buffer
