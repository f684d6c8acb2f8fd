"""`Access`: who may ask. It precedes all routes, refuses others, and sets the headers of each response.

Web pages of other sites and other users of this machine can reach the address. A page is told by the headers that its browser
sends: Host has the name that the page was loaded from (which a hostile name server may let point here), Origin and Sec-Fetch-Site
the site that asks. A user is told by the token, or by the cookie of the page.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fbrag_cli.serving.failure import HttpError, as_json, as_page
from fbrag_cli.text.printable import one_line

_COOKIE_SECONDS = 7 * 24 * 3600  # for which an open page may ask
_OPEN_PATHS = ("/healthz",)  # which need no token
_SHARED_PATHS = "/v1/"  # which pages of other sites may ask, if they are named

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_NAMES = {name for name, _ in _HEADERS}

#: What a person does about a refusal, by its status.
_PAGE_HINTS = {401: "open the whole address that fbrag ui prints when it starts", 403: "open the page that fbrag serves"}


@dataclass(eq=False, kw_only=True)
class Access:
    """host, port: numbers of the address. token: that clients must present. origins: of pages of other sites that may ask the
    routes of programs, as "https://chat.example"."""

    host: str
    port: int
    token: str
    origins: frozenset[str] = frozenset()
    _tickets: set[str] = field(default_factory=set)  # tokens that open the page once
    _own: str = field(default_factory=partial(secrets.token_urlsafe, 32))  # opens the page as long as this process runs

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def address(self) -> str:
        """The address of the page for a browser of this machine, without a token."""
        number = ipaddress.ip_address(self.host)
        host = {4: "127.0.0.1", 6: "::1"}[number.version] if number.is_unspecified else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    @property
    def page(self) -> str:
        """The address that opens the page as long as this process runs: it may be printed, and no other server takes it."""
        return f"{self.address}?token={self._own}"

    def ticket(self) -> str:
        """Return an address that opens the page once: the command line of a browser can be seen by other users."""
        self._tickets.add(ticket := secrets.token_urlsafe(32))
        return f"{self.address}?token={ticket}"

    def guard(self, app: ASGIApp, log: Callable[[str], object]) -> ASGIApp:
        """Return the application behind this access. log: receives a line for each request, without what it asks."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            begun, status = monotonic(), 0

            async def sent(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in _NAMES]
                    message = {**message, "headers": [*kept, *_HEADERS]}
                await send(message)

            request = Request(scope)
            try:
                await (self._reply(request) or app)(scope, receive, sent)
            except HttpError as error:
                await _refusal(request, error)(scope, receive, sent)
            except ClientDisconnect:  # nobody is there to be told
                pass
            except asyncio.CancelledError:  # at the end of the process
                if not status:
                    ending = HttpError(503, "the process ends", "start it again", code="timeout")
                    await _refusal(request, ending)(scope, receive, sent)
            finally:
                path = one_line(scope["path"], 200)
                log(f"{scope['method']} {path} {status or '-'} in {monotonic() - begun:.2f} s")

        return guarded

    def _reply(self, request: Request) -> Response | None:
        """Return the reply to a request that needs no route, None for others. Raises HttpError for one that may not ask."""
        self._check_page(request)
        path = request.scope["path"]
        if path in _OPEN_PATHS:
            return None
        given = request.query_params.get("token", "")
        if (request.method, path) == ("GET", "/") and given:
            used = [each for each in self._tickets if _same(each, given)]
            if used or _same(self._own, given) or _same(self.token, given):
                self._tickets.difference_update(used)
                opened, end = RedirectResponse("/", 303), int(time()) + _COOKIE_SECONDS
                opened.set_cookie(self._cookie, self._secret(end), max_age=_COOKIE_SECONDS, httponly=True, samesite="strict")
                return opened
        self._check_user(request)
        return None

    def _check_page(self, request: Request) -> None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            raise HttpError(400, "the request names no host, or several", "send one header Host")
        host = hosts[0].lower()
        if not self._is_ours(host):
            raise HttpError(403, f"nothing is served under the name {one_line(host, 100)}", f"ask {self.address}")
        origins = [each.lower() for each in request.headers.getlist("origin")]
        if len(origins) == 1 and origins[0] in self.origins and request.scope["path"].startswith(_SHARED_PATHS):
            return
        own = (f"http://{host}", f"https://{host}")  # https: behind a proxy
        site, mode = (request.headers.get(name) for name in ("sec-fetch-site", "sec-fetch-mode"))
        if not {*origins}.issubset(own) or (site in ("cross-site", "same-site") and mode != "navigate"):  # a link may lead here
            what = "a page of another site may not ask"
            raise HttpError(403, what, "open the page that fbrag serves, or name the site: --origin")

    def _is_ours(self, host: str) -> bool:
        """Return whether a Host names this machine: by a number, or by its own name. Pages of other sites have other names."""
        try:
            name = (urlsplit(f"//{host}").hostname or "") if set(host).isdisjoint("/?#@\\") else ""
        except ValueError:
            return False
        try:
            return bool(ipaddress.ip_address(name))
        except ValueError:
            here = socket.gethostname().lower()
            own = () if self.is_loopback else (here, here.split(".")[0], here.split(".")[0] + ".local")
            return name in ("localhost", *own)

    def _check_user(self, request: Request) -> None:
        given = [each[7:].strip() for each in request.headers.getlist("authorization") if each[:7].lower() == "bearer "]
        if any(_same(self.token, each) for each in given) or self._is_opened(request.cookies.get(self._cookie, "")):
            return
        raise HttpError(401, "the token is missing, or is another one", "send it as Authorization: Bearer TOKEN")

    @property
    def _cookie(self) -> str:
        """Name of the cookie. Browsers send the cookies of a host to all its ports."""
        return f"fbrag-{self.port}"

    def _secret(self, end: int) -> str:
        """Return the value of the cookie, from which nobody learns the token. It outlives the process, so that an open page does.

        end: Unix time from which it is not valid.
        """
        return f"{end}-{hmac.new(self.token.encode(), f'{self._cookie}-{end}'.encode(), hashlib.sha256).hexdigest()}"

    def _is_opened(self, cookie: str) -> bool:
        end = cookie.partition("-")[0]
        return bool(re.fullmatch("[0-9]{1,12}", end)) and time() < int(end) and _same(self._secret(int(end)), cookie)


def _refusal(request: Request, error: HttpError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if "text/html" in request.headers.get("accept", ""):
        shown = HttpError(error.status, error.message, _PAGE_HINTS.get(error.status, error.hint))
        return Response(as_page(shown), error.status, headers, media_type="text/html")
    return as_json(error.as_json(), error.status, headers)


def _same(expected: str, given: str) -> bool:
    """Return whether two texts are the same, in a time that does not depend on where they differ."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))
