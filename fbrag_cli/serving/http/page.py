"""The routes of the live page: the page itself, documents in windows of chunks, and questions whose answers come as fragments.

What the page is sent of documents, models and users is escaped HTML (`*html`), or text that it puts in place as text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fbrag_cli import __version__
from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import LABELS, Listener
from fbrag_cli.render import live_page
from fbrag_cli.render.answer import answer_of
from fbrag_cli.render.html import Findings
from fbrag_cli.serving.failure import HttpError, as_json
from fbrag_cli.serving.http.body import read
from fbrag_cli.serving.http.inquiry import Inquiry, usable_models
from fbrag_cli.serving.http.page_events import PageEvents, prefix_of
from fbrag_cli.serving.http.stream import EventStream, in_thread
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Job

MOST_CHUNKS = 200  # of a window
_MOST_FOUND = 2000  # chunks that hold a text
_LONGEST_TEXT = 1000  # characters of a text to find
_LONGEST_FILE = 60  # characters of the name of a saved page
_NO_LETTER = re.compile("[^a-z0-9]+")


def routes(desk: Desk) -> list[Route]:
    """Return the routes of the page."""
    page = _Page(desk)
    return [
        Route("/", page.shell),
        Route("/page/live.js", page.script),
        Route("/page/live.css", page.style),
        Route("/page/outline", page.outline),
        Route("/page/reading", page.reading),
        Route("/page/chunks", page.chunks),
        Route("/page/find", page.find),
        Route("/page/ask", page.ask, methods=["POST"]),
        Route("/page/stop/{job}", page.stop, methods=["POST"]),
        Route("/page/events/{job}", page.events),
        Route("/page/save/{job}", page.save),
    ]


class _Page:
    """The endpoints. Those that are no coroutines run in threads."""

    def __init__(self, desk: Desk) -> None:
        self._session, self._desk, self._library = desk.session, desk, desk.library
        # By the ids of documents: what a page was told of them. As long as the library keeps it, its files are not looked at.
        self._outlined = WeakValueDictionary[tuple[str, ...], Corpus]()

    def shell(self, request: Request) -> Response:
        small, large = self._session.names()
        names = usable_models(self._session)
        models = {"small": names, "large": names, "default": {"small": small, "large": large}}
        return HTMLResponse(live_page.shell(entries=self._library.entries(), models=models, version=__version__))

    def script(self, request: Request) -> Response:
        return Response(live_page.script(), media_type="text/javascript")

    def style(self, request: Request) -> Response:
        return Response(live_page.style(), media_type="text/css")

    # -- documents -------------------------------------------------------------------------------------------------------

    async def outline(self, request: Request) -> Response:
        """Return what is known of documents before their texts are shown. unread: why files of folders could not be read."""

        def work(listener: Listener) -> Response:
            ids = request.query_params.getlist("documents")
            found = self._library.collection(ids, listener)
            self._outlined[tuple(ids)] = found.corpus
            return as_json(live_page.outline(found.corpus) | {"unread": [one_line(each) for each in found.warnings]})

        return await in_thread(request, work)

    async def reading(self, request: Request) -> Response:
        """Return how much is read of documents that are being read: in words and as a share. It is for a page that waits."""
        event = self._library.progress
        if event is None or not event.total:
            return as_json({"said": "", "share": None})
        of = f"{event.done:,.0f} of {event.total:,.0f} {event.text or 'pages'}"
        return as_json({"said": f"{LABELS.get(event.stage, event.stage)}: {of}", "share": event.done / event.total})

    async def chunks(self, request: Request) -> Response:
        """Return the chunks at the positions from `first` to before `end`, 200 at most. answer: a job, whose marks they have."""
        first, end = _position(request, "first"), _position(request, "end")

        def work(listener: Listener) -> Response:
            corpus, findings, prefix = self._shown(request, listener)
            window = range(len(corpus.chunks))[first : min(end, first + MOST_CHUNKS)]
            return HTMLResponse(live_page.chunks(corpus, window, findings, prefix))

        return await in_thread(request, work)

    async def find(self, request: Request) -> Response:
        """Return the positions of the chunks that hold a text, 2,000 at most, and their number."""
        text = request.query_params.get("text", "")[:_LONGEST_TEXT]

        def work(listener: Listener) -> Response:
            from fbrag_cli.render.explain_text import held_in

            corpus, found = self._corpus(request, listener), list[int]()
            for document in range(len(corpus.documents)) if text.strip() else ():
                listener.cancellation.raise_if_requested()
                found += sorted(held_in(corpus, document, text))
            return as_json({"chunks": found[:_MOST_FOUND], "n": len(found)})

        return await in_thread(request, work)

    def _shown(self, request: Request, listener: Listener) -> tuple[Corpus, Findings | None, str]:
        """Return the documents of a request, and what an answer marks in them: what it says of chunks, and the prefix of its ids.

        The documents of an answer are as they were when it was asked.
        """
        if "answer" not in request.query_params:
            return self._corpus(request, listener), None, ""
        job = self._done(request.query_params["answer"])
        trace = job.trace()
        return trace.corpus, Findings(trace, answer_of(trace)), prefix_of(job)

    def _corpus(self, request: Request, listener: Listener) -> Corpus:
        """Return the documents of a request, as its page knows them: as they were for its outline."""
        ids = request.query_params.getlist("documents")
        known = self._outlined.get(tuple(ids))
        return self._library.collection(ids, listener).corpus if known is None else known

    # -- questions -------------------------------------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        """Ask a question, as of /v1/ask. Return the ids by which the page names it and its documents. It runs to its end."""
        asked = await read(request, Inquiry)
        job = self._desk.keep(await anyio.to_thread.run_sync(asked.asked, self._desk))
        return as_json({"job": job.id, "documents": [entry.id for entry in job.entries]})

    def events(self, request: Request) -> Response:
        """Return the events of a question for the page, from the first on or after the last one that the page has."""
        job, last = self._job(request.path_params["job"]), request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else -1
        return EventStream(job, PageEvents(job), after=after)

    def stop(self, request: Request) -> Response:
        self._job(request.path_params["job"]).cancel()
        return Response(status_code=204)

    def save(self, request: Request) -> Response:
        """Return an answer as the page of --html, to be saved."""
        from fbrag_cli.render.html import page

        trace = self._done(request.path_params["job"]).trace()
        name = _NO_LETTER.sub("-", trace.question.lower())[:_LONGEST_FILE].strip("-") or "answer"
        headers = {"Content-Disposition": f'attachment; filename="{name}.html"'}
        return HTMLResponse(page(trace), headers=headers)

    def _done(self, name: str) -> Job:
        job = self._job(name)
        if not job.done:
            raise HttpError(409, "the question still runs", "wait for its answer")
        return job

    def _job(self, name: str) -> Job:
        try:
            return self._desk.job(name)
        except FbragError as error:
            raise HttpError(404, error.message, error.hint) from None


def _position(request: Request, name: str) -> int:
    """Return a position of the query. Raises FbragError `usage` for what is none."""
    value: str = request.query_params.get(name, "")
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise FbragError("usage", f"{name}={one_line(value, 40)}: not a number", "count the chunks from 0")
    return int(value)
