"""The body of a request: its bytes, as far as they may go, and the fields of its JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.requests import Request

from fbrag_cli.errors import FbragError
from fbrag_cli.serving.fields import SHOWN, FieldError, first_fault
from fbrag_cli.text.printable import byte_size, one_line

MOST_JSON = 1_000_000  # bytes

M = TypeVar("M", bound=BaseModel)


def _whole(value: Any) -> Any:
    """Return a text without halves of characters, which JSON can hold."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else value


WHOLE = BeforeValidator(_whole)
Text = Annotated[str, WHOLE]


async def body_of(request: Request, most: int, hint: str) -> bytes:
    """Return the body of a request. most: bytes that it may have. Raises FbragError `too_large`."""
    body, told = bytearray(), request.headers.get("content-length", "0")
    pieces = request.stream()
    while len(body) <= most and int(told) <= most:
        if (piece := await anext(pieces, None)) is None:
            return bytes(body)
        body += piece
    raise FbragError("too_large", f"the request has more than {byte_size(most)}", hint)


async def read(request: Request, kind: type[M]) -> M:
    """Return the JSON object of a request as a record of this kind. Raises FbragError `usage`, `too_large` for more than 1 MB."""
    body = await body_of(request, MOST_JSON, "upload a text by POST /v1/documents")
    try:
        fields = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise FieldError(
            "", f"the body is not JSON: {one_line(str(error), SHOWN)}", 'send an object: {"question": "…"}'
        ) from None
    if not isinstance(fields, dict):
        raise FieldError("", "the body is not a JSON object", 'send an object: {"question": "…"}')
    try:
        return kind.model_validate(fields)
    except ValidationError as errors:
        raise first_fault(errors, kind) from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
