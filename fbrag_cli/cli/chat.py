"""`fbrag chat`: a conversation about documents, a line a question."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from glob import escape, glob
from io import TextIOWrapper
from pathlib import Path

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.answer import AnswerWriter, answer
from fbrag_cli.cli.command import command
from fbrag_cli.cli.completion import usable_models
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import ProgressLine, progress_line
from fbrag_cli.cli.method_options import MethodOptions
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import AnswerOptions, Options, PasswordOptions, RunOptions, arguments
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import ctrl_c, too_late
from fbrag_cli.cli.slash import COMMANDS, obey
from fbrag_cli.cli.streams import print_after_error, read_password
from fbrag_cli.errors import ExitCode, FbragError, lacking
from fbrag_cli.methods.registry import reading_twice
from fbrag_cli.progress import Listener
from fbrag_cli.query import ModelNames, Query
from fbrag_cli.session.conversation import Conversation, Exchange
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.storage.files import read_small
from fbrag_cli.text.printable import dumps, one_line, plural
from fbrag_cli.trace import Trace

_PROMPT = "> "
_PATIENCE = 3  # presses of Ctrl-C while one call runs, after which the process ends


class ChatOptions(PasswordOptions):
    group = "Output"

    documents: list[str] = arguments("files or folders to search", "DOC...")
    format: str = option(
        "text",
        "output format: text, json (one object per line and question; also: jsonl), or md",
        flags=("-f", "--format"),
        choices=("text", "json", "jsonl", "md"),
    )
    json: bool = option(False, "same as --format json", once=True)
    exit_zero: bool = option(False, "exit 0 even if no answer is found")
    resume: str | None = option(None, "continue the conversation that /save wrote to FILE", once=True, metavar="FILE")
    no_rewrite: bool = option(False, "do not rewrite follow-up questions", group="Method", once=True)

    @property
    def form(self) -> str:
        return "json" if self.json or self.format == "jsonl" else self.format


class ChatCommand(Options):
    chat: ChatOptions
    answer: AnswerOptions
    reading: DocumentSettings
    method: MethodOptions
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@command(ChatCommand)
def chat(console: Console, options: ChatCommand) -> int:
    """Ask follow-up questions interactively.

    Each answer comes with its sources. If a question refers to those before it, fbrag shows how it understood it. Ctrl-C stops an
    answer, Ctrl-D quits.

    \b
    Examples:
      fbrag chat book.txt
      fbrag chat reports/ --large http://localhost:8080/v1
      fbrag chat book.txt --json < questions.txt | jq -r .answer
    \f
    /help lists the commands, which begin with a slash; a space before the slash makes such a line a question. Nothing of a
    conversation is saved unless you /save it; --resume FILE continues one that was saved. --timeout applies to each question. The
    exit code is 0 on a terminal; with questions from a pipe it is that of the first question that failed, else 1 if no answer was
    found to one of them, else 0.
    """
    options.answer.check(options.chat.form)
    if "-" in [*options.chat.documents, options.chat.password_file]:
        raise FbragError("usage", "'-' is stdin, which has the questions", "use a file instead")
    with (
        progress_line(console) as line,
        open_session(options.models, options.cache, console, line, private=options.chat.password_file is not None) as session,
    ):
        talk = Talk(session, options, console, line)
        if sys.stdin.isatty() and sys.stderr.isatty():
            with suppress(FbragError):  # reported by the question that needs the model
                session.load_ahead(models=talk.conversation.models)
            _converse(talk, console)
            return ExitCode.DONE
        while not talk.ended and (text := _piped()) is not None:
            _follow(talk, text, console)
    return talk.failed or (ExitCode.NEGATIVE if talk.unanswered and not options.chat.exit_zero else ExitCode.DONE)


def _converse(talk: Talk, console: Console) -> None:
    """Follow what a person types until Ctrl-D or /quit."""
    documents = talk.conversation.collection.corpus.documents
    name = one_line(documents[0].name) if len(documents) == 1 else plural(len(documents), "document")
    console.info(f"{name}. /help for commands, Ctrl-D to quit.", dim=True)
    read = _reader()
    with ctrl_c(talk.interrupt):
        while not talk.ended:
            try:
                if (text := read()) is None:
                    print(file=sys.stderr)
                    return
                _follow(talk, text, console)
            except KeyboardInterrupt:  # it stops what runs, and at the prompt drops the line
                talk.clear()
                console.info("stopped" if talk.was_stopped() else "Ctrl-D ends the conversation", dim=True)


def _follow(talk: Talk, text: str, console: Console) -> None:
    """Follow a line: a question, or a word that begins with a slash. An error is one line, and the conversation continues."""
    try:
        if not obey(talk, line := _as_question(text)) and line.strip():
            talk.ask(line.strip())
    except FbragError as error:
        if console.cancellation.requested:
            raise
        talk.fail(error)
    except (MemoryError, OSError) as error:
        if not (lack := lacking(error)):
            raise
        talk.fail(lack)


def _as_question(line: str) -> str:
    """Return a line without line breaks, which a pasted one may have, and without bytes that are no text. A blank before it
    stays: it makes a command a question."""
    words = line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " " * words.startswith(" ") + " ".join(words.split())


# -- lines -----------------------------------------------------------------------------------------------------------------


def _piped() -> str | None:
    """Return the next line of stdin, None at its end. A byte that is not UTF-8 becomes a question mark in a box."""
    if not (line := sys.stdin.buffer.readline()):
        return None
    return line.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").rstrip("\r\n")


def _reader() -> Callable[[], str | None]:
    """Return what reads a line that a person types, None at the end. Where Python has readline, it is edited, and goes back."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # a byte that is not UTF-8 is not an error
    if os.environ.get("TERM") != "dumb":
        try:
            import readline
        except ImportError:  # Windows, whose terminal edits lines itself
            pass
        else:
            readline.set_completer(_completed)
            readline.set_completer_delims("")
            readline.parse_and_bind("tab: complete")

    def read() -> str | None:
        if not sys.stdout.isatty():  # it is a file, and the prompt is not part of it
            print(_PROMPT, end="", file=sys.stderr, flush=True)
            return _piped()
        try:
            return input(_PROMPT)
        except EOFError:
            return None

    return read


def _completed(line: str, number: int) -> str | None:
    """Return the line completed in one way of several, None beyond the last: a word with a slash, or the path behind one."""
    word, space, path = line.partition(" ")
    completions = [each for each in COMMANDS if line.startswith("/") and each.startswith(line)]
    if space and word == "/model":
        completions = [f"{word} {each}" for each in usable_models() if each.startswith(path)]
    if space and word == "/save":
        completions = [f"{word} {each}" for each in sorted(glob(escape(os.path.expanduser(path)) + "*"))]
    return completions[number] if number < len(completions) else None


class Talk:
    """A conversation on the command line. One thread uses it; `interrupt` is called by the handler of a signal.

    failed: the exit code of the first question that failed, 0 without one. ended: whether the user wants no more. preset: that of
    the next question alone, "" for none. saved: files that hold this conversation. before: what --resume read, "" for nothing.
    """

    def __init__(self, session: Session, options: ChatCommand, console: Console, line: ProgressLine) -> None:
        """Read the documents. Missing models are fetched. Raises as `Session.check`, `collect`, `prepare` and `_resumed`."""
        self.session, self.options, self.console, self._line = session, options, console, line
        self.failed, self.ended, self.preset, self.saved, self.before = 0, False, "", set[str](), ""
        self._was_unanswered = False  # one of the questions that were forgotten
        self.in_json = options.chat.form == "json"
        self._writer = AnswerWriter(sys.stdout, options.chat.form, options.answer, console, line)
        self._running: Cancellation | None = None
        self._presses, self._stopped = 0, False
        method, retriever = options.method.chosen(on_gpu=session.on_gpu), options.method.retriever
        session.check(method, retriever=retriever)
        questions = self._resumed(options.chat.resume) if options.chat.resume else []
        password = read_password(options.chat.password_file, console)
        with self._call() as cancellation:
            listener = Listener(progress=line, cancellation=cancellation)
            paths, words = options.chat.documents, options.method.words
            collection = session.collect(paths, options.reading, words, password=password, listener=listener)
            session.prepare(method, retriever=retriever, listener=listener)
        self.conversation = Conversation(
            session=session, collection=collection, method=method, retriever=retriever, plain=options.chat.no_rewrite
        )
        self.conversation.take_up(questions, complete=True)

    def _resumed(self, path: str) -> list[tuple[str, str]]:
        """Return the questions in a file that /save wrote, with their answers. Raises FbragError `usage` for another file."""
        from fbrag_cli.render.markdown import questions_in

        try:
            self.before = read_small(Path(path)).decode()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise FbragError("usage", f"--resume {one_line(path)}: {why}", "name a file that /save wrote") from None
        if not (questions := questions_in(self.before)):
            raise FbragError("usage", f"--resume {one_line(path)}: it has no conversation", "name a file that /save wrote")
        self.console.info(f"resumed: {plural(len(questions), 'question')} in {one_line(path)}", dim=True)
        self.saved.add(path)
        return questions

    # -- questions --------------------------------------------------------------------------------------------------------

    def ask(self, typed: str) -> None:
        """Understand a question, answer it, and write the answer. Raises what answering raises."""
        preset, self.preset = self.preset, ""
        method = self.options.method.chosen(preset, on_gpu=self.session.on_gpu) if preset else self.conversation.method
        self._answer(typed, lambda listener: replace(self.conversation.query(typed, listener), method=method))

    def use(self, model: str) -> None:
        """Let another model answer the next questions. A missing one is fetched. Raises as `Session.prepare`."""
        models = ModelNames(self.conversation.models.small, model)
        with self._call() as cancellation:
            listener = Listener(progress=self._line, cancellation=cancellation)
            try:
                self.session.prepare(self.conversation.method, models, self.conversation.retriever, listener=listener)
            except FbragError as error:
                error.hint = f"use one of {', '.join(usable_models())}"  # not a command of the shell
                raise
        self.conversation.models = models

    def begin_anew(self) -> None:
        """Forget the questions and answers so far. The files that hold them are not overwritten from now on."""
        self._was_unanswered, self.before = self.unanswered, ""
        for forgotten in (self.conversation.exchanges, self.conversation.history, self.saved):
            forgotten.clear()

    def more(self) -> None:
        """Answer the last question again from more passages, instead of its answer. Raises as `ask`; `usage` without one."""
        last, exchanges = self.last(), self.conversation.exchanges
        earlier = last.trace.query
        query = replace(earlier, method=reading_twice(earlier.method))
        self._answer(last.typed, lambda listener: query, last.trace)
        exchanges[-2:] = exchanges[-1:]

    def last(self) -> Exchange:
        """Return the last question with its answer. Raises FbragError `usage` if no question was asked yet."""
        if not self.conversation.exchanges:
            raise FbragError("usage", "no question was asked yet", "ask a question first")
        return self.conversation.exchanges[-1]

    @property
    def unanswered(self) -> bool:
        """Whether the document does not say the answer to a question, also when more of it was read."""
        return self._was_unanswered or any(each.trace.status != "answered" for each in self.conversation.exchanges)

    def _answer(self, typed: str, understood: Callable[[Listener], Query], earlier: Trace | None = None) -> None:
        """Answer the query that a typed question means. earlier: its answer from less."""
        with self._call(self.options.run.time_limit) as cancellation:
            query = understood(Listener(progress=self._line, cancellation=cancellation))
            self._line.clear()
            if query.text != typed:
                self.console.info(f"understood: {query.text}", dim=True)
            self._writer.typed = typed
            more = "/more" if query.method.larger_select else ""
            trace = answer(query, self.session, self._writer, cancellation, earlier=earlier, more=more)
        self.conversation.add(typed, trace)

    # -- what is written -------------------------------------------------------------------------------------------------

    def fail(self, error: FbragError) -> None:
        """Report the error of a line. With --json it is an object, with -a an empty line: each question has one line."""
        self.clear()
        self.failed = self.failed or error.exit_code
        self.console.error(error)
        if self.in_json:
            print_after_error(dumps(error.as_json()))
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
        """Surround a call that Ctrl-C stops, and the time limit if there is one."""
        own = Cancellation()
        timer = own.after(seconds, too_late(seconds)) if seconds else None
        self._running, self._presses = own, 0
        try:
            yield own
        finally:
            self._running, self._stopped = None, isinstance(own.error, KeyboardInterrupt)
            if timer:
                timer.cancel()
            self.clear()
