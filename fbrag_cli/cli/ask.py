"""`fbrag ask`: one question, answered from one or several documents."""

from __future__ import annotations

from fbrag_cli.cli.answer import AnswerWriter, answer
from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.options import AnswerOptions
from fbrag_cli.cli.question import QuestionOptions, open_question, print_plan, read_question
from fbrag_cli.cli.streams import print_after_error
from fbrag_cli.cli.usage import typed_with
from fbrag_cli.errors import ExitCode


class AskOptions(QuestionOptions):
    answer: AnswerOptions


@command(AskOptions)
def ask(console: Console, options: AskOptions) -> int:
    """Answer a question about one or more documents, with sources.

    \b
    Examples:
      fbrag ask book.txt "Who sealed the chronometer box?"
      fbrag ask report.pdf "What was revenue in 2021?" --pages 10-40 --json
      pdftotext big.pdf - | fbrag ask - "Which clause covers termination?"
      who=$(fbrag ask -qa book.txt "Who sealed the chronometer box?")
    """
    options.answer.check(options.output.form)
    writer = None
    try:
        with open_question(options, console) as (session, stream, page, line):
            query = read_question(options, session, console)
            if options.run.dry_run:
                print_plan(query, session, options, stream, console)
                return ExitCode.DONE
            writer = AnswerWriter(stream, options.output.form, options.answer, console, line)
            n = 0 if "-" in options.document.arguments else query.method.larger_select  # stdin is not there again
            trace = answer(query, session, writer, console.cancellation, more=typed_with("--select", f"{n}") if n else "")
            page(trace)
    except Exception:
        # With -a each document has one line, as a loop expects, also if there is no answer.
        is_line = options.answer.answer_only and options.output.form in ("text", "md") and options.output.output == "-"
        if is_line and not (writer and writer.is_out):
            print_after_error("")
        raise
    return ExitCode.DONE if trace.status == "answered" or options.output.exit_zero else ExitCode.NEGATIVE
