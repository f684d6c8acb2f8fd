"""Errors of usage in plain words, each with an example of the right command."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import typer

from fbrag_cli.cli.argv import first_word
from fbrag_cli.errors import FbragError
from fbrag_cli.text.suggest import suggestion

#: The hint where documents and question are not in their places.
EXAMPLE = 'fbrag ask book.txt "Who sealed the chronometer box?"'

_ADDRESS = re.compile(r"(https?|ftp)://", re.IGNORECASE)
_FILE_NAME = re.compile(r".*(/|\.[A-Za-z]\w{1,5}$)")  # "notes/", "book.txt"; not "Who?", "3.5", "U.S."


def usage_error(error: typer.TyperException, arguments: Sequence[str]) -> FbragError:
    """Return Typer's error in the words of this program. arguments: the whole command line."""
    message = error.format_message().strip()
    context: Any = getattr(error, "ctx", None)
    if message.startswith("No such command") and not context.parent and (found := _without_command(first_word(arguments) or "")):
        return found
    hint = f"{context.command_path if context else 'fbrag'} --help"
    if possible := getattr(error, "possibilities", None):
        hint = suggestion(getattr(error, "option_name", ""), possible, hint)
    for separator in (" Did you mean ", " (Possible options: "):
        if separator in message:
            message, _, rest = message.partition(separator)
            hint = hint if hint.startswith("did you mean") else f"did you mean {rest.strip().rstrip('?)')}?"
    return FbragError("usage", message[:1].lower() + message[1:].rstrip("."), hint)


def _without_command(word: str) -> FbragError | None:
    """Return the error of a document or a question where a command is expected; None for any other word."""
    if word == "-" or os.path.exists(word) or _ADDRESS.match(word):
        return FbragError("usage", f"{word} is a document, not a command", EXAMPLE)
    if " " in word:
        return FbragError("usage", f"{word!r} is a question, not a command", EXAMPLE)
    return FbragError("usage", f"there is no command {word}", EXAMPLE) if _FILE_NAME.match(word) else None


def check_words(words: Sequence[str]) -> None:
    """Check that documents come first and a question comes last, in one word. Raises FbragError.

    The error is `doc_not_found` for an address, else `usage`.
    """
    *paths, question = words
    check_no_address(words)
    if question != "-" and os.path.exists(question):
        raise FbragError("usage", f"{question} is a document, not a question: the question comes last", EXAMPLE)
    if not paths:
        raise FbragError("usage", "a document and a question are needed: the question comes last", EXAMPLE)
    rest = [word for word in words if word != "-" and not os.path.exists(word)]
    if 1 < len(rest) < len(words) and not any(" " in word or _FILE_NAME.match(word) for word in rest):
        raise FbragError("usage", f"there is no file {rest[0]}: a question of several words needs quotes", EXAMPLE)


def check_no_address(words: Sequence[str]) -> None:
    """Raise FbragError `doc_not_found` for a URL among the words."""
    for word in filter(_ADDRESS.match, words):
        what = f"{word} is an address: fbrag reads files and stdin, and fetches no document"
        raise FbragError("doc_not_found", what, f'curl -sL {shlex.quote(word)} | fbrag ask - "QUESTION"', document=word)


def typed_with(option: str) -> str:
    """Return the command line of this process with one more option, to be pasted into a shell."""
    line = sys.argv[1:]
    place = line.index(command) + 1 if (command := first_word(line)) else 0
    return shlex.join(["fbrag", *line[:place], option, *line[place:]])
