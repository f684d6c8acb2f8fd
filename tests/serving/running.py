"""A real `fbrag serve` in folders of its own, and requests to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import ROOT, heed_hangup

PATIENCE = 30  # seconds

Environment = dict[str, str]


def user_of(environment: Environment, folder: Path) -> Environment:
    """The environment of a user whose folders are below `folder`."""
    (folder / "run").mkdir(mode=0o700, exist_ok=True)
    path = os.pathsep.join([str(ROOT), *sys.path[1:]])
    return {**environment, "XDG_RUNTIME_DIR": str(folder / "run"), "PYTHONPATH": path}


def fbrag(user: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "fbrag_cli", *arguments]
    return subprocess.run(command, env=user, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)


class _OverUnix(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


@dataclass
class Served:
    """A process that serves. ready: what it printed with --print-ready."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]
    user: Environment
    out: str = ""
    err: str = ""
    _ended: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.ready["address"].rpartition(":")[2])

    def unix(self) -> HTTPConnection:
        return _OverUnix(self.ready["socket"])

    def tcp(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(self, method: str, path: str, *, tcp: bool = False, **more: Any) -> tuple[HTTPResponse, bytes]:
        connection = self.tcp() if tcp else self.unix()
        try:
            connection.request(method, path, **more)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> tuple[int, Any]:
        response, body = self.request("GET", path, **more)
        return response.status, json.loads(body) if body else None

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        self.out, self.err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def left(self) -> list[str]:
        """The files that it has left in its folder for sockets."""
        return [str(each) for each in Path(self.user["XDG_RUNTIME_DIR"]).rglob("*") if not each.is_dir()]

    def of_system(self) -> psutil.Process:
        return psutil.Process(self.process.pid)


@contextmanager
def serving(user: Environment, *arguments: str, command: str = "serve") -> Iterator[Served]:
    """Run `fbrag serve` until the block ends."""
    words = [sys.executable, "-m", "fbrag_cli", command, "--print-ready", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env=user, text=True, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, preexec_fn=heed_hangup
    ) as process:
        try:
            assert process.stdout
            assert process.stderr
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield Served(process, json.loads(line), user)
        finally:
            process.kill()


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
