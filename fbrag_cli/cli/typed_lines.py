"""The lines that a user types to a command that goes on asking: edited on a terminal, read as they are from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_toolkit.document import Document

#: Returns the next line, without its end. Raises EOFError at the end of stdin, and KeyboardInterrupt for Ctrl-C on a terminal.
ReadLine = Callable[[], str]

_PROMPT = "> "


def is_interactive() -> bool:
    """Return whether a person types: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def line_reader(words: Sequence[str], with_paths: Sequence[str]) -> ReadLine:
    """Return the reader of stdin. On a terminal it prompts, and keeps the lines of this process in memory to go back to.

    words: completed at the beginning of a line, where prompt_toolkit is installed. with_paths: those that a path follows.
    """
    if not is_interactive():
        return _piped
    if os.environ.get("TERM") != "dumb":
        try:
            return _edited(words, with_paths)
        except ImportError:
            pass
    return _plain()


def _piped() -> str:
    """Read a line from a pipe or a file. A byte that is no UTF-8 becomes a question mark in a box."""
    line = sys.stdin.buffer.readline()
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").rstrip("\r\n")


def _plain() -> ReadLine:
    """Return a reader without completion. Where Python has readline, lines can be edited."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # a byte that is no UTF-8 is no error, as by prompt_toolkit
    if os.environ.get("TERM") != "dumb":
        try:
            import readline  # noqa: F401 `input` uses it
        except ImportError:  # Windows, whose terminal edits lines itself
            pass

    def read() -> str:
        if sys.stdout.isatty():
            return input(_PROMPT)
        print(_PROMPT, end="", file=sys.stderr, flush=True)  # stdout is a file
        return _piped()

    return read


def _edited(words: Sequence[str], with_paths: Sequence[str]) -> ReadLine:
    """Return a reader by prompt_toolkit, which writes to stderr. Raises ImportError where that is not installed."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import create_output

    paths = PathCompleter(expanduser=True)

    class _Words(Completer):  # type: ignore[misc]  # prompt_toolkit may not be there
        def get_completions(self, document: Document, event: Any) -> Iterator[Completion]:
            before = document.text_before_cursor
            word, space, rest = before.partition(" ")
            if space and word in with_paths:
                yield from paths.get_completions(Document(rest), event)
            elif not space and before.startswith("/"):
                yield from (Completion(each, -len(before)) for each in words if each.startswith(before))

    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(),
        completer=_Words(),
        complete_while_typing=False,
        output=create_output(sys.stderr),
        enable_history_search=False,
    )
    return lambda: session.prompt(_PROMPT)
