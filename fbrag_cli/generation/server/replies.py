"""Reads what a server sends: events of a stream, whole replies, errors. All of it is untrusted: of any size, in any shape."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

#: Most bytes of a whole reply.
MOST_BYTES = 16_000_000
_MOST_BYTES_OF_AN_ERROR = 64_000
_MOST_SHOWN = 300  # characters of a server's own words

Json = dict[str, Any]


class RefusedError(FbragError):
    """A request that the server does not take as it is. Another one may do."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an event adds to a sample.

    index: number of the sample in its request. thought: whether the event holds reasoning, which is no text of the reply. finish:
    why the sample ended, None before its end.
    """

    index: int
    text: str
    thought: bool
    finish: str | None


async def events(response: httpx2.Response) -> AsyncIterator[Json]:
    """Yield the JSON objects of a stream of server-sent events, up to its end. Raises ValueError for what is none."""
    async for event in httpx2.EventSource(response):  # bounds the size of an event
        if event.data.strip() == "[DONE]":
            return
        if event.data:
            yield _object(event.data)


async def whole(response: httpx2.Response) -> Json:
    """Return the JSON object that a response is. Raises ValueError for another one, or one of more than 16 MB."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    text = await _body(response, MOST_BYTES)
    if kind == "text/html" or text.lstrip()[:1] == "<":
        raise ValueError("a page in place of JSON")
    return _object(text)


def said(item: Json) -> list[Said]:
    """Return what an event or a whole reply adds to each sample. Raises ValueError for another shape."""
    found = []
    try:
        for choice in item.get("choices") or ():
            part = choice.get("delta") or choice.get("message") or {}
            text, finish = part.get("content") or "", choice.get("finish_reason")
            thought = part.get("reasoning_content") or part.get("reasoning")
            if not isinstance(text, str):
                raise ValueError("a reply whose content is no text")
            index = int(choice.get("index") or 0)
            found.append(Said(index, text.encode("utf-8", "replace").decode(), bool(thought), str(finish) if finish else None))
    except (AttributeError, TypeError, OverflowError) as error:
        raise ValueError("a reply of another shape than that of OpenAI's API") from error
    return found


def tokens(item: Json, *names: str) -> int | None:
    """Return a count of the usage of an event, as ("completion_tokens",); None where there is none."""
    value: Any = item.get("usage")
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40 else None


async def failure(response: httpx2.Response) -> str:
    """Return the server's own words for an error response, as ": no such model"; "" where it has none."""
    try:
        text = await _body(response, _MOST_BYTES_OF_AN_ERROR)
    except ValueError:
        return ""
    try:
        return words_of(_object(text))
    except ValueError:
        return "" if text.lstrip()[:1] == "<" else _shown(text)


def words_of(item: Json) -> str:
    """Return the words of an error in JSON, as servers write it: in "error", in its "message", in "detail"."""
    found: Any = item.get("error") or item.get("detail") or item.get("message") or ""
    if isinstance(found, dict):
        kind = found.get("type")
        found = f"{found.get('message') or ''}{f' ({kind})' if isinstance(kind, str) else ''}"
    return _shown(found if isinstance(found, str) else json.dumps(found))


def _shown(text: str) -> str:
    line = one_line(text, _MOST_SHOWN)
    return f": {line}" if line else ""


def _object(text: str) -> Json:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("a reply that is no JSON") from None
    if not isinstance(found, dict):
        raise ValueError("a reply that is no JSON object")
    return found


async def _body(response: httpx2.Response, most: int) -> str:
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > most:
            raise ValueError(f"a reply of more than {most // 1000:,} kB")
    return data.decode("utf-8", "replace")
