"""`fbrag batch`: answers many questions about many documents, one row each. Runs resume."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from fbrag_cli.batch import row as sheet
from fbrag_cli.batch import run
from fbrag_cli.batch.jobs import Job, by_document, every, read_jobs, read_questions, shard
from fbrag_cli.batch.run import BatchSettings, Earlier, earlier
from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import ProgressLine, progress_line
from fbrag_cli.cli.method_options import MethodOptions
from fbrag_cli.cli.options import BatchOptions, Options, PasswordOptions, RunOptions, check_outputs, files_of
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import Terminated, limit_time
from fbrag_cli.cli.streams import check_output, is_special, open_output, open_stdin, read_password
from fbrag_cli.cli.usage import check_stdin, is_question
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.generation.server.address import is_server
from fbrag_cli.indexing.walk import find_files
from fbrag_cli.progress import Event, Listener, of_the_run
from fbrag_cli.render.matrix import Matrix, page
from fbrag_cli.session.forecast import forecast
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.storage.rows import HINT_OTHER_FILE, Row, RowFile, open_rows, parsed
from fbrag_cli.text.printable import dumps, minutes, plural

if TYPE_CHECKING:
    from fbrag_cli.batch.on_ray import Workers


_TRIED = 5  # documents that a dry run reads, to reckon the time


class BatchCommand(Options):
    batch: BatchOptions
    document: PasswordOptions
    reading: DocumentSettings
    method: MethodOptions
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@command(BatchCommand)
def batch(console: Console, command: BatchCommand) -> int:
    """Answer many questions about many documents.

    \b
    Examples:
      fbrag batch contracts/ -Q questions.txt -o answers.jsonl
      fbrag batch contracts/ -Q questions.txt -o answers.csv --html answers.html
      fbrag batch contracts/ -Q questions.csv -o answers.csv --wide values.csv     (columns: question, name, type)
      fbrag batch minutes/ --merge -Q questions.txt | jq -r .answer
    \f
    Rerun the same command to resume an interrupted run. --html and --wide always contain all rows. Exit code 1: some rows failed.
    A document that cannot be read has one row with an error, without a question.

    A questions file may have the columns name and type: text, number, date, yes-no, or choices such as low;high. The value of an
    answer is then in the column value, and in a column of that name in --wide. It is empty if the answer has two values or a
    condition, or cannot be read for certain.

    With --engine ray, rows arrive document by document, as each is done. All nodes need fbrag and Ray, and the documents at the
    same paths; each downloads missing models. A worker gets a GPU if there is one, else --threads cores.

    Columns of CSV: id, document, question, name and value (if questions have types), status (answered, not_found, error),
    answer, location and quote of the sentence that shows it, unsupported_answer, confidence (0 to 1), low_confidence, uncited,
    missing_terms, sources ("book.txt:3-9; report.pdf p. 12"), answers (gold ones, JSON), support, agreement, seconds, error.
    answers.csv is made when the run ends or stops, from the rows in answers.jsonl next to it, which the next run resumes.
    Changes to the CSV are overwritten.
    """
    limit = limit_time(command.run.time_limit, console.cancellation)
    options, at_once = command.batch, command.batch.at_once
    if options.merge:
        command.reading = _without_own(options, command.reading)
    jobs = _jobs(command, console)
    if options.dry_run:
        return _plan(command, jobs, console)
    cluster = _cluster(command)
    with (
        progress_line(console) as line,
        open_rows_to(options.output, sheet.columns(jobs), resume=options.resume) as output,
        cluster as workers,
        open_session(
            command.models,
            command.cache,
            console,
            of_the_run(line, but="answer"),
            private=command.document.password_file is not None,
        ) as session,
        open_views(options) as views,
        limit,
    ):
        settings = _settings(command, session, console, workers, at_once)
        is_local = workers is None and not any(map(is_server, session.names()))
        if is_local and (at_once or 1) > 1 and not session.on_gpu:
            console.hint(f"on a CPU, --jobs {at_once} is slower than --jobs 1")
        before = _before(output, jobs, settings, options)
        todo = [job for job in jobs if not before.has(job)]
        keys = dict.fromkeys(key for job in jobs for key in (job.key, job.unreadable.key))
        tally = Tally(line, [before.statuses[key] for key in keys if key in before.statuses], len(jobs), todo)
        listener = Listener(progress=tally.receive, cancellation=console.cancellation)
        views.begin(jobs, output.rows)
        rows = _engine(command, session, settings, workers, console)
        with tally.told_of_a_stop(console, options.output):
            for row in rows(todo, listener=listener, before=before):
                with console.cancellation.native():  # a row is written, shown and counted, or none of the three
                    output.write(row)
                    views.add(row)
                    n_errors = tally.add(row)
                if n_errors >= options.most_errors:
                    tally.warn_of_errors(console, n_errors)
                    break
    return tally.report(console, options.output)


def _without_own(options: BatchOptions, reading: DocumentSettings) -> DocumentSettings:
    """Return settings that exclude the run's own files from the folders that contain them.

    Patterns apply to all folders, so a file is not excluded if another folder has one of the same name.
    """
    folders, patterns = list(filter(os.path.isdir, options.documents)), list[str]()
    for path in map(os.path.realpath, filter(None, (options.questions, *options.own_files))):
        for folder in folders:
            home = os.path.join(os.path.realpath(folder), "")
            name = path.removeprefix(home)
            others = (os.path.join(each, name) for each in folders if each != folder)
            if name != path and not any(map(os.path.lexists, others)):
                patterns.append("/" + re.sub(r"([\\*?\[\] ])", r"\\\1", name.replace(os.sep, "/")))
    return replace(reading, exclude=[*reading.exclude, *patterns])


def _jobs(command: BatchCommand, console: Console) -> list[Job]:
    """Return the rows to answer. Raises FbragError `usage`, and the errors of `read_jobs` and `find_files`."""
    options = command.batch
    paths = list(options.documents)
    check_stdin([options.questions, options.pairs, command.document.password_file, *paths])
    if bool(options.pairs) == bool(options.questions):
        hint = "fbrag batch DOC... -Q questions.txt, or fbrag batch --pairs pairs.csv"
        if any(is_question(each) and not os.path.exists(each) for each in paths):
            hint = f"for one question: {shlex.join(['fbrag', 'ask', *paths])}"
        raise FbragError("usage", "use either --questions FILE or --pairs FILE", hint)
    stdin = open_stdin(console) if "-" in (options.questions, options.pairs) else None

    def progress(event: Event) -> None:
        console.warning(event.text)

    if options.pairs:
        if paths or options.merge:
            raise FbragError("usage", "--pairs cannot be combined with DOC or --merge", "fbrag batch --pairs pairs.csv")
        jobs = read_jobs(options.pairs, stdin, progress)
    elif not paths:
        raise FbragError("usage", "no documents given", "fbrag batch DOC... -Q questions.txt")
    else:
        questions = read_questions(options.questions or "", stdin, progress)
        if not options.merge:
            findings = find_files(paths, *command.reading.chosen)
            for warning in findings.warnings:
                console.warning(warning)
            own = set(map(os.path.realpath, filter(None, (options.questions, *options.own_files))))  # may be in the folders
            typed = set(paths)
            files = [each.path for each in findings.files if each.path in typed or os.path.realpath(each.path) not in own]
            jobs = every([(path,) for path in files], questions)
        else:
            jobs = every([tuple(paths)], questions)
    documents = dict.fromkeys(path for job in jobs for path in job.documents)
    data = [options.questions, options.pairs, command.document.password_file, command.models.key_file]
    rows = [("-o", str(sheet.rows_of(options.output)))] if sheet.is_sheet(options.output) else []
    outputs = [("-o", options.output), *rows, ("--html", options.html), ("--wide", options.wide)]
    check_outputs(outputs, [*data, *files_of(documents, command.reading)])
    jobs = by_document(jobs)
    jobs = shard(jobs, options.shard) if options.shard else jobs
    return jobs[: options.n_rows]


def _plan(command: BatchCommand, jobs: Sequence[Job], console: Console) -> int:
    """Print how many rows a run would write, and how long that takes by its earlier rows, or else by the last question on this
    machine. Returns exit code 1 if one of the documents that were tried cannot be read."""
    rows = list[dict[str, Any]]()
    with suppress(OSError, ValueError):  # other faults of an output are told by a run
        rows = parsed(sheet.rows_of(command.batch.output).read_bytes(), sheet.SCHEMA) if command.batch.resume else []
    done = {(row.get("document"), row.get("id") or "") for row in rows}
    todo = [job for job in jobs if done.isdisjoint((job.key, job.unreadable.key))]
    seconds = [float(row["seconds"]) for row in rows if row.get("seconds")]
    documents, unreadable = list(dict.fromkeys(job.documents for job in todo)), False
    with progress_line(console) as line, open_session(command.models, command.cache, console, line) as session:
        method = command.method.chosen(on_gpu=session.on_gpu)
        password = read_password(command.document.password_file, console)
        for paths in () if seconds or "-" in command.batch.documents else documents[:: len(documents) // _TRIED + 1]:
            try:
                read = session.collect(paths, command.reading, command.method.words, password=password)
            except FbragError as error:
                console.warning(error.message)
                unreadable = True
            else:
                seconds.append(forecast(session, method, read.corpus).whole())
    known = [each for each in seconds if each]
    time = (
        f"about {minutes(sum(known) / len(known) * len(todo))}"
        if known
        else "time unknown until a question was asked (fbrag ask)"
    )
    size = f"{plural(len(documents), 'document')}, {plural(len(todo), 'row')}"
    print(f"{size}{f' (and {len(jobs) - len(todo):,} written before)' if len(todo) < len(jobs) else ''}: {time}")
    return ExitCode.NEGATIVE if unreadable else ExitCode.DONE


def _settings(
    command: BatchCommand, session: Session, console: Console, workers: Workers | None, at_once: int | None
) -> BatchSettings:
    method = command.method.chosen(on_gpu=workers.gpus > 0 if workers else session.on_gpu)
    session.prepare(method, retriever=command.method.retriever)
    return BatchSettings(
        method=method,
        retriever=command.method.retriever,
        reading=command.reading,
        chunk_words=command.method.words,
        at_once=at_once,
        password=read_password(command.document.password_file, console),
        models=session.identities(method),
    )


def _before(output: RowFile | _Stream, jobs: Sequence[Job], settings: BatchSettings, options: BatchOptions) -> Earlier:
    """Return the rows of an earlier run in the output, without the failed ones if these are retried. Raises FbragError
    `usage`."""
    name = str(sheet.rows_of(options.output))
    before = earlier(output.rows, settings.described(), name)
    before.check_jobs(jobs)
    if not options.retry_errors:
        return before
    keys = {key for job in jobs for key in (job.key, job.unreadable.key)}
    output.keep(lambda row: row["status"] != "error" or (row["document"], row["id"] or "") not in keys)
    return earlier(output.rows, settings.described(), name)


def _cluster(command: BatchCommand) -> AbstractContextManager[Workers | None]:
    """Return the Ray cluster to run on, None for this process. Raises FbragError `usage`, and the errors of
    `on_ray.connected`."""
    options = command.batch
    if options.engine == "local":
        if options.address:
            raise FbragError("usage", "--address only works with --engine ray", "add --engine ray")
        return nullcontext()
    if "-" in options.documents or command.document.password_file:
        raise FbragError("usage", "--engine ray cannot use stdin or passwords", "drop --engine ray, or name files")
    from fbrag_cli.batch.on_ray import connected

    return connected(options.address, command.models)


def _engine(
    command: BatchCommand, session: Session, settings: BatchSettings, workers: Workers | None, console: Console
) -> Callable[..., Iterator[dict[str, Any]]]:
    """Return the function that turns jobs into rows, in this process or on the workers of a cluster."""
    if workers is None:
        stdin = open_stdin(console) if "-" in command.batch.documents else None
        return partial(run.rows, session=session, settings=settings, stdin=stdin)
    from fbrag_cli.batch import on_ray

    session.name_servers(settings.method)
    setup = on_ray.Setup(
        settings=settings, models=session.models.settings, cache=command.cache, offline=console.offline, folder=os.getcwd()
    )
    return partial(on_ray.rows, workers=workers, setup=setup)


class _Stream:
    """stdout, a pipe or a device as an output, which has no earlier rows. line: returns the line for a row."""

    def __init__(self, stream: TextIO, line: Callable[[Row], str], head: str) -> None:
        self.rows: list[dict[str, Any]] = []
        self._stream, self._line = stream, line
        self._put(head)

    def write(self, row: Row) -> None:
        self._put(self._line(row))

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Do nothing: a stream has no rows to drop."""

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@contextmanager
def open_rows_to(name: str, columns: Sequence[str], *, resume: bool) -> Iterator[RowFile | _Stream]:
    """Open a row file or a stream: stdout ("-"), a pipe or a device. The rows of a CSV are in the file next to it. columns: of a
    CSV that is a stream."""
    if name == "-" or is_special(name):
        with open_output(name) as stream:
            if sheet.is_sheet(name):
                yield _Stream(stream, partial(sheet.row_line, columns=columns), sheet.line(columns))
            else:
                yield _Stream(stream, lambda row: dumps(row) + "\n", "")
        return
    if sheet.is_sheet(name):
        sheet.check_sheet(name, restart=not resume)
    with open_rows(sheet.rows_of(name), sheet.SCHEMA, restart=not resume) as rows:
        yield rows


class Tally:
    """Counts rows by status, and shows the counts. before: the statuses of rows from an earlier run. total: number of jobs.
    todo: the jobs of this run."""

    def __init__(self, line: ProgressLine, before: Sequence[str], total: int, todo: Sequence[Job]) -> None:
        self._line, self._total, self._n_before = line, total, len(before)
        self._counts, self._n_errors_before = Counter(before), before.count("error")
        self._open, self._n_failed = Counter(job.document for job in todo), 0
        line(Event("batch", "start"))
        self._show()

    def receive(self, event: Event) -> None:
        """Show model loading, then the count again."""
        of_the_run(self._line, but="answer")(event)
        if (event.stage, event.kind) == ("load", "done"):
            self._show()

    def add(self, row: Row) -> int:
        """Count a row. Return how many rows of this run have failed."""
        of_all = row["id"] is None  # the document cannot be read
        self._open[row["document"]] -= self._open[row["document"]] if of_all else 1
        self._counts[row["status"]] += 1
        self._n_failed += row["status"] == "error" and not of_all
        self._show()
        return self._counts["error"] - self._n_errors_before

    def report(self, console: Console, output: str) -> int:
        """Print the number of rows by status, and return the exit code."""
        self._line(Event("batch", "done"))
        counts, n_errors = self._counts, self._counts["error"]
        parts = [f"{counts['answered']:,} answered", f"{counts['not_found']:,} not found", plural(n_errors, "error")]
        before = f" ({self._n_before:,} from an earlier run)" if self._n_before else ""
        name = "" if output == "-" else f" → {output}"
        console.info(f"{plural(sum(counts.values()), 'row')}{before}: {', '.join(parts)}{name}")
        if self._n_failed and name:
            console.hint("add --retry-errors to rerun the failed rows")
        return ExitCode.NEGATIVE if n_errors else ExitCode.DONE

    def warn_of_errors(self, console: Console, n_errors: int) -> None:
        """Say that the run stops because of its errors, and how many of its rows are missing."""
        self._line(Event("batch", "done"))
        console.warning(f"stopped after {plural(n_errors, 'error')}; {plural(self._open.total(), 'row')} not asked")

    @contextmanager
    def told_of_a_stop(self, console: Console, output: str) -> Iterator[None]:
        """If the block is stopped, print how many rows there are and how to resume."""
        try:
            yield
        except (FbragError, KeyboardInterrupt, Terminated):
            self._line(Event("batch", "done"))
            rest = "" if output == "-" else f" to {output}. Run the same command to resume"
            console.info(f"stopped: {sum(self._counts.values()):,} of {plural(self._total, 'row')} written{rest}")
            raise

    def _show(self) -> None:
        errors = f", {plural(self._counts['error'], 'error')}" if self._counts["error"] else ""
        self._line(Event("batch", "progress", self._total - self._open.total(), self._total, f"rows{errors}"))


class Views:
    """Collects rows for --html and --wide. matrix: None if neither is given; then no row is kept."""

    def __init__(self, matrix: Matrix | None) -> None:
        self._matrix = matrix
        self.n_rows, self.columns = 0, list[str]()

    def begin(self, jobs: Sequence[Job], rows: Sequence[Row]) -> None:
        """Add the rows of an earlier run. jobs: the jobs of this run, whose order counts. Raises FbragError `usage`."""
        self.columns = sheet.columns(jobs, rows)
        if self._matrix is not None:
            for job in jobs:
                self._matrix.name(sheet.cell(job.document), sheet.cell(job.question), sheet.cell(job.name))
        try:
            for row in rows:
                sheet.row_line(row)  # fails now on an incomplete row, not at the end of the run
                self.add(row)
        except (AttributeError, LookupError, TypeError):
            raise FbragError("usage", "the output is damaged: some rows are incomplete", HINT_OTHER_FILE) from None

    def add(self, row: Row) -> None:
        self.n_rows += 1
        if self._matrix is not None:
            cell = sheet.shown(row)
            if row["id"] is None:
                self._matrix.fail(cell)
            else:
                self._matrix.add(cell)


@contextmanager
def open_views(options: BatchOptions) -> Iterator[Views]:
    """Make the CSV of -o, and the files of --html and --wide, when the block ends, even if it is stopped after a row.

    Raises FbragError `output` as `open_output` does, before the block if possible, and `usage` for stdout.
    """
    for option, path in (("--html", options.html), ("--wide", options.wide)):
        if path == "-":
            raise FbragError("usage", f"{option} cannot write to stdout, which has the rows", f"name a file: {option} FILE")
    made = options.output if sheet.is_sheet(options.output) and not is_special(options.output) else None
    matrix = Matrix() if options.html or options.wide else None
    files = [("-o", made), ("--html", options.html), ("--wide", options.wide)]
    for option, path in files:
        if path:
            check_output(path, option)
    views, stopped = Views(matrix), None
    try:
        yield views
    except (FbragError, KeyboardInterrupt, Terminated) as error:
        if not views.n_rows:
            raise
        stopped = error
    with ExitStack() as stack:
        lines, html, table = (stack.enter_context(open_output(path, option)) if path else None for option, path in files)
        if lines:
            lines.write(sheet.BOM + sheet.line(views.columns))
            if views.n_rows:
                with sheet.rows_of(options.output).open("rb") as rows:
                    lines.writelines(sheet.row_line(json.loads(each), views.columns) for each in rows if each.strip())
        if html and matrix:
            html.write(page(matrix))
        if table and matrix:
            table.write(sheet.wide(matrix))
    if stopped:
        raise stopped
