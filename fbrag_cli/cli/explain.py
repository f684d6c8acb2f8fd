"""`fbrag explain`: every chunk's scores for a question, and why it was selected or not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal, TextIO

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import ExplainOptions, OutputOptions
from fbrag_cli.cli.question import QuestionOptions, open_question, print_plan, read_question
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.limits import peak_memory_mb
from fbrag_cli.session.session import Session
from fbrag_cli.text.printable import dumps, plural
from fbrag_cli.text.table import columns_of
from fbrag_cli.trace import Trace


class ExplainOutput(OutputOptions):
    group = "Output"

    format: Literal["text", "json"] = option("text", "text or json", flags=("-f", "--format"), ignored=("jsonl", "md"))


class ExplainCommand(QuestionOptions):
    command = "explain"

    output: ExplainOutput
    explain: ExplainOptions


@command(ExplainCommand)
def explain(console: Console, options: ExplainCommand) -> int:
    """Show which chunks were selected for a question, and why.

    \b
    Examples:
      fbrag explain book.txt "Who sealed the chronometer box?" -n 5
      fbrag explain book.txt "Who sealed the chronometer box?" --find "the lead seal"
      fbrag explain book.txt "Who sealed the chronometer box?" --show-samples
    """
    shown = options.explain
    for name, asked in (("--show-prompt", shown.show_prompt), ("--chunk", shown.chunk is not None)):
        if asked and options.output.form == "json":
            raise FbragError("usage", f"{name} is text, not JSON", "leave out --json (or add --format text)")
    with open_question(options, console) as (session, stream, page, _):
        query = read_question(options, session, console, answering=shown.show_prompt or options.run.dry_run)
        n_chunks = len(query.corpus.chunks)
        if shown.chunk and shown.chunk > n_chunks:
            raise FbragError("usage", f"--chunk {shown.chunk}: the text has {plural(n_chunks, 'chunk')}", "count from 1")
        if options.run.dry_run:
            print_plan(query, session, options, stream, console)
            return ExitCode.DONE
        trace = session.retrieve(query, answering=shown.show_prompt)
        is_found = _print_explanation(stream, trace, session, options, console)
        page(trace)
        device, details = session.device, session.device_details
    from fbrag_cli.render.text import last_line, summary

    console.info(summary(trace, details), level=1, dim=True)
    console.info(last_line(trace, device), dim=True)
    if not is_found:
        console.warning(f"no chunk contains {shown.find!r}")
    return ExitCode.DONE if is_found or options.output.exit_zero else ExitCode.NEGATIVE


def _print_explanation(stream: TextIO, trace: Trace, session: Session, options: ExplainCommand, console: Console) -> bool:
    """Print the explanation. Return False where --find finds nothing."""
    from fbrag_cli.render import as_json, explain_text
    from fbrag_cli.session.pictures import sentence_boxes

    shown = options.explain
    holding = None if shown.find is None else explain_text.holders(trace, shown.find)
    if options.output.form == "json":
        boxes = sentence_boxes(trace)
        stream.write(dumps(as_json.explanation(trace, memory_mb=peak_memory_mb(), found=holding, boxes=boxes)) + "\n")
    else:
        columns, colored = columns_of(stream), console.colored(stream)
        if holding is None:
            lines = _explanation(trace, session, shown, columns, colored=colored)
        else:
            lines = explain_text.found(trace, holding, columns)
        stream.writelines([f"{line}\n" for line in lines])  # all of them, or none where one fails
    return holding is None or bool(holding)


def _explanation(trace: Trace, session: Session, options: ExplainOptions, columns: int | None, *, colored: bool) -> Iterator[str]:
    """Yield the lines of the explanation. columns: of the terminal; None off one."""
    from fbrag_cli.render import explain_text
    from fbrag_cli.render.passages import in_part
    from fbrag_cli.retrieval.bm25 import BM25

    if options.chunk is not None:
        retriever = session.retriever(trace.query.collection, trace.retriever)
        matches = retriever.matches if isinstance(retriever, BM25) else None
        yield from explain_text.one_chunk(trace, options.chunk - 1, matches, columns)
    elif options.show_prompt:
        for title, written in session.prompts(trace):
            yield from explain_text.prompt(written, title, columns)
    else:
        yield from explain_text.table(
            trace,
            limit=None if options.all else options.rows,
            by_position=options.sort == "position",
            count_tokens=partial(session.count_tokens, query=trace.query) if trace.forward else None,
            columns=columns,
            colored=colored,
        )
        yield from explain_text.own_lines(trace, columns)
        if in_part(trace) and not trace.tables:
            yield ""
            yield from explain_text.excerpts(trace, columns)
        if options.show_samples:
            yield ""
            yield from (
                explain_text.samples(trace, columns, colored=colored) if trace.samples else ["no forward samples were drawn"]
            )
