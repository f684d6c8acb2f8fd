"""The Unix socket of the server, which only its user can open, and the lock that says whose it is."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from fbrag_cli.errors import FbragError

_BACKLOG = 128
_LONGEST = 103 if sys.platform == "darwin" else 107  # bytes of a path, by the system
_ELSEWHERE = "name another: --socket PATH"
_FIRST_OF_SYSTEMD = 3  # number of the first open file that systemd hands over
_POLL_SECONDS = 0.02
_REPLY_SECONDS = 2.0
_ROOT = 0
_TRIES = 5  # to get the lock, which another process may only look at


class TakenError(Exception):
    """Another process of the user has the socket. pid: its process id, 0 where it has not said it yet."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid}")
        self.pid = pid


class GoneError(Exception):
    """The process at a socket does not reply: it begins, or ends."""


def is_possible() -> bool:
    """Return whether this system has Unix sockets. Windows has none for Python."""
    return hasattr(socket, "AF_UNIX")


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listen on a Unix socket of mode 0600 until the block ends, which removes it. One that systemd has handed over stays.

    What a process that was killed has left is removed. Raises TakenError where another process has it; FbragError `config` for a
    path that can be no socket, or in whose folder others can write.
    """
    _check(path)
    if handed_over := _from_systemd(path):
        with _lock(path), handed_over:
            yield handed_over
        return
    with _lock(path), socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o177)
        try:
            path.unlink(missing_ok=True)  # the lock is ours: nobody listens there
            listener.bind(str(path))
        except OSError as error:
            raise _no_socket(path, error.strerror or str(error)) from None
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _from_systemd(path: Path) -> socket.socket | None:
    """Return the socket on which systemd listened until this process was asked for; None where there is none of that path."""
    if os.environ.pop("LISTEN_PID", "") != str(os.getpid()) or os.environ.pop("LISTEN_FDS", "") != "1":
        return None
    found = socket.socket(fileno=_FIRST_OF_SYSTEMD)
    if found.family != socket.AF_UNIX or found.getsockname() != str(path):
        raise _no_socket(path, "the unit of systemd listens on another")
    found.set_inheritable(False)
    return found


def owner(path: Path) -> int | None:
    """Return the process id of the process that has the socket, 0 where it has not said it yet; None where nobody has it.

    Raises FbragError `config` where the system does not let this user see it.
    """
    try:
        with _lock(path, create=False):
            return None
    except FileNotFoundError:
        return None
    except TakenError as taken:
        return taken.pid


def is_trusted(path: Path) -> bool:
    """Return whether a socket is there that only this user can have made: it and its folder are the user's, and nobody else can
    write there, nor turn a link that stands for the folder."""
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


def reply(path: Path, method: str, address: str) -> dict[str, Any]:
    """Return the JSON object with which the process at a socket replies. Raises GoneError."""
    import httpx2

    try:
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), timeout=_REPLY_SECONDS) as client:
            return dict(client.request(method, f"http://localhost{address}").raise_for_status().json())
    except (httpx2.HTTPError, ValueError, TypeError) as error:
        raise GoneError from error


def wait_for_end(path: Path, seconds: float) -> bool:
    """Wait until nobody has the socket. Return whether that came."""
    end = monotonic() + seconds
    while owner(path) is not None:
        if monotonic() >= end:
            return False
        sleep(_POLL_SECONDS)
    return True


def _check(path: Path) -> None:
    """Make the folder of a socket. Raises FbragError `config` where the path can be none."""
    if not is_possible():
        raise FbragError("usage", "this system has no Unix sockets for Python", "fbrag serve --port 8377")
    if len(os.fsencode(path)) > _LONGEST:
        raise _no_socket(path, f"it has more than {_LONGEST} bytes")
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        folder, found = path.parent.stat(), path.lstat() if os.path.lexists(path) else None
    except OSError as error:
        raise _no_socket(path, error.strerror or str(error)) from None
    if found and not stat.S_ISSOCK(found.st_mode):
        raise _no_socket(path, "it is something else")
    if folder.st_uid != os.geteuid() or path.parent.lstat().st_uid not in (os.geteuid(), _ROOT):  # a link could be turned
        raise _no_socket(path, "its folder belongs to another user")
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _no_socket(path, "other users can write in its folder")


def _no_socket(path: Path, why: str) -> FbragError:
    return FbragError("config", f"{path} cannot be a socket: {why}", _ELSEWHERE)


@contextmanager
def _lock(path: Path, *, create: bool = True) -> Iterator[None]:
    """Hold the lock of a socket, a file beside it with the process id. The system lets it go with the process, however that ends.

    create: whether the file is made, and removed at the end; else it is only looked at. Raises TakenError; FileNotFoundError
    without `create`; FbragError `config` where the file cannot be opened.
    """
    import fcntl

    name, tries = f"{path}.lock", _TRIES if create else 1
    while True:
        try:
            number = os.open(name, os.O_RDWR | (os.O_CREAT if create else 0) | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if not create and error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise FileNotFoundError(name) from None
            raise _no_socket(path, error.strerror or str(error)) from None
        try:
            fcntl.flock(number, (fcntl.LOCK_EX if create else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            if _is_still(name, number):  # else its last holder removed it in between
                break
        except BlockingIOError:
            said = os.read(number, 20)
            if not (tries := tries - 1):
                os.close(number)
                raise TakenError(int(said) if said.isdigit() else 0) from None
            sleep(_POLL_SECONDS)
        os.close(number)
    try:
        if create:
            os.ftruncate(number, 0)
            os.write(number, str(os.getpid()).encode())
        yield
    finally:
        if create:
            with suppress(FileNotFoundError):
                os.unlink(name)
        os.close(number)


def _is_still(name: str, number: int) -> bool:
    try:
        return os.path.samestat(os.stat(name), os.fstat(number))
    except FileNotFoundError:
        return False
