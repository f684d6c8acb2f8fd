"""`Entrance`: who may ask over a TCP address.

Web pages of other sites and other users of this machine can reach it. A page is told by the headers that its browser sends: Host
has the name that the page was loaded from (which a hostile name server may let point here), Origin and Sec-Fetch-Site the site
that asks. A user is told by a token; on loopback without one, by the system.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.requests import cookie_parser

from fbrag_cli.serving.failure import HttpError
from fbrag_cli.serving.process.peers import is_same_user
from fbrag_cli.text.printable import one_line

Headers = Mapping[bytes, list[bytes]]  # values by name in lower case
Fields = tuple[tuple[bytes, bytes], ...]  # headers of a response

_OPEN_PATHS = ("/healthz",)  # which need no token
_SHARED_PATHS = "/v1/"  # which pages of other sites may ask, where they are named
_SHARED = ((b"access-control-expose-headers", b"Retry-After"), (b"vary", b"Origin"))
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-allow-private-network", b"true"),  # a page of the internet asks a private address
    (b"access-control-max-age", b"600"),
)


class Reply(NamedTuple):
    """What a request gets without asking a route."""

    status: int
    headers: Fields


@dataclass(eq=False, kw_only=True)
class Entrance:
    """host, port: numbers of the address. token: that clients must present; None: each process of this user may ask. origins: of
    pages of other sites that may ask the routes of programs, as "https://chat.example"."""

    host: str
    port: int
    token: str | None = None
    origins: frozenset[str] = frozenset()
    _tickets: set[str] = field(default_factory=set)  # tokens that open the page once
    _secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))  # value of the cookie

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def address(self) -> str:
        """The address of the page for a browser of this machine, without a token."""
        number = ipaddress.ip_address(self.host)
        host = {4: "127.0.0.1", 6: "::1"}[number.version] if number.is_unspecified else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def ticket(self) -> str:
        """Return an address that opens the page once: the command line of a browser can be seen by other users."""
        self._tickets.add(ticket := secrets.token_urlsafe(32))
        return f"{self.address}?token={ticket}"

    def check(self, scope: Mapping[str, Any]) -> Reply | None:
        """Return what a request gets at once, None for one that goes on. scope: of the request, as of ASGI.

        Raises HttpError for a request that may not come in.
        """
        headers = _headers(scope)
        self._check_page(headers, is_shared=bool(self.shared(scope)))
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            return Reply(204, _PREFLIGHT)
        if scope["path"] in _OPEN_PATHS:
            return None
        if scope["path"] == "/" and scope["method"] == "GET" and (cookie := self._cookie_for(scope["query_string"])):
            return Reply(303, ((b"location", b"/"), (b"set-cookie", cookie.encode())))
        self._check_user(headers, scope)
        return None

    def shared(self, scope: Mapping[str, Any]) -> Fields:
        """Return the headers that let a page of another site read the response, where it may."""
        (origin, *others) = _headers(scope).get(b"origin") or [b""]
        if others or not scope["path"].startswith(_SHARED_PATHS) or origin.decode("latin-1").lower() not in self.origins:
            return ()
        return ((b"access-control-allow-origin", origin), *_SHARED)

    def _check_page(self, headers: Headers, *, is_shared: bool) -> None:
        hosts = headers.get(b"host", [])
        if len(hosts) != 1:
            raise HttpError(400, "the request names no host, or several", "send one header Host")
        host = hosts[0].decode("latin-1").lower()
        if not self._is_ours(host):
            raise HttpError(403, f"nothing is served under the name {one_line(host, 100)}", f"ask {self.address}")
        if is_shared:
            return
        own = (f"http://{host}", f"https://{host}")  # https: behind a proxy
        if any(each.decode("latin-1").lower() not in own for each in headers.get(b"origin", [])):
            raise _of_another_page()
        site, mode = (headers.get(name, [b""])[0] for name in (b"sec-fetch-site", b"sec-fetch-mode"))
        if site in (b"cross-site", b"same-site") and mode != b"navigate":  # a link may lead here
            raise _of_another_page()

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

    def _cookie_for(self, query: bytes) -> str | None:
        given = parse_qs(query.decode("latin-1")).get("token", [""])[0]
        used = [each for each in self._tickets if _same(each, given)]
        if not used and not (self.token and _same(self.token, given)):
            return None
        self._tickets.difference_update(used)
        return f"{self._cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"

    @property
    def _cookie(self) -> str:
        """Name of the cookie. Browsers send the cookies of a host to all its ports."""
        return f"fbrag-{self.port}"

    def _check_user(self, headers: Headers, scope: Mapping[str, Any]) -> None:
        if self.token is None:
            if not is_same_user(scope["client"], scope["server"]):
                raise HttpError(403, "another user of this machine asks", "give that user a token: --token-file FILE")
            return
        given = [each[7:].strip() for each in headers.get(b"authorization", []) if each[:7].lower() == b"bearer "]
        if any(_same(self.token, each.decode("latin-1")) for each in given):
            return
        cookies = (cookie_parser(each.decode("latin-1")) for each in headers.get(b"cookie", []))
        if any(_same(self._secret, each.get(self._cookie, "")) for each in cookies):
            return
        hint = (
            "open the whole address that fbrag ui prints at its start; a program sends the token as Authorization: Bearer TOKEN"
        )
        raise HttpError(401, "the token is missing, or is another one", hint)


def _headers(scope: Mapping[str, Any]) -> Headers:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    return headers


def _of_another_page() -> HttpError:
    return HttpError(403, "a page of another site may not ask", "open the page that fbrag serves, or name the site: --origin")


def _same(expected: str, given: str) -> bool:
    """Return whether two texts are the same, in a time that does not depend on where they differ."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))
