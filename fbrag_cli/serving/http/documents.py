"""The routes of the documents: which are served, the text of a place in one, and uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fbrag_cli.corpus import Passage
from fbrag_cli.documents.lines import line_index
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.render.as_json import place_of
from fbrag_cli.serving.failure import as_json
from fbrag_cli.serving.http.body import body_of
from fbrag_cli.serving.http.stream import in_thread
from fbrag_cli.serving.library import MOST_BYTES, LibraryEntry
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Document
    from fbrag_cli.serving.desk import Desk

_MOST_CHARACTERS = 20_000  # of a place
_MOST_READERS = 4  # uploads that are read at once: each takes several processes where it is long
_PLACE = ("start_line", "end_line", "start_char", "end_char")
_KEYS = ("document", *_PLACE)


def routes(desk: Desk) -> list[Route]:
    """Return the routes /v1/documents and /v1/source."""
    library, readers = desk.library, anyio.CapacityLimiter(_MOST_READERS)

    async def listed(request: Request) -> Response:
        return as_json(_listed(library.entries()))

    async def upload(request: Request) -> Response:
        name = request.query_params.get("name", "")
        if not name:
            raise FbragError("usage", "the upload has no name", "POST /v1/documents?name=report.pdf")
        data = await body_of(request, MOST_BYTES, "send it in parts")
        entry = await in_thread(request, lambda listener: library.upload(name, data, listener), readers)
        return as_json(_listed([entry]), 201)

    async def source(request: Request) -> Response:
        query = request.query_params
        if unknown := [key for key in query if key not in _KEYS]:
            raise FbragError("usage", f"{one_line(unknown[0], 60)}: there is no such key", f"one of {', '.join(_KEYS)}")
        if not query.get("document"):
            raise FbragError("usage", "document: an id is needed", "GET /v1/documents has the ids")
        place = {key: _number(key, query[key]) for key in _PLACE if key in query}

        def work(listener: Listener) -> dict[str, Any]:
            return _source(library.document(query["document"], listener), place)

        return as_json(await in_thread(request, work))

    return [
        Route("/v1/documents", listed, methods=["GET"]),
        Route("/v1/documents", upload, methods=["POST"]),
        Route("/v1/source", source, methods=["GET"]),
    ]


def _listed(entries: list[LibraryEntry]) -> dict[str, Any]:
    rows = [{"id": each.id, "name": each.name, "kind": each.kind} for each in entries]
    return {"schema": "fbrag.documents/1", "documents": rows}


def _number(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise FbragError("usage", f"{key}: a whole number is needed", f"{key}=1")
    return int(text)


def _source(document: Document, place: dict[str, int]) -> dict[str, Any]:
    """Return the text of a place, cut at 20,000 characters, and where it stands. Raises FbragError `usage` for no place of it."""
    lines, size = line_index(document), document.n_chars
    unit, least, most = ("char", 0, size) if "start_char" in place or "end_char" in place else ("line", 1, len(lines))
    first, last = place.get(f"start_{unit}", least), min(place.get(f"end_{unit}", most), most)
    if not least <= first <= last:
        what = f"{unit}s {first} to {last}: {one_line(document.name)} has {most}, counted from {least}"
        raise FbragError("usage", what, "name a place that it has")
    start, end = (first, last) if unit == "char" else (lines.span(first)[0], lines.span(last)[1])
    cut = min(end, start + _MOST_CHARACTERS)
    at = min(start, size - 1)  # a place without text stands at a character, too
    found = place_of(Passage(0, document, at, max(at + 1, cut))) | {"start_char": start, "end_char": cut}
    del found["chunk"]
    about = {"lines": len(lines), "chars": size, "text": document.text[start:cut], "truncated": cut < end}
    return {"schema": "fbrag.source/1", **found, **about}
