"""The events of a question for the live page: fragments of HTML and short texts, as it puts them in place."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

from fbrag_cli.progress import LABELS, Event
from fbrag_cli.render import live_page
from fbrag_cli.render.as_json import Events
from fbrag_cli.serving.failure import known
from fbrag_cli.serving.job import END, StoppedError
from fbrag_cli.text.printable import dumps, one_line, printable

if TYPE_CHECKING:
    from fbrag_cli.serving.job import Job

_PROGRESS_SECONDS = 0.25  # at least, between two events of progress

Record = dict[str, Any]


def prefix_of(job: Job) -> str:
    """Return what stands before the ids of the elements of an answer."""
    return f"{job.id}-"


def asked(job: Job) -> Record:
    """Return the first event: the ids by which the page names the answer and its documents."""
    return {"job": job.id, "documents": [entry.id for entry in job.entries]}


def done(job: Job) -> Record:
    """Return the last event of a question that was answered. Raises its error."""
    return {"job": job.id, "typed": printable(job.question), **live_page.done(job.trace(), prefix_of(job))}


class PageEvents:
    """Renders the events of a job for the page: called with each in the job's thread, it yields names and JSON."""

    def __init__(self, job: Job) -> None:
        self._job, self._tokens, self._reported, self._begun = job, Events(), 0.0, False

    def __call__(self, event: Event) -> Iterator[tuple[str, str]]:
        if not self._begun:
            self._begun = True
            yield "asked", dumps(asked(self._job))
        for name, record in (self._end(),) if event is END else self._records(event):
            yield name, dumps(record)

    def _records(self, event: Event) -> Iterator[tuple[str, Record]]:
        job, prefix = self._job, prefix_of(self._job)
        if event.kind == "understood":
            yield "understood", {"question": printable(event.text)}
        elif event.kind == "ranked" and job.collection:
            question, corpus = job.asked or job.question, job.collection.corpus
            term_scores = job.collection.retriever.term_scores
            found = {position: dict(term_scores(question, position)) for position in event.positions}
            yield "nearest", live_page.nearest(corpus, found, event.about)
        elif event.kind == "selected":
            yield from (("sample", each) for each in live_page.samples(event.about, prefix))
            yield "selected", live_page.selected(event.about, prefix)
        elif event.kind == "text" and event.stage == "answer":
            if token := self._tokens.token(event):
                yield "token", {"text": printable(token["text"])}
        elif event.kind in ("start", "progress", "written"):
            yield from self._progress(event)

    def _progress(self, event: Event) -> Iterator[tuple[str, Record]]:
        """Yield what runs, each start of a stage and at most four times a second."""
        now = monotonic()
        if event.kind == "start" or now - self._reported >= _PROGRESS_SECONDS:
            self._reported = now
            left = self._job.forecast.left()
            yield (
                "read",
                {
                    "stage": event.stage,
                    "label": LABELS.get(event.stage, event.stage),
                    "share": event.done / event.total if event.kind == "progress" and event.total else None,
                    "left_s": None if left is None else round(left),
                },
            )

    def _end(self) -> tuple[str, Record]:
        try:
            return "done", done(self._job)
        except StoppedError:
            return "stopped", {"job": self._job.id}
        except Exception as error:
            about = known(error).as_json()["error"]
            return "error", {key: value and one_line(value) for key, value in about.items()}
