"""A request to the warm process over its Unix socket, by another process of its user."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

_SECONDS = 5.0


class _Connection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


def ask(path: Path, method: str, address: str) -> dict[str, Any] | None:
    """Return the JSON object that the process answers with; None where none answers."""
    with closing(_Connection(path)) as connection:
        try:
            connection.request(method, address)
            response = connection.getresponse()
            said = json.loads(response.read()) if response.status == 200 else None
        except (OSError, HTTPException, ValueError):
            return None
    return said if isinstance(said, dict) else None
