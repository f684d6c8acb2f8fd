"""The routes of the live page: the page itself, the text of documents, and questions whose answers come as fragments.

What the page is sent of documents, models and users is escaped HTML (`*html`), or text that it puts in place as text.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.registry import PLAIN, PRESETS, choose_method
from fbrag_cli.progress import LABELS, Event, Listener
from fbrag_cli.query import LONGEST_QUESTION
from fbrag_cli.render import live_page, page_words
from fbrag_cli.serving.failure import HttpError, as_json, known
from fbrag_cli.serving.fields import FieldError
from fbrag_cli.serving.http.body import read
from fbrag_cli.serving.http.inquiry import Inquiry, usable_models
from fbrag_cli.serving.http.page_events import PageEvents
from fbrag_cli.serving.http.stream import EventStream, in_thread
from fbrag_cli.serving.job import StoppedError
from fbrag_cli.session.forecast import forecast
from fbrag_cli.session.pictures import cited_pages, source_page
from fbrag_cli.text.printable import dumps, one_line

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Job
    from fbrag_cli.serving.library import LibraryEntry
    from fbrag_cli.trace import Trace

_FIRST_CHUNKS, _CHUNKS = 30, 300  # of the first piece of a text, which is seen at once, and of each other one
_APART = 0.5  # seconds between two lines about what is being read
_MOST_FILES = 500  # of a folder, which can be chosen one by one
_LONGEST_FILE = 60  # characters of the name of a saved page
_MOST_RENDERERS = 2  # pictures of pages that are made at once, each by a process
_WIDTH = 1_000  # pixels of a picture, if the page names no number
_NO_LETTER = re.compile("[^a-z0-9]+")


def routes(desk: Desk) -> list[Route]:
    """Return the routes of the page."""
    page = _Page(desk)
    return [
        Route("/", page.shell),
        Route("/page/live.js", page.script),
        Route("/page/live.css", page.style),
        Route("/page/shelf", page.shelf),
        Route("/page/text", page.text),
        Route("/page/ask", page.ask, methods=["POST"]),
        Route("/page/stop/{job}", page.stop, methods=["POST"]),
        Route("/page/events/{job}", page.events),
        Route("/page/picture/{job}/{source}", page.picture),
        Route("/page/save/{job}", page.save),
        Route("/page/conversation", page.conversation),
    ]


class _Page:
    """The endpoints. Those that are not coroutines run in threads."""

    def __init__(self, desk: Desk) -> None:
        self._session, self._desk, self._library = desk.session, desk, desk.library
        self._renderers = anyio.CapacityLimiter(_MOST_RENDERERS)

    def shell(self, request: Request) -> Response:
        small, large = self._session.names()
        models = {"names": usable_models(self._session), "default": {"small": small, "large": large}}
        return HTMLResponse(live_page.shell(models=models, longest=LONGEST_QUESTION))

    def script(self, request: Request) -> Response:
        return Response(live_page.script(), media_type="text/javascript")

    def style(self, request: Request) -> Response:
        return Response(live_page.style(), media_type="text/css")

    def shelf(self, request: Request) -> Response:
        """Return the documents, and the files of each folder: their number, and the names of the first ones."""
        rows = []
        for entry in self._library.entries():
            files = self._files(entry) if entry.kind == "folder" else []
            rows.append({"name": entry.name, "kind": entry.kind, "n_files": len(files), "files": files[:_MOST_FILES]})
        return as_json({"documents": rows})

    def _files(self, folder: LibraryEntry) -> list[str]:
        try:
            return self._library.files(folder)
        except FbragError:  # the page says it when the folder is read
            return []

    # -- documents -------------------------------------------------------------------------------------------------------

    async def text(self, request: Request) -> Response:
        """Send documents as lines of JSON: how much of them is read, until all is; what they are; then their text in pieces.

        at: a position. Of documents that are too long for one page, the part with this chunk is sent.
        """
        at, ids = _number(request, "at", "count the chunks from 0"), request.query_params.getlist("documents")
        entries = await anyio.to_thread.run_sync(self._library.find, ids)
        return StreamingResponse(self._lines(entries, at), media_type="application/x-ndjson")

    async def _lines(self, entries: Sequence[LibraryEntry], at: int) -> AsyncIterator[str]:
        cancellation, told = Cancellation(), [""]

        def note(event: Event) -> None:
            if event.kind == "progress" and event.total:
                what = event.text or "pages"
                told[0] = f"{LABELS.get(event.stage, event.stage)}: {event.done:,.0f} of {event.total:,.0f} {what}"

        work = partial(self._library.read, entries, Listener(progress=note, cancellation=cancellation))
        reading = asyncio.ensure_future(anyio.to_thread.run_sync(work, abandon_on_cancel=True))
        try:
            while not (await asyncio.wait((reading,), timeout=_APART))[0]:
                yield dumps({"reading": told[0]}) + "\n"
            corpus, warnings = reading.result().corpus, reading.result().warnings
            about, shown = live_page.outline(corpus, at)
            unread = [page_words.plain(_within(each.removeprefix("left out: "), entries)) for each in warnings]
            seconds = await anyio.to_thread.run_sync(self._seconds, corpus)
            yield dumps(about | {"unread": unread, "seconds": seconds}) + "\n"
            first = shown.start
            while first < shown.stop:
                window = range(first, min(first + (_CHUNKS if first > shown.start else _FIRST_CHUNKS), shown.stop))
                yield dumps({"texts": await anyio.to_thread.run_sync(live_page.texts, corpus, window)}) + "\n"
                first = window.stop
        except Exception as error:
            yield dumps(page_words.error(known(error)).as_json()) + "\n"
        finally:
            cancellation.request(StoppedError())
            reading.cancel()

    def _seconds(self, corpus: Corpus) -> dict[str, int]:
        """Return how long a question takes with each preset, about, by the pace of the last one; without those not known."""
        methods = {name: choose_method({name: True}, on_gpu=self._session.on_gpu) for name in (PLAIN, *PRESETS)}
        found = {name: forecast(self._session, method, corpus).whole() for name, method in methods.items()}
        return {name: round(seconds) for name, seconds in found.items() if seconds}

    # -- questions -------------------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        """Ask a question, as of /v1/ask. Return the id by which the page names it. It runs to its end."""
        asked = await read(request, Inquiry)
        try:
            job = self._desk.keep(await anyio.to_thread.run_sync(asked.asked, self._desk))
        except FieldError as error:
            if not error.param.startswith("models."):
                raise
            name = getattr(asked.models, error.param.removeprefix("models."))
            hint = "choose another one under Models"
            raise HttpError(400, f"the model {one_line(name, _LONGEST_FILE)} is not on this machine", hint) from None
        return Response(dumps({"job": job.id}), media_type="application/json")

    def events(self, request: Request) -> Response:
        """Return the events of a question for the page, from the first on or after the last one that the page has."""
        job, last = self._job(request.path_params["job"]), request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else -1
        return EventStream(job, PageEvents(job, self._seconds), after=after)

    def stop(self, request: Request) -> Response:
        self._job(request.path_params["job"]).cancel()
        return Response(status_code=204)

    async def picture(self, request: Request) -> Response:
        """Return a page of a source of an answer as a picture, on which its sentence is boxed.

        page: its number; by default the first one with the sentence. width: of the picture, in pixels.
        """
        from fbrag_cli.render.answer import answer_of
        from fbrag_cli.render.html import named_shortly

        page = _number(request, "page", "count the pages from 1")
        width = _number(request, "width", "name pixels") or _WIDTH
        _, trace = self._done(request.path_params["job"])
        named = request.path_params["source"]

        def work(listener: Listener) -> dict[str, Any]:
            source = next((each for each in answer_of(named_shortly(trace)).sources if str(each.number) == named), None)
            if source is None:
                raise HttpError(404, f"the answer has no source {one_line(named, _LONGEST_FILE)}", "name one of its numbers")
            picture = source_page(trace, source, page or None, width, listener)
            return live_page.picture(source, picture)

        return as_json(await in_thread(request, work, self._renderers))

    def save(self, request: Request) -> Response:
        """Return an answer as the page of --html, to be saved."""
        from fbrag_cli.render.html import page

        _, trace = self._done(request.path_params["job"])
        return _file(trace.question, page(trace, cited_pages(trace)))

    def conversation(self, request: Request) -> Response:
        """Return several answers as one page, to be saved."""
        from fbrag_cli.render.html import conversation

        turns = [self._done(name) for name in request.query_params.getlist("job")]
        if not turns:
            raise HttpError(400, "no question is named", "name some: job=ID")
        return _file(turns[0][0], conversation([(typed, trace, cited_pages(trace)) for typed, trace in turns]))

    def _done(self, name: str) -> tuple[str, Trace]:
        """Return a question as it was typed, and its trace."""
        job = self._job(name)
        if not job.done:
            raise HttpError(409, "the question still runs", "wait for its answer")
        return job.question, job.trace()

    def _job(self, name: str) -> Job:
        try:
            return self._desk.job(name)
        except FbragError as error:
            raise HttpError(404, error.message, error.hint) from None


def _number(request: Request, name: str, hint: str) -> int:
    """Return a number of a request; 0 without it. Raises FbragError `usage` for anything else."""
    given = request.query_params.get(name, "0")
    if not (given.isascii() and given.isdigit() and len(given) <= 9):
        raise FbragError("usage", f"{name}={one_line(given, 40)}: not a number", hint)
    return int(given)


def _file(question: str, page: str) -> Response:
    """Return a page to be saved under the words of a question."""
    name = _NO_LETTER.sub("-", question.lower())[:_LONGEST_FILE].strip("-") or "answer"
    return HTMLResponse(page, headers={"Content-Disposition": f'attachment; filename="{name}.html"'})


def _within(text: str, entries: Sequence[LibraryEntry]) -> str:
    """Return a text without the paths of the folders that are asked, before those of their files."""
    for path in (path for entry in entries if entry.kind == "folder" for path in entry.paths):
        text = text.replace(os.path.join(path, ""), "")
    return text
