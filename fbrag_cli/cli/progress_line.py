"""The progress line on stderr while a question is answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from fbrag_cli.cli.bars import SHOW_AFTER_SECONDS, CountBar
from fbrag_cli.cli.console import Console
from fbrag_cli.progress import Event, Progress

_STAGES = {
    "read": "reading the documents",
    "index": "indexing",
    "embed": "embedding the chunks",
    "eval": "evaluating",
    "bench": "measuring",
    "load": "loading the models",
    "forward": "looking forward",
    "answer": "answering",
}


_COUNTED = ("read", "index", "embed", "eval", "bench")  # files, pages, chunks, rows or prompts


_UNITS = {"embed": "chunks"}


@contextmanager
def progress_line(console: Console) -> Iterator[Progress]:
    """Yield a listener that shows one changing line on a terminal; with -v it prints a line for each finished stage."""
    line = _Line(console)
    try:
        yield line
    finally:
        line.clear()


class _Line:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = ""
        self._answer = ""
        self._started: dict[str, float] = {}
        self._drawn = 0.0
        self._bar: CountBar | None = None

    def __call__(self, event: Event) -> None:
        if event.kind in ("warning", "hint"):
            self.clear()
            (self._console.warn if event.kind == "warning" else self._console.hint)(event.text)
            return
        label = _STAGES.get(event.stage, event.stage)
        now = perf_counter()
        if event.kind == "start":
            self._started[event.stage] = now
            self._answer = ""
            self._draw(label)
        elif event.kind == "progress" and event.stage in _COUNTED:
            self._count(event, label)
        elif event.kind == "progress" and event.total:
            self._draw(f"{label}: {100 * event.done / event.total:.0f} % read")
        elif event.kind == "text" and event.stage == "answer":
            self._answer += event.text
            if now - self._drawn > 0.1:
                self._draw(f"{label}: {len(self._answer.split())} words")
        elif event.kind == "done":
            self.clear()
            self._console.note(f"{label}: {now - self._started.get(event.stage, now):.1f} s", level=1)

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.clear()
            self._bar = None
        if self._shown:
            sys.stderr.write("\r" + " " * len(self._shown) + "\r")
            sys.stderr.flush()
            self._shown = ""

    def _count(self, event: Event, label: str) -> None:
        """Show a bar, once the stage has taken a second and is not yet done."""
        if self._bar is None:
            waited = perf_counter() - self._started.setdefault(event.stage, perf_counter())
            if waited < SHOW_AFTER_SECONDS or event.done >= event.total or not self._console.shows_bars():
                return
            self.clear()
            self._bar = CountBar(self._console, label, event.text or _UNITS.get(event.stage, "pages"))
        self._bar.update(event.done, event.total)

    def _draw(self, text: str) -> None:
        if not self._console.shows_bars():
            return
        self._drawn = perf_counter()
        sys.stderr.write("\r" + text.ljust(len(self._shown)))
        sys.stderr.flush()
        self._shown = text
