"""The routes of the documents: which are served, the text of a place in one, and uploads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fbrag_cli.errors import FbragError
from fbrag_cli.serving.failure import as_json
from fbrag_cli.serving.http.body import body_of
from fbrag_cli.serving.http.stream import in_thread
from fbrag_cli.serving.library import MOST_BYTES, LibraryEntry
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk

_MOST_CHARACTERS = 20_000  # of a place
_MOST_READERS = 4  # uploads that are read at once: each takes several processes if it is long
_PLACE = ("start_line", "end_line", "start_char", "end_char")
_KEYS = ("document", "markup", *_PLACE)


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
        markup = query.get("markup", "false")
        if markup not in ("true", "false"):
            raise FbragError("usage", f"markup: {one_line(markup, 60)} is neither true nor false", "markup=true")

        work = partial(library.source, query["document"], place, _MOST_CHARACTERS, markup=markup == "true")
        return as_json({"schema": "fbrag.source/1", **await in_thread(request, work)})

    async def documents(request: Request) -> Response:
        return await (upload if request.method == "POST" else listed)(request)

    async def remove(request: Request) -> Response:
        await anyio.to_thread.run_sync(library.remove, request.path_params["name"])
        return Response(status_code=204)

    return [
        Route("/v1/documents", documents, methods=["GET", "POST"]),
        Route("/v1/documents/{name:path}", remove, methods=["DELETE"]),
        Route("/page/add", upload, methods=["POST"]),  # whose errors are in words for the page
        Route("/v1/source", source, methods=["GET"]),
    ]


def _listed(entries: list[LibraryEntry]) -> dict[str, Any]:
    rows = [{"id": each.id, "name": each.name, "kind": each.kind} for each in entries]
    return {"schema": "fbrag.documents/1", "documents": rows}


def _number(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise FbragError("usage", f"{key}: a whole number is needed", f"{key}=1")
    return int(text)
