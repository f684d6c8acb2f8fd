"""The routes of the live page: the page itself, documents in windows of chunks, and questions whose answers come as fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from fbrag_cli import __version__
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Listener
from fbrag_cli.render import live_page
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fbrag_cli.indexing.collect import Collection

MOST_CHUNKS = 200  # of a window
_NO_MODELS = {"small": [], "large": [], "default": {"small": "", "large": ""}}


class Entry(Protocol):
    """A document, a folder or an upload that is served."""

    @property
    def id(self) -> str: ...


class Library(Protocol):
    """What is served."""

    def entries(self) -> Sequence[Entry]: ...
    def collection(self, ids: Sequence[str], listener: Listener) -> Collection: ...


class State(Protocol):
    """What the routes share."""

    @property
    def library(self) -> Library: ...


def routes(state: State) -> list[Route]:
    """Return the routes of the page."""
    page = _Page(state)
    return [
        Route("/", page.shell),
        Route("/page/live.js", page.script),
        Route("/page/live.css", page.style),
        Route("/page/outline", page.outline),
        Route("/page/chunks", page.chunks),
    ]


class _Page:
    """The endpoints. Those that are no coroutines run in threads."""

    def __init__(self, state: State) -> None:
        self._library = state.library

    def shell(self, request: Request) -> Response:
        return HTMLResponse(live_page.shell(entries=self._library.entries(), models=_NO_MODELS, version=__version__))

    def script(self, request: Request) -> Response:
        return Response(live_page.script(), media_type="text/javascript")

    def style(self, request: Request) -> Response:
        return Response(live_page.style(), media_type="text/css")

    def outline(self, request: Request) -> Response:
        """Return what is known of documents before their texts are shown."""
        collection = self._collection(request)
        return JSONResponse(live_page.outline(collection.corpus) | {"unread": list(collection.warnings)})

    def chunks(self, request: Request) -> Response:
        """Return the chunks at the positions from `first` to before `end`."""
        corpus = self._collection(request).corpus
        first, end = _whole(request, "first"), _whole(request, "end")
        return HTMLResponse(live_page.chunks(corpus, range(len(corpus.chunks))[first : min(end, first + MOST_CHUNKS)]))

    def _collection(self, request: Request) -> Collection:
        ids = request.query_params.getlist("documents") or [entry.id for entry in self._library.entries()]
        return self._library.collection(ids, Listener())


def _whole(request: Request, name: str) -> int:
    """Return a number of the query. Raises FbragError `usage` for what is none."""
    value: str = request.query_params.get(name, "")
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise FbragError("usage", f"{name}={one_line(value, 40)}: not a number", "count the chunks from 0")
    return int(value)
