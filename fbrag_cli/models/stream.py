"""Downloads a file over HTTP, with resumption and retries."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from fbrag_cli.models.part import PartFile, SourceFailedError

_TIMEOUT = httpx2.Timeout(20, connect=5)  # seconds without a byte; seconds to connect
_ATTEMPTS = 4  # failures in a row that bring the file no further than it was before
_MOST_BYTES_OF_A_HEAD = 256_000
_WAIT_SECONDS = 0.5  # before the second attempt; doubled each time


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A URL from the user. Without an expected SHA-256 it must be https."""

    url: str

    def where(self, environ: Mapping[str, str]) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def plan(self, environ: Mapping[str, str]) -> Iterator[str]:
        yield f"  {self.url}"

    def fetch(self, part: PartFile, folder: Path, environ: Mapping[str, str], patience: float) -> str | None:
        stream(self.url, part, headers={}, pinned=part.expected is not None)
        return None


class _TryAgain(Exception):
    """A failure of the server that may be temporary."""


def stream(url: str, part: PartFile, *, headers: Mapping[str, str], pinned: bool) -> None:
    """Fetch the missing bytes of `part` from `url`.

    pinned: the SHA-256 of the whole file is known, so bytes of an earlier attempt stay even if the server's version changed.
    Raises SourceFailedError; FbragError `disk_full`.
    """
    failures = furthest = 0
    with httpx2.Client(follow_redirects=True, timeout=_TIMEOUT, headers={"Accept-Encoding": "identity", **headers}) as client:
        while not part.complete:
            furthest = max(furthest, part.size)
            try:
                _attempt(client, url, part, pinned)
                return
            except (httpx2.TransportError, _TryAgain) as error:
                failures = 1 if part.size > furthest else failures + 1
                if failures == _ATTEMPTS:
                    raise SourceFailedError(f"{reason(error)}, {_ATTEMPTS} times") from None
                time.sleep(_WAIT_SECONDS * 2 ** (failures - 1))
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise SourceFailedError(reason(error)) from None


def reason(error: Exception) -> str:
    """Return the cause of a failed request in a few words."""
    if status := getattr(getattr(error, "response", None), "status_code", None):
        return f"HTTP {status}"
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    return re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split())) or type(error).__name__


def _attempt(client: httpx2.Client, url: str, part: PartFile, pinned: bool) -> None:
    if part.size and not pinned and not part.etag:
        part.cut(0)
    headers = {}
    if part.size:
        headers = {"Range": f"bytes={part.size}-"} | ({} if pinned else {"If-Range": part.etag or ""})
    with client.stream("GET", url, headers=headers, extensions={"trace": _HeadMeter().watch}) as response:
        _accept(response, part, pinned)
        for data in response.iter_bytes():
            part.write(data)


class _HeadMeter:
    """Counts the bytes before the body of a response: a server may announce it (1xx) without end."""

    def __init__(self) -> None:
        self._left = 0.0

    def watch(self, event: str, about: Mapping[str, Any]) -> None:
        """Follow a request and its redirects, as the `trace` of its extensions."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = about["return_value"]
            stream.read = self._counted(stream.read)
        elif event.endswith(".send_request_headers.started"):
            self._left = _MOST_BYTES_OF_A_HEAD
        elif event.endswith(".receive_response_headers.complete"):
            self._left = math.inf

    def _counted(self, read: Callable[..., bytes]) -> Callable[..., bytes]:
        def counted(*arguments: Any, **named: Any) -> bytes:
            data = read(*arguments, **named)
            self._left -= len(data)
            if self._left < 0:
                raise SourceFailedError("the head of its reply does not end")
            return data

        return counted


def _accept(response: httpx2.Response, part: PartFile, pinned: bool) -> None:
    """Check the head of a response, and cut `part` to where its body starts."""
    status = response.status_code
    if not pinned and any(each.url.scheme != "https" for each in (*response.history, response)):
        raise SourceFailedError("it redirects to plain http, which needs --sha256")
    if status == 429 or status >= 500:
        raise _TryAgain(f"HTTP {status}")
    if status == 416 or (status == 206 and _first_byte(response) != part.size):
        part.cut(0)
        raise _TryAgain("the server cannot go on where the file stops")
    if not response.is_success:
        raise SourceFailedError(f"HTTP {status}")
    if status != 206:
        part.cut(0)
    if length := response.headers.get("Content-Length"):
        part.expect(part.size + int(length))
    if not pinned:
        etag = response.headers.get("ETag", "")
        part.etag = etag if etag.startswith('"') else None  # a weak one (W/) does not guarantee the same bytes


def _first_byte(response: httpx2.Response) -> int:
    start = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else -1
