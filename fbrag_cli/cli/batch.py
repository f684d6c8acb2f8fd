"""`fbrag batch`: many questions on many documents, a row each, resumable."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fbrag_cli.cli.batch_output import Output, Tally, of_the_run, open_rows_to, open_views
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.inputs import check_outputs, files_of
from fbrag_cli.cli.live import progress_line
from fbrag_cli.cli.method_options import MethodKnobs, MethodOptions, chosen_method
from fbrag_cli.cli.options import BatchOptions, PasswordOptions, RunOptions
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.cli.streams import open_stdin, read_password
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Listener
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings

if TYPE_CHECKING:
    from fbrag_cli.batch.jobs import Job
    from fbrag_cli.batch.on_ray import Workers
    from fbrag_cli.batch.resume import Earlier
    from fbrag_cli.batch.run import BatchSettings


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
      fbrag batch contracts/ -Q questions.txt -o answers.csv --html answers.html
      fbrag batch --jobs jobs.csv -o answers.csv --wide matrix.csv
      fbrag batch minutes/ --together -Q questions.txt | jq -r .answer

    A run that was stopped goes on where it was, when it is started again; --html and --wide then hold all rows. Exit code 1: some
    rows have an error.
    With --engine ray, rows come document by document, in the order in which they are ready. All nodes have fbrag and Ray, and see
    the documents by the same paths; each fetches models that it lacks. A worker has a GPU, if there is any, else --threads cores.

    Columns of CSV: id, document, question, status (answered, not_found, error), answer, place and quote of the sentence that
    shows it, proposed (what was not shown), confidence (0 to 1), unsure, absent, sources ("book.txt:3-9; report.pdf p. 12"),
    answers (of --jobs, JSON), support, agreement, seconds, error. answers.csv is made at the end, and at a stop, from the rows in
    answers.jsonl beside it, from which the next run goes on: it replaces what was changed in the CSV.
    """
    if command.run.timeout:
        limit_time(command.run.timeout, console.cancellation)
    from fbrag_cli.generation.server.address import is_server

    options, at_once = command.batch, command.batch.at_once
    if options.together:
        command = replace(command, reading=_without_own(options, command.reading))
    jobs, cluster = _jobs(command, console), _cluster(command)
    with (
        progress_line(console) as line,
        open_rows_to(options.output, resume=options.resume) as output,
        cluster as workers,
        open_session(
            command.models,
            command.cache,
            console,
            of_the_run(line),
            private=command.document.password_file is not None,
        ) as session,
        open_views(options) as views,
    ):
        settings = _settings(command, session, console, workers, at_once)
        is_local = workers is None and not any(map(is_server, session.names()))
        if is_local and (at_once or 1) > 1 and not session.on_gpu:
            console.hint(f"--parallel {at_once} takes longer on a CPU than one question after the other")
        before = _before(output, jobs, settings, options)
        tally = Tally(line, [before.statuses[job.key] for job in jobs if job.key in before.statuses], len(jobs))
        listener = Listener(progress=tally.receive, cancellation=console.cancellation)
        todo = [job for job in jobs if job.key not in before.statuses]
        views.begin(jobs, output.rows)
        rows = _engine(command, session, settings, workers, console)
        with tally.told_of_a_stop(console, options.output):
            for row in rows(todo, listener=listener, before=before):
                with console.cancellation.native():  # a row is written, shown and counted, or none of it
                    output.write(row)
                    views.add(row)
                    n_errors = tally.add(row["status"])
                if n_errors >= options.most_errors:
                    break
    return tally.report(console, options.output)


def _without_own(options: BatchOptions, reading: DocumentSettings) -> DocumentSettings:
    """Return settings that leave the files of the run out of the folder that they lie in.

    Patterns hold for all folders: a file stays where another folder has one of its name, which would be left out too.
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
    """Return the rows that are asked for. Raises FbragError `usage`, and as `read_jobs` and `find_files`."""
    from fbrag_cli.batch import jobs as reading
    from fbrag_cli.batch.sheet import is_sheet, rows_of
    from fbrag_cli.indexing.files import find_files

    options = command.batch
    paths, named = list(options.documents), [options.questions, options.jobs, command.document.password_file, *options.documents]
    if named.count("-") > 1:
        raise FbragError("usage", "'-' stands for stdin, which can be read only once", "name a file in place of one of them")
    if bool(options.jobs) == bool(options.questions):
        hint = "fbrag batch DOC... -Q questions.txt, or fbrag batch --jobs jobs.csv"
        raise FbragError("usage", "either --questions FILE or --jobs FILE is needed", hint)
    stdin = open_stdin(console) if "-" in (options.questions, options.jobs) else None

    def progress(event: Event) -> None:
        console.warn(event.text)

    if options.jobs:
        if paths or options.together:
            raise FbragError("usage", "--jobs names the documents itself", "leave out DOC and --together")
        jobs = reading.read_jobs(options.jobs, stdin, progress)
    elif not paths:
        raise FbragError("usage", "no document is named", "fbrag batch DOC... -Q questions.txt")
    else:
        questions = reading.read_questions(options.questions or "", stdin, progress)
        if not options.together:
            findings = find_files(paths, command.reading.include, command.reading.exclude)
            for warning in findings.warnings:
                console.warn(warning)
            own = set(map(os.path.realpath, filter(None, (options.questions, *options.own_files))))  # in a folder of documents
            files = [each.path for each in findings.files if each.path in paths or os.path.realpath(each.path) not in own]
            jobs = reading.every([(path,) for path in files], questions)
        else:
            jobs = reading.every([tuple(paths)], questions)
    documents = dict.fromkeys(path for job in jobs for path in job.documents)
    data = [each for each in (options.questions, options.jobs) if each]
    outputs = {"-o": options.output, "--html": options.html, "--wide": options.wide}
    read = [*data, *files_of(documents, command.reading)]
    check_outputs(outputs, read)
    if is_sheet(options.output):
        check_outputs({"-o": str(rows_of(options.output))}, read)
    jobs = reading.by_document(jobs)
    jobs = reading.shard(jobs, options.shard) if options.shard else jobs
    return jobs[: options.n_rows]


def _settings(
    command: BatchCommand, session: Session, console: Console, workers: Workers | None, at_once: int | None
) -> BatchSettings:
    from fbrag_cli.batch.run import BatchSettings

    method = chosen_method(command.method, command.knobs, on_gpu=workers.gpus > 0 if workers else session.on_gpu)
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


def _before(output: Output, jobs: Sequence[Job], settings: BatchSettings, options: BatchOptions) -> Earlier:
    """Return what the output holds of an earlier run, less the errors to be retried. Raises FbragError `usage`."""
    from fbrag_cli.batch.resume import earlier
    from fbrag_cli.batch.sheet import rows_of

    name = str(rows_of(options.output))
    before = earlier(output.rows, settings.described(), name)
    before.check_jobs(jobs)
    if not options.retry_errors:
        return before
    keys = {job.key for job in jobs}
    output.keep(lambda row: row["status"] != "error" or (row["document"], row["id"]) not in keys)
    return earlier(output.rows, settings.described(), name)


def _cluster(command: BatchCommand) -> AbstractContextManager[Workers | None]:
    """Return the Ray cluster that answers, None for this process. Raises FbragError `usage`, and as `on_ray.connected`."""
    options = command.batch
    if options.engine == "local":
        if options.address:
            raise FbragError("usage", "--address names a Ray cluster, and this process answers", "add --engine ray")
        return nullcontext()
    if "-" in options.documents or command.document.password_file:
        raise FbragError("usage", "stdin and passwords stay in this process", "leave out --engine ray, or name files")
    from fbrag_cli.batch.on_ray import connected

    return connected(options.address, command.models)


def _engine(
    command: BatchCommand, session: Session, settings: BatchSettings, workers: Workers | None, console: Console
) -> Callable[..., Iterator[dict[str, Any]]]:
    """Return what makes rows of jobs, given a listener and the rows before: this process, or the workers of a cluster."""
    if workers is None:
        from fbrag_cli.batch import run

        stdin = open_stdin(console) if "-" in command.batch.documents else None
        return partial(run.rows, session=session, settings=settings, stdin=stdin)
    from fbrag_cli.batch import on_ray

    session.name_servers(settings.method)
    setup = on_ray.Setup(
        settings=settings, models=session.models.settings, cache=command.cache, offline=console.offline, folder=os.getcwd()
    )
    return partial(on_ray.rows, workers=workers, setup=setup)
