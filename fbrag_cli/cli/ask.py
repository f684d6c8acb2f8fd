"""`fbrag ask`: one question, answered from one or several documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

from fbrag_cli.cli.answer_writer import AnswerWriter
from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import Preview
from fbrag_cli.cli.options import AnswerOptions
from fbrag_cli.cli.question import QuestionOptions, open_question, planned, read_question
from fbrag_cli.cli.streams import print_after_error
from fbrag_cli.cli.usage import typed_with
from fbrag_cli.corpus import Excerpt
from fbrag_cli.errors import ExitCode
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.registry import reading_more
from fbrag_cli.progress import Listener
from fbrag_cli.session.forecast import forecast, keep
from fbrag_cli.trace import Trace


class AskOptions(QuestionOptions):
    answer: AnswerOptions


@command(AskOptions)
def ask(console: Console, options: AskOptions) -> int:
    """Answer a question from a document, and show the chunks that the answer rests on.

    \b
    Examples:
      fbrag ask book.txt "Who sealed the chronometer box?"
      fbrag ask report.pdf "What was revenue in 2021?" --pages 10-40 --json
      pdftotext big.pdf - | fbrag ask - "Which clause covers termination?"
      who=$(fbrag ask -qa book.txt "Who sealed the chronometer box?")
    """
    with _line_for_failure(options) as line_is_out, open_question(options, console) as opened:
        session, line = opened.session, opened.line
        question = read_question(options, session, console)
        if options.run.dry_run:
            opened.stream.write(planned(question, options.output.form) + "\n")
            return ExitCode.DONE
        collection, method = question.collection, question.method
        line.forecast = forecast(session, method, collection.corpus)
        line.preview = Preview(question.text, collection) if _has_preview(options, console) else None
        writer = AnswerWriter(opened.stream, options.output.form, options.answer, console, line)
        ask = partial(session.ask, question.text, collection, choice=question.choice)
        asked = ask(method, listener=Listener(progress=writer.event, cancellation=console.cancellation))
        trace = asked.retrieve()
        silent = Listener(cancellation=console.cancellation)
        repeats = "-" not in options.document.arguments
        more = _More(question.plain, options.run.more, repeats, lambda method: ask(method, listener=silent).retrieve())
        before = more.before()
        writer.selected(trace)
        trace = asked.answer()
        writer.finish(trace, before)
        line_is_out()
        keep(line.forecast, session, method, trace)
        opened.page(trace)
        device, rest = session.device, more.rest(trace, before)
    _say_how(trace, device, rest, console)
    return ExitCode.DONE if trace.status == "answered" or options.output.exit_zero else ExitCode.NEGATIVE


@dataclass(frozen=True, slots=True)
class _More:
    """What a question reads with another number of --more. Its samples are in memory, so no model runs.

    method: without --more. n: how often it was given. repeats: whether its command can be given again, unlike one that reads
    stdin. retrieve: of another method.
    """

    method: Method
    n: int
    repeats: bool
    retrieve: Callable[[Method], Trace]

    def before(self) -> tuple[Excerpt, ...]:
        """Return what one --more less reads; nothing where none was given."""
        return self.retrieve(reading_more(self.method, self.n - 1)).context if self.n else ()

    def rest(self, trace: Trace, before: tuple[Excerpt, ...]) -> Literal["none", "unread", ""]:
        """Return "none" where this reading was no larger than `before`; "unread" where another --more may find the answer."""
        if self.n and trace.context == before:
            return "none"
        larger = self.method.with_more(self.n + 1) if trace.status == "not_found" and self.repeats else None
        return "unread" if larger and self.retrieve(larger).context != trace.context else ""


def _say_how(trace: Trace, device: str, rest: str, console: Console) -> None:
    """Say what happened, and where no answer was found, how to read on. rest: as of `_More`."""
    from fbrag_cli.render.answer_text import summary

    if trace.truncated:
        console.warn(f"the answer was cut at {trace.method.max_tokens} tokens (--max-tokens)")
    console.note(summary(trace, device), dim=True)
    if rest == "none":
        console.note("there is nothing more to read: all that scores was read before")
    elif rest == "unread":
        console.hint(f"to read the next passages: {typed_with('--more')}")


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
