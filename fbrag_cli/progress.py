"""Events that report the progress of a run, and timers for its stages. Each front decides what to show."""

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
    "warning" and "hint" are sentences for the user, all in `text`. "written": tokens of a reply, up to `total`; `text` says of
    what ("5 samples"). "ranked": `positions` of the chunks that match the question best, best first. "sampled": a forward sample
    is scored; `about` is the `Trace`. done, total: in the unit of the stage (tokens, bytes), or of `text` (files); total 0 =
    unknown.

    Of a server's job (`serving.desk`), "keyword_matches" has a `serving.job.KeywordMatches` in `about`.
    "resolved_question": `text` is the question that the typed one means. "selected": `about` is the `Trace` before its
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


#: Stage -> the words for it on a progress line.
LABELS = {
    "read": "reading documents",
    "ocr": "reading scanned pages",
    "index": "indexing",
    "embed": "embedding chunks",
    "eval": "evaluating",
    "batch": "batch",
    "train": "making labels",
    "understand": "understanding the question",
    "load": "loading models",
    "select": "selecting chunks",
    "forward": "forward lookup",
    "answer": "answering",
    "verify": "checking the answer",
}

Progress = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore the event."""


def of_the_run(progress: Progress, *, but: str = "") -> Progress:
    """Return a listener for a run of many questions. It forwards model loading, warnings and hints, and drops the progress of
    single questions. but: a stage whose warnings and hints are dropped as well."""

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
        """Pass an event to `progress`. Raises the error of a requested stop, so that work stops when it next reports."""
        self.cancellation.raise_if_requested()
        self.progress(event)


class Resuming:
    """Passes events on. When a stage within another is done, such as the loading of a model, the outer one starts again."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._open = progress, list[str]()

    def __call__(self, event: Event) -> None:
        self._progress(event)
        if event.kind == "start":
            self._open.append(event.stage)
        elif event.kind == "done" and self._open:
            self._open.pop()
            if self._open:
                self._progress(Event(self._open[-1], "start"))


class Stopwatch:
    """Measures seconds of wall time from its creation until `stop`."""

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
    """Time a block as one stage, and report its start and end. If the block raises, no end is reported."""
    progress(Event(name, "start"))
    watch = Stopwatch()
    try:
        yield watch
    finally:
        watch.stop()
    progress(Event(name, "done"))
