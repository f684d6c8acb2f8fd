"""The output of `fbrag batch`: a file or a stream of rows, and the count of them that a terminal shows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import ProgressLine
from fbrag_cli.cli.signals import Terminated
from fbrag_cli.cli.streams import is_special, open_output
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.progress import Event, Progress
from fbrag_cli.render.matrix import Matrix
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:
    from fbrag_cli.batch.jobs import Job
    from fbrag_cli.cli.options import BatchOptions
    from fbrag_cli.storage.rows import Row


class Output(Protocol):
    """A file or a stream of rows. rows: those that it has."""

    @property
    def rows(self) -> list[dict[str, Any]]: ...
    def write(self, row: Row) -> None: ...
    def keep(self, wanted: Callable[[Row], bool]) -> None: ...


class _Stream:
    """stdout, a pipe or a device: it has no rows before those that are written. line: returns the line of a row."""

    def __init__(self, stream: TextIO, line: Callable[[Row], str], head: str) -> None:
        self.rows: list[dict[str, Any]] = []
        self._stream, self._line = stream, line
        self._put(head)

    def write(self, row: Row) -> None:
        self._put(self._line(row))

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """A stream has no rows to drop."""

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@contextmanager
def open_rows_to(name: str, *, resume: bool) -> Iterator[Output]:
    """Open a file of rows, or a stream: stdout ("-"), a pipe, a device. The rows of a sheet are in the file beside it."""
    from fbrag_cli.batch import sheet
    from fbrag_cli.batch.row import SCHEMA
    from fbrag_cli.storage.rows import open_rows
    from fbrag_cli.text.printable import dumps

    if name == "-" or is_special(name):
        with open_output(name) as stream:
            if sheet.is_sheet(name):
                yield _Stream(stream, sheet.row_line, sheet.line(sheet.COLUMNS))
            else:
                yield _Stream(stream, lambda row: dumps(row) + "\n", "")
        return
    if sheet.is_sheet(name):
        sheet.check_sheet(name, restart=not resume)
    with open_rows(sheet.rows_of(name), SCHEMA, restart=not resume) as rows:
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

    @contextmanager
    def told_of_a_stop(self, console: Console, output: str) -> Iterator[None]:
        """Say, where the block is stopped, how many rows there are and how the run goes on."""
        try:
            yield
        except (FbragError, KeyboardInterrupt, Terminated):
            self._line(Event("batch", "done"))
            where = "were written" if output == "-" else f"are in {output}"
            rest = "" if output == "-" else "; the same command goes on"
            console.note(f"stopped: {sum(self._counts.values()):,} of {counted(self._total, 'row')} {where}{rest}")
            raise

    def _show(self) -> None:
        errors = f", {counted(self._counts['error'], 'error')}" if self._counts["error"] else ""
        self._line(Event("batch", "progress", sum(self._counts.values()), self._total, f"rows{errors}"))


class Views:
    """The rows as --html and --wide show them. matrix: None where neither is asked for, and nothing is kept."""

    def __init__(self, matrix: Matrix | None) -> None:
        self._matrix = matrix
        self.n_rows = 0

    def begin(self, jobs: Sequence[Job], rows: Sequence[Row]) -> None:
        """Take in the rows of an earlier run. jobs: of this run, which make the order. Raises FbragError `usage`."""
        from fbrag_cli.batch.sheet import cell, row_line
        from fbrag_cli.storage.rows import ANOTHER

        if self._matrix is not None:
            for job in jobs:
                self._matrix.name(cell(job.document), cell(job.question.text))
        try:
            for row in rows:
                row_line(row)  # else a row that lacks a part would show when the run has ended
                self.add(row)
        except (AttributeError, LookupError, TypeError):
            raise FbragError("usage", "the output holds rows that lack a part", ANOTHER) from None

    def add(self, row: Row) -> None:
        from fbrag_cli.batch.sheet import shown

        self.n_rows += 1
        if self._matrix is not None:
            self._matrix.add(shown(row))


@contextmanager
def open_views(options: BatchOptions) -> Iterator[Views]:
    """Open the sheet of -o, and the files of --html and --wide. They are written when the block ends, also where it is stopped
    behind a row.

    Raises FbragError `output` as `open_output`, and `usage` for stdout.
    """
    from fbrag_cli.batch import sheet

    taken = [os.path.realpath(options.output), os.path.realpath(sheet.rows_of(options.output))]
    for option, path in (("--html", options.html), ("--wide", options.wide)):
        if path == "-":
            raise FbragError("usage", f"{option} -: stdout carries the rows", f"name a file: {option} FILE")
        if path and os.path.realpath(path) in taken:
            raise FbragError("usage", f"{option} {path} is the file of another output", f"name another {option} FILE")
        taken += [os.path.realpath(path)] if path else []
    made = options.output if sheet.is_sheet(options.output) and not is_special(options.output) else None
    matrix = Matrix() if options.html or options.wide else None
    with ExitStack() as stack:
        lines, page, table = (
            stack.enter_context(open_output(path, option)) if path else None
            for option, path in (("-o", made), ("--html", options.html), ("--wide", options.wide))
        )
        views, stopped = Views(matrix), None
        try:
            yield views
        except (FbragError, KeyboardInterrupt, Terminated) as error:
            if not views.n_rows:
                raise
            stopped = error
        if lines:
            lines.write(sheet.BOM + sheet.line(sheet.COLUMNS))
            lines.writelines(sheet.lines_from(sheet.rows_of(options.output)) if views.n_rows else ())
        if page and matrix:
            from fbrag_cli.render.matrix import page as page_of

            page.write(page_of(matrix))
        if table and matrix:
            table.write(sheet.wide(matrix))
    if stopped:
        raise stopped


def of_the_run(line: ProgressLine) -> Progress:
    """Return a listener that leaves out the events of single questions: warnings are in their rows, and stages are too short."""

    def receive(event: Event) -> None:
        if event.stage == "load" or (event.kind in ("warning", "hint") and event.stage != "answer"):
            line(event)

    return receive
