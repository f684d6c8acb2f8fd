"""Requests to a server. Its replies are untrusted: they may have any size, shape and pace, or never end.

Text is sent only to the named server: redirects are not followed. A proxy from the environment (HTTPS_PROXY) is used only for
https, whose text it cannot read, and never for this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar

import httpx2

from fbrag_cli.cancellation import Cancellation, abandonable
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import Address
from fbrag_cli.text.printable import one_line

_ATTEMPTS = 4
_LONGEST_WAIT = 30.0  # seconds, whatever Retry-After says
_NOTED_WAIT = 2.0
_TICK = 0.1  # seconds between checks for a requested stop
_TOO_LONG = re.compile(r"context.?(size|length|window)|maximum context", re.IGNORECASE)
_MOST_BYTES, _BYTES_OF_A_TOKEN = 16_000_000, 4_000  # per reply: an event may have much data besides its token
_MOST_SHOWN = 300  # characters of a server's error message
_IN_V1 = "check the URL: OpenAI-compatible APIs usually end in /v1"
_NO_CONNECTION = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of requests, in seconds.

    connect: for a connection. known: for a description of the server. first: for the first token of a reply, after the prompt is
    read. idle: between two tokens. retry: wait before the second attempt, doubled each time.
    """

    connect: float = 10
    known: float = 30
    first: float = 1800
    idle: float = 120
    retry: float = 0.5


PATIENT = Timeouts()


class UnusableError(FbragError):
    """The reply is not what was requested. The same request would get the same reply."""


class RefusedError(UnusableError):
    """The server rejects this form of request. Another form may work."""


class TryAgainError(Exception):
    """A failure that may be temporary. seconds: wait requested by the server."""

    def __init__(self, reason: str, seconds: float = 0) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Endpoint:
    """A server: its URL, its connection settings and its time limits. It keeps no connection, and need not be closed.

    key: sent only to this server. warn: receives warnings. takes_n: whether one request may ask for several samples, which is
    assumed until the server shows otherwise.
    """

    def __init__(
        self, address: Address, key: str | None = None, patience: Timeouts = PATIENT, warn: Callable[[str], object] | None = None
    ) -> None:
        self.address, self.patience, self.warn = address, patience, warn or (lambda text: None)
        self._key, self.takes_n = key, True
        limits = httpx2.Limits(max_keepalive_connections=0)  # a server may have closed an idle one
        direct = address.is_loopback or not address.encrypted
        # An explicit transport uses no proxy. Without TLS it loads no certificates, which would take a third of a second.
        transport = httpx2.AsyncHTTPTransport(verify=address.encrypted, limits=limits) if direct else None
        self.client = httpx2.AsyncClient(
            transport=transport,
            limits=limits,
            timeout=httpx2.Timeout(None, connect=patience.connect),  # `Reply` enforces the other limits
            headers={"Accept-Encoding": "identity", "User-Agent": "fbrag"} | ({"Authorization": f"Bearer {key}"} if key else {}),
        )

    def error(self, what: str, hint: str, kind: type[FbragError] = FbragError, code: str = "server_failed") -> FbragError:
        """Return an error of this server."""
        return kind(code, f"{self.address.base}: {self.without_key(what)}", hint)

    def without_key(self, text: str) -> str:
        """Return a server's message without the key, which it may have repeated."""
        return text.replace(self._key, "…") if self._key else text


# -- a request and its reply -------------------------------------------------------------------------------------------------


def ask(host: Endpoint, url: str, body: Json | None = None, cancellation: Cancellation | None = None) -> Json:
    """Return the JSON object at `url`: by POST if there is a body, else by GET. Raises the errors of `retried`."""
    seconds = host.patience.known if body is None else host.patience.first

    def attempt() -> Json:
        with closing(Reply(host, url, body, seconds, cancellation)) as reply:
            for item in reply:
                return item
        raise TryAgainError("an empty reply")

    return retried(host, attempt, cancellation)


def retried(
    host: Endpoint, attempt: Callable[[], T], cancellation: Cancellation | None, shown: Callable[[], bool] = lambda: False
) -> T:
    """Return the result of the first attempt that succeeds.

    Broken connections, HTTP 429 and 5xx are retried, up to 4 attempts. shown: whether the user has seen part of the reply, which
    then cannot be requested again. Raises FbragError `server_failed` or `prompt_too_long`, as `UnusableError` or `RefusedError`
    if the server has replied with something else.
    """
    for number in range(1, _ATTEMPTS + 1):
        try:
            return attempt()
        except (TryAgainError, httpx2.TransportError) as error:
            failed = error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise host.error(_reason(error), _IN_V1, UnusableError) from None
        reason = _reason(failed)
        if shown():
            raise host.error(f"the reply was interrupted: {reason}", "try again; the server's log may say more")
        if isinstance(failed, _NO_CONNECTION):
            certificates = "set SSL_CERT_FILE to your organization's certificates"
            hint = certificates if "CERTIFICATE" in reason.upper() else "start the server, or check the URL"
            raise host.error(f"no connection: {reason}", hint)
        if number < _ATTEMPTS:
            seconds = host.patience.retry * 2 ** (number - 1) * random.uniform(0.5, 1.5)
            seconds = min(max(seconds, getattr(failed, "seconds", 0)), _LONGEST_WAIT)
            if seconds > _NOTED_WAIT:
                host.warn(f"{host.address.origin}: {host.without_key(reason)}; retrying in {seconds:.0f} s")
            (cancellation or Cancellation()).sleep(seconds)
    raise host.error(f"{reason} ({_ATTEMPTS} attempts)", "check the server's log, or try again later")


class Reply:
    """A request, sent by POST if there is a body, and its reply: iterates over the events, or the single object.

    seconds: time limit, see `allow`. Raises the errors that `retried` handles, and the error of a requested cancellation within
    0.1 seconds. Closing the reply closes its connection.
    """

    def __init__(self, host: Endpoint, url: str, body: Json | None, seconds: float, cancellation: Cancellation | None) -> None:
        self._host, self._cancellation = host, cancellation or Cancellation()
        self._items: SimpleQueue[Json | None] = SimpleQueue()  # None at the end
        self.allow(seconds)
        with _starting:
            loop = _loop()
        self._receiving = asyncio.run_coroutine_threadsafe(_receive(host, url, body, self._items), loop)
        self._receiving.add_done_callback(lambda done: self._items.put(None))

    def allow(self, seconds: float) -> None:
        """Set the time limit of the rest of the reply, in seconds from now."""
        self._seconds, self._end = seconds, monotonic() + seconds

    def __iter__(self) -> Iterator[Json]:
        while monotonic() < self._end:
            try:
                with self._cancellation.native():
                    item = self._items.get(timeout=_TICK)
            except Empty:
                continue
            if item is None:
                self._receiving.result()
                return
            yield item
        raise self._host.error(f"no reply for {self._seconds:g} s", "check the server's log; it may be overloaded")

    def close(self) -> None:
        self._receiving.cancel()


async def _receive(host: Endpoint, url: str, body: Json | None, items: SimpleQueue[Json | None]) -> None:
    """Send a request, and receive the events of its reply, or the single object."""
    left = _MOST_BYTES + _BYTES_OF_A_TOKEN * (body or {}).get("n", 1) * (body or {}).get("max_tokens", 1)
    async with host.client.stream("GET" if body is None else "POST", url, json=body) as response:
        headers, status = response.headers, response.status_code
        if 300 <= status < 400:
            where = f"the server redirects to {headers.get('Location', 'elsewhere')}"
            what = f"{where}; fbrag sends text only to the server that you name"
            raise host.error(what, "use that URL if you trust it", UnusableError)
        if status == 200 and headers.get("Content-Type", "").lower().startswith("text/event-stream"):
            async for event in httpx2.EventSource(response):  # limits the size of an event
                if event.data.strip() == "[DONE]":
                    return
                if (left := left - len(event.data)) < 0:
                    raise ValueError("the reply is too long")
                if event.data:
                    items.put(_checked(host, _object(event.data), 500))
            return
        data = bytearray()
        async for part in response.aiter_bytes():
            data += part
            if len(data) > left:
                raise ValueError("the reply is too long")
        if status != 200:
            wait = headers.get("Retry-After", "")
            raise _failure(host, status, _message(data), float(wait) if re.fullmatch(r"\d{1,6}", wait) else 0)
        items.put(_checked(host, _object(data), 400))


_starting = Lock()  # ensures that the first threads start only one loop


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all requests. It runs in a separate thread, so that a caller can abandon a request that hangs."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Lookups())
    Thread(target=loop.run_forever, name="servers", daemon=True).start()
    return loop


class _Lookups(ThreadPoolExecutor):
    """Runs DNS lookups in threads that do not delay the end of the process."""

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        return abandonable(partial(function, *arguments, **named))


# -- errors and JSON ---------------------------------------------------------------------------------------------------------


def _checked(host: Endpoint, item: Json, status: int) -> Json:
    """Return an event or a complete reply. Raises its error, if it has one. status: of an error without a status."""
    if "error" not in item or item.get("choices"):
        return item
    named = item["error"].get("code") if isinstance(item["error"], dict) else None
    raise _failure(host, named if isinstance(named, int) and 400 <= named < 600 else status, _message(item))


def _failure(host: Endpoint, status: int, words: str, seconds: float = 0) -> Exception:
    """Return the error for a status and the server's message."""
    problem = f"HTTP {status}{words}"
    if _TOO_LONG.search(words):
        hint = "lower --select, or give the server a longer context (Ollama: OLLAMA_CONTEXT_LENGTH)"
        return host.error(f"the prompt is too long: {problem}", hint, UnusableError, "prompt_too_long")
    if status == 429 or (status >= 500 and status != 501):
        return TryAgainError(problem, seconds)
    if status in (401, 403):
        return host.error(problem, "put the server's API key in a file (--key-file) or in FBRAG_KEY", UnusableError)
    return host.error(problem, _IN_V1, RefusedError)


def _reason(error: BaseException) -> str:
    """Return the reason of a failure in a few words."""
    if isinstance(error, httpx2.TimeoutException):
        return "timed out"
    if isinstance(error, httpx2.ConnectError):  # only the errors of single addresses have reasons: use the first one
        while deeper := error.__cause__ or error.__context__:
            error = getattr(deeper, "exceptions", [deeper])[0]
    text = " ".join(str(error).split())
    if found := re.match(r"\[Errno (\d+)\] Connect call failed", text):  # asyncio's message for any errno
        return os.strerror(int(found[1]))
    return re.sub(r"^\[Errno -?\d+\] ", "", text) or type(error).__name__


def _object(data: bytes | bytearray | str) -> Json:
    """Return the JSON object in a reply. Raises ValueError for anything else."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if text.lstrip()[:1] == "<":
        raise ValueError("a web page instead of JSON")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the reply is not valid JSON") from None
    if not isinstance(value, dict):
        raise ValueError("the reply is not a JSON object")
    return value


def _message(reply: Json | bytearray) -> str:
    """Return the message of a reply with an error, such as ": no such model": from "error", its "message", or "detail"; "" if
    there is none, or a web page."""
    value: Any = reply
    if isinstance(reply, bytearray):
        try:
            value = _object(reply)
        except ValueError:
            value = {"error": "" if reply.lstrip()[:1] == b"<" else reply.decode("utf-8", "replace")}
    value = value.get("error") or value.get("detail") or value.get("message") or ""
    if isinstance(value, dict):
        kind = value.get("type")
        value = f"{value.get('message') or ''}{f' ({kind})' if isinstance(kind, str) else ''}"
    line = one_line(value if isinstance(value, str) else json.dumps(value), _MOST_SHOWN)
    return f": {line}" if line else ""


def count(value: Any, least: int = 0) -> int | None:
    """Return a number of tokens from a server, None if it is not a valid number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**40 else None
