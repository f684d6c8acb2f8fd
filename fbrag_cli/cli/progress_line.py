"""What stderr shows while a question is answered: one changing line on a terminal, and the preview above it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import RLock, Thread
from time import perf_counter

from fbrag_cli.cli.bars import SHOW_AFTER_SECONDS, Bar
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import Preview, Region
from fbrag_cli.progress import LABELS, Event
from fbrag_cli.session.forecast import Forecast
from fbrag_cli.text.printable import counted
from fbrag_cli.text.table import shortened, width_of

_COUNTED = ("read", "index", "embed", "eval", "batch", "bench", "train")  # files, pages, chunks, rows or prompts


_UNITS = {"embed": "chunks"}

_DRAWN_EVERY = 0.1  # seconds, at most
_TICK = 0.5  # seconds between two looks at the clock, so that the seconds that are left count down


@contextmanager
def progress_line(console: Console) -> Iterator[ProgressLine]:
    """Yield a listener that shows one changing line on a terminal; with -v it prints a line for each finished stage.

    On a terminal without bars (--no-progress, TERM=dumb) it prints a plain line where a stage begins.
    """
    line = ProgressLine(console)
    try:
        yield line
    finally:
        line.close()


class ProgressLine:
    """The listener. What it shows of one question may be set before that runs.

    forecast: of the seconds that are left. preview: None for the line alone.
    """

    def __init__(self, console: Console) -> None:
        self.forecast = Forecast()
        self.preview: Preview | None = None
        self._console, self._region = console, Region(sys.stderr)
        self._status = ""
        self._answer = ""
        self._started: dict[str, float] = {}
        self._spoken: set[str] = set()
        self._drawn = 0.0
        self._bar: Bar | None = None
        self._lock, self._closed = RLock(), Flag()  # the clock draws from a thread of its own
        self._clock: Thread | None = None

    def __call__(self, event: Event) -> None:
        with self._lock:
            self.forecast.update(event)
            if self.preview:
                self.preview.update(event)
            if event.kind in ("note", "warning", "hint"):
                self.clear()
                self._console.say(event)
            else:
                self._follow(event)

    def clear(self) -> None:
        """Erase all that is shown. The next event shows it again."""
        with self._lock:
            if self._bar is not None:
                self._bar.clear()
                self._bar = None
            self._region.erase()
            self._status, self._drawn = "", 0.0

    def close(self) -> None:
        """Erase all that is shown, for good."""
        self._closed.set()
        self.clear()

    def _follow(self, event: Event) -> None:
        label = LABELS.get(event.stage, event.stage)
        now = perf_counter()
        if event.kind == "start":
            self._started[event.stage] = now
            self._answer = ""
            self._begin(label)
        elif event.kind == "ranked":
            self._set(self._status, at_once=True)
        elif event.kind == "progress" and event.stage in _COUNTED:
            self._count(event, label)
        elif event.kind == "progress" and event.total:
            self._set(f"{label}: {100 * event.done / event.total:.0f} % read", at_once=True)
        elif event.kind == "written" and event.stage == "forward":
            self._set(f"writing {event.text}, {event.done:.0f} of {event.total:.0f} tokens")
        elif event.kind == "text" and event.stage == "answer":
            self._answer += event.text
            self._set(f"{label}: {counted(len(self._answer.split()), 'word')}")
        elif event.kind == "done":
            self._end(label, now - self._started.get(event.stage, now))

    def _begin(self, label: str) -> None:
        """Show that a stage begins. A plain line says it once."""
        self._set(label, at_once=True)
        if self._console.verbosity == 0 and sys.stderr.isatty() and not self._console.shows_bars() and label not in self._spoken:
            self._spoken.add(label)
            self._console.note(label + self._left(", "))

    def _end(self, label: str, seconds: float) -> None:
        """Show that a stage is over. The preview stays for the next one, unless a bar or a line has to stand where it does."""
        if self._bar is not None or self._console.verbosity >= 1 or not self.preview:
            self.clear()
        self._status = ""
        self._console.note(f"{label}: {seconds:.1f} s", level=1)

    def _count(self, event: Event, label: str) -> None:
        """Show a bar, once the stage has taken a second and is not yet done."""
        unit = event.text or _UNITS.get(event.stage, "pages")
        if self._bar is None:
            waited = perf_counter() - self._started.setdefault(event.stage, perf_counter())
            if waited < SHOW_AFTER_SECONDS or event.done >= event.total or not self._console.shows_bars():
                self._set(f"{label}: {event.done:,.0f} of {event.total:,.0f} {unit}")
                return
            self.clear()
            self._bar = Bar(self._console, label)
        self._bar.update(event.done, event.total, unit)

    def _set(self, status: str, *, at_once: bool = False) -> None:
        self._status = status
        if at_once or perf_counter() - self._drawn > _DRAWN_EVERY:
            self._draw()

    def _draw(self) -> None:
        if not self._console.shows_bars():
            return
        left = self._left(" · ")
        if left and self._clock is None:
            self._clock = Thread(target=self._tick, name="progress", daemon=True)
            self._clock.start()
        self._drawn = perf_counter()
        columns, rows = self._region.size
        above = self.preview.lines(columns, rows - 1) if self.preview else []
        self._region.draw(above, shortened(self._status, max(1, columns - width_of(left))) + left)

    def _tick(self) -> None:
        while not self._closed.wait(_TICK):
            with self._lock:
                if self._status and not self._closed.is_set():
                    self._draw()

    def _left(self, separator: str) -> str:
        """Return the seconds that are left, in words; "" where they are not known."""
        seconds = self.forecast.left()
        if seconds is None or seconds < 0.5:
            return ""
        return f"{separator}about {round(seconds) if seconds < 10 else round(seconds / 5) * 5} s left"
