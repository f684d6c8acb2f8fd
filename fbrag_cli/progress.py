"""Progress of a run as events, and the time that a stage takes. The front decides what a person sees of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

from fbrag_cli.cancellation import Cancellation


@dataclass(frozen=True, slots=True)
class Event:
    """stage: "load", "read", "recall", "forward", "answer", "verify", "download"… kind: "text" is a piece of the answer; "note",
    "warning" and "hint" are sentences for the user, all in `text`. "written": tokens of a reply, `total` at most; `text` says of
    what ("5 samples"). "ranked": `positions` of the chunks nearest to the question, best first. "sampled": a look forward is
    scored; `about` is the `Trace`. done, total: in the unit of the stage (tokens, bytes), or of `text` (files); total 0 =
    unknown.

    Of a server's job (`serving.desk`), "keyword_matches" has a `serving.job.KeywordMatches` in `about`.
    "resolved_question": `text` is the question that the typed one stands for. "selected": `about` is the `Trace` before its
    answer.
    """

    stage: str
    kind: Literal[
        "start",
        "progress",
        "written",
        "resolved_question",
        "ranked",
        "keyword_matches",
        "sampled",
        "selected",
        "text",
        "note",
        "warning",
        "hint",
        "done",
    ]
    done: float = 0
    total: float = 0
    text: str = ""
    positions: tuple[int, ...] = ()
    about: Any = None


#: What runs in a stage, in words for people.
LABELS = {
    "read": "reading the documents",
    "index": "indexing",
    "embed": "embedding the chunks",
    "eval": "evaluating",
    "batch": "batch",
    "bench": "measuring",
    "train": "making labels",
    "understand": "understanding the question",
    "load": "loading the models",
    "select": "selecting the chunks",
    "forward": "looking forward",
    "answer": "answering",
    "verify": "checking the answer",
}

Progress = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore the event."""


def of_the_run(progress: Progress, *, but: str = "") -> Progress:
    """Return a listener for a run of many questions: it passes on the loading of models, warnings and hints, and leaves out how
    single questions come along. but: a stage whose warnings and hints are left out, too."""

    def receive(event: Event) -> None:
        if event.stage == "load" or (event.kind in ("warning", "hint") and event.stage != but):
            progress(event)

    return receive


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Receives the progress and the warnings of a run (`progress`), and can stop it (`cancellation`)."""

    progress: Progress = silent
    cancellation: Cancellation = field(default_factory=Cancellation)

    def report(self, event: Event) -> None:
        """Pass an event on to `progress`. Raises the error of a requested stop, so that work stops where it reports."""
        self.cancellation.raise_if_requested()
        self.progress(event)


class Stopwatch:
    """Seconds of wall time since it was made, until `stop`."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._stopped: float | None = None

    @property
    def seconds(self) -> float:
        return (perf_counter() if self._stopped is None else self._stopped) - self._started

    def stop(self) -> None:
        self._stopped = perf_counter()


@contextmanager
def stage(name: str, progress: Progress = silent) -> Iterator[Stopwatch]:
    """Time a block as one stage, and report its start and its end. A block that raises has no end."""
    progress(Event(name, "start"))
    watch = Stopwatch()
    try:
        yield watch
    finally:
        watch.stop()
    progress(Event(name, "done"))
