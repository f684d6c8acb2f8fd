"""A server in a thread of this process, over HTTP on loopback, and a client that reads events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import uvicorn

from fbrag_cli.serving.desk import Desk
from fbrag_cli.serving.door import Door
from fbrag_cli.serving.http.app import create_app
from fbrag_cli.serving.library import Library
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import NOWHERE, Cache

PATIENCE = 120  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A server that listens."""

    port: int
    desk: Desk

    def send(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> HTTPResponse:
        """Return the response, of which nothing is read yet."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        return connection.getresponse()

    def get(self, path: str) -> tuple[int, Any]:
        response = self.send("GET", path)
        return response.status, json.loads(response.read())

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        sent = body if isinstance(body, bytes | str) else json.dumps(body)
        response = self.send("POST", path, sent)
        return response.status, json.loads(response.read())

    def ask(self, question: str, **more: Any) -> dict[str, Any]:
        status, record = self.post("/v1/ask", {"question": question, **more})
        assert status == 200, record
        return dict(record)

    def events(self, question: str, **more: Any) -> list[dict[str, Any]]:
        response = self.send("POST", "/v1/ask", json.dumps({"question": question, **more}), Accept="text/event-stream")
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        return list(events_of(response))


def events_of(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the data of each event, which says its own name."""
    name = ""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            record = json.loads(line[6:])
            assert record.get("event", "error") == name
            yield record


@contextmanager
def live(
    models: ModelSettings,
    documents: list[str],
    *,
    door: Door | None = None,
    cache: Cache = NOWHERE,
    port: int = 0,
    around: Callable[[Any], Any] = lambda app: app,
    **desk: Any,
) -> Iterator[Live]:
    """Serve documents. port: 0 for a free one. around: what stands between the application and its clients. desk: how many
    questions run, and wait."""
    with Session.open(models, cache) as session:
        library = Library(session, documents, door)
        with closing(Desk(session, library, **desk)) as at:
            config = uvicorn.Config(around(create_app(at)), host="127.0.0.1", port=port, log_level="warning")
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, daemon=True)
            thread.start()
            while not server.started:
                time.sleep(0.01)
            try:
                yield Live(port=server.servers[0].sockets[0].getsockname()[1], desk=at)
            finally:
                at.close()
                server.should_exit = True
                thread.join(10)


def pair(path: Path) -> ModelSettings:
    """The settings of a session that one file of a model serves."""
    return ModelSettings(small=str(path), large=str(path))
