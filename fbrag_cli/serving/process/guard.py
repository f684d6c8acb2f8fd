"""`Guard`: stands before all routes. It refuses who may not ask, ends what takes too long or too much, and sets the headers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import anyio
from starlette.requests import ClientDisconnect

from fbrag_cli.serving.failure import HttpError, as_json, as_page
from fbrag_cli.serving.lifetime import Lifetime
from fbrag_cli.serving.process.entrance import Entrance, Fields
from fbrag_cli.text.printable import byte_size, one_line

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_RUNNING = 128  # requests at once
_SEND_SECONDS = 60.0  # for which a client may read nothing
_DRAINED, _DRAIN_SECONDS = 64_000_000, 1.0  # bytes of a refused request that are read, so that its client reads the refusal

#: Requests that are no use of the process: what watches it shall not keep it.
_UNCOUNTED = ("/healthz", "/process/status", "/process/stop")

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_NAMES = {name for name, _ in HEADERS}


@dataclass(frozen=True, slots=True)
class Limit:
    """Of the body of a request: bytes, and seconds in which it comes."""

    size: int
    seconds: float


#: By the beginning of the path; the first one counts.
LIMITS = {
    "/v1/documents": Limit(256_000_000, 600.0),  # uploads
    "": Limit(16_000_000, 30.0),
}


class Guard:
    """An application before another one.

    lifetime: counts the requests. entrance: who may come in; None: all, as over a Unix socket of this user. log: receives a line
    for each request, without what it asks.
    """

    def __init__(
        self, app: App, lifetime: Lifetime, entrance: Entrance | None = None, log: Callable[[str], object] = lambda line: None
    ) -> None:
        self._app, self._lifetime, self._entrance, self._log = app, lifetime, entrance, log
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun, path = monotonic(), scope["path"]
        exchange = _Exchange(scope, receive, send)
        self._running += 1
        try:
            if path in _UNCOUNTED:
                await self._answer(scope, exchange)
            else:
                with self._lifetime.request():
                    await self._answer(scope, exchange)
        finally:
            self._running -= 1
            status = exchange.status or "-"
            self._log(f"{scope['method']} {one_line(path, 200)} {status} in {monotonic() - begun:.2f} s")

    async def _answer(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            if self._entrance:
                exchange.shared = self._entrance.shared(scope)
            reply = self._entrance.check(scope) if self._entrance else None
            if self._running > MOST_RUNNING:
                raise HttpError(503, f"{MOST_RUNNING} requests run", "try again", code="timeout", retry_after=5)
            exchange.check_length()
            if reply:
                await exchange.respond(reply.status, b"", *reply.headers)
            else:
                await self._app(scope, exchange.receive, exchange.send)
        except HttpError as error:
            await exchange.refuse(error)
        except ClientDisconnect:  # nobody is there to be told
            pass
        except asyncio.CancelledError:  # at the end of the process
            await exchange.refuse(HttpError(503, "the process ends", "start it again", code="timeout"))


class _Exchange:
    """A request and its response. status: of the response, 0 before it began. shared: headers that it gets beside ours."""

    shared: Fields = ()

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._limit = next(limit for begin, limit in LIMITS.items() if scope["path"].startswith(begin))
        self._headers = dict(scope["headers"])
        self._end = monotonic() + self._limit.seconds
        self._n_bytes, self._more = 0, True
        self.status = 0

    def check_length(self) -> None:
        """Raise HttpError for a body that says that it is too large."""
        length = self._headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limit.size:
            raise self._too_large()

    def _too_large(self) -> HttpError:
        return HttpError(413, f"the request has more than {byte_size(self._limit.size)}", "send less")

    async def receive(self) -> Message:
        """Return the next message of the request. Raises HttpError for a body that is too large, or comes too slowly."""
        if not self._more:
            return await self._receive()
        try:
            with anyio.fail_after(max(0.0, self._end - monotonic())):
                message = await self._receive()
        except TimeoutError:
            what = f"the request did not come within {self._limit.seconds:.0f} s"
            raise HttpError(408, what, "send it faster", code="timeout") from None
        self._more = bool(message.get("more_body"))
        self._n_bytes += len(message.get("body", b""))
        if self._n_bytes > self._limit.size:
            raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the response. Raises ClientDisconnect where nobody reads it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in _NAMES]
            message = {**message, "headers": [*kept, *HEADERS, *self.shared]}
        try:
            with anyio.fail_after(_SEND_SECONDS):
                await self._send(message)
        except TimeoutError:
            raise ClientDisconnect from None

    async def respond(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: HttpError) -> None:
        """Send an error as the response, and end the connection. Where the response has begun, it ends there."""
        if self.status:
            raise error
        with anyio.move_on_after(_DRAIN_SECONDS):
            while self._has_body and self._more and self._n_bytes < _DRAINED:
                message = await self._receive()
                self._more = bool(message.get("more_body"))
                self._n_bytes += len(message.get("body", b""))
        for_person = b"text/html" in self._headers.get(b"accept", b"")
        body = as_page(error) if for_person else bytes(as_json(error.as_json()).body)
        kind = b"text/html; charset=utf-8" if for_person else b"application/json"
        more = [(b"www-authenticate", b"Bearer")] if error.status == 401 else []
        if error.retry_after:
            more.append((b"retry-after", str(error.retry_after).encode()))
        await self.respond(error.status, body, (b"content-type", kind), (b"connection", b"close"), *more)

    @property
    def _has_body(self) -> bool:
        return b"transfer-encoding" in self._headers or self._headers.get(b"content-length", b"0") != b"0"
