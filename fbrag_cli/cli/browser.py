"""The browser of the desktop, in which `--open` shows a page."""

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
    """Yield the path of the page, None where none is asked for. With --open, a browser shows it when the block has ended.

    Without --html it is a new file of the temporary folder that only its user can read. It stays, since the browser reads it
    when fbrag has ended. Raises FbragError `output` where no such file can be made.
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
        console.info(f"no browser can be opened here: the page is {path}")
    elif os.path.isfile(path):
        open_address(Path(path).absolute().as_uri())
        if not output.html:
            console.info(f"the page is {path}")


def _new_file() -> str:
    try:
        number, path = tempfile.mkstemp(prefix="fbrag-", suffix=".html")  # it holds the text of the documents: mode 0600
    except OSError as error:
        raise not_writable("the temporary folder", error, "output", "name a file for the page: --html page.html") from None
    os.close(number)
    return path


def open_address(address: str) -> None:
    """Open an address in the browser. It gets none of our streams: it may write to stdout, and keep a pipe open for hours."""
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-I", "-m", "webbrowser", address]
    subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)


def has_screen() -> bool:
    """Return whether a browser would appear before the user: BROWSER names one, or there is a screen, and not that of a machine
    that is reached by ssh."""
    if os.environ.get("BROWSER"):
        return True
    if sys.platform in ("win32", "darwin"):
        return not os.environ.get("SSH_CONNECTION")
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
