"""Downloads a file over HTTP, from Hugging Face or a URL. Downloads resume, and are retried.

huggingface_hub finds the token, size and SHA-256 of a file. Its own `hf_hub_download` is not used: it deletes a partial file when
it is interrupted, which does not work for 42 GB.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as NoAnswer
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

from fbrag_cli.cancellation import abandonable
from fbrag_cli.models.part import PartialDownload, SourceFailedError

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub.file_download import HfFileMetadata

T = TypeVar("T")

_TIMEOUT, _TIMEOUT_TO_CONNECT = 20, 5  # seconds without a byte; seconds to connect
_ATTEMPTS = 4  # consecutive failures without a new byte
_WAIT_SECONDS = 0.5  # before the second attempt; doubles each time


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file on Hugging Face, at one revision of its repository."""

    repo: str
    revision: str
    file: str

    def where(self, environ: Mapping[str, str]) -> str:
        return urlsplit(self._url(environ)).netloc

    def plan(self, environ: Mapping[str, str]) -> Iterator[str]:
        yield f"  {self._url(environ)}"

    def fetch(self, part: PartialDownload, folder: Path, environ: Mapping[str, str], patience: float) -> str | None:
        import httpx2

        url = self._url(environ)
        try:
            about, token = _within(patience, lambda: _ask(url, environ.get("HF_TOKEN"), patience))
        except TimeoutError:
            raise SourceFailedError(f"no answer within {patience:g} s") from None
        except (httpx2.HTTPError, OSError, ValueError) as error:
            why = _reason(error)
            if why in ("HTTP 401", "HTTP 403"):  # also the reply for a repository that does not exist
                why += ": file not found, or access needs a token (HF_TOKEN)"
            raise SourceFailedError(why) from None
        vouched = about.etag if about.etag and re.fullmatch("[0-9a-f]{64}", about.etag) else None
        if part.expected and vouched and vouched != part.expected:
            raise SourceFailedError(f"its SHA-256 there is {vouched}")
        if about.size is not None:
            part.expect(about.size)
        if not part.expected and not vouched:
            raise SourceFailedError("no SHA-256 published there: pass --sha256 HEX")
        _stream(url, part, token)
        return vouched

    def _url(self, environ: Mapping[str, str]) -> str:
        """Return the URL of the file, on the mirror HF_ENDPOINT if that is set."""
        endpoint = (environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        return f"{endpoint}/{self.repo}/resolve/{quote(self.revision, safe='')}/{quote(self.file)}"


@dataclass(frozen=True, slots=True)
class UrlSource:
    """A URL from the user, with the SHA-256 of its file."""

    url: str

    def where(self, environ: Mapping[str, str]) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    def plan(self, environ: Mapping[str, str]) -> Iterator[str]:
        yield f"  {self.url}"

    def fetch(self, part: PartialDownload, folder: Path, environ: Mapping[str, str], patience: float) -> str | None:
        _stream(self.url, part)
        return None


# -- metadata from the hub -------------------------------------------------------------------------------------------------------


def _ask(url: str, token: str | None, seconds: float) -> tuple[HfFileMetadata, str | None]:
    """Return the hub's metadata for the file, and the token for the download: the one given, else that of `hf auth login`."""
    from huggingface_hub import constants, get_token
    from huggingface_hub.file_download import get_hf_file_metadata

    constants.HF_HUB_DISABLE_TELEMETRY = True  # its User-Agent would cost a request and reveal more than needed
    token = token or (None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token())
    return get_hf_file_metadata(url, token=token or False, timeout=seconds), token


def _within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of `call`. Raises TimeoutError, even if a name server hangs, which no socket timeout covers."""
    try:
        return abandonable(call).result(timeout=seconds)
    except NoAnswer:
        raise TimeoutError from None


# -- bytes -----------------------------------------------------------------------------------------------------------------------


def _stream(url: str, part: PartialDownload, token: str | None = None) -> None:
    """Download the missing bytes of `part` from `url`. The caller checks their SHA-256.

    token: for the hub. Raises SourceFailedError; FbragError `disk_full`.
    """
    import httpx2

    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
    timeout = httpx2.Timeout(_TIMEOUT, connect=_TIMEOUT_TO_CONNECT)
    failures = furthest = 0
    with httpx2.Client(follow_redirects=True, timeout=timeout, headers=headers) as client:
        while not part.complete:
            furthest = max(furthest, part.size)
            try:
                return _attempt(client, url, part)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                failures = 1 if part.size > furthest else failures + 1
                if not (isinstance(error, httpx2.TransportError) or _status(error) in (416, 429) or _status(error) >= 500):
                    raise SourceFailedError(_reason(error)) from None
                if failures == _ATTEMPTS:
                    raise SourceFailedError(f"{_reason(error)}, {_ATTEMPTS} times") from None
                time.sleep(_WAIT_SECONDS * 2 ** (failures - 1))


def _attempt(client: httpx2.Client, url: str, part: PartialDownload) -> None:
    with client.stream("GET", url, headers={"Range": f"bytes={part.size}-"} if part.size else {}) as response:
        if response.status_code in (200, 416):  # the whole file, or nothing after the bytes in `part`: start over
            part.cut(0)
        response.raise_for_status()
        if length := response.headers.get("Content-Length"):
            part.expect(part.size + int(length))
        for data in response.iter_bytes():
            part.write(data)


def _reason(error: Exception) -> str:
    """Return the reason of a failed request in a few words."""
    import httpx2

    if status := _status(error):
        return f"HTTP {status}"
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    return re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split())) or type(error).__name__


def _status(error: Exception) -> int:
    """Return the HTTP status in an error, 0 if there was no reply."""
    return getattr(getattr(error, "response", None), "status_code", 0)
