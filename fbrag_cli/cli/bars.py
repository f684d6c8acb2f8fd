"""Progress bars on stderr, for work of more than a second on a terminal: bytes of a model, files or pages of a document."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fbrag_cli.cli.console import Console
from fbrag_cli.progress import Event, Progress
from fbrag_cli.text.printable import byte_size

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

SHOW_AFTER_SECONDS = 1.0
_RATE_OVER = 900.0  # seconds of which the rate of counted things is the mean: a row may take a minute


@contextmanager
def download_bar(console: Console) -> Iterator[Progress]:
    """Yield a listener for the stages "download" and "verify" (bytes).

    It shows a bar with rate and time left, on a terminal and for work of more than a second, and prints a line for each model
    that is done. No bar outlives its model, or the block.
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
            self._console.note(event.text)
        elif event.kind == "progress" and self._console.shows_bars():
            self._draw(event)
        elif event.kind == "done":
            self.clear()
            seconds = time.monotonic() - self._started
            verb, level = ("verified: ", 1) if event.stage == "verify" else ("", 0)
            self._console.note(f"{event.text}: {verb}{byte_size(event.done)} in {seconds:.0f} s", level=level)

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
    """A bar with rate and time left, until `clear`. of_bytes: whether it counts bytes, not units such as files or pages."""

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
            redirect_stdout=False,  # data belongs on stdout
        )
        self._task = self._bar.add_task(label, total=None, unit="", rate="")
        self._bar.start()

    def update(self, done: float, total: float | None, unit: str = "") -> None:
        speed = self._bar.tasks[0].speed
        self._bar.update(self._task, completed=done, total=total, unit=unit, rate=_rate(speed) if speed else "")

    def clear(self) -> None:
        self._bar.stop()


def _rate(per_second: float) -> str:
    """Return a rate in the unit of time in which it is no fraction: "12/s", "7/min", "48/h"."""
    if per_second >= 1:
        return f"{per_second:,.0f}/s"
    return f"{60 * per_second:.0f}/min" if per_second >= 0.1 else f"{3600 * per_second:.0f}/h"
