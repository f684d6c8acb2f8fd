"""`fbrag chat`: a conversation about documents, a line a question."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.groups import takes
from fbrag_cli.cli.method_options import MethodKnobs, MethodOptions
from fbrag_cli.cli.options import AnswerOptions, PasswordOptions, RunOptions, arguments, option
from fbrag_cli.cli.progress_line import progress_line
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import ctrl_c
from fbrag_cli.cli.streams import read_password
from fbrag_cli.cli.talk import Talk, TalkOptions
from fbrag_cli.cli.talk_words import PATH_WORDS, WORDS, obey
from fbrag_cli.cli.typed_lines import ReadLine, is_interactive, line_reader
from fbrag_cli.errors import ExitCode, FbragError, lacking
from fbrag_cli.progress import Listener
from fbrag_cli.session.models import Models
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.text.printable import counted, one_line


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ChatCommand:
    chat: ChatOptions
    answer: AnswerOptions
    reading: DocumentSettings
    method: MethodOptions
    knobs: MethodKnobs  # type: ignore[valid-type]
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@takes(ChatCommand)
def chat(console: Console, options: ChatCommand) -> int:
    """Answer questions about documents, a line each; one may refer to those before it.

    Each answer comes with its sources, as from `fbrag ask`. What was understood is shown. /help names the words that begin with a
    slash; a space before it makes a question of such a line. Ctrl-C stops an answer, Ctrl-D ends the conversation, of which
    nothing is kept. --timeout counts for each question. The exit code is 0 on a terminal; of lines from a pipe, it is that of the
    first question that failed, else 1 if the document did not say, else 0.

    \b
    Examples:
      fbrag chat book.txt
      fbrag chat reports/ --large http://localhost:8080/v1
      fbrag chat book.txt --json < questions.txt | jq -r .answer
    """
    if "-" in [*options.chat.documents, options.chat.password_file]:
        raise FbragError("usage", "'-' is stdin, which carries the questions", "name a file in place of it")
    with (
        progress_line(console) as line,
        open_session(options.models, options.cache, console, line, private=options.chat.password_file is not None) as session,
    ):
        about = TalkOptions(
            form="json" if options.chat.json else options.chat.format,
            answer=options.answer,
            reading=options.reading,
            method=options.method,
            knobs=options.knobs,
            timeout=options.run.timeout,
        )
        talk = Talk(session, about, console, line, password=read_password(options.chat.password_file, console))
        talk.open(options.chat.documents, Listener(progress=line, cancellation=console.cancellation))
        talk.conversation.plain = options.chat.plain
        line.clear()
        read = line_reader([*WORDS], PATH_WORDS)
        if is_interactive():
            with _loading(session, talk):
                _converse(talk, read, console)
            return ExitCode.DONE
        for text in iter(partial(_line, read), None):
            _said(talk, text, console)
            if talk.ended:
                break
    return talk.failed or (ExitCode.NEGATIVE if talk.unanswered and not options.chat.exit_zero else ExitCode.DONE)


def _line(read: ReadLine) -> str | None:
    """Return the next line, None at the end."""
    try:
        return read()
    except EOFError:
        return None


def _converse(talk: Talk, read: ReadLine, console: Console) -> None:
    """Follow what a person types until Ctrl-D or /quit."""
    documents = talk.conversation.collection.corpus.documents
    name = one_line(documents[0].name) if len(documents) == 1 else counted(len(documents), "document")
    console.note(f"{name}: ask a question; /help for more, Ctrl-D to end", dim=True)
    with ctrl_c(talk.interrupt):
        while not talk.ended:
            _follow(talk, read, console)


def _follow(talk: Talk, read: ReadLine, console: Console) -> None:
    """Follow the next line. Ctrl-C stops what runs, and at the prompt drops the line."""
    try:
        if (text := _line(read)) is None:
            talk.ended = True
            print(file=sys.stderr)
        else:
            _said(talk, text, console)
    except KeyboardInterrupt:
        talk.clear()
        console.note("stopped" if talk.interrupted() else "Ctrl-D ends the conversation", dim=True)


def _said(talk: Talk, text: str, console: Console) -> None:
    """Follow a line: a question, or a word that begins with a slash. An error of it is one line, and the conversation goes on."""
    try:
        if text.startswith("/"):
            obey(talk, text)
        elif typed := _as_question(text):
            talk.ask(typed)
    except FbragError as error:
        if console.cancellation.requested:
            raise
        talk.fail(error)
    except (MemoryError, OSError) as error:
        if isinstance(error, BrokenPipeError) or not (lack := lacking(error) or _of_system(error)):
            raise
        talk.fail(lack)


def _as_question(line: str) -> str:
    """Return a line without line breaks, which a pasted one may have, and without bytes that are no text."""
    return " ".join(line.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())


def _of_system(error: BaseException) -> FbragError | None:
    """Return what the system says of a file, as an error; None for another error."""
    if not isinstance(error, OSError) or error.filename is None:
        return None
    return FbragError("doc_unreadable", f"{error.filename}: {error.strerror}", "check its path")


@contextmanager
def _loading(session: Session, talk: Talk) -> Iterator[None]:
    """Load the models while the first question is typed. What fails is reported by the question that needs them."""
    stop = Cancellation()
    quiet, models = Listener(cancellation=stop), session.models
    try:
        for name in dict.fromkeys(session.names(talk.conversation.choice)):
            _begin(models, name, quiet)
        yield
    finally:
        stop.request(KeyboardInterrupt())


def _begin(models: Models, name: str, listener: Listener) -> None:
    try:
        models.begin(name, listener)
    except FbragError:
        pass
