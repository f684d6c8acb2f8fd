"""What a user's servers leave for his programs: the token that they send, and a file for each process that serves."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.paths import runtime_dir, token_path

_BACKLOG = 128
_LEAST_TOKEN = 16  # characters
_REPLY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Running:
    """A process that serves. token_file: path of the file with the token that it asks for."""

    pid: int
    url: str
    token_file: str

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def is_alive(self) -> bool:
        """Whether this very process listens on that port: another one of that number, or at that port, is not told the token."""
        try:
            connections = psutil.Process(self.pid).net_connections("tcp")
        except psutil.Error:
            return False
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port == self.port for each in connections)

    def status(self) -> dict[str, Any] | None:
        """Return what the process does now, as `fbrag.process/1`; None if it does not say it."""
        import httpx2

        try:
            headers = {"Authorization": f"Bearer {token_in(self.token_file)}"}
            found = httpx2.get(f"{self.url}process/status", headers=headers, timeout=_REPLY_SECONDS, trust_env=False)
            return dict(found.raise_for_status().json())
        except (httpx2.HTTPError, FbragError, ValueError, TypeError):
            return None


def running() -> list[Running]:
    """Return this user's processes that serve, by their ports. The file of one that is gone is deleted."""
    alive = []
    for path in runtime_dir().glob("serve-*.json"):
        try:
            server = Running(**json.loads(path.read_bytes()))
            is_alive = server.is_alive
        except (OSError, ValueError, TypeError):
            is_alive = False
        if is_alive:
            alive.append(server)
        else:
            path.unlink(missing_ok=True)
    return sorted(alive, key=lambda each: each.port)


@contextmanager
def announced(each: Running) -> Iterator[None]:
    """Keep the file of this process, which only its user can read, until the block ends. A user without a folder has none."""
    path = runtime_dir() / f"serve-{each.port}.json"
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        _write(path, json.dumps(asdict(each)))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def user_token() -> tuple[Path, str]:
    """Return the path of the user's token, and the token, which is made once. Raises FbragError `config` if it cannot be kept."""
    from filelock import FileLock

    path = token_path()
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.exists():
                _write(path, secrets.token_urlsafe(32) + "\n")
    except OSError as error:
        what = f"the token of clients cannot be kept in {path}: {error.strerror or error}"
        raise FbragError("config", what, "name a file that holds one: --token-file FILE") from None
    return path, token_in(str(path))


def token_in(file: str) -> str:
    """Return the token that a file holds. Raises FbragError `usage` for a file that holds none, or that other users can read."""
    make = "(umask 077; openssl rand -hex 32 > FILE)"
    try:
        with open(file, "rb") as opened:
            mode, content = os.fstat(opened.fileno()).st_mode, opened.read(10_000).strip()
    except (OSError, ValueError) as error:
        raise FbragError("usage", f"token file {file} cannot be read: {getattr(error, 'strerror', error)}", make) from None
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        raise FbragError("usage", f"token file {file}: other users can read it", f"chmod 600 {file}")
    if not re.fullmatch(rb"[!-~]{%d,4096}" % _LEAST_TOKEN, content):
        raise FbragError("usage", f"token file {file} holds no token: {_LEAST_TOKEN} or more letters, digits and signs", make)
    return content.decode()


@contextmanager
def listening(host: str, port: int | None, usual: int) -> Iterator[socket.socket]:
    """Listen on a TCP address until the block ends.

    port: 0 for any that is free; None for the usual one, or any other if it is taken. Raises FbragError `usage` for an address
    that cannot be listened on.
    """
    try:
        addresses = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        message = f"--host {host}: no address of this machine ({getattr(error, 'strerror', None) or error})"
        raise FbragError("usage", message, "--host 127.0.0.1") from None
    family, kind, protocol, _, address = addresses[0]
    with socket.socket(family, kind, protocol) as listener:
        if os.name == "posix":  # elsewhere it would let two processes share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for number in (usual, 0) if port is None else (port,):
            try:
                listener.bind((address[0], number, *address[2:]))
                listener.listen(_BACKLOG)
                break
            except OSError as error:
                if port is None and number and error.errno == errno.EADDRINUSE:
                    continue
                message = f"{host} port {number} cannot be listened on: {error.strerror}"
                raise FbragError("usage", message, "name another: --port 0 takes any that is free") from None
        yield listener


def _write(path: Path, text: str) -> None:
    """Write a file that is not there yet, which only its user can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
