"""The question of `ask` and `explain`: its options, the session and streams that it needs, its documents and its method."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TextIO

from fbrag_cli.cli.browser import shown_page
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import ProgressLine, progress_line
from fbrag_cli.cli.method_options import MethodOptions
from fbrag_cli.cli.options import DocumentOptions, Options, OutputOptions, QuestionRunOptions, check_outputs, files_of
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.cli.streams import open_output, open_page, open_stdin, read_password
from fbrag_cli.cli.usage import check_stdin, check_words
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.query import LONGEST_QUESTION, Query, checked_question
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.text.printable import dumps, plural
from fbrag_cli.trace import Trace

_WORDS_PER_TOKEN = 0.75  # of English; of other languages less
_MOST_BYTES = 4 * LONGEST_QUESTION + 4  # read of a question on stdin: a longer one is refused


class QuestionOptions(Options):
    """The options that `ask` and `explain` share. command: the name of the command."""

    command = "ask"

    output: OutputOptions
    document: DocumentOptions
    reading: DocumentSettings
    method: MethodOptions
    models: ModelSettings
    cache: CacheSettings
    run: QuestionRunOptions


@contextmanager
def open_question(
    options: QuestionOptions, console: Console
) -> Iterator[tuple[Session, TextIO, Callable[[Trace], None], ProgressLine]]:
    """Open the session and the outputs of a question, and start the time limit.

    Yields the session, the output stream, a function that writes a trace to the page of --html (if requested), and the progress
    line. A dry run writes no page.
    """
    limit = limit_time(options.run.time_limit, console.cancellation)
    with (
        nullcontext() if options.run.dry_run else shown_page(options.output, console) as html,
        open_page(html) as page,  # outermost: the output is kept even if the page fails
        open_output(options.output.output) as stream,
        progress_line(console) as line,
        open_session(options.models, options.cache, console, line, private=options.document.password_file is not None) as session,
        limit,
    ):
        yield session, stream, page, line


def read_question(options: QuestionOptions, session: Session, console: Console, *, answering: bool = True) -> Query:
    """Return the query in the arguments. Reads its documents once the names of the models and the retriever are checked.

    answering: whether the large model is needed. Raises the errors of `Session.check` and `Session.collect`, and FbragError
    `usage`, for example if an output is one of the documents.
    """
    paths, text = _split(options.document, options.command, console)
    method, retriever = options.method.chosen(on_gpu=session.on_gpu), options.method.retriever
    session.check(method, retriever=retriever, answering=answering)
    inputs = (*files_of(paths, options.reading), options.document.password_file, options.models.key_file)
    check_outputs([("-o", options.output.output), ("--html", options.output.html)], inputs)
    password = read_password(options.document.password_file, console)
    stdin = open_stdin(console) if "-" in paths else None
    collection = session.collect(paths, options.reading, options.method.words, password=password, stdin=stdin)
    return Query(text, collection, method, retriever=retriever)


def _split(document: DocumentOptions, command: str, console: Console) -> tuple[list[str], str]:
    """Return the documents and the question, which comes last. "-" is stdin, and may occur once. Raises FbragError `usage`."""
    *paths, question = document.arguments
    check_words(document.arguments, command)
    check_stdin([*document.arguments, document.password_file])
    if question == "-":
        question = open_stdin(console).read(_MOST_BYTES).decode("utf-8", "replace")
    return paths, checked_question(_as_utf8(question))


def _as_utf8(argument: str) -> str:
    """Return an argument as text. In a locale without UTF-8, such as C, Python passes its bytes as surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return os.fsencode(argument).decode("utf-8", "replace")
    return argument


def print_plan(query: Query, session: Session, options: QuestionOptions, stream: TextIO, console: Console) -> None:
    """Print one line for --dry-run: how much would be retrieved and read, or `fbrag.plan/1`. Warn if that may not fit the large
    model's window, as far as the catalog knows it."""
    query = session.resolved(query)
    corpus, method = query.corpus, query.method
    n_documents, n_chunks = len(corpus.documents), len(corpus.chunks)
    steps = method.steps(n_chunks, corpus.chunk_words)
    if options.output.form in ("json", "jsonl"):
        about = {"method": method.name, "retriever": query.retriever, "steps": steps}
        counts = {"documents": n_documents, "words": corpus.n_words, "chunks": n_chunks}
        plan = dumps({"schema": "fbrag.plan/1", "question": query.text, **counts, **about})
    else:
        size = f"{plural(n_documents, 'document')}, {plural(corpus.n_words, 'word')}, {plural(n_chunks, 'chunk')}"
        plan = f"{size}: {', '.join(steps)}"
    stream.write(plan + "\n")
    _, large = session.names(query.models)
    entry = load_catalog().find(os.path.basename(large))
    window = min([limit for limit in (entry and entry.context, options.models.ctx) if limit], default=0)
    n_words = method.n_context_chunks(n_chunks, corpus.chunk_words) * corpus.n_words // n_chunks
    if method.larger_select and 0 < _WORDS_PER_TOKEN * window < n_words:  # a method that reads all cuts it to the window
        what = f"the prompt may be too long for {large}: about {n_words:,} words to read, limit {window:,} tokens"
        console.warning(f"{what}; lower --select")
