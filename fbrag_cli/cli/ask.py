"""`fbrag ask`: one question, answered from one or several documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.opening import Models, find_models, method_settings, open_cache, open_collection, peak_memory_mb
from fbrag_cli.cli.options import (
    AnswerOptions,
    CacheOptions,
    DocumentOptions,
    MethodOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    takes,
)
from fbrag_cli.cli.output import open_output, open_page
from fbrag_cli.cli.progress_line import progress_line, stage
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.methods.registry import LOOK_FORWARD, find_method
from fbrag_cli.progress import Event, Progress
from fbrag_cli.session.placement import check_gpu
from fbrag_cli.session.retrievers import Retrievers
from fbrag_cli.trace import MethodSettings, Stage, Trace

if TYPE_CHECKING:
    from fbrag_cli.retrieval import Retriever
    from fbrag_cli.storage.cache import Cache


@takes(OutputOptions, AnswerOptions, DocumentOptions, MethodOptions, ModelOptions, CacheOptions, RunOptions)
def ask(
    console: Console,
    output: OutputOptions,
    answer: AnswerOptions,
    document: DocumentOptions,
    method: MethodOptions,
    model: ModelOptions,
    kept: CacheOptions,
    run: RunOptions,
) -> int:
    """Answer a question from a document, and show the chunks that the answer rests on.

    \b
    Examples:
      fbrag ask book.txt "Who sealed the chronometer box?"
      fbrag ask report.pdf "What was revenue in 2021?" --pages 10-40 --json
      pdftotext big.pdf - | fbrag ask - "Which clause covers termination?"
      who=$(fbrag ask -qa book.txt "Who sealed the chronometer box?")
    """
    if run.timeout:
        limit_time(run.timeout, console.cancellation)
    with (
        open_output(output.output) as stream,
        open_page(None if answer.dry_run else output.html) as page,
        progress_line(console) as progress,
        open_cache(kept, console, private=document.password_file is not None) as cache,
        Retrievers(model, cache, console, progress) as retrievers,
    ):
        started = perf_counter()
        collection, question = open_collection(document, method.chunk_words, cache, console, progress)
        read = Stage("read", perf_counter() - started)
        settings = _settings(method, answer, on_gpu=check_gpu(model, console))
        if answer.dry_run:
            stream.write(_plan(collection.corpus, settings) + "\n")
            return ExitCode.DONE
        retriever = retrievers.of_collection(collection, method.retriever)
        pair = find_models(model, console, need_small=settings.name in LOOK_FORWARD, need_large=True)
        writer = _Writer(stream, output.form, answer, console, progress)
        with Models(pair, model, console) as models:
            trace = _answer(question, collection.corpus, retriever, models, cache, settings, writer)
            for warning in trace.warnings:
                console.warn(warning)
            trace = replace(
                trace,
                stages=(read, Stage("load", models.load_seconds), *trace.stages),
                warnings=(*collection.warnings, *trace.warnings),
                cached=(*collection.cached, *trace.cached),
            )
            writer.finish(trace)
            page(trace)
            device = models.device
    if trace.truncated:
        console.warn(f"the answer was cut at {settings.max_tokens} tokens (--max-tokens)")
    from fbrag_cli.render.answer_text import summary

    console.note(summary(trace, device))
    return ExitCode.DONE if trace.status == "answered" or answer.exit_zero else ExitCode.NEGATIVE


def _answer(
    question: str,
    corpus: Corpus,
    retriever: Retriever,
    models: Models,
    cache: Cache,
    settings: MethodSettings,
    writer: _Writer,
) -> Trace:
    method = find_method(settings.name)
    small = None
    if method.looks_forward:
        with stage(writer.event, "load"):
            small = models.remembering(cache)
        models.begin_large()
    trace = method.select(question, corpus, retriever, small, settings, writer.event)
    writer.selected(trace)
    with stage(writer.event, "load"):
        large = models.large
    return method.answer(trace, large, writer.event)


def _settings(method: MethodOptions, answer: AnswerOptions, *, on_gpu: bool) -> MethodSettings:
    if method.prompts and answer.instructions:
        raise FbragError("usage", "--prompts and --instructions both say how to answer", "leave one of them out")
    settings = method_settings(method, on_gpu=on_gpu)
    return replace(
        settings,
        instructions=_instructions(answer.instructions),
        max_tokens=answer.max_tokens or settings.max_tokens,
        answer_anyway=answer.answer_anyway,
    )


def _instructions(value: str | None) -> str | None:
    if value is None or not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FbragError("usage", f"the instructions in {value[1:]} cannot be read: {error}", "name a UTF-8 text file") from None


def _plan(corpus: Corpus, settings: MethodSettings) -> str:
    n_documents, n_chunks = len(corpus.documents), len(corpus.chunks)
    steps = [f"{min(settings.select, n_chunks)} to select"]
    if settings.name in LOOK_FORWARD:
        steps = [f"{min(settings.recall, n_chunks)} to recall", f"{settings.samples} forward samples", *steps]
    if settings.name == "long-context":
        steps = ["all to read"]
    documents = f"{n_documents} document{'s' if n_documents > 1 else ''}"
    return f"{documents}, {corpus.n_words:,} words, {n_chunks} chunks: {', '.join(steps)}"


class _Writer:
    """Puts the answer on the stream in the asked form, as it comes where the form allows it."""

    def __init__(self, stream: TextIO, form: str, options: AnswerOptions, console: Console, progress: Progress) -> None:
        self._stream, self._form, self._options, self._console, self._progress = stream, form, options, console, progress
        self._written = False  # whether any of the answer is

    def event(self, event: Event) -> None:
        """Every event of the run: to stderr, but for the answer's own text, which streams."""
        if event.kind != "text" or not self._streams:
            self._progress(event)
        elif piece := event.text if self._written else event.text.lstrip():
            if not self._written:
                self._progress(Event("answer", "done"))
            self._written = True
            self._put_piece(piece)

    def selected(self, trace: Trace) -> None:
        if self._form == "jsonl":
            from fbrag_cli.render import as_json

            self._put_json({"event": "selected", "sources": as_json.sources(trace)})

    def finish(self, trace: Trace) -> None:
        from fbrag_cli.render import answer_text, as_json

        options, with_sources = self._options, self._options.sources == "selected" and not self._options.answer_only
        if self._form in ("json", "jsonl"):
            told = as_json.answer(trace, memory_mb=peak_memory_mb())
            self._put_json({"event": "done", **told} if self._form == "jsonl" else told)
        elif self._form == "md":
            self._put(answer_text.markdown(trace, context=options.context, full=options.full, with_sources=with_sources) + "\n")
        else:
            self._put("\n" if self._written else answer_text.answer_of(trace) + "\n")
            if with_sources:
                colored = self._console.colored(self._stream)
                self._put("\n" + answer_text.sources(trace, context=options.context, full=options.full, colored=colored) + "\n")

    @property
    def _streams(self) -> bool:
        """Text that may be taken back, because the chunks do not support it, is not shown before that is known."""
        return self._form == "jsonl" or (self._form == "text" and self._options.answer_anyway)

    def _put_piece(self, piece: str) -> None:
        from fbrag_cli.text.printable import printable

        if self._form == "jsonl":
            self._put_json({"event": "token", "text": piece})
        else:
            self._put(printable(piece))

    def _put_json(self, value: dict[str, object]) -> None:
        from fbrag_cli.render.as_json import dumps

        self._put(dumps(value) + "\n")

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
