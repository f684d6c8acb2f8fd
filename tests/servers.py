"""Servers for tests: llama.cpp's own and llama-cpp-python's with a real model, and one that answers as it is told."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

# Their threads wait as those of fbrag do (`set_environment`), or a busy machine takes minutes for a sentence.
_ENVIRONMENT = {**os.environ, "GOMP_SPINCOUNT": "3000", "PYTHONUNBUFFERED": "1"}

_LLAMA_CPP = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.kv_unified, params.warmup = 2048, 3, True, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def llama_cpp_server(model: Path) -> Iterator[str]:
    """Run llama.cpp's own server, with three slots and a context of 2048 tokens. Yields its address."""
    with _process([sys.executable, "-c", _LLAMA_CPP, str(model)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), "llama.cpp's server did not start"
        yield f"{address}/v1"


@contextmanager
def llama_cpp_python_server(model: Path) -> Iterator[str]:
    """Run llama-cpp-python's own server, with a context of 2048 tokens. Yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"model": model, "host": "127.0.0.1", "port": port, "n_ctx": 2048, "n_threads": 1, "logits_all": "true"}
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    with _process([sys.executable, "-m", "llama_cpp.server", *options], stderr=subprocess.PIPE) as process:
        assert process.stderr
        assert any("Uvicorn running on" in line for line in process.stderr), "llama-cpp-python's server did not start"
        threading.Thread(target=process.stderr.read, daemon=True).start()  # else it waits for a reader
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def _process(command: list[str], **pipes: int) -> Iterator[subprocess.Popen[str]]:
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **pipes}
    process = subprocess.Popen(command, text=True, env=_ENVIRONMENT, **streams)
    try:
        yield process
    finally:
        process.kill()
        with process:
            pass


# -- a server that answers as it is told -------------------------------------------------------------------------------------

Reply = Callable[["Handler", dict[str, Any]], None]

_HI = [{"content": "Hi"}]


class Handler(BaseHTTPRequestHandler):
    """Answers with the next reply of its `Loopback`. Connections are closed after it."""

    server: Loopback

    def do_GET(self) -> None:
        self.server.asked.append(Asked("GET", self.path, dict(self.headers), {}))
        if self.path in self.server.pages:
            self.send(self.server.pages[self.path])
        else:
            self.server.missing(self, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(Asked("POST", self.path, dict(self.headers), body))
        if self.path in self.server.routes:
            self.server.routes[self.path](self, body)
        elif self.path != "/v1/chat/completions":
            self.send({"error": "no such route"}, 404)
        elif body["messages"][0]["content"] == "Hi":
            self.server.hello(self, body)
        else:
            (self.server.replies.popleft() if self.server.replies else self.server.default)(self, body)

    def send(self, body: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()

    def event(self, data: Any) -> None:
        self.wfile.write(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def piece(self, text: str, index: int = 0, finish: str | None = None) -> None:
        self.event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]})

    def log_message(self, *arguments: object) -> None:
        pass


@dataclass(frozen=True)
class Asked:
    """A request. at: seconds on the monotonic clock."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float = field(default_factory=monotonic)


class Loopback(ThreadingHTTPServer):
    """A server on a port of this machine, on a free one for 0.

    replies: to the next chats; then `default`. hello: to the first question, what it can do. routes: the replies of further
    routes. pages: what GET gives. missing: to a GET of another route. over: set at the end, for replies that wait.
    """

    daemon_threads = True

    def __init__(self, *replies: Reply, hello: Reply | None = None, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), Handler)
        self.replies, self.default = deque(replies), stream("It", " is", " blue", ".")
        self.hello, self.routes = hello or able, dict[str, Reply]()
        self.missing: Reply = lambda handler, body: handler.send({"error": {"message": "no such route"}}, 404)
        self.asked: list[Asked] = []
        self.pages: dict[str, Any] = {"/v1/models": {"data": [{"id": "tiny", "object": "model"}]}}
        self.over = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def chats(self) -> list[Asked]:
        """The chats with text of the user."""
        return [each for each in self.asked if each.body.get("messages", _HI)[0]["content"] != "Hi"]

    def __enter__(self) -> Loopback:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *arguments: object) -> None:
        """A client may go at any time."""


def able(handler: Handler, body: dict[str, Any]) -> None:
    """Answer the first question: all is possible."""
    top = [{"token": "Yes", "logprob": -0.1}, {"token": " no", "logprob": -3.0}]
    handler.send({"choices": [{"message": {"content": "Hi"}, "logprobs": {"content": [{"top_logprobs": top}]}}]})


def unable(*names: str) -> Reply:
    """Answer the first question as a strict server that refuses these parameters."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        if found := [name for name in names if name in body]:
            handler.send({"error": {"message": f"unknown parameter {found[0]}"}}, 400)
        else:
            handler.send({"choices": [{"message": {"content": "Hi"}}]})

    return reply


def stream(*pieces: str, finish: str = "stop", usage: dict[str, Any] | None = None, several: bool = False) -> Reply:
    """Stream the pieces as one sample, whatever `n` is; several: as each of `n`."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        for index in range(body.get("n", 1) if several else 1):
            for piece in pieces:
                handler.piece(piece, index)
            handler.piece("", index, finish)
        if usage:
            handler.event({"choices": [], "usage": usage})
        handler.event("[DONE]")

    return reply


def declining_reply(handler: Handler, body: dict[str, Any]) -> None:
    """Propose "Captain Vance.", and find it in nothing that was read."""
    if "Reply with yes or no" not in str(body["messages"]):
        stream("Captain Vance.")(handler, body)
        return
    listed = [{"token": "No", "logprob": -0.1}, {"token": "Yes", "logprob": -3.0}]
    handler.send({"choices": [{"message": {"content": "No"}, "logprobs": {"content": [{"top_logprobs": listed}]}}]})


def status(code: int, body: Any = "", kind: str = "application/json", **headers: str) -> Reply:
    return lambda handler, asked: handler.send(body, code, kind, **headers)


def half(*pieces: str) -> Reply:
    """Stream the pieces, and close the connection before the reply ends."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        handler.begin()
        for piece in pieces:
            handler.piece(piece)

    return reply


def stuck(*pieces: str) -> Reply:
    """Stream the pieces, then nothing more. Without pieces there is no head of a reply either."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        if pieces:
            handler.begin()
        for piece in pieces:
            handler.piece(piece)
        handler.server.over.wait()

    return reply


# -- servers that answer as Ollama and LM Studio do --------------------------------------------------------------------------


def ollama(*names: str, loaded: dict[str, int] | None = None, loads: int = 4096, port: int = 0) -> Loopback:
    """Return a server with the routes of Ollama 0.30. loaded: models in memory, and tokens of their context. loads: tokens of the
    context of a model that is loaded when it is first asked for."""

    def entry(name: str) -> dict[str, Any]:
        family = "nomic-bert" if "nomic" in name else "qwen35"
        details = {"parent_model": "", "format": "gguf", "family": family, "families": [family], "parameter_size": "4.0B"}
        cloud = {"remote_model": name, "remote_host": "https://ollama.com:443"} if name.endswith("cloud") else {}
        return {"name": name, "model": name, "size": 2_500_000_000, "digest": f"{len(name):064x}", "details": details} | cloud

    def running(name: str, window: int) -> dict[str, Any]:
        later = {"expires_at": "2026-11-25T17:00:00.0+01:00", "size_vram": 0, "context_length": window}
        return entry(name) | later

    def hello(handler: Handler, body: dict[str, Any]) -> None:
        ps = handler.server.pages["/api/ps"]["models"]
        if body["model"] not in [each["name"] for each in ps]:
            ps.append(running(body["model"], loads))
        able(handler, body)

    server = Loopback(hello=hello, port=port)
    server.missing = lambda handler, body: handler.send("404 page not found", 404, "text/plain")
    server.default = _as_ollama
    server.pages = {
        "/api/version": {"version": "0.30.1"},
        "/api/tags": {"models": [entry(name) for name in names]},
        "/api/ps": {"models": [running(name, window) for name, window in (loaded or {}).items()]},
        "/v1/models": {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": 1764000000, "owned_by": "library"} for name in names],
        },
    }
    return server


def _as_ollama(handler: Handler, body: dict[str, Any]) -> None:
    """Stream a reply as Ollama does: each piece with the role, the finish with an empty piece, the usage without a choice."""
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"], "system_fingerprint": "fp_ollama"}

    def choice(text: str, finish: str | None = None) -> dict[str, Any]:
        return about | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish}]}

    if not body.get("stream"):
        able(handler, body)
        return
    handler.begin()
    for piece in ("It", " is", " blue", "."):
        handler.event(choice(piece))
    handler.event(choice("", "stop"))
    n_read = sum(len(each["content"]) for each in body["messages"]) // 5
    handler.event(about | {"choices": [], "usage": {"prompt_tokens": n_read, "completion_tokens": 4, "total_tokens": n_read + 4}})
    handler.event("[DONE]")


def lm_studio(*names: str, loaded: dict[str, int] | None = None) -> Loopback:
    """Return a server with the routes of LM Studio 0.4. loaded: models in memory, and tokens of their context."""
    windows = loaded or {}

    def entry(name: str) -> dict[str, Any]:
        instances = [{"id": name, "config": {"context_length": windows[name]}}] if name in windows else []
        kind = "embedding" if "embed" in name else "llm"
        return {"type": kind, "publisher": "qwen", "key": name, "loaded_instances": instances, "max_context_length": 262144}

    def missing(handler: Handler, body: dict[str, Any]) -> None:
        handler.send({"error": f"Unexpected endpoint or method. ({handler.command} {handler.path})"})

    server = Loopback()
    server.missing = missing
    listed = [{"id": name, "object": "model", "owned_by": "organization_owner"} for name in names]
    server.pages = {
        "/api/v1/models": {"models": [entry(name) for name in names]},
        "/v1/models": {"object": "list", "data": listed},
    }
    return server
