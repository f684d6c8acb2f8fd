"""One server: where it is, how it is reached, how long it is waited for.

Text goes to the named server alone: no redirect is followed. A proxy of the environment (HTTPS_PROXY) is used for https alone,
where it reads no text, and never for this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx2

from fbrag_cli.errors import FbragError
from fbrag_cli.generation.server.address import Address
from fbrag_cli.generation.server.loop import Loop


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits of requests, in seconds.

    connect: until a connection stands. known: until the server lists what it has. first: until the first token of a reply, for
    which the prompt has to be read. idle: between two tokens. retry: wait before the second attempt, doubled each time.
    """

    connect: float = 10
    known: float = 30
    first: float = 600
    idle: float = 120
    retry: float = 0.5


PATIENT = Patience()


class Host:
    """One server, with the client and the event loop of its requests.

    key: sent to this server alone. warn: receives sentences for the user.
    """

    def __init__(
        self, address: Address, key: str | None = None, patience: Patience = PATIENT, warn: Callable[[str], object] | None = None
    ) -> None:
        self.address, self.patience, self.warn = address, patience, warn or (lambda text: None)
        self._key, self.loop = key, Loop()
        limits = httpx2.Limits(max_keepalive_connections=0)  # a server may have closed one that waited
        direct = address.is_loopback or not address.encrypted
        # One that is given uses no proxy. Without TLS it loads no certificates, which takes a third of a second.
        transport = httpx2.AsyncHTTPTransport(verify=address.encrypted, limits=limits) if direct else None
        self.client = httpx2.AsyncClient(
            transport=transport,
            limits=limits,
            timeout=httpx2.Timeout(None, connect=patience.connect),  # `Exchange` has the other limits
            headers={"Accept-Encoding": "identity", "User-Agent": "fbrag"} | ({"Authorization": f"Bearer {key}"} if key else {}),
        )

    def error(self, what: str, hint: str, code: str = "server_failed") -> FbragError:
        return FbragError(code, f"{self.address.base}: {what}", hint)

    def without_key(self, text: str) -> str:
        """Return a server's words, in which it may have repeated the key."""
        return text.replace(self._key, "…") if self._key else text

    def close(self) -> None:
        self.loop.run(self.client.aclose())
        self.loop.close()
