"""`Talk`: what `fbrag chat` keeps while it runs: the conversation, how its answers are written, and what may stop them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.answer_writer import AnswerWriter
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import Preview
from fbrag_cli.cli.method_options import MethodOptions
from fbrag_cli.cli.options import AnswerOptions, Options, PasswordOptions, RunOptions, arguments, check_outputs, option
from fbrag_cli.cli.progress_line import ProgressLine
from fbrag_cli.cli.streams import open_output, print_after_error, read_password
from fbrag_cli.corpus import Excerpt
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.methods.registry import reading_more
from fbrag_cli.progress import Listener
from fbrag_cli.session.asked import Asked
from fbrag_cli.session.conversation import Conversation, Exchange
from fbrag_cli.session.forecast import forecast, keep
from fbrag_cli.session.memory import peak_memory_mb
from fbrag_cli.session.session import Choice, Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.text.printable import counted, dumps, one_line
from fbrag_cli.text.table import columns_of
from fbrag_cli.trace import Trace

if TYPE_CHECKING:
    from fbrag_cli.indexing.collect import Collection

_PATIENCE = 3  # presses of Ctrl-C while one call runs, after which the process ends
_ROWS = 20  # chunks of /explain, as of `fbrag explain`


class ChatOptions(PasswordOptions):
    documents: list[str] = arguments("documents; of a folder, all its files", "DOC...")
    format: str = option(
        "text",
        "-f",
        "--format",
        help="form of the answers: text, json (an object and a line for each question; also: jsonl) or md (text)",
        group="Output",
        choices=("text", "json", "jsonl", "md"),
    )
    json: bool = option(False, "--json", help="short for --format json", group="Output", envvar=None)
    exit_zero: bool = option(False, "--exit-zero", help="exit 0 also where nothing is found", group="Output")
    plain: bool = option(
        False, "--plain", help="ask each question as it is typed: none is made whole from those before it", group="Method"
    )


class ChatCommand(Options):
    chat: ChatOptions
    answer: AnswerOptions
    reading: DocumentSettings
    method: MethodOptions
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


class Talk:
    """A conversation on the command line. One thread uses it; `interrupt` is called by the handler of a signal.

    failed: the exit code of the first question that failed, 0 without one. ended: whether the user wants no more. asked: the last
    question that has an answer.
    """

    def __init__(self, session: Session, options: ChatCommand, console: Console, line: ProgressLine) -> None:
        """Read the documents. Missing models are fetched. Raises as `Session.check`, `collect` and `prepare`."""
        self.session, self.options, self.console, self._line = session, options, console, line
        self.in_json = options.chat.json or options.chat.format in ("json", "jsonl")
        self.failed, self.ended = 0, False
        self.asked: Asked | None = None
        self._n_out, self._n_more = 0, 0
        self._running: Cancellation | None = None
        self._presses, self._stopped = 0, False
        method = options.method.chosen(on_gpu=session.on_gpu)
        choice = Choice(retriever=options.method.retriever)
        session.check(method, choice)
        self._password = read_password(options.chat.password_file, console)
        with self._call() as cancellation:
            collection = self._collected(options.chat.documents, cancellation)
            session.prepare(method, choice, listener=Listener(progress=line, cancellation=cancellation))
        self.conversation = Conversation(
            session=session, collection=collection, method=method, choice=choice, plain=options.chat.plain
        )

    # -- documents and questions -----------------------------------------------------------------------------------------

    def open(self, paths: Sequence[str]) -> None:
        """Read documents, which take the place of those before. Raises as `Session.collect`."""
        with self._call() as cancellation:
            self.conversation.collection = self._collected(paths, cancellation)
        self.asked = None

    def _collected(self, paths: Sequence[str], cancellation: Cancellation) -> Collection:
        options, listener = self.options, Listener(progress=self._line, cancellation=cancellation)
        return self.session.collect(paths, options.reading, options.method.words, password=self._password, listener=listener)

    def ask(self, typed: str) -> None:
        """Understand a question, answer it, and write the answer. Raises what answering raises."""
        self._answer(typed, lambda listener: self.conversation.ask(typed, listener))
        self._n_more = 0

    def more(self) -> None:
        """Answer the last question again from more passages, in place of its answer. Raises as `ask`; `usage` without one."""
        last, talk = self.last(), self.conversation
        method, before = reading_more(talk.method, self._n_more + 1), last.trace.context

        def ask(listener: Listener) -> Asked:
            return self.session.ask(last.trace.question, talk.collection, method, talk.choice, listener)

        self._answer(last.typed, ask, before)
        if talk.exchanges[-1].trace.context == before:
            self.console.note("there is nothing more to read: all that scores was read before")
        talk.exchanges[-2:] = talk.exchanges[-1:]
        self._n_more += 1

    def last(self) -> Exchange:
        """Return the last question with its answer. Raises FbragError `usage` where these documents were asked nothing yet."""
        if self.asked is None:
            raise FbragError("usage", "nothing was asked yet", "ask a question first")
        return self.conversation.exchanges[-1]

    @property
    def unanswered(self) -> bool:
        """Whether the document does not say the answer to a question, also when more of it was read."""
        return any(each.trace.status != "answered" for each in self.conversation.exchanges)

    def _answer(self, typed: str, ask: Callable[[Listener], Asked], before: Sequence[Excerpt] = ()) -> None:
        """Answer a question that is understood by `ask`, and write the answer. before: the excerpts of its earlier answer."""
        talk, session, line = self.conversation, self.session, self._line
        writer = AnswerWriter(sys.stdout, "text", self.options.answer, self.console, line)
        with self._call(self.options.run.timeout) as cancellation:
            asked = ask(Listener(progress=writer.event, cancellation=cancellation))
            line.clear()
            if asked.question != typed:
                self.console.note(f"understood: {asked.question}", dim=True)
            line.forecast = forecast(session, asked.method, talk.collection.corpus)
            line.preview = Preview(asked.question, talk.collection) if self._has_preview() else None
            trace = asked.answer()
        self._write(typed, trace, writer, before)
        keep(line.forecast, session, asked.method, trace)
        self._say_how(trace)
        talk.add(typed, trace)
        self.asked = asked

    # -- what is written -------------------------------------------------------------------------------------------------

    def write(self, text: str) -> None:
        """Write a text to stdout."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def _write(self, typed: str, trace: Trace, writer: AnswerWriter, before: Sequence[Excerpt]) -> None:
        from fbrag_cli.render import as_json, conversation

        options, self._n_out = self.options.answer, self._n_out + 1
        if self.in_json:
            told = as_json.answer(trace, memory_mb=peak_memory_mb())
            self.write(dumps({**told, "typed": typed, "understood": trace.question}) + "\n")
        elif self.options.chat.format == "md":
            cited = options.sources != "none" and not options.answer_only
            self.write(conversation.markdown(trace, self._n_out, options.context, full=options.full, cited=cited) + "\n\n")
        else:
            if self._n_out > 1 and not options.answer_only and not sys.stdout.isatty():
                self.write("\n")
            writer.finish(trace, before)

    def _say_how(self, trace: Trace) -> None:
        from fbrag_cli.render.answer_text import summary

        if trace.truncated:
            self.console.warn(f"the answer was cut at {trace.method.max_tokens} tokens (--max-tokens)")
        self.console.note(summary(trace, self.session.device), dim=True)

    def _has_preview(self) -> bool:
        plain = not self.in_json and self.options.chat.format == "text" and not self.options.answer.answer_only
        return plain and self.console.shows_preview()

    def fail(self, error: FbragError) -> None:
        """Report the error of a line. With --json it is an object, with -a an empty line: each question has one line."""
        self.clear()
        self.failed = self.failed or error.exit_code
        self.console.error(error)
        if self.in_json:
            record = {"code": error.code, "message": error.message, "hint": error.hint, "document": error.document}
            print_after_error(dumps({"schema": "fbrag.error/1", "error": record}))
        elif self.options.answer.answer_only:
            print_after_error("")

    def clear(self) -> None:
        """Erase what the terminal shows of a question."""
        self._line.preview = None
        self._line.clear()

    # -- what stops it ---------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop the call that runs. Raises KeyboardInterrupt in the main thread, at once or when native code has returned."""
        self._presses += 1
        if self._running is None:
            raise KeyboardInterrupt
        if self._presses > _PATIENCE:
            os._exit(ExitCode.INTERRUPTED)
        self._running.interrupt(KeyboardInterrupt())

    def was_stopped(self) -> bool:
        """Return whether the last Ctrl-C stopped a call."""
        was, self._presses, self._stopped = self._stopped, 0, False
        return was

    @contextmanager
    def _call(self, seconds: float | None = None) -> Iterator[Cancellation]:
        """Surround a call that Ctrl-C stops, and the time limit where there is one."""
        own = Cancellation()
        hint = "allow more seconds (--timeout), or ask for less work"
        timer = own.after(seconds, FbragError("timeout", f"not done within {seconds:g} s", hint)) if seconds else None
        self._running, self._presses = own, 0
        try:
            yield own
        finally:
            self._running, self._stopped = None, isinstance(own.error, KeyboardInterrupt)
            if timer:
                timer.cancel()
            self.clear()


# -- the words that begin with a slash ---------------------------------------------------------------------------------------


def _explain(talk: Talk, rest: str) -> None:
    from fbrag_cli.render import as_json, explain_text

    trace = talk.last().trace
    if talk.in_json:
        talk.write(dumps(as_json.explanation(trace, memory_mb=peak_memory_mb())) + "\n")
        return
    assert talk.asked
    columns, count = columns_of(sys.stdout), talk.asked.count_tokens if trace.rounds else None
    colored = talk.console.colored(sys.stdout)
    table = explain_text.table(trace, limit=_ROWS, by_position=False, count_tokens=count, columns=columns, colored=colored)
    talk.write("".join(f"{line}\n" for line in (*table, *explain_text.own_lines(trace, columns))))


def _source(talk: Talk, rest: str) -> None:
    from fbrag_cli.render.conversation import surroundings

    trace = talk.last().trace
    if talk.in_json:
        raise FbragError("usage", "/source: with --json each answer has its sources", "leave out --json")
    if not rest.isascii() or not rest.isdigit() or not 1 <= int(rest[:9]) <= len(trace.sources):
        raise FbragError("usage", f"/source {rest}: the answer has {counted(len(trace.sources), 'source')}", "/source 1")
    lines = surroundings(trace, int(rest), columns_of(sys.stdout), colored=talk.console.colored(sys.stdout))
    talk.write("".join(f"{line}\n" for line in lines))


def _open(talk: Talk, rest: str) -> None:
    if rest in ("", "-"):
        raise FbragError("usage", f"/open {rest}".rstrip() + ": a file or folder is needed", "/open FILE")
    talk.open([os.path.expanduser(rest)])
    documents = talk.conversation.collection.corpus.documents
    talk.console.note(f"open: {', '.join(one_line(each.name) for each in documents[:3])}{' …' * (len(documents) > 3)}", dim=True)


def _save(talk: Talk, rest: str) -> None:
    from fbrag_cli.render import conversation
    from fbrag_cli.render.html import page

    if not rest:
        raise FbragError("usage", "/save: the file is missing", "/save FILE.md, or /save FILE.html")
    exchanges = talk.conversation.exchanges
    if not exchanges:
        talk.last()
    path = os.path.expanduser(rest)
    check_outputs({"/save": path}, (source.path for each in exchanges for source in each.trace.corpus.documents))
    is_page = Path(path).suffix.lower() in (".html", ".htm")
    with open_output(path, "/save") as stream:
        if is_page:
            stream.write(page(exchanges[-1].trace))
        else:
            shown = talk.options.answer
            traces = enumerate((each.trace for each in exchanges), 1)
            parts = [conversation.markdown(trace, number, shown.context, full=shown.full) for number, trace in traces]
            stream.write("\n\n".join(parts) + "\n")
    what = "the last answer" if is_page else counted(len(exchanges), "question")
    talk.console.note(f"saved: {what} in {path}", dim=True)


def _help(talk: Talk, rest: str) -> None:
    for word, (argument, said, _) in COMMANDS.items():
        talk.console.note(f"{word} {argument}".rstrip() + f": {said}")


def _quit(talk: Talk, rest: str) -> None:
    talk.ended = True


#: Word -> what follows it, what it does, and the function that does it.
COMMANDS: Mapping[str, tuple[str, str, Callable[[Talk, str], None]]] = {
    "/more": ("", "the last question again, with the next passages too", lambda talk, rest: talk.more()),
    "/source": ("N", "source N of the last answer, with what stands around it", _source),
    "/explain": ("", "the scores of the chunks for the last question", _explain),
    "/open": ("FILE", "another document or folder, in place of these", _open),
    "/save": ("FILE", "the conversation as Markdown; FILE.html: the page of the last answer", _save),
    "/help": ("", "this list", _help),
    "/quit": ("", "the end, as Ctrl-D", _quit),
}

#: Those that a path follows.
PATH_COMMANDS = ("/open", "/save")
