"""A request to a server. It runs in a thread of its own, so that a caller can stop waiting within a moment, whatever hangs."""

from __future__ import annotations

import random
import re
import socket
from queue import Full, Queue
from threading import Event, Thread
from time import perf_counter
from typing import Any

import httpx2

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.host import Host
from fbrag_cli.generation.server.replies import Json, RefusedError, events, failure, said, whole, words_of

#: Seconds between two looks at what may have been requested meanwhile.
TICK = 0.1
_ATTEMPTS = 4
_LONGEST_WAIT = 30.0  # seconds, whatever Retry-After asks for
_NOTED_WAIT = 2.0
_TOO_LONG = re.compile(r"context.?(size|length|window)|maximum context", re.IGNORECASE)
_IN_V1 = "correct the address: that of an OpenAI-compatible API mostly ends in /v1"
_NO_CONNECTION = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)


class BrokenError(FbragError):
    """A reply that ended in its middle."""


class _TryAgain(Exception):
    """A failure that may be temporary. seconds: as long as the server asks to wait, None where it does not."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Exchange:
    """A request and its reply: events of a stream, or one whole object. Its items are read through `requests.Requests`.

    A connection that breaks, HTTP 429 and 5xx are tried again, 4 times in all, unless text of the reply has come. error:
    FbragError `server_failed` or `prompt_too_long`; RefusedError where the server does not take the request as it is;
    BrokenError; None where all went well.
    """

    def __init__(self, host: Host, url: str, body: Json | None, inbox: Queue[tuple[Exchange, Json | None]]) -> None:
        self.host, self.error, self.heard = host, None, perf_counter()
        self._url, self._body, self._inbox = url, body, inbox
        self._begun = False  # whether text of the reply has come
        self._stopped = Event()
        self._socket: socket.socket | None = None
        Thread(target=self._run, name="server", daemon=True).start()

    error: Exception | None

    @property
    def hung(self) -> bool:
        """Whether nothing came for so long that nothing is expected any more; `error` then says so."""
        patience, silent = self.host.patience, perf_counter() - self.heard
        first = patience.known if self._body is None else patience.first
        if self._begun and silent > patience.idle:
            self.error = self._broken(f"no token for {patience.idle:g} s")
        elif not self._begun and silent > first:
            self.error = self.host.error(f"no reply within {first:g} s", "see the server's log; is it overloaded?")
        else:
            return False
        return True

    def stop(self) -> None:
        """End the request, from any thread. The server sees that its connection is closed."""
        self._stopped.set()
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed

    # -- in the request's own thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._attempts()
        except Exception as error:
            if not self._stopped.is_set():
                self.error = error
        self._put(None)

    def _put(self, item: Json | None) -> None:
        while not (self._stopped.is_set() or self._is_put(item)):
            pass

    def _is_put(self, item: Json | None) -> bool:
        try:
            self._inbox.put((self, item), timeout=TICK)
        except Full:
            return False
        return True

    def _attempts(self) -> None:
        attempt = 1
        while failed := self._failure():
            reason = _reason(failed)
            if self._begun:
                raise self._broken(reason)
            if isinstance(failed, _NO_CONNECTION):
                certificates = "set SSL_CERT_FILE to your organisation's certificates"
                hint = certificates if "CERTIFICATE" in reason.upper() else "start the server, or correct the address"
                raise self.host.error(f"no connection: {reason}", hint)
            if attempt == _ATTEMPTS:
                raise self.host.error(f"{reason}, {attempt} times", "see the server's log, or ask again later")
            self._wait(attempt, reason, getattr(failed, "seconds", None))
            attempt += 1

    def _failure(self) -> _TryAgain | httpx2.TransportError | None:
        """Make an attempt. Return why it failed, if another one may succeed."""
        try:
            self._attempt()
        except (_TryAgain, httpx2.TransportError) as error:
            return error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise self.host.error(_reason(error), _IN_V1) from None
        return None

    def _broken(self, reason: str) -> BrokenError:
        what = f"{self.host.address.base}: the reply ended in its middle: {reason}"
        return BrokenError("server_failed", what, "ask again; the server's log may say more")

    def _wait(self, attempt: int, reason: str, asked: float | None) -> None:
        seconds = self.host.patience.retry * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
        seconds = min(max(seconds, asked or 0), _LONGEST_WAIT)
        if seconds > _NOTED_WAIT and not self._stopped.is_set():
            self.host.warn(f"{self.host.address.origin}: {reason}; asking again in {seconds:.0f} s")
        self.heard += seconds
        if self._stopped.wait(seconds):
            raise ValueError("stopped")

    def _attempt(self) -> None:
        method = "GET" if self._body is None else "POST"
        extensions = {"trace": self._connected}
        with self.host.client.stream(method, self._url, json=self._body, extensions=extensions) as response:
            if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
                raise ValueError("a compressed reply, which was not asked for")
            if response.status_code != 200:
                self._refuse(response)
            elif response.headers.get("Content-Type", "").lower().startswith("text/event-stream"):
                self._follow(response)
            else:
                self._deliver(whole(response))

    def _connected(self, name: str, info: dict[str, Any]) -> None:
        """Take up the socket of the request, from httpx's trace of it."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
        ending = name.endswith((".failed", "response_closed.started", "response_closed.complete"))
        if self._stopped.is_set() and not ending:  # an error while it ends would be one that nobody can catch
            raise ValueError("stopped")

    def _refuse(self, response: httpx2.Response) -> None:
        status = response.status_code
        if 300 <= status < 400:
            where = self.host.without_key(response.headers.get("Location", "elsewhere"))
            what = f"it redirects to {where}; text goes only to a server that you name"
            raise self.host.error(what, "name that address, if you trust it")
        asked = response.headers.get("Retry-After", "")
        self._fail(status, failure(response), float(asked) if re.fullmatch(r"\d{1,6}", asked) else None)

    def _fail(self, status: int, words: str, seconds: float | None = None) -> None:
        """Raise the error for a status and the server's words."""
        what = f"HTTP {status}{self.host.without_key(words)}"
        if _TOO_LONG.search(words):
            hint = "read less (--recall, --select, --budget; no --more), or start the server with a longer context"
            raise self.host.error(f"the prompt is too long for it: {what}", hint, "prompt_too_long")
        if status == 429 or (status >= 500 and status != 501):
            raise _TryAgain(what, seconds)
        if status in (401, 403):
            raise self.host.error(what, "put the server's key into a file (--key-file), or into FBRAG_KEY")
        raise RefusedError("server_failed", f"{self.host.address.base}: {what}", _IN_V1)

    def _follow(self, response: httpx2.Response) -> None:
        """Deliver the events of a stream. One that ends before its samples do is a failure."""
        finished: dict[int, bool] = {}
        for event in events(response):
            for each in said(event):
                finished[each.index] = finished.get(each.index, False) or each.finish is not None
            self._deliver(event)
        if not self._begun and not any(finished.values()):
            if self._body is not None:
                # llama-cpp-python's server gives its reason only where nothing is streamed.
                self._body = {**self._body, "stream": False}
                self._body.pop("stream_options", None)
            raise _TryAgain("an empty reply")
        if not all(finished.values()):
            raise _TryAgain("the connection was closed")

    def _deliver(self, item: Json) -> None:
        if "error" in item and not item.get("choices"):
            status = item["error"].get("code") if isinstance(item["error"], dict) else None
            status = status if isinstance(status, int) and 400 <= status < 600 else 500
            if self._begun:
                raise self._broken(f"HTTP {status}{self.host.without_key(words_of(item))}")
            self._fail(status, words_of(item))
        self._begun = self._begun or any(each.text for each in said(item))
        self._put(item)


def _reason(error: Exception) -> str:
    """Return the cause of a failure in a few words."""
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    return re.sub(r"^\[Errno -?\d+\] ", "", " ".join(str(error).split())) or type(error).__name__
