"""Progress on stderr: one changing line, a preview of the answer above it, and bars for longer work."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from threading import Event as Flag
from threading import RLock, Thread
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.progress import LABELS, Event, Progress
from fbrag_cli.query import Query
from fbrag_cli.session.forecast import Forecast
from fbrag_cli.text.printable import byte_size, minutes, one_line, plural
from fbrag_cli.text.table import shorten, width_of

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from fbrag_cli.corpus import Passage

SHOW_AFTER_SECONDS = 1.0
_COUNTED = ("read", "ocr", "index", "embed", "eval", "batch", "train")  # stages that count files, chunks, rows …
_LONG = ("ocr", "eval", "batch", "train")  # of which a log shows a line each minute
_LOGGED_EVERY = 60.0  # seconds
_UNITS = {"embed": "chunks"}
_RATE_OVER = 900.0  # seconds over which a rate is averaged: a row may take a minute
_DRAWN_EVERY = 0.1  # seconds
_TICK = 0.5  # seconds between updates of the time left

_DIM, _END = "\x1b[2m", "\x1b[0m"
_HEADING = "Best keyword matches so far:"
_UNCHECKED = "draft (not yet checked): "
_MARGIN = "    "
_MOST_LINES = 4  # per sentence


@contextmanager
def progress_line(console: Console) -> Iterator[ProgressLine]:
    """Yield a listener that shows one changing line on a terminal; with -v it prints a line per finished stage.

    On a terminal without bars (--no-progress, TERM=dumb) it prints a plain line when a stage begins. Without a terminal it prints
    one each minute in a run of many questions.
    """
    line = ProgressLine(console)
    try:
        yield line
    finally:
        line.close()


class ProgressLine:
    """The listener of `progress_line`. Its forecast and preview may be set before each question.

    forecast: of the seconds left. preview: None to show only the line.
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
        self._lock, self._closed = RLock(), Flag()  # the clock draws from another thread
        self._clock: Thread | None = None
        self._counts: list[tuple[float, Event]] = []  # the first and the last count of a long run, with their times

    def __call__(self, event: Event) -> None:
        with self._lock:
            self.forecast.update(event)
            if self.preview:
                self.preview.update(event)
            if event.kind in ("note", "warning", "hint"):
                self.clear()
                self._console.report(event)
            else:
                self._follow(event)

    def clear(self) -> None:
        """Erase everything shown. The next event shows it again."""
        with self._lock:
            if self._bar is not None:
                self._bar.clear()
                self._bar = None
            self._region.erase()
            self._status, self._drawn = "", 0.0

    def close(self) -> None:
        """Erase everything shown, for good."""
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
            self._set(f"{label}: {100 * event.done / event.total:.0f}% read", at_once=True)
        elif event.kind == "written" and event.stage == "forward":
            self._set(f"{label}: writing {event.text} ({event.done:.0f} of {event.total:.0f} tokens)")
        elif event.kind == "text" and event.stage == "answer":
            self._answer += event.text
            self._set(f"{label}: {plural(len(self._answer.split()), 'word')}")
        elif event.kind == "done":
            self._end(label, now - self._started.get(event.stage, now))

    def _begin(self, label: str) -> None:
        """Show that a stage has begun. A plain line is printed only once."""
        self._set(label, at_once=True)
        if self._console.verbosity == 0 and sys.stderr.isatty() and not self._console.shows_bars() and label not in self._spoken:
            self._spoken.add(label)
            self._console.info(label + self._left(", "))

    def _end(self, label: str, seconds: float) -> None:
        """Show that a stage is over. The preview stays for the next stage, unless a bar or a line needs its place."""
        if self._bar is not None or self._console.verbosity >= 1 or not self.preview:
            self.clear()
        self._status = ""
        self._console.info(f"{label}: {seconds:.1f} s", level=1)

    def _count(self, event: Event, label: str) -> None:
        """Show a bar once the stage has taken a second and is not done."""
        unit = event.text or _UNITS.get(event.stage, "pages")
        if event.stage in _LONG and self._console.bars and not sys.stderr.isatty():
            self._log(event)
        if self._bar is None:
            waited = perf_counter() - self._started.setdefault(event.stage, perf_counter())
            if waited < SHOW_AFTER_SECONDS or event.done >= event.total or not self._console.shows_bars():
                self._set(f"{label}: {event.done:,.0f} of {event.total:,.0f} {unit}")
                return
            self.clear()
            self._bar = Bar(self._console, label)
        self._bar.update(event.done, event.total, unit)

    def _log(self, event: Event) -> None:
        """Note a count, and print the status each minute from the first one on."""
        self._counts[1:] = [(time.monotonic(), event)]
        if self._clock is None:
            self._clock = Thread(target=self._print_each_minute, name="progress", daemon=True)
            self._clock.start()

    def _print_each_minute(self) -> None:
        while not self._closed.wait(_LOGGED_EVERY):
            with self._lock:
                if self._status and not self._closed.is_set():
                    (began, first), (now, last) = self._counts[0], self._counts[-1]
                    done, rest = last.done - first.done, last.total - last.done
                    left = f", about {minutes((now - began) / done * rest)} left" if done and rest else ""
                    self._console.info(self._status + left)

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
        self._region.draw(above, shorten(self._status, max(1, columns - width_of(left))) + left)

    def _tick(self) -> None:
        while not self._closed.wait(_TICK):
            with self._lock:
                if self._status and not self._closed.is_set():
                    self._draw()

    def _left(self, separator: str) -> str:
        """Return the seconds left, in words; "" if they are unknown."""
        seconds = self.forecast.left()
        if seconds is None or seconds < 0.5:
            return ""
        return f"{separator}about {round(seconds) if seconds < 10 else round(seconds / 5) * 5} s left"


class Region:
    """Lines that are redrawn in place on `stream`, a terminal. The cursor stays at the end of the last line.

    Each line fits the terminal's width, and there are fewer lines than rows, so that moving up reaches the first one. A single
    line needs only a carriage return. If the terminal was made narrower, it may have wrapped lines drawn before; some of them
    then stay above, because moving up too far would erase other output.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows that lines may take."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        return max(1, (columns or 80) - 1), max(1, (rows or 24) - 1)

    def draw(self, dimmed: Sequence[str], last: str) -> None:
        """Show the lines `dimmed`, and `last` below them, instead of the current ones. All are printable and fit `size`."""
        columns, rows = self.size
        lines = [*dimmed[: rows - 1], last]
        shown = tuple(shorten(line, columns) for line in lines)
        if shown != self._shown:
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(shown[:-1], self._shown[:-1], strict=False)))
            *above, status = shown[same:]
            self._stream.write(self._erasure(same) + "".join(f"{_DIM}{line}{_END}\n" for line in above) + status)
            self._stream.flush()
            self._shown = shown

    def erase(self) -> None:
        """Erase the lines, and leave the cursor where the first one began."""
        if self._shown:
            self._stream.write(self._erasure())
            self._stream.flush()
            self._shown = ()

    def _erasure(self, same: int = 0) -> str:
        """Return the control sequence that erases all lines but the first `same`."""
        if (up := len(self._shown) - 1 - same) > 0:
            return f"\r\x1b[{up}A\x1b[J"
        return f"\r{' ' * width_of(self._shown[-1])}\r" if self._shown else ""


class Preview:
    """The chunks that match a query best, and the answer before its check, as lines that fit a terminal."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._positions: tuple[int, ...] = ()
        self._answer = ""
        self._nearest: tuple[int, list[list[str]]] = (0, [])  # columns, and the lines of each chunk at that width

    def update(self, event: Event) -> None:
        """Update the chunks or the answer from an event."""
        if event.kind == "ranked":
            self._positions, self._nearest = event.positions, (0, [])
        elif event.stage == "answer" and event.kind == "start":
            self._answer = ""
        elif event.stage == "answer" and event.kind == "text":
            self._answer += event.text

    def lines(self, columns: int, rows: int) -> list[str]:
        """Return printable lines: at most `rows`, each within `columns` unless a single word is wider.

        If there is no room for all, the end of the answer has priority.
        """
        answer = self._wrapped_answer(columns)[-rows:] if rows > 0 else []
        shown = [_HEADING]
        for chunk in self._nearest_at(columns):
            if len(shown) + len(chunk) + len(answer) > rows:
                break
            shown += chunk
        return [*(shown if len(shown) > 1 else []), *answer]

    def _nearest_at(self, columns: int) -> list[list[str]]:
        if self._nearest[0] != columns:
            collection = self._query.collection
            lines = []
            for position in self._positions:
                weights = dict(collection.retriever.term_scores(self._query.text, position))
                lines.append([*_nearest_lines(collection.corpus.chunks[position], weights, columns)])
            self._nearest = (columns, lines)
        return self._nearest[1]

    def _wrapped_answer(self, columns: int) -> list[str]:
        from fbrag_cli.text.terminal import wrap_spans

        shown: list[str] = []
        if self._answer.strip():
            for line in (_UNCHECKED + self._answer.strip()).split("\n"):
                safe = one_line(line)
                shown += [safe[start:end].rstrip() for start, end in wrap_spans(safe, 0, columns)]
        return shown


def _nearest_lines(chunk: Passage, weights: Mapping[str, float], columns: int) -> Iterator[str]:
    """Yield the location of a chunk's sentence that matches the question best, then that sentence, in lines of `columns`.

    weights: the score of each term of the question in this chunk.
    """
    from fbrag_cli.render.passages import LONGEST_LINE, nearest_sentence, place
    from fbrag_cli.text.terminal import truncate, wrap_spans

    room = max(1, min(columns, LONGEST_LINE) - len(_MARGIN))
    nearest = nearest_sentence(chunk, weights)
    yield shorten(place(nearest), columns)
    sentence = one_line(nearest.text)
    spans = wrap_spans(sentence, 0, room)
    yield from (_MARGIN + sentence[first:last].rstrip() for first, last in spans[: _MOST_LINES - 1])
    if rest := spans[_MOST_LINES - 1 :]:
        yield _MARGIN + truncate(sentence[rest[0][0] :], room)


@contextmanager
def download_bar(console: Console) -> Iterator[Progress]:
    """Yield a listener for the stages "download" and "verify" (bytes).

    On a terminal it shows a bar with rate and time left for work of more than a second. It prints a line per finished model. A
    bar is erased when its model or the block is done.
    """
    bars = _Bars(console)
    try:
        yield bars
    finally:
        bars.clear()


class _Bars:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._bar: Bar | None = None

    def __call__(self, event: Event) -> None:
        if event.kind == "start":
            self._started = time.monotonic()
        elif event.kind == "text":
            self._console.info(event.text)
        elif event.kind == "progress" and self._console.shows_bars():
            self._draw(event)
        elif event.kind == "done":
            self.clear()
            seconds = time.monotonic() - self._started
            verb, level = ("verified: ", 1) if event.stage == "verify" else ("", 0)
            self._console.info(f"{event.text}: {verb}{byte_size(event.done)} in {seconds:.0f} s", level=level)

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.clear()
        self._bar = None

    def _draw(self, event: Event) -> None:
        if self._bar is None:
            if time.monotonic() - self._started < SHOW_AFTER_SECONDS:
                return
            label = f"{event.text}: verifying" if event.stage == "verify" else event.text
            self._bar = Bar(self._console, label, of_bytes=True)
        self._bar.update(event.done, event.total or None)


class Bar:
    """A bar with rate and time left, shown until `clear`. of_bytes: whether it counts bytes, not units such as files or pages."""

    def __init__(self, console: Console, label: str, *, of_bytes: bool = False) -> None:
        from rich import progress
        from rich.console import Console as Terminal

        counts: list[ProgressColumn] = [progress.DownloadColumn(), progress.TransferSpeedColumn()]
        if not of_bytes:
            texts = (progress.TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("unit", "rate"))
            counts = [progress.MofNCompleteColumn(), *texts]
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            *counts,
            progress.TimeRemainingColumn(),
            console=Terminal(stderr=True, no_color=not console.colored(sys.stderr)),
            transient=True,
            speed_estimate_period=30 if of_bytes else _RATE_OVER,
            redirect_stdout=False,  # stdout is for data
        )
        self._task = self._bar.add_task(label, total=None, unit="", rate="")
        self._bar.start()

    def update(self, done: float, total: float | None, unit: str = "") -> None:
        speed = self._bar.tasks[0].speed
        self._bar.update(self._task, completed=done, total=total, unit=unit, rate=_rate(speed) if speed else "")

    def clear(self) -> None:
        self._bar.stop()


def _rate(per_second: float) -> str:
    """Return a rate in a unit of time in which it is not a fraction: "12/s", "7/min", "48/h"."""
    if per_second >= 1:
        return f"{per_second:,.0f}/s"
    return f"{60 * per_second:.0f}/min" if per_second >= 0.1 else f"{3600 * per_second:.0f}/h"
