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
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import httpx2

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import Address
from fbrag_cli.text.printable import one_line

_ATTEMPTS = 4
_LONGEST_WAIT = 30.0  # seconds, whatever Retry-After says
_NOTED_WAIT = 2.0
_TICK = 0.1  # seconds between checks for a requested stop
_TOO_LONG = re.compile(r"context.?(size|length|window)|maximum context", re.IGNORECASE)
_MOST_BYTES, _BYTES_OF_A_TOKEN = 16_000_000, 4_000  # per reply: an event may have much data besides its token
_MOST_BYTES_OF_A_HEAD = 256_000  # including informational responses (1xx) before it
_MOST_SHOWN = 300  # characters of a server's error message
_IN_V1 = "check the URL: OpenAI-compatible APIs usually end in /v1"
_NO_CONNECTION = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)

Json = dict[str, Any]
T = TypeVar("T")

#: Calls that work on the event loop passes to its caller's thread; None at the end of the work.
Reports = SimpleQueue[Callable[[], object] | None]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of requests, in seconds.

    connect: for a connection. known: for a description of the server. first: for the first token of a reply, after the prompt is
    read. idle: between two tokens. retry: wait before the second attempt, doubled each time.
    """

    connect: float = 10
    known: float = 30
    first: float = 600
    idle: float = 120
    retry: float = 0.5


PATIENT = Timeouts()


class Endpoint:
    """A server: its URL, its connection settings and its time limits. It keeps no connection, and need not be closed.

    key: sent only to this server. warn: receives warnings. takes_n: whether one request may ask for several samples. at_once:
    whether several requests may run at the same time. Both are assumed until the server shows otherwise.
    """

    def __init__(
        self, address: Address, key: str | None = None, patience: Timeouts = PATIENT, warn: Callable[[str], object] | None = None
    ) -> None:
        self.address, self.patience, self.warn = address, patience, warn or (lambda text: None)
        self._key, self.takes_n, self.at_once = key, True, True
        limits = httpx2.Limits(max_keepalive_connections=0)  # a server may have closed an idle one
        direct = address.is_loopback or not address.encrypted
        # An explicit transport uses no proxy. Without TLS it loads no certificates, which would take a third of a second.
        transport = httpx2.AsyncHTTPTransport(verify=address.encrypted, limits=limits) if direct else None
        self.client = httpx2.AsyncClient(
            transport=transport,
            limits=limits,
            timeout=httpx2.Timeout(None, connect=patience.connect),  # `ServerRequest` enforces the other limits
            headers={"Accept-Encoding": "identity", "User-Agent": "fbrag"} | ({"Authorization": f"Bearer {key}"} if key else {}),
        )

    def error(self, what: str, hint: str, code: str = "server_failed", kind: type[FbragError] = FbragError) -> FbragError:
        return kind(code, f"{self.address.base}: {what}", hint)

    def without_key(self, text: str) -> str:
        """Return a server's message without the key, which it may have repeated."""
        return text.replace(self._key, "…") if self._key else text


# -- a request and its reply -------------------------------------------------------------------------------------------------


class Took(Enum):
    """The effect of an event. Only events with an effect show that the server is still working.

    NOTHING. READING: more of the prompt was read. WRITING: more of the reply was written. ENDED: the reply has ended; its usage
    may follow. ENOUGH: stop reading.
    """

    NOTHING, READING, WRITING, ENDED, ENOUGH = range(5)


class UnusableError(FbragError):
    """The reply is not what was requested. The same request would get the same reply."""


class RefusedError(UnusableError):
    """The server rejects this form of request. Another form may work."""


class BrokenError(FbragError):
    """A reply ended in the middle."""


class _TryAgain(Exception):
    """A failure that may be temporary. seconds: wait requested by the server."""

    def __init__(self, reason: str, seconds: float = 0) -> None:
        super().__init__(reason)
        self.seconds = seconds


def ask(host: Endpoint, url: str, body: Json | None = None, cancellation: Cancellation | None = None) -> Json:
    """Return the JSON object at `url`: by POST if there is a body, else by GET. Raises the errors of `ServerRequest`."""
    return run(asked(host, url, body), cancellation)


async def asked(host: Endpoint, url: str, body: Json | None = None) -> Json:
    """Like `ask`, on the event loop."""
    found: list[Json] = []

    def take(item: Json) -> Took:
        found.append(item)
        return Took.ENOUGH

    await ServerRequest(host, url, body, take).run()
    return found[0]


class ServerRequest:
    """A request and its reply. take: receives each event of a stream, or the single object."""

    def __init__(self, host: Endpoint, url: str, body: Json | None, take: Callable[[Json], Took]) -> None:
        self._host, self._url, self._body, self._take = host, url, body, take
        self._n_tokens = (body or {}).get("n", 1) * (body or {}).get("max_tokens", 1)  # maximum, over all samples
        self._first = host.patience.known if body is None else host.patience.first
        self._begun = False  # whether part of the reply has arrived
        self._limit: asyncio.Timeout  # while it runs

    async def run(self) -> None:
        """Send the request, and deliver the reply.

        Broken connections, HTTP 429 and 5xx are retried, up to 4 attempts, unless part of the reply has arrived. Raises
        FbragError `server_failed` or `prompt_too_long`; RefusedError if the server rejects this form of request; BrokenError.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._first) as self._limit:
                for attempt in range(1, _ATTEMPTS + 1):
                    try:
                        return await self._attempt()
                    except (_TryAgain, httpx2.TransportError) as error:
                        failed = error
                    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                        raise self._host.error(_reason(error), _IN_V1, kind=UnusableError) from None
                    await self._wait(attempt, failed)
        if self._begun:
            raise self._broken(f"no token for {self._host.patience.idle:g} s")
        raise self._host.error(f"no reply within {self._first:g} s", "check the server's log; it may be overloaded")

    async def _wait(self, attempt: int, failed: Exception) -> None:
        """Wait before the next attempt. Raises FbragError after the last one."""
        reason, host = _reason(failed), self._host
        if self._begun:
            raise self._broken(reason)
        if isinstance(failed, _NO_CONNECTION):
            certificates = "set SSL_CERT_FILE to your organization's certificates"
            hint = certificates if "CERTIFICATE" in reason.upper() else "start the server, or check the URL"
            raise host.error(f"no connection: {reason}", hint)
        if attempt == _ATTEMPTS:
            raise host.error(f"{reason} ({attempt} attempts)", "check the server's log, or try again later")
        seconds = host.patience.retry * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
        seconds = min(max(seconds, getattr(failed, "seconds", 0)), _LONGEST_WAIT)
        if seconds > _NOTED_WAIT:
            host.warn(f"{host.address.origin}: {reason}; retrying in {seconds:.0f} s")
        self._limit.reschedule((self._limit.when() or 0) + seconds)
        await asyncio.sleep(seconds)

    def _broken(self, reason: str) -> BrokenError:
        what = f"{self._host.address.base}: the reply was interrupted: {reason}"
        return BrokenError("server_failed", what, "try again; the server's log may say more")

    async def _attempt(self) -> None:
        method = "GET" if self._body is None else "POST"
        endless = self._host.error("the reply is too long", "check the server's log; is it an OpenAI-compatible server?")
        watch = {"trace": _meter(_MOST_BYTES + _BYTES_OF_A_TOKEN * self._n_tokens, endless)}
        async with self._host.client.stream(method, self._url, json=self._body, extensions=watch) as response:
            headers, status = response.headers, response.status_code
            if headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
                raise ValueError("an unrequested compressed reply")
            if 300 <= status < 400:
                where = self._host.without_key(headers.get("Location", "elsewhere"))
                what = f"the server redirects to {where}; fbrag sends text only to the server that you name"
                raise self._host.error(what, "use that URL if you trust it", kind=UnusableError)
            if status != 200:
                wait = headers.get("Retry-After", "")
                self._fail(status, _words(await response.aread()), float(wait) if re.fullmatch(r"\d{1,6}", wait) else 0)
            elif headers.get("Content-Type", "").lower().startswith("text/event-stream"):
                await self._follow(response)
            else:
                self._deliver(_object(await response.aread()), 400)

    def _fail(self, status: int, words: str, seconds: float = 0) -> None:
        """Raise the error for a status and the server's message."""
        what = f"HTTP {status}{self._host.without_key(words)}"
        if _TOO_LONG.search(words):
            longer = "give the server a longer context (Ollama: OLLAMA_CONTEXT_LENGTH)"
            hint = f"lower --select, or {longer}"
            raise self._host.error(f"the prompt is too long: {what}", hint, "prompt_too_long", UnusableError)
        if status == 429 or (status >= 500 and status != 501):
            raise _TryAgain(what, seconds)
        if status in (401, 403):
            hint = "put the server's API key in a file (--key-file) or in FBRAG_KEY"
            raise self._host.error(what, hint, kind=UnusableError)
        raise self._host.error(what, _IN_V1, kind=RefusedError)

    async def _follow(self, response: httpx2.Response) -> None:
        """Deliver the events of a stream. A stream that ends before its samples is a failure."""
        took = Took.NOTHING
        async for event in httpx2.EventSource(response):  # limits the size of an event
            if event.data.strip() == "[DONE]":
                break
            if event.data and (took := self._deliver(_object(event.data), 500)) is Took.ENOUGH:
                return
        if took is Took.ENDED:
            return
        if not self._begun and self._body is not None:
            # llama-cpp-python's server gives a reason only without streaming.
            self._body = {**self._body, "stream": False}
            self._body.pop("stream_options", None)
        raise _TryAgain("the connection was closed" if self._begun else "an empty reply")

    def _deliver(self, item: Json, unnamed: int) -> Took:
        """Deliver an event or a complete reply. unnamed: status of an error that has none."""
        if "error" in item and not item.get("choices"):
            words, error = _words_of(item), item["error"]
            status = error.get("code") if isinstance(error, dict) else None
            status = status if isinstance(status, int) and 400 <= status < 600 else unnamed
            if self._begun:
                raise self._broken(f"HTTP {status}{self._host.without_key(words)}")
            self._fail(status, words)
        took = self._take(item)
        self._begun = self._begun or took in (Took.WRITING, Took.ENDED)
        if took in (Took.READING, Took.WRITING):
            seconds = self._host.patience.idle if self._begun else self._first
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)
        return took


def _meter(most: int, error: Exception) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Return a `trace` for a request, which raises `error` if the reply exceeds `most` bytes after its head.

    It counts the bytes read from the connection: a server may send endless data before the head, in comments or in one event.
    """
    left = _MOST_BYTES_OF_A_HEAD

    def counting(read: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
        async def read_and_count(*arguments: Any, **named: Any) -> bytes:
            nonlocal left
            data = await read(*arguments, **named)
            left -= len(data)
            if left < 0:
                raise error
            return data

        return read_and_count

    async def watch(event: str, about: Mapping[str, Any]) -> None:
        nonlocal left
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = about["return_value"]
            stream.read = counting(stream.read)
        elif event.endswith(".receive_response_headers.complete"):
            left = most

    return watch


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


# -- replies -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """The part of a sample in an event.

    index: number of the sample in its request. thought: whether the event has reasoning, which is not part of the reply. finish:
    why the sample ended, None before its end. logprobs: its tokens in UTF-8, those of reasoning too, each with the natural
    logarithm of its probability, at most 0; empty if the server returns none.
    """

    index: int
    text: str
    thought: bool
    finish: str | None
    logprobs: tuple[tuple[bytes, float], ...] = ()


def said(item: Json) -> list[ReplyPart]:
    """Return the parts of samples in an event or a complete reply. Raises ValueError for an unexpected shape."""
    found = []
    try:
        for choice in item.get("choices") or ():
            part = choice.get("delta") or choice.get("message") or {}
            text, finish = part.get("content") or "", choice.get("finish_reason")
            thought = part.get("reasoning_content") or part.get("reasoning")
            if not isinstance(text, str):
                raise ValueError("the content of the reply is not text")
            index = int(choice.get("index") or 0)
            text = text.encode("utf-8", "replace").decode()
            found.append(ReplyPart(index, text, bool(thought), str(finish) if finish else None, _logprobs(choice)))
    except (AttributeError, TypeError, OverflowError) as error:
        raise ValueError("not a reply of an OpenAI-compatible API") from error
    return found


def _logprobs(choice: Json) -> tuple[tuple[bytes, float], ...]:
    try:
        return tuple(
            (
                bytes(each["bytes"]) if isinstance(each.get("bytes"), list) else each["token"].encode("utf-8", "replace"),
                min(0.0, float(each["logprob"])),
            )
            for each in choice["logprobs"]["content"]
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return ()


def count(value: Any, least: int = 0) -> int | None:
    """Return a number of tokens from a server, None if it is not a valid number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**40 else None


def tokens(item: Json, *names: str) -> int | None:
    """Return a count from the usage in an event, such as ("completion_tokens",); None if it is missing."""
    value: Any = item.get("usage")
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return count(value)


def _words(data: bytes) -> str:
    """Return the server's message in an error response, such as ": no such model"; "" if there is none."""
    try:
        return _words_of(_object(data))
    except ValueError:
        return "" if data.lstrip()[:1] == b"<" else _shown(data.decode("utf-8", "replace"))


def _words_of(item: Json) -> str:
    """Return the message of a JSON error, from "error", its "message", or "detail"."""
    found: Any = item.get("error") or item.get("detail") or item.get("message") or ""
    if isinstance(found, dict):
        kind = found.get("type")
        found = f"{found.get('message') or ''}{f' ({kind})' if isinstance(kind, str) else ''}"
    return _shown(found if isinstance(found, str) else json.dumps(found))


def _shown(text: str) -> str:
    line = one_line(text, _MOST_SHOWN)
    return f": {line}" if line else ""


def _object(data: bytes | str) -> Json:
    """Return the JSON object in a reply. Raises ValueError for anything else."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if text.lstrip()[:1] == "<":
        raise ValueError("a web page instead of JSON")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the reply is not valid JSON") from None
    if not isinstance(found, dict):
        raise ValueError("the reply is not a JSON object")
    return found


# -- the event loop ----------------------------------------------------------------------------------------------------------


def run(work: Coroutine[Any, Any, T], cancellation: Cancellation | None = None, reports: Reports | None = None) -> T:
    """Run `work` on the event loop and return its result. Its reports are made in this thread, in order.

    Raises the errors of `work` and of reports, and the error of a requested cancellation within 0.1 seconds. `work` is then
    cancelled, which closes its connections.
    """
    cancellation, reports = cancellation or Cancellation(), reports or SimpleQueue()
    with _starting:
        loop = _loop()
    running = asyncio.run_coroutine_threadsafe(work, loop)
    running.add_done_callback(lambda done: reports.put(None))
    try:
        while True:
            with cancellation.native():
                try:
                    report = reports.get(timeout=_TICK)
                except Empty:
                    continue
            if report is None:
                return running.result()
            report()
    finally:
        running.cancel()


_starting = Lock()  # ensures that the first threads start only one loop


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all requests. It runs in a separate thread, so that a caller can abandon a request that hangs."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_DaemonThreads())
    Thread(target=loop.run_forever, name="servers", daemon=True).start()
    return loop


class _DaemonThreads(ThreadPoolExecutor):
    """Runs DNS lookups in threads that do not delay the end of the process."""

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def call() -> None:
            try:
                future.set_result(function(*arguments, **named))
            except BaseException as error:
                future.set_exception(error)

        Thread(target=call, daemon=True).start()
        return future
