"""`fbrag ask`: one question, answered from one or several documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.method_options import AnswerKnobs, chosen_method
from fbrag_cli.cli.opening import QuestionOptions, collect, open_question, split_question
from fbrag_cli.cli.options import AnswerOptions, takes
from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import ExitCode
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Event, Progress
from fbrag_cli.session.memory import peak_memory_mb
from fbrag_cli.session.session import Choice, Listener
from fbrag_cli.text.printable import counted, dumps, one_line, printable
from fbrag_cli.text.table import columns_of
from fbrag_cli.trace import Trace

_EVENT = "fbrag.event/1"  # the schema of every event but the last, which is the answer's


@dataclass(frozen=True, slots=True)
class AskOptions(QuestionOptions):
    answer: AnswerOptions
    answering: AnswerKnobs  # type: ignore[valid-type]


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
    with_page = not options.answer.dry_run
    with _line_for_failure(options) as line_is_out, open_question(options, console, with_page=with_page) as opened:
        session, stream = opened.session, opened.stream
        paths, question = split_question(options.document, console)
        collection = collect(session, paths, options, console)
        method = chosen_method(options.method, options.retrieval, options.answering, on_gpu=session.on_gpu)
        if options.answer.dry_run:
            stream.write(_plan(collection.corpus, method) + "\n")
            return ExitCode.DONE
        choice = Choice(retriever=options.method.retriever)
        session.prepare(method, choice)
        writer = _Writer(stream, options.output.form, options.answer, method.answer_anyway, console, opened.progress)
        trace = session.retrieve(question, collection, method, choice)
        writer.selected(trace)
        listener = Listener(progress=writer.event, cancellation=console.cancellation)
        trace = session.answer(trace, choice, listener)
        writer.finish(trace)
        line_is_out()
        opened.page(trace)
        device = session.device
    if trace.truncated:
        console.warn(f"the answer was cut at {method.max_tokens} tokens (--max-tokens)")
    from fbrag_cli.render.answer_text import summary

    console.note(summary(trace, device))
    return ExitCode.DONE if trace.status == "answered" or options.answer.exit_zero else ExitCode.NEGATIVE


def _plan(corpus: Corpus, method: Method) -> str:
    """One line for --dry-run: what would be read and selected."""
    n_documents, n_chunks = len(corpus.documents), len(corpus.chunks)
    size = f"{counted(n_documents, 'document')}, {corpus.n_words:,} words, {counted(n_chunks, 'chunk')}"
    return f"{size}: {', '.join(method.plan(n_chunks))}"


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
            print(flush=True)
        raise


class _Writer:
    """Puts the answer on the stream in the asked form, as it comes where the form allows it."""

    def __init__(
        self, stream: TextIO, form: str, options: AnswerOptions, answer_anyway: bool, console: Console, progress: Progress
    ) -> None:
        self._stream, self._form, self._options, self._console, self._progress = stream, form, options, console, progress
        # Text that may be withdrawn, because the chunks do not support it, is not shown before that is known. With -a the answer
        # is put on one line, whatever the model wrote, and so does not stream.
        self._streams = form == "jsonl" or (form == "text" and answer_anyway and not options.answer_only)
        self._written = False  # whether any of the answer is

    def event(self, event: Event) -> None:
        """Pass every event on to stderr, but for the answer's own text, which streams."""
        if event.kind != "text" or not self._streams:
            self._progress(event)
        elif piece := event.text if self._written else event.text.lstrip():
            if not self._written:
                self._progress(Event("answer", "done"))
            self._written = True
            self._put_piece(piece)

    def selected(self, trace: Trace) -> None:
        """Put the sources, where the form has events."""
        if self._form == "jsonl":
            from fbrag_cli.render import as_json

            self._put_json({"schema": _EVENT, "event": "selected", "sources": as_json.sources(trace)})

    def finish(self, trace: Trace) -> None:
        """Put all that is not out yet."""
        from fbrag_cli.render import answer_text, as_json

        options, with_sources = self._options, self._options.sources == "selected" and not self._options.answer_only
        if self._form in ("json", "jsonl"):
            found = as_json.answer(trace, memory_mb=peak_memory_mb())
            self._put_json({"event": "done", **found} if self._form == "jsonl" else found)
        elif self._form == "md":
            self._put(answer_text.markdown(trace, context=options.context, full=options.full, with_sources=with_sources) + "\n")
        else:
            answer = answer_text.answer_of(trace)
            self._put("\n" if self._written else (one_line(answer) if options.answer_only else answer) + "\n")
            if with_sources:
                colored, columns = self._console.colored(self._stream), columns_of(self._stream)
                sources = answer_text.sources(trace, context=options.context, full=options.full, colored=colored, columns=columns)
                self._put(f"\n{sources}\n")

    def _put_piece(self, piece: str) -> None:
        if self._form == "jsonl":
            self._put_json({"schema": _EVENT, "event": "token", "text": piece})
        else:
            self._put(printable(piece))

    def _put_json(self, value: dict[str, object]) -> None:
        self._put(dumps(value) + "\n")

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
