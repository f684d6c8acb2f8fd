"""The TCP address of the server."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from fbrag_cli.errors import FbragError

_BACKLOG = 128


@contextmanager
def listening(host: str, port: int | None, usual: int) -> Iterator[socket.socket]:
    """Listen on a TCP address until the block ends.

    port: 0 for any that is free; None for the usual one, or any other where it is taken. Raises FbragError `usage` for an address
    that cannot be listened on.
    """
    try:
        found = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        what = f"--host {host}: no address of this machine ({getattr(error, 'strerror', None) or error})"
        raise FbragError("usage", what, "--host 127.0.0.1") from None
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as listener:
        if os.name == "posix":  # elsewhere it would let two processes share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for each in (usual, 0) if port is None else (port,):
            try:
                listener.bind((address[0], each, *address[2:]))
                listener.listen(_BACKLOG)
                break
            except OSError as error:
                if port is None and each and error.errno == errno.EADDRINUSE:
                    continue
                what = f"{host} port {each} cannot be listened on: {error.strerror}"
                raise FbragError("usage", what, "name another: --port 0 takes any that is free") from None
        yield listener
