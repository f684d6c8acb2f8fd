"""`fbrag explain`: every chunk's scores for a question, and why it was selected or not. Needs no large model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.opening import (
    Models,
    collect_documents,
    find_models,
    method_settings,
    open_cache,
    open_collection,
    peak_memory_mb,
)
from fbrag_cli.cli.options import (
    CacheOptions,
    DocumentOptions,
    ExplainOptions,
    MethodOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    takes,
)
from fbrag_cli.cli.output import open_output, open_page
from fbrag_cli.cli.progress_line import progress_line, stage
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.documents.document import Document
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.methods.registry import find_method
from fbrag_cli.session.placement import check_gpu
from fbrag_cli.session.retrievers import Retrievers
from fbrag_cli.text.printable import one_line
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from fbrag_cli.retrieval import Retriever


@takes(OutputOptions, ExplainOptions, DocumentOptions, MethodOptions, ModelOptions, CacheOptions, RunOptions)
def explain(
    console: Console,
    output: OutputOptions,
    options: ExplainOptions,
    document: DocumentOptions,
    method: MethodOptions,
    model: ModelOptions,
    kept: CacheOptions,
    run: RunOptions,
) -> int:
    """Show every chunk's scores for a question, and why it was selected or not.

    \b
    Examples:
      fbrag explain book.txt "Who sealed the chronometer box?" -n 5
      fbrag explain book.txt "Who sealed the chronometer box?" --find "the lead seal"
      fbrag explain book.txt "Who sealed the chronometer box?" --samples-text
      fbrag explain --text report.pdf
    """
    if run.timeout:
        limit_time(run.timeout, console.cancellation)
    if output.form not in ("text", "json"):
        raise FbragError("usage", f"explain has no format {output.form}", "use --format text or --json")
    with (
        open_output(output.output) as stream,
        open_page(None if options.text else output.html) as page,
        progress_line(console) as progress,
        open_cache(kept, console, private=document.password_file is not None) as cache,
        Retrievers(model, cache, console, progress) as retrievers,
    ):
        if options.text:
            collection = collect_documents(document.arguments, document, method.chunk_words, cache, console, progress)
            _print_documents(stream, collection.corpus.documents)
            return ExitCode.DONE
        collection, question = open_collection(document, method.chunk_words, cache, console, progress)
        corpus = collection.corpus
        retriever = retrievers.of_collection(collection, method.retriever)
        if options.chunk and options.chunk > len(corpus.chunks):
            raise FbragError("usage", f"--chunk {options.chunk}: there are {len(corpus.chunks)} chunks", "count from 1")
        settings = method_settings(method, on_gpu=check_gpu(model, console))
        pair = find_models(model, console, need_large=options.prompt)
        with Models(pair, model, console) as models:
            with stage(progress, "load"):
                small = models.remembering(cache)
            trace = find_method(settings.name).select(question, corpus, retriever, small, settings, progress)
            for warning in trace.warnings:
                console.warn(warning)
            trace = replace(trace, warnings=(*collection.warnings, *trace.warnings), cached=(*collection.cached, *trace.cached))
            found = _print_explanation(stream, trace, output.form, options, models, retriever)
            page(trace)
            device = models.device
    from fbrag_cli.render.answer_text import summary

    console.note(summary(trace, device))
    if not found:
        console.warn(f"no chunk holds {options.find!r}")
    return ExitCode.DONE if found else ExitCode.NEGATIVE


def _print_documents(stream: TextIO, documents: Sequence[Document]) -> None:
    from fbrag_cli.render.explain_text import numbered

    for document in documents:
        if len(documents) > 1:
            stream.write(f"=== {one_line(document.name)}\n")
        stream.writelines(f"{line}\n" for line in numbered(document))


def _print_explanation(
    stream: TextIO, trace: Trace, form: str, options: ExplainOptions, models: Models, retriever: Retriever
) -> bool:
    """Whether there was anything to print: False where --find finds nothing."""
    if form == "json":
        from fbrag_cli.render import as_json

        stream.write(as_json.dumps(as_json.explanation(trace, memory_mb=peak_memory_mb())) + "\n")
        return True
    lines = list(_explanation(stream, trace, options, models, retriever))
    stream.writelines(f"{line}\n" for line in lines)
    return bool(lines)


def _explanation(stream: TextIO, trace: Trace, options: ExplainOptions, models: Models, retriever: Retriever) -> Iterator[str]:
    from fbrag_cli.methods.answering import texts
    from fbrag_cli.methods.prompts import answer_turns, forward_turns
    from fbrag_cli.render import explain_text

    if options.find is not None:
        yield from explain_text.found(trace, options.find)
    elif options.chunk is not None:
        yield from explain_text.one_chunk(trace, options.chunk - 1, getattr(retriever, "term_scores", None))
    elif options.prompt:
        templates = trace.method.templates
        turns = forward_turns(texts(trace, trace.recalled), trace.question, templates)
        yield from explain_text.prompt(models.small.written(turns), "small model")
        turns = answer_turns(texts(trace, trace.selected), trace.question, templates=templates)
        yield from explain_text.prompt(models.large.written(turns), "large model")
    else:
        limit = None if options.all else options.limit
        by_position = options.sort == "position"
        yield from explain_text.table(trace, limit=limit, by_position=by_position, count_tokens=models.small.count_tokens)
        if options.samples_text:
            yield ""
            yield from explain_text.samples(trace)
        if options.map or (options.map is None and stream.isatty()):
            yield ""
            yield from explain_text.heat(trace, max(20, min(100, shutil.get_terminal_size().columns - 4)))
