"""Counts the bytes of a reply: a server may send without end, before the head, in comments or in one endless event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MOST_BYTES_OF_A_HEAD = 256_000  # with the informational responses (1xx) before it


class Meter:
    """Ends the connection of a reply that is too long.

    most: number of bytes of a reply after its head. error: makes the exception for a longer one.
    """

    def __init__(self, most: int, error: Callable[[], Exception]) -> None:
        self._most, self._error, self._left = most, error, _MOST_BYTES_OF_A_HEAD

    async def watch(self, event: str, about: Mapping[str, Any]) -> None:
        """Follow a request, as the `trace` of its extensions: count what is read once it is connected."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = about["return_value"]
            stream.read = self._counted(stream.read)
        elif event.endswith(".receive_response_headers.complete"):
            self._left = self._most

    def _counted(self, read: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any, **named: Any) -> bytes:
            data: bytes = await read(*arguments, **named)
            self._left -= len(data)
            if self._left < 0:
                raise self._error()
            return data

        return counted
