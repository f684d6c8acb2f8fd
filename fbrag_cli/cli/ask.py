"""`fbrag ask`: one question, answered from one or several documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fbrag_cli.cli.answer_writer import AnswerWriter
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.forecast import forecast, keep, pace_key
from fbrag_cli.cli.method_options import chosen_method
from fbrag_cli.cli.opening import QuestionOptions, collect, open_question, planned, split_question
from fbrag_cli.cli.options import AnswerOptions
from fbrag_cli.cli.output import print_after_error
from fbrag_cli.cli.preview import Preview
from fbrag_cli.cli.takes import takes
from fbrag_cli.errors import ExitCode
from fbrag_cli.session.session import Choice, Listener


@dataclass(frozen=True, slots=True)
class AskOptions(QuestionOptions):
    answer: AnswerOptions


@takes(AskOptions)
def ask(console: Console, options: AskOptions) -> int:
    """Answer a question from a document, and show the chunks that the answer rests on.

    \b
    Examples:
      fbrag ask book.txt "Who sealed the chronometer box?"
      fbrag ask report.pdf "What was revenue in 2021?" --pages 10-40 --json
      pdftotext big.pdf - | fbrag ask - "Which clause covers termination?"
      who=$(fbrag ask -qa book.txt "Who sealed the chronometer box?")
    """
    with_page = not options.run.dry_run
    with _line_for_failure(options) as line_is_out, open_question(options, console, with_page=with_page) as opened:
        session, stream = opened.session, opened.stream
        paths, question = split_question(options.document, console)
        collection = collect(session, paths, options, console)
        method = chosen_method(options.method, options.knobs, on_gpu=session.on_gpu)
        if options.run.dry_run:
            stream.write(planned(collection.corpus, method) + "\n")
            return ExitCode.DONE
        choice = Choice(retriever=options.method.retriever)
        session.prepare(method, choice)
        line, key = opened.progress, pace_key(options.models, method)
        line.forecast = forecast(method, collection.corpus, session.cache, key)
        line.preview = Preview(question, collection) if _has_preview(options, console) else None
        writer = AnswerWriter(stream, options.output.form, options.answer, console, line)
        trace = session.retrieve(question, collection, method, choice)
        writer.selected(trace)
        listener = Listener(progress=writer.event, cancellation=console.cancellation)
        trace = session.answer(trace, choice, listener)
        writer.finish(trace)
        line_is_out()
        keep({} if "answer" in trace.cached else line.forecast.pace, session.cache, key)  # a cached one is checked in no time
        opened.page(trace)
        device = session.device
    if trace.truncated:
        console.warn(f"the answer was cut at {method.max_tokens} tokens (--max-tokens)")
    from fbrag_cli.render.answer_text import summary

    console.note(summary(trace, device))
    return ExitCode.DONE if trace.status == "answered" or options.output.exit_zero else ExitCode.NEGATIVE


def _has_preview(options: AskOptions, console: Console) -> bool:
    """Return whether the output takes the place of a preview on the same terminal."""
    plain = options.output.form == "text" and options.output.output == "-" and not options.answer.answer_only
    return plain and console.shows_preview()


@contextmanager
def _line_for_failure(options: AskOptions) -> Iterator[Callable[[], None]]:
    """With -a, print an empty line where an error leaves no answer: each document then has one line, as a loop expects.

    Yields what to call when the answer is out.
    """
    due = options.answer.answer_only and options.output.form in ("text", "md") and options.output.output == "-"

    def line_is_out() -> None:
        nonlocal due
        due = False

    try:
        yield line_is_out
    except Exception:
        if due:
            print_after_error("")
        raise
