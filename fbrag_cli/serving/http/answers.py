"""The routes that answer a question, as JSON or as events, and that explain what is read for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fbrag_cli.limits import peak_memory_mb
from fbrag_cli.progress import Event
from fbrag_cli.render import as_json
from fbrag_cli.render.as_json import Events
from fbrag_cli.serving import failure
from fbrag_cli.serving.http.body import read
from fbrag_cli.serving.http.inquiry import Inquiry, Search
from fbrag_cli.serving.http.stream import EventStream, finished
from fbrag_cli.serving.job import END
from fbrag_cli.session.pictures import sentence_boxes
from fbrag_cli.text.printable import dumps

if TYPE_CHECKING:
    from fbrag_cli.serving.desk import Desk
    from fbrag_cli.serving.job import Job
    from fbrag_cli.trace import Trace


def routes(desk: Desk) -> list[Route]:
    """Return the routes /v1/ask and /v1/explain."""

    async def ask(request: Request) -> Response:
        job = await anyio.to_thread.run_sync((await read(request, Inquiry)).asked, desk)
        if "text/event-stream" in request.headers.get("accept", ""):
            return EventStream(job, EventsOf(job))
        return failure.as_json(await anyio.to_thread.run_sync(_answer, await finished(request, job), job.question))

    async def explain(request: Request) -> Response:
        asked = await read(request, Search)
        job = await anyio.to_thread.run_sync(lambda: asked.asked(desk, answering=False))
        return failure.as_json(await anyio.to_thread.run_sync(_explanation, await finished(request, job), asked.find))

    return [Route("/v1/ask", ask, methods=["POST"]), Route("/v1/explain", explain, methods=["POST"])]


class EventsOf:
    """Renders the events of a job as those of /v1/ask: called with each, it yields names and JSON."""

    def __init__(self, job: Job) -> None:
        self._job, self._events = job, Events()

    def __call__(self, event: Event) -> Iterator[tuple[str, str]]:
        for record in self._ended() if event is END else self._records(event):
            yield record.get("event", "error"), dumps(record)

    def _records(self, event: Event) -> Iterator[dict[str, Any]]:
        events, job = self._events, self._job
        if event.kind == "resolved_question":
            yield events.resolved_question(event.text)
        elif event.kind == "keyword_matches":
            yield events.keyword_matches(event.about.corpus, [*event.about.weights], event.about.scores)
        elif event.kind == "sampled":
            yield from events.samples(event.about)
        elif event.kind == "selected":
            yield events.selected(event.about)
        elif event.kind == "text" and event.stage == "answer":
            if token := events.token(event):
                yield token
        elif event.kind in ("start", "progress", "written"):
            yield events.progress(event, job.forecast.left())

    def _ended(self) -> Iterator[dict[str, Any]]:
        try:
            trace = self._job.trace()
        except Exception as error:
            yield failure.known(error).as_json()
        else:
            yield self._events.checked(trace)
            yield self._events.done(trace, peak_memory_mb(), self._job.question, sentence_boxes(trace))


def _answer(trace: Trace, typed: str) -> dict[str, Any]:
    return as_json.answer(trace, memory_mb=peak_memory_mb(), typed=typed, boxes=sentence_boxes(trace))


def _explanation(trace: Trace, find: str | None) -> dict[str, Any]:
    from fbrag_cli.render.explain_text import holders

    found = None if find is None else holders(trace, find)
    return as_json.explanation(trace, memory_mb=peak_memory_mb(), found=found, boxes=sentence_boxes(trace))
