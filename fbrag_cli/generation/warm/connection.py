"""HTTP to the warm process, over its Unix socket: a connection for each call, and a reply that comes line by line."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.warm.wire import Json

_SILENT_SECONDS = 30.0  # after which a process that says nothing is given up; it says something four times a second
_REPLY_SECONDS = 2.0
_ROOT = 0


class GoneError(Exception):
    """The warm process is not there, or went away in the middle of a reply. It is not known what became of the call."""


def is_trusted(path: Path) -> bool:
    """Return whether a socket is there that only this user can have made: it and its folder are the user's, and nobody else can
    write there, nor turn a link that stands for the folder."""
    if not hasattr(socket, "AF_UNIX"):  # Windows
        return False
    try:
        found, folder, named = path.lstat(), path.parent.stat(), path.parent.lstat()
    except OSError:
        return False
    user = os.geteuid()
    return (
        stat.S_ISSOCK(found.st_mode)
        and found.st_uid == folder.st_uid == user
        and named.st_uid in (user, _ROOT)
        and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def reply(path: Path, method: str, address: str) -> Json:
    """Return the JSON object that the process replies with at once. Raises GoneError."""
    with _body(path, method, address, "", _REPLY_SECONDS) as body:
        return _parsed(body.read())


def lines(path: Path, call: str, asked: Json, cancellation: Cancellation) -> Generator[Json]:
    """Yield the lines of a reply. Closing the iterator stops the call. Raises GoneError, and the error of a requested stop."""
    cancellation.raise_if_requested()
    with _body(path, "POST", f"/warm/{call}", json.dumps(asked), _SILENT_SECONDS) as body:
        while line := body.readline():
            cancellation.raise_if_requested()
            yield _parsed(line)
    raise GoneError("it ended in mid-reply")


@contextmanager
def _body(path: Path, method: str, address: str, asked: str, seconds: float) -> Iterator[BinaryIO]:
    """Send a request, and yield the body of its reply. Raises GoneError, also for what the connection raises in the block.

    In HTTP 1.0 a body ends with its connection, so that this needs none of Python's http, which loads slowly: 6 to 10 ms of an
    answer that is cached. asked: body of the request. seconds: for which the process may say nothing.
    """
    head = f"{method} {address} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len(asked)}\r\n\r\n"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            connection.sendall((head + asked).encode("ascii"))
            with connection.makefile("rb") as found:
                status = found.readline().split()
                if status[1:2] != [b"200"]:
                    raise GoneError("it has no such reply")
                while found.readline().strip():  # headers
                    pass
                yield found
    except OSError as error:
        raise GoneError(error.strerror or str(error)) from error


def _parsed(text: bytes) -> Json:
    """Return a JSON object. Raises GoneError for what is none."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise GoneError("its reply is no JSON object")
    return found
