"""Downloads a file from a model hub. huggingface_hub finds its token, size and SHA-256; `stream` fetches the bytes.

The library's own `hf_hub_download` deletes a partial file when it is interrupted, which is no way to fetch 42 GB.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

from fbrag_cli.models.part import PartFile, SourceFailedError

if TYPE_CHECKING:
    from huggingface_hub.file_download import HfFileMetadata

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file of a model hub, at one revision of its repository."""

    repo: str
    revision: str
    file: str

    def where(self, environ: Mapping[str, str]) -> str:
        return urlsplit(self._url(environ)).netloc

    def plan(self, environ: Mapping[str, str]) -> Iterator[str]:
        yield f"  {self._url(environ)}"

    def fetch(self, part: PartFile, folder: Path, environ: Mapping[str, str], patience: float) -> str | None:
        import httpx2

        from fbrag_cli.models.stream import reason, stream

        url = self._url(environ)
        try:
            about, token = _within(patience, lambda: _ask(url, environ.get("HF_TOKEN"), patience))
        except TimeoutError:
            raise SourceFailedError(f"no answer within {patience:g} s") from None
        except (httpx2.HTTPError, OSError, ValueError) as error:
            why = reason(error)
            if why in ("HTTP 401", "HTTP 403"):  # a repository that does not exist answers so, too
                why += ": there is no such file, or it needs the token (HF_TOKEN) of an account that may have it"
            raise SourceFailedError(why) from None
        vouched = about.etag if about.etag and re.fullmatch("[0-9a-f]{64}", about.etag) else None
        if part.expected and vouched and vouched != part.expected:
            raise SourceFailedError(f"it has the SHA-256 {vouched} there")
        if about.size is not None:
            part.expect(about.size)
        if not part.expected and not vouched:
            raise SourceFailedError("it has no SHA-256 there: say what it must be, with --sha256")
        stream(url, part, token)
        return vouched

    def _url(self, environ: Mapping[str, str]) -> str:
        """Return the URL of the file, on the mirror HF_ENDPOINT if that is set."""
        endpoint = (environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        return f"{endpoint}/{self.repo}/resolve/{quote(self.revision, safe='')}/{quote(self.file)}"


def _ask(url: str, token: str | None, seconds: float) -> tuple[HfFileMetadata, str | None]:
    """Return the hub's metadata of the file, and the token for the download: the one given, else that of `hf auth login`."""
    from huggingface_hub import constants, get_token
    from huggingface_hub.file_download import get_hf_file_metadata

    constants.HF_HUB_DISABLE_TELEMETRY = True  # else its User-Agent costs a request and reveals more than needed
    token = token or (None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token())
    return get_hf_file_metadata(url, token=token or False, timeout=seconds), token


def _within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of `call`. Raises TimeoutError, even where a name server hangs, which no socket timeout covers."""
    results: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

    def run() -> None:
        try:
            results.put((call(), None))
        except Exception as error:
            results.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = results.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
