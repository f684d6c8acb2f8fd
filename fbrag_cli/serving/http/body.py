"""The body of a request, as far as it may go."""

from __future__ import annotations

from starlette.requests import Request

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import byte_size


async def body_of(request: Request, most: int, hint: str) -> bytes:
    """Return the body of a request. most: bytes that it may have. Raises FbragError `too_large`."""
    body, told = bytearray(), request.headers.get("content-length", "0")
    pieces = request.stream()
    while len(body) <= most and int(told) <= most:
        if (piece := await anext(pieces, None)) is None:
            return bytes(body)
        body += piece
    raise FbragError("too_large", f"the request has more than {byte_size(most)}", hint)
