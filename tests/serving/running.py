"""A real `fbrag serve` in folders of its own, and requests to it."""

from __future__ import annotations

import json
import os
import signal
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
    return {**environment, "XDG_RUNTIME_DIR": str(folder / "run"), "XDG_DATA_HOME": str(folder / "data"), "PYTHONPATH": path}


def fbrag(user: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "fbrag_cli", *arguments]
    return subprocess.run(command, env=user, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)


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

    @property
    def token(self) -> str:
        return Path(self.ready["token_file"]).read_text().strip()

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> tuple[HTTPResponse, bytes]:
        """What comes back, without the token that `get` sends."""
        connection = self.connection()
        try:
            connection.request(method, path, headers=headers or {}, **more)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def sent(self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any) -> tuple[HTTPResponse, bytes]:
        """What comes back, with the token."""
        return self.request(method, path, headers=self.bearer | (headers or {}), **more)

    def get(self, path: str) -> tuple[int, Any]:
        response, body = self.sent("GET", path)
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
        """The files of processes that it has left."""
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
