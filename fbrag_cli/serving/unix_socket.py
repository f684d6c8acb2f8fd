"""The Unix socket of the warm process, which only its user can open."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fbrag_cli.errors import FbragError

_BACKLOG = 128


@contextmanager
def bound(path: str) -> Iterator[socket.socket]:
    """Listen on a Unix socket of mode 0600 until the block ends, which removes it. Raises FbragError `config`."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o077)
        try:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            os.umask(0o177)
            listener.bind(path)
        except OSError as error:
            what = f"{path} cannot be a socket: {error.strerror or error}"
            raise FbragError("config", what, "name another: --socket PATH") from None
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        try:
            yield listener
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)
