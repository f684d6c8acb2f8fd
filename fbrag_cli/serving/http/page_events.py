"""The events of a question for the live page: fragments of HTML and short texts, as it puts them in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fbrag_cli.progress import LABELS, Event
from fbrag_cli.render import live_page, page_words
from fbrag_cli.render.as_json import Events
from fbrag_cli.serving.failure import known
from fbrag_cli.serving.job import END, StoppedError
from fbrag_cli.text.printable import dumps, printable

if TYPE_CHECKING:
    from fbrag_cli.corpus import Corpus
    from fbrag_cli.serving.job import Job

Record = dict[str, Any]


class PageEvents:
    """Renders the events of a job for the page: called with each, it yields names and JSON.

    seconds: returns how long a question about documents takes with each preset.
    """

    def __init__(self, job: Job, seconds: Callable[[Corpus], dict[str, int]]) -> None:
        self._job, self._tokens, self._seconds = job, Events(), seconds
        self._prefix = f"{job.id}-"  # of the ids of the elements of its answer

    def __call__(self, event: Event) -> Iterator[tuple[str, str]]:
        for name, record in (self._end(),) if event is END else self._records(event):
            yield name, dumps(record)

    def _records(self, event: Event) -> Iterator[tuple[str, Record]]:
        job = self._job
        if event.kind == "resolved_question":
            yield "resolved_question", {"question": printable(event.text)}
        elif event.kind == "keyword_matches":
            yield "keyword_matches", live_page.nearest(event.about.corpus, event.about.weights, event.about.scores)
        elif event.kind == "selected":
            yield "selected", live_page.selected(event.about, self._prefix)
        elif event.kind == "text" and event.stage == "answer":
            if token := self._tokens.token(event):
                yield "token", {"text": printable(token["text"])}
        elif event.kind in ("start", "progress", "written"):
            left = job.forecast.left()
            about = {"stage": event.stage, "label": LABELS.get(event.stage, event.stage)}
            share = event.done / event.total if event.kind == "progress" and event.total else None
            yield "progress", {**about, "share": share, "eta_seconds": None if left is None else round(left)}

    def _end(self) -> tuple[str, Record]:
        try:
            trace = self._job.trace()
            about = {"typed": printable(self._job.question), "seconds": self._seconds(trace.corpus)}
            return "done", about | live_page.done(trace, self._prefix)
        except StoppedError:
            return "stopped", {}
        except Exception as error:
            return "error", page_words.error(known(error)).as_json()["error"]
