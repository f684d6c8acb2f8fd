"""The desktop's browser, in which `--open` shows a page."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import OutputOptions
from fbrag_cli.storage.files import delete, not_writable


@contextmanager
def shown_page(output: OutputOptions, console: Console) -> Iterator[str | None]:
    """Yield the path of the page, None if none is requested. With --open, a browser shows it when the block has ended.

    Without --html it is a new file in the temporary folder that only its user can read. It is not deleted, because the browser
    reads it after fbrag has ended. Raises FbragError `output` if no such file can be made.
    """
    if not output.open:
        yield output.html
        return
    path = output.html or _new_file()
    try:
        yield path
    except BaseException:
        if not output.html:
            delete(Path(path))
        raise
    if not has_screen():
        console.info(f"no browser found; the page is {path}")
    elif os.path.isfile(path):
        open_address(Path(path).absolute().as_uri())
        if not output.html:
            console.info(f"the page is {path}")


def _new_file() -> str:
    try:
        number, path = tempfile.mkstemp(prefix="fbrag-", suffix=".html")  # mode 0600: it has the text of the documents
    except OSError as error:
        raise not_writable("the temporary folder", error, "output", "name a file: --html page.html") from None
    os.close(number)
    return path


def open_address(address: str) -> None:
    """Open a URL in the browser. It gets none of this process's streams: it may write to stdout, and keep a pipe open for
    hours."""
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-I", "-m", "webbrowser", address]
    subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)


def has_screen() -> bool:
    """Return whether the user would see a browser: BROWSER names one, or there is a screen and no ssh session."""
    if os.environ.get("BROWSER"):
        return True
    if sys.platform in ("win32", "darwin"):
        return not os.environ.get("SSH_CONNECTION")
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
