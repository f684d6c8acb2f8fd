"""What a person sees on stderr while models are fetched or verified."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from fbrag_cli.cli.console import Console
from fbrag_cli.progress import Event, Progress

if TYPE_CHECKING:
    from rich.progress import TaskID

_SHOW_AFTER_SECONDS = 1.0


@contextmanager
def download_bar(console: Console) -> Iterator[Progress]:
    """A listener for the stages "download" and "verify" (bytes): on a terminal a bar with rate and time left, for what takes
    more than a second; everywhere a line for each model that has come. Leaving the block takes the bar away.
    """
    with ExitStack() as stack:
        yield _Bars(console, stack)


class _Bars:
    def __init__(self, console: Console, stack: ExitStack) -> None:
        self._console, self._stack = console, stack
        self._started = time.monotonic()
        self._bar: _Bar | None = None

    def __call__(self, event: Event) -> None:
        if event.kind == "start":
            self._started = time.monotonic()
        elif event.kind == "text":
            self._console.note(event.text)
        elif event.kind == "progress" and self._console.shows_bars():
            self._draw(event)
        elif event.kind == "done":
            if self._bar is not None:
                self._bar.clear()
            seconds = time.monotonic() - self._started
            verb, level = ("verified: ", 1) if event.stage == "verify" else ("", 0)
            self._console.note(f"{event.text}: {verb}{size(event.done)} in {seconds:.0f} s", level=level)

    def _draw(self, event: Event) -> None:
        if self._bar is None and time.monotonic() - self._started >= _SHOW_AFTER_SECONDS:
            self._bar = _Bar(self._console, self._stack)
        if self._bar is not None:
            self._bar.show(event)


class _Bar:
    """rich's bar, for one model at a time."""

    def __init__(self, console: Console, stack: ExitStack) -> None:
        from rich import progress
        from rich.console import Console as Terminal

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
        )
        terminal = Terminal(stderr=True, no_color=not console.colored(sys.stderr))
        self._progress = stack.enter_context(progress.Progress(*columns, console=terminal, transient=True))
        self._label = ""
        self._task: TaskID | None = None

    def show(self, event: Event) -> None:
        label = f"{event.text}: verifying" if event.stage == "verify" else event.text
        if self._task is None or label != self._label:
            self.clear()
            self._label, self._task = label, self._progress.add_task(label, total=None)
        self._progress.update(self._task, completed=event.done, total=event.total or None)

    def clear(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = None


def size(count: float) -> str:
    """Bytes for people: "1.1 GB", "98 MB"."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
