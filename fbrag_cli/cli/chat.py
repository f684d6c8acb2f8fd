"""`fbrag chat`: a conversation about documents, a line a question."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape, glob
from io import TextIOWrapper

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.progress_line import progress_line
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import ctrl_c
from fbrag_cli.cli.talk import COMMANDS, PATH_COMMANDS, ChatCommand, Talk
from fbrag_cli.errors import ExitCode, FbragError, lacking
from fbrag_cli.progress import Listener
from fbrag_cli.session.models import Models
from fbrag_cli.session.session import Session
from fbrag_cli.text.near import suggestion
from fbrag_cli.text.printable import counted, one_line

_PROMPT = "> "


@command(ChatCommand)
def chat(console: Console, options: ChatCommand) -> int:
    """Answer questions about documents, a line each; one may refer to those before it.

    Each answer comes with its sources, as from `fbrag ask`. What was understood is shown. Ctrl-D ends the conversation.

    \b
    Examples:
      fbrag chat book.txt
      fbrag chat reports/ --large http://localhost:8080/v1
      fbrag chat book.txt --json < questions.txt | jq -r .answer
    \f
    /help names the words that begin with a slash; a space before it makes a question of such a line. Ctrl-C stops an answer.
    Nothing of a conversation is kept. --timeout counts for each question. The exit code is 0 on a terminal; of lines from a pipe,
    it is that of the first question that failed, else 1 if the document did not say, else 0.
    """
    if "-" in [*options.chat.documents, options.chat.password_file]:
        raise FbragError("usage", "'-' is stdin, which carries the questions", "name a file in place of it")
    with (
        progress_line(console) as line,
        open_session(options.models, options.cache, console, line, private=options.chat.password_file is not None) as session,
    ):
        talk = Talk(session, options, console, line)
        if sys.stdin.isatty() and sys.stderr.isatty():
            with _loading(session, talk):
                _converse(talk, console)
            return ExitCode.DONE
        while not talk.ended and (text := _piped()) is not None:
            _follow(talk, text, console)
    return talk.failed or (ExitCode.NEGATIVE if talk.unanswered and not options.chat.exit_zero else ExitCode.DONE)


def _converse(talk: Talk, console: Console) -> None:
    """Follow what a person types until Ctrl-D or /quit."""
    documents = talk.conversation.collection.corpus.documents
    name = one_line(documents[0].name) if len(documents) == 1 else counted(len(documents), "document")
    console.note(f"{name}: ask a question; /help for more, Ctrl-D to end", dim=True)
    read = _reader()
    with ctrl_c(talk.interrupt):
        while not talk.ended:
            _follow_next(talk, read, console)


def _follow_next(talk: Talk, read: Callable[[], str | None], console: Console) -> None:
    """Follow the next line. Ctrl-C stops what runs, and at the prompt drops the line."""
    try:
        if (text := read()) is None:
            talk.ended = True
            print(file=sys.stderr)
        else:
            _follow(talk, text, console)
    except KeyboardInterrupt:
        talk.clear()
        console.note("stopped" if talk.was_stopped() else "Ctrl-D ends the conversation", dim=True)


def _follow(talk: Talk, text: str, console: Console) -> None:
    """Follow a line: a question, or a word that begins with a slash. An error of it is one line, and the conversation goes on."""
    try:
        if text.startswith("/"):
            word, rest = [*text.split(maxsplit=1), ""][:2]
            if word not in COMMANDS:
                hint = suggestion(word, COMMANDS, "/help names the words; a space before the slash makes it a question")
                raise FbragError("usage", f"there is no {word}", hint)
            COMMANDS[word][2](talk, rest.strip())
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


# -- lines -----------------------------------------------------------------------------------------------------------------


def _piped() -> str | None:
    """Return the next line of stdin, None at its end. A byte that is no UTF-8 becomes a question mark in a box."""
    if not (line := sys.stdin.buffer.readline()):
        return None
    return line.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").rstrip("\r\n")


def _reader() -> Callable[[], str | None]:
    """Return what reads a line that a person types, None at the end. Where Python has readline, it is edited, and goes back."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # a byte that is no UTF-8 is no error
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
        if not sys.stdout.isatty():  # it is a file, and the prompt is no part of it
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
    found = [each for each in COMMANDS if line.startswith("/") and each.startswith(line)]
    if space and word in PATH_COMMANDS:
        found = [f"{word} {each}" for each in sorted(glob(escape(os.path.expanduser(path)) + "*"))]
    return found[number] if number < len(found) else None


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
