"""The output of `fbrag batch`: a file or a stream of rows, and the count of them that a terminal shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.progress_line import ProgressLine
from fbrag_cli.cli.streams import is_special, open_output
from fbrag_cli.errors import ExitCode
from fbrag_cli.progress import Event, Progress
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:
    from fbrag_cli.storage.rows import Form, Row


class Output(Protocol):
    """A file or a stream of rows. rows: those that it has."""

    rows: list[dict[str, Any]]

    def write(self, row: Row) -> None: ...
    def keep(self, wanted: Callable[[Row], bool]) -> None: ...


class _Stream:
    """stdout, a pipe or a device: it has no rows before those that are written."""

    def __init__(self, stream: TextIO, form: Form) -> None:
        self.rows: list[dict[str, Any]] = []
        self._stream, self._form = stream, form
        self._put(form.head)

    def write(self, row: Row) -> None:
        self._put(self._form.encode(row))

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """A stream has no rows to drop."""

    def _put(self, data: bytes) -> None:
        self._stream.write(data.decode())
        self._stream.flush()


@contextmanager
def open_rows_to(name: str, *, resume: bool) -> Iterator[Output]:
    """Open a file of rows, or a stream: stdout ("-"), a pipe, a device."""
    from fbrag_cli.batch.row import form_of
    from fbrag_cli.storage.rows import open_rows

    form, path = form_of(name), Path(name)
    if name == "-" or is_special(name):
        with open_output(name) as stream:
            yield _Stream(stream, form)
        return
    with open_rows(path, form, restart=not resume) as rows:
        yield rows


class Tally:
    """Counts rows by their status, and shows them as they come. before: the statuses of rows of an earlier run."""

    def __init__(self, line: ProgressLine, before: Sequence[str], total: int) -> None:
        self._line, self._total, self._n_before = line, total, len(before)
        self._counts, self._n_errors_before = Counter(before), before.count("error")
        line(Event("batch", "start"))
        self._show()

    def receive(self, event: Event) -> None:
        """Show the messages of models that load, and then the count again."""
        of_the_run(self._line)(event)
        if (event.stage, event.kind) == ("load", "done"):
            self._show()

    def add(self, status: str) -> int:
        """Count a row. Return how many of this run have an error."""
        self._counts[status] += 1
        self._show()
        return self._counts["error"] - self._n_errors_before

    def report(self, console: Console, output: str) -> int:
        """Print how many rows have which status, and return the exit code."""
        self._line(Event("batch", "done"))
        counts, n_errors = self._counts, self._counts["error"]
        parts = [f"{counts['answered']:,} answered", f"{counts['not_found']:,} not found", counted(n_errors, "error")]
        before = f", {self._n_before:,} of them before" if self._n_before else ""
        name = "" if output == "-" else f" ({output})"
        console.note(f"{counted(sum(counts.values()), 'row')}{before}: {', '.join(parts)}{name}")
        if n_errors and name:
            console.hint("the same command with --retry-errors does the rows with an error again")
        return ExitCode.NEGATIVE if n_errors else ExitCode.DONE

    def _show(self) -> None:
        errors = f", {counted(self._counts['error'], 'error')}" if self._counts["error"] else ""
        self._line(Event("batch", "progress", sum(self._counts.values()), self._total, f"rows{errors}"))


def of_the_run(line: ProgressLine) -> Progress:
    """Return a listener that leaves out the events of single questions: warnings are in their rows, and stages are too short."""

    def receive(event: Event) -> None:
        if event.stage == "load" or (event.kind in ("warning", "hint") and event.stage != "answer"):
            line(event)

    return receive
