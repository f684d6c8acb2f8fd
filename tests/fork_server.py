"""The command as a process of its own, without the time of its start.

A server has the modules loaded, and forks for each run. The fork has its own environment, folder, streams, signals and exit code;
what a start itself does, as reading the variables of Python and of libraries, it has behind it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import fbrag_cli

ROOT = Path(__file__).parent.parent

#: Libraries that most commands load when they use them.
LIBRARIES = """
    charset_normalizer filelock httpx2 importlib.resources jinja2.sandbox llama_cpp lxml.etree lxml.html markdown_it
    multiprocessing.context numpy platformdirs.unix psutil regex rich.console rich.progress Stemmer tiktoken tomlkit
    typer._click
""".split()


class ForkServer:
    """Runs commands one by one or at once. environment: of the server; a run has its own. training: torch is loaded too."""

    def __init__(self, environment: dict[str, str], training: bool = False) -> None:
        self._server, far = socket.socketpair()
        with far:
            command = [sys.executable, "-m", "tests.fork_server", str(far.fileno()), str(training)]
            pipe = subprocess.PIPE  # as a run has them, for Python's streams remember what they are
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=ROOT, pass_fds=[far.fileno()]
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._server.close()
        self._process.communicate()

    def run(
        self, arguments: list[str], *, stdin: str, env: dict[str, str], cwd: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run fbrag as `subprocess.run` does. Raises TimeoutExpired after `timeout` seconds."""
        near, far = socket.socketpair()
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1], far.fileno()]
        with near, near.makefile("rw") as talk, ThreadPoolExecutor(3) as pool:
            try:
                with far:
                    socket.send_fds(self._server, [b"."], theirs)
                print(json.dumps({"arguments": arguments, "env": env, "cwd": str(cwd)}), file=talk, flush=True)
                pid = int(talk.readline())
            except (OSError, ValueError):
                raise RuntimeError(self._process.communicate()[1].decode()) from None
            finally:
                for descriptor in theirs[:3]:
                    os.close(descriptor)
            pool.submit(_write, pipes[0][1], stdin)
            out, err = (pool.submit(_read, each[0]) for each in pipes[1:])
            near.settimeout(timeout)
            try:
                code = int(talk.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, timeout, out.result(), err.result()) from None
            return subprocess.CompletedProcess(arguments, code, out.result(), err.result())


def _write(descriptor: int, text: str) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as stream:
        stream.write(text.encode())


def _read(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8") as stream:
        return stream.read()


def _serve(server: socket.socket) -> None:
    """Fork for each request. Returns in the forks that shall run a command."""
    waiting: list[int] = []
    while True:
        asked, descriptors, *_ = socket.recv_fds(server, 1, 4)
        waiting = [pid for pid in waiting if os.waitpid(pid, os.WNOHANG if asked else 0) == (0, 0)]
        if not asked:
            os._exit(0)
        waiting.append(os.fork())
        if waiting[-1] == 0:
            server.close()
            with socket.socket(fileno=descriptors[3]) as answers, answers.makefile("rw") as talk:
                request = json.loads(talk.readline())
                pid = os.fork()
                if pid == 0:
                    _become(request, descriptors[:3])
                    return
                for descriptor in descriptors[:3]:
                    os.close(descriptor)
                print(pid, file=talk, flush=True)
                print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=talk, flush=True)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _load(training: bool) -> None:
    """Load the package, and what imports torch if a run is going to train."""
    modules = [each.name for each in pkgutil.walk_packages(fbrag_cli.__path__, "fbrag_cli.")]
    for name in [*LIBRARIES, *modules]:
        if not name.endswith(".__main__") and (training or not name.startswith("fbrag_cli.training.")):
            with suppress(ImportError):  # a library of test-all
                importlib.import_module(name)
    gc.freeze()  # else the end of a fork would copy all of it


def _become(request: dict[str, Any], streams: list[int]) -> None:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    sys.argv = ["fbrag", *request["arguments"]]


if __name__ == "__main__":
    _load(training=sys.argv[2] == "True")
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("fbrag_cli", run_name="__main__", alter_sys=True)
