"""Downloads a file over HTTP, with resumption and retries."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from fbrag_cli.models.part import PartFile, SourceFailedError

_TIMEOUT = httpx2.Timeout(20, connect=5)  # seconds without a byte; seconds to connect
_ATTEMPTS = 4  # failures in a row that bring the file no further than it was before
_WAIT_SECONDS = 0.5  # before the second attempt; doubled each time


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A URL from the user, whose file has a known SHA-256."""

    url: str

    def where(self, environ: Mapping[str, str]) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def plan(self, environ: Mapping[str, str]) -> Iterator[str]:
        yield f"  {self.url}"

    def fetch(self, part: PartFile, folder: Path, environ: Mapping[str, str], patience: float) -> str | None:
        stream(self.url, part)
        return None


def stream(url: str, part: PartFile, token: str | None = None) -> None:
    """Fetch the missing bytes of `part` from `url`. The caller checks their SHA-256.

    token: of the hub. Raises SourceFailedError; FbragError `disk_full`.
    """
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
    failures = furthest = 0
    with httpx2.Client(follow_redirects=True, timeout=_TIMEOUT, headers=headers) as client:
        while not part.complete:
            furthest = max(furthest, part.size)
            try:
                return _attempt(client, url, part)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                failures = 1 if part.size > furthest else failures + 1
                if not _may_pass(error):
                    raise SourceFailedError(reason(error)) from None
                if failures == _ATTEMPTS:
                    raise SourceFailedError(f"{reason(error)}, {_ATTEMPTS} times") from None
                time.sleep(_WAIT_SECONDS * 2 ** (failures - 1))


def _attempt(client: httpx2.Client, url: str, part: PartFile) -> None:
    with client.stream("GET", url, headers={"Range": f"bytes={part.size}-"} if part.size else {}) as response:
        if response.status_code in (200, 416):  # the whole file, or no more bytes than `part` has: begin again
            part.cut(0)
        response.raise_for_status()
        if length := response.headers.get("Content-Length"):
            part.expect(part.size + int(length))
        for data in response.iter_bytes():
            part.write(data)


def _may_pass(error: Exception) -> bool:
    """Return whether another attempt may succeed."""
    status = _status(error)
    return isinstance(error, httpx2.TransportError) or status in (416, 429) or status >= 500


def reason(error: Exception) -> str:
    """Return the cause of a failed request in a few words."""
    if status := _status(error):
        return f"HTTP {status}"
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    return re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split())) or type(error).__name__


def _status(error: Exception) -> int:
    """Return the HTTP status in an error, 0 if there was no reply."""
    return getattr(getattr(error, "response", None), "status_code", 0)
