"""HTTP to the warm process, over its Unix socket: a connection for each call, and a reply that comes line by line."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Generator
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.warm.wire import Json

_SILENT_SECONDS = 30.0  # after which a process that says nothing is given up; it says something four times a second
_REPLY_SECONDS = 2.0


class GoneError(Exception):
    """The warm process is not there, or went away in the middle of a reply. It is not known what became of the call."""


class _Connection(HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def is_trusted(path: Path) -> bool:
    """Return whether a socket is there that only this user can have made: it and its folder are the user's, and nobody else can
    write there."""
    if not hasattr(socket, "AF_UNIX"):  # Windows
        return False
    try:
        found, folder = path.lstat(), path.parent.stat()
    except OSError:
        return False
    user = os.geteuid()
    return (
        stat.S_ISSOCK(found.st_mode)
        and found.st_uid == folder.st_uid == user
        and not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def reply(path: Path, method: str, address: str) -> Json:
    """Return the JSON object that the process replies with at once. Raises GoneError."""
    with closing(_Connection(path, _REPLY_SECONDS)) as connection:
        try:
            connection.request(method, address)
            response = connection.getresponse()
            said = json.loads(response.read()) if response.status == 200 else None
        except (OSError, HTTPException, ValueError) as error:
            raise GoneError(str(error)) from error
    if not isinstance(said, dict):
        raise GoneError("it has no such reply")
    return said


def lines(path: Path, call: str, asked: Json, cancellation: Cancellation) -> Generator[Json]:
    """Yield the lines of a reply. Closing the iterator stops the call. Raises GoneError, and the error of a requested stop."""
    cancellation.raise_if_requested()
    with closing(_Connection(path, _SILENT_SECONDS)) as connection:
        try:
            connection.request("POST", f"/warm/{call}", json.dumps(asked), {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise GoneError(f"it replies with status {response.status}")
            while line := response.readline():
                cancellation.raise_if_requested()
                said = json.loads(line)
                if not isinstance(said, dict):
                    raise GoneError("it replies with what is no JSON line")
                yield said
        except (OSError, HTTPException, ValueError) as error:
            raise GoneError(str(error) or type(error).__name__) from error
    raise GoneError("it ended in mid-reply")
