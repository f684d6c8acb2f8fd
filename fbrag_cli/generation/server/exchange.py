"""A request to a server and its reply, with its time limits and its further attempts."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable
from enum import Enum

import anyio
import httpx2

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.host import Host
from fbrag_cli.generation.server.meter import Meter
from fbrag_cli.generation.server.replies import MOST_BYTES, Json, RefusedError, events, failure, said, whole, words_of

_ATTEMPTS = 4
_LONGEST_WAIT = 30.0  # seconds, whatever Retry-After asks for
_NOTED_WAIT = 2.0
_TOO_LONG = re.compile(r"context.?(size|length|window)|maximum context", re.IGNORECASE)
# Some servers send several events a token; one may hold much beside it.
_MOST_EVENTS, _EVENTS_OF_A_TOKEN, _BYTES_OF_A_TOKEN = 10_000, 4, 4_000
_IN_V1 = "correct the address: that of an OpenAI-compatible API mostly ends in /v1"
_NO_CONNECTION = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)


def ask(host: Host, url: str, body: Json | None = None, cancellation: Cancellation | None = None) -> Json:
    """Return the JSON object that `url` gives: by POST where there is a body, else by GET. Raises the errors of `Exchange`."""
    found: list[Json] = []

    def take(item: Json) -> Took:
        found.append(item)
        return Took.ALL

    host.loop.run(Exchange(host, url, body, take).run(), cancellation)
    return found[0]


class Took(Enum):
    """What an event brought: nothing of the reply, something, or all of it that is read."""

    NOTHING = 0
    SOMETHING = 1
    ALL = 2


class BrokenError(FbragError):
    """A reply that ended in its middle."""


class _TryAgain(Exception):
    """A failure that may be temporary. seconds: as long as the server asks to wait, None where it does not."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Exchange:
    """A request and its reply.

    take: receives each event of a stream, or the one object, and returns what it brought. Only what brings something shows that
    the server still works.
    """

    def __init__(self, host: Host, url: str, body: Json | None, take: Callable[[Json], Took]) -> None:
        self._host, self._url, self._body, self._take = host, url, body, take
        asked = body or {}
        self._samples = asked.get("n", 1)
        self._tokens = self._samples * asked.get("max_tokens", 1)  # at most, of all samples
        self._first = host.patience.known if body is None else host.patience.first
        self._begun = False  # whether text of the reply has come
        self._limit: anyio.CancelScope  # while it runs

    async def run(self) -> None:
        """Send the request, and pass on what comes.

        A connection that breaks, HTTP 429 and 5xx are tried again, 4 times in all, unless text of the reply has come. Raises
        FbragError `server_failed` or `prompt_too_long`; RefusedError where the server does not take the request as it is;
        BrokenError.
        """
        with anyio.move_on_after(self._first) as self._limit:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return await self._attempt()
                except (_TryAgain, httpx2.TransportError) as error:
                    failed = error
                except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                    raise self._host.error(_reason(error), _IN_V1) from None
                await self._wait(attempt, failed)
        if self._begun:
            raise self._broken(f"no token for {self._host.patience.idle:g} s")
        raise self._host.error(f"no reply within {self._first:g} s", "see the server's log; is it overloaded?")

    async def _wait(self, attempt: int, failed: Exception) -> None:
        """Wait before the next attempt. Raises FbragError where there is to be none."""
        reason, host = _reason(failed), self._host
        if self._begun:
            raise self._broken(reason)
        if isinstance(failed, _NO_CONNECTION):
            certificates = "set SSL_CERT_FILE to your organisation's certificates"
            hint = certificates if "CERTIFICATE" in reason.upper() else "start the server, or correct the address"
            raise host.error(f"no connection: {reason}", hint)
        if attempt == _ATTEMPTS:
            raise host.error(f"{reason}, {attempt} times", "see the server's log, or ask again later")
        seconds = host.patience.retry * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
        seconds = min(max(seconds, getattr(failed, "seconds", None) or 0), _LONGEST_WAIT)
        if seconds > _NOTED_WAIT:
            host.warn(f"{host.address.origin}: {reason}; asking again in {seconds:.0f} s")
        self._limit.deadline += seconds
        await asyncio.sleep(seconds)

    def _broken(self, reason: str) -> BrokenError:
        what = f"{self._host.address.base}: the reply ended in its middle: {reason}"
        return BrokenError("server_failed", what, "ask again; the server's log may say more")

    def _endless(self) -> FbragError:
        return self._host.error("its reply does not end", "see the server's log; is it an OpenAI-compatible server?")

    async def _attempt(self) -> None:
        method = "GET" if self._body is None else "POST"
        meter = Meter(2 * MOST_BYTES + _BYTES_OF_A_TOKEN * self._tokens, self._endless)
        extensions = {"trace": meter.watch}
        async with self._host.client.stream(method, self._url, json=self._body, extensions=extensions) as response:
            if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
                raise ValueError("a compressed reply, which was not asked for")
            if response.status_code != 200:
                await self._refuse(response)
            elif response.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
                await self._follow(response)
            else:
                self._deliver(await whole(response))

    async def _refuse(self, response: httpx2.Response) -> None:
        status = response.status_code
        if 300 <= status < 400:
            where = self._host.without_key(response.headers.get("Location", "elsewhere"))
            what = f"it redirects to {where}; text goes only to a server that you name"
            raise self._host.error(what, "name that address, if you trust it")
        asked = response.headers.get("Retry-After", "")
        self._fail(status, await failure(response), float(asked) if re.fullmatch(r"\d{1,6}", asked) else None)

    def _fail(self, status: int, words: str, seconds: float | None = None) -> None:
        """Raise the error for a status and the server's words."""
        what = f"HTTP {status}{self._host.without_key(words)}"
        if _TOO_LONG.search(words):
            longer = "give the server a longer context (Ollama: OLLAMA_CONTEXT_LENGTH)"
            hint = f"read less (--recall, --select, --budget; no --more), or {longer}"
            raise self._host.error(f"the prompt is too long for it: {what}", hint, "prompt_too_long")
        if status == 429 or (status >= 500 and status != 501):
            raise _TryAgain(what, seconds)
        if status in (401, 403):
            raise self._host.error(what, "put the server's key into a file (--key-file), or into FBRAG_KEY")
        raise RefusedError("server_failed", f"{self._host.address.base}: {what}", _IN_V1)

    async def _follow(self, response: httpx2.Response) -> None:
        """Deliver the events of a stream. One that ends before its samples do is a failure."""
        finished: dict[int, bool] = {}
        n_events = 0
        async for event in events(response):
            for each in (each for each in said(event) if 0 <= each.index < self._samples):
                finished[each.index] = finished.get(each.index, False) or each.finish is not None
            if self._deliver(event):
                return
            n_events += 1
            if n_events > _MOST_EVENTS + _EVENTS_OF_A_TOKEN * self._tokens:
                raise self._endless()
        if not self._begun and not any(finished.values()):
            if self._body is not None:
                # llama-cpp-python's server gives its reason only where nothing is streamed.
                self._body = {**self._body, "stream": False}
                self._body.pop("stream_options", None)
            raise _TryAgain("an empty reply")
        if not all(finished.values()):
            raise _TryAgain("the connection was closed")

    def _deliver(self, item: Json) -> bool:
        if "error" in item and not item.get("choices"):
            status = item["error"].get("code") if isinstance(item["error"], dict) else None
            status = status if isinstance(status, int) and 400 <= status < 600 else 500
            if self._begun:
                raise self._broken(f"HTTP {status}{self._host.without_key(words_of(item))}")
            if self._body is None:  # LM Studio says so, with status 200, of a route that it has not got
                raise RefusedError("server_failed", f"{self._host.address.base}: {words_of(item).removeprefix(': ')}", _IN_V1)
            self._fail(status, words_of(item))
        took = self._take(item)
        if took is not Took.NOTHING:
            self._begun = self._begun or any(each.text for each in said(item))
            self._limit.deadline = anyio.current_time() + (self._host.patience.idle if self._begun else self._first)
        return took is Took.ALL


def _reason(error: BaseException) -> str:
    """Return the cause of a failure in a few words."""
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx2.ConnectError):  # only the error of an address has a reason: take the first one
        while deeper := error.__cause__ or error.__context__:
            error = getattr(deeper, "exceptions", [deeper])[0]
    text = " ".join(str(error).split())
    if found := re.match(r"\[Errno (\d+)\] Connect call failed", text):  # asyncio's words for any errno
        return os.strerror(int(found[1]))
    return re.sub(r"^\[Errno -?\d+\] ", "", text) or type(error).__name__
