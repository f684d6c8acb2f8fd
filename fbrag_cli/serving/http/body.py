"""The body of a request: its bytes, as far as they may go, and the fields of its JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.requests import Request

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import byte_size, one_line
from fbrag_cli.text.suggest import suggestion

MOST_JSON = 1_000_000  # bytes
_SHOWN = 60  # characters of what was sent, in a message

#: What is wrong with a value, by the type of pydantic's error.
_SAID = {
    "missing": "it is needed",
    "extra_forbidden": "there is no such key",
    "string_type": "a text is needed",
    "list_type": "a list is needed",
    "dict_type": "an object is needed",
    "model_type": "an object is needed",
    "int_type": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "bool_parsing": "true or false is needed",
    "too_short": "it is empty",
    "string_too_short": "it is empty",
    "string_too_long": "it has more than {max_length:,} characters",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
}

M = TypeVar("M", bound=BaseModel)


def _whole(value: Any) -> Any:
    """Return a text without halves of characters, which JSON can hold."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else value


WHOLE = BeforeValidator(_whole)
Text = Annotated[str, WHOLE]


class FieldError(FbragError):
    """A field of a request that is not accepted. param: its name."""

    def __init__(self, param: str, message: str, hint: str | None = None) -> None:
        super().__init__("usage", f"{param}: {message}" if param else message, hint)
        self.param = param


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
            "", f"the body is not JSON: {one_line(str(error), _SHOWN)}", 'send an object: {"question": "…"}'
        ) from None
    if not isinstance(fields, dict):
        raise FieldError("", "the body is not a JSON object", 'send an object: {"question": "…"}')
    try:
        return kind.model_validate(fields)
    except ValidationError as errors:
        raise _first(errors, kind) from None


def _first(errors: ValidationError, kind: type[BaseModel]) -> FieldError:
    error = errors.errors(include_url=False, include_input=False)[0]
    where = [one_line(str(each), _SHOWN) for each in error["loc"]]
    name, known = where[0], [*kind.model_fields]
    hint = kind.model_fields[name].description if name in known else suggestion(name, known, f"one of {', '.join(known)}")
    said = _SAID[error["type"]].format_map(error.get("ctx", {})) if error["type"] in _SAID else error["msg"]
    return FieldError(".".join(where), said.removeprefix("Value error, "), hint)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
