"""`fbrag batch`: many questions on many documents, a row each, resumable."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.method_options import MethodKnobs, MethodOptions, chosen_method
from fbrag_cli.cli.opening import open_cache, open_session, read_password
from fbrag_cli.cli.options import PasswordOptions, RunOptions, arguments, option
from fbrag_cli.cli.output import open_output
from fbrag_cli.cli.progress_line import ProgressLine, progress_line
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.cli.takes import takes
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.generation.reuse import Reuse
from fbrag_cli.progress import Event, Progress
from fbrag_cli.session.session import Choice, Listener, Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.text.printable import counted

if TYPE_CHECKING:
    from fbrag_cli.batch.jobs import Job
    from fbrag_cli.batch.run import Asking
    from fbrag_cli.storage.rows import Form, Row

MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class BatchOptions:
    documents: list[str] = arguments("documents; of a folder, each file is one", "DOC...")
    questions: str | None = option(
        None,
        "-Q",
        "--questions",
        help="text (one a line, # begins a comment), CSV (question, id) or JSON lines; '-' is stdin",
        group="Jobs",
        metavar="FILE",
        envvar=None,
    )
    jobs: str | None = option(
        None,
        "--jobs",
        help="CSV or JSON lines with document and question; id and answers may stand beside them",
        group="Jobs",
        metavar="FILE",
        envvar=None,
    )
    together: bool = option(False, "--together", help="pool all DOCs: one row a question", group="Jobs", envvar=None)
    n_rows: int | None = option(None, "--limit", help="the first N rows (all)", group="Jobs", metavar="N", min=1, envvar=None)
    shard: str | None = option(
        None, "--shard", help="every N-th row from the I-th on, for several machines", group="Jobs", metavar="I/N", envvar=None
    )
    output: str = option(
        "-",
        "-o",
        "--output",
        help="rows as they come: JSON lines, or CSV by its name (stdout)",
        group="Output",
        metavar="FILE",
    )
    resume: bool = option(
        True,
        "--resume/--restart",
        help="go on with what -o FILE holds, or begin anew (resume)",
        group="Run",
        envvar=None,
    )
    retry_errors: bool = option(False, "--retry-errors", help="do rows with an error again", group="Run", envvar=None)
    max_errors: int | None = option(
        None, "--max-errors", help="stop after so many rows with an error (no limit)", group="Run", metavar="N", min=1
    )
    fail_fast: bool = option(False, "--fail-fast", help="stop at the first row with an error", group="Run")
    parallel: str = option(
        "auto",
        "--parallel",
        help="questions decoded at once, auto or a number; above 1, answers may differ by rounding (auto; on a CPU 1)",
        group="Run",
        metavar="N",
    )

    @property
    def most_errors(self) -> float:
        return 1 if self.fail_fast else self.max_errors or float("inf")


@dataclass(frozen=True, slots=True)
class BatchCommand:
    batch: BatchOptions
    document: PasswordOptions
    reading: DocumentSettings
    method: MethodOptions
    knobs: MethodKnobs  # type: ignore[valid-type]
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@takes(BatchCommand)
def batch(console: Console, command: BatchCommand) -> int:
    """Answer many questions on many documents, a row each.

    \b
    Examples:
      fbrag batch contracts/ -Q questions.txt -o answers.jsonl
      fbrag batch --jobs jobs.csv -o answers.csv
      fbrag batch minutes/ --together -Q questions.txt | jq -r .answer

    A run that was stopped goes on where it was, when it is started again. Exit code 1: some rows have an error.

    Columns of CSV: id, document, question, status (answered, not_found, error), answer, answers (of --jobs, JSON), sources
    ("book.txt:3-9; report.pdf p. 12"), support (0 to 1), seconds, error, sha256 of the document, settings (JSON).
    """
    if command.run.timeout:
        limit_time(command.run.timeout, console.cancellation)
    from fbrag_cli.batch.resume import done
    from fbrag_cli.batch.run import rows

    options = command.batch
    jobs = _jobs(command, console)
    with (
        progress_line(console) as line,
        open_cache(command.cache, console, private=command.document.password_file is not None) as cache,
        open_session(command.models, cache, console, _of_the_run(line), Reuse(again=command.cache.again)) as session,
        _open_output(options) as output,
    ):
        asking = _asking(command, session, console)
        if options.retry_errors:
            output.keep(lambda row: row["status"] != "error")
        before = done(output.rows, asking.described(), options.output)
        before.check_jobs(jobs)
        tally = _Tally(line, [before.statuses[job.key] for job in jobs if job.key in before.statuses], len(jobs))
        listener = Listener(progress=tally.receive, cancellation=console.cancellation)
        todo = [job for job in jobs if job.key not in before.statuses]
        for row in rows(todo, session, asking, listener, before=before, stdin=sys.stdin.buffer):
            output.write(row)
            if tally.add(row["status"]) >= options.most_errors:
                break
    return tally.told(console, options.output)


def _jobs(command: BatchCommand, console: Console) -> list[Job]:
    """Return the rows that are asked for. Raises FbragError `usage`, and as `read_jobs` and `find_files`."""
    from fbrag_cli.batch import jobs as reading
    from fbrag_cli.indexing.files import find_files

    options = command.batch
    paths, stdin = list(options.documents), [options.questions, options.jobs, command.document.password_file, *options.documents]
    if stdin.count("-") > 1:
        raise FbragError("usage", "'-' stands for stdin, which can be read only once", "name a file in place of one of them")
    if bool(options.jobs) == bool(options.questions):
        hint = "fbrag batch DOC... -Q questions.txt, or fbrag batch --jobs jobs.csv"
        raise FbragError("usage", "either --questions FILE or --jobs FILE is needed", hint)
    if options.jobs:
        if paths or options.together:
            raise FbragError("usage", "--jobs names the documents itself", "leave out DOC and --together")
        jobs = reading.read_jobs(options.jobs, sys.stdin.buffer)
    elif not paths:
        raise FbragError("usage", "no document is named", "fbrag batch DOC... -Q questions.txt")
    else:
        questions = reading.read_questions(options.questions or "", sys.stdin.buffer)
        if not options.together:
            findings = find_files(paths, command.reading.include, command.reading.exclude)
            for warning in findings.warnings:
                console.warn(warning)
            jobs = reading.every([(found.path,) for found in findings.files], questions)
        else:
            jobs = reading.every([tuple(paths)], questions)
    jobs = reading.by_document(jobs)
    jobs = reading.shard(jobs, options.shard) if options.shard else jobs
    return jobs[: options.n_rows]


def _asking(command: BatchCommand, session: Session, console: Console) -> Asking:
    from fbrag_cli.batch.run import Asking

    method = chosen_method(command.method, command.knobs, on_gpu=session.on_gpu)
    choice = Choice(retriever=command.method.retriever)
    session.prepare(method, choice)
    return Asking(
        method=method,
        choice=choice,
        reading=command.reading,
        chunk_words=command.method.chunk_words,
        at_once=_at_once(command.batch.parallel),
        password=read_password(command.document.password_file, console),
        models=session.identities(method, choice),
    )


def _at_once(text: str) -> int | None:
    """Return how many questions run at once; None for as many as pay. Raises FbragError `usage`."""
    if text == "auto":
        return None
    if not text.isdigit() or not 1 <= int(text) <= MOST_AT_ONCE:
        raise FbragError("usage", f"--parallel {text}: not a number of questions", f"use auto, or 1 to {MOST_AT_ONCE}")
    return int(text)


# -- output ------------------------------------------------------------------------------------------------------------------


class _Output(Protocol):
    """Where rows go. rows: those that are there."""

    rows: list[dict[str, Any]]

    def write(self, row: Row) -> None: ...
    def keep(self, wanted: Callable[[Row], bool]) -> None: ...


class _Stream:
    """stdout, a pipe or a device: rows are written, and nothing is there before."""

    def __init__(self, stream: TextIO, form: Form) -> None:
        self.rows: list[dict[str, Any]] = []
        self._stream, self._form = stream, form
        self._put(form.head)

    def write(self, row: Row) -> None:
        self._put(self._form.encode(row))

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Nothing is there to be rewritten."""

    def _put(self, data: bytes) -> None:
        self._stream.write(data.decode())
        self._stream.flush()


@contextmanager
def _open_output(options: BatchOptions) -> Iterator[_Output]:
    from fbrag_cli.batch.row import form_of
    from fbrag_cli.storage.rows import open_rows

    form, path = form_of(options.output), Path(options.output)
    if options.output == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        with open_output(options.output) as stream:
            yield _Stream(stream, form)
        return
    with open_rows(path, form, restart=not options.resume) as rows:
        yield rows


class _Tally:
    """Counts rows by their status, and shows them as they come. before: the statuses of rows that are there already."""

    def __init__(self, line: ProgressLine, before: Sequence[str], total: int) -> None:
        self._line, self._total, self._n_before = line, total, len(before)
        self._counts = Counter(before)
        line(Event("batch", "start"))
        self._show()

    def receive(self, event: Event) -> None:
        """Show what the models that load say, and then again how far the run is."""
        _of_the_run(self._line)(event)
        if (event.stage, event.kind) == ("load", "done"):
            self._show()

    def add(self, status: str) -> int:
        """Count a row. Return how many have an error."""
        self._counts[status] += 1
        self._show()
        return self._counts["error"]

    def told(self, console: Console, output: str) -> int:
        """Print what became of the rows, and return the exit code."""
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


def _of_the_run(line: ProgressLine) -> Progress:
    """Return a listener that leaves out what is about one question: its row has the warnings, and its stages are too short."""

    def receive(event: Event) -> None:
        if event.stage == "load" or (event.kind in ("warning", "hint") and event.stage != "answer"):
            line(event)

    return receive
