"""The warm process as its user meets it: it starts, is found, is stopped, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli import __version__

pytest.importorskip("uvicorn")

PATIENCE = 20  # seconds


class Over(HTTPConnection):
    """A connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def got(path: str, address: str) -> tuple[int, Any]:
    connection = Over(path)
    connection.request("GET", address)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose folders are all his own."""
    names = ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    for name in names:
        (tmp_path / name).mkdir(mode=0o700)
    return {**os.environ, **{name: str(tmp_path / name) for name in names}}


@contextmanager
def served(place: dict[str, str], *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Run `fbrag serve`, and yield it with what it prints once it is ready."""
    command = [sys.executable, "-m", "fbrag_cli", "serve", "--print-ready", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=place, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def left(place: dict[str, str]) -> list[str]:
    return [str(each) for each in Path(place["XDG_RUNTIME_DIR"]).rglob("*") if not each.is_dir()]


def test_only_its_user_can_open_it_and_nothing_is_left(place: dict[str, str]) -> None:
    with served(place) as (process, ready):
        assert ready["pid"] == process.pid
        path = Path(ready["socket"])
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert got(ready["socket"], "/healthz") == (200, {"status": "ok", "version": __version__})
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE) == ("", "")
        assert process.returncode == 143
    assert not left(place)
