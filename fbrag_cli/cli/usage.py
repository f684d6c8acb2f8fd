"""Usage errors in plain words, each with an example of the right command."""

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

#: The hint if documents and question are in the wrong order or missing.
EXAMPLE = 'fbrag ask book.txt "Who sealed the chronometer box?"'

#: The hint for --model, which two options might mean.
_MODELS = "-m/--large is the model for the answer, --small the model for the forward samples"

_ADDRESS = re.compile(r"(https?|ftp)://", re.IGNORECASE)
_FILE_NAME = re.compile(r".*(/|\.[A-Za-z]\w{1,5}$)")  # "notes/", "book.txt"; not "Who?", "3.5", "U.S."


def usage_error(error: typer.TyperException, arguments: Sequence[str]) -> FbragError:
    """Return Typer's error in fbrag's words. arguments: the whole command line."""
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
    if getattr(error, "option_name", "") == "--model" and "large" in getattr(context.command, "settings", ()):
        hint = _MODELS
    return FbragError("usage", message[:1].lower() + message[1:].rstrip("."), hint)


def _without_command(word: str) -> FbragError | None:
    """Return the error for a document or question in the place of the command; None for any other word."""
    if word == "-" or os.path.exists(word) or _ADDRESS.match(word):
        return FbragError("usage", f"{word} is a document, not a command", EXAMPLE)
    if " " in word:
        return FbragError("usage", f"{word!r} is a question, not a command", EXAMPLE)
    return FbragError("usage", f"unknown command {word}", EXAMPLE) if _FILE_NAME.match(word) else None


def check_words(words: Sequence[str]) -> None:
    """Check that documents come first, and that the question comes last and is one argument. Raises FbragError.

    The error is `doc_not_found` for a URL, else `usage`.
    """
    *paths, question = words
    check_no_address(words)
    if question != "-" and os.path.exists(question):
        raise FbragError("usage", f"the question is missing: it goes last, after {question}", EXAMPLE)
    if not paths:
        raise FbragError("usage", "name a document and a question (the question goes last)", EXAMPLE)
    rest = [word for word in words if word != "-" and not os.path.exists(word)]
    if 1 < len(rest) < len(words) and not any(" " in word or _FILE_NAME.match(word) for word in rest):
        raise FbragError("usage", f"file not found: {rest[0]} (put a question of several words in quotes)", EXAMPLE)


def check_stdin(names: Sequence[str | None]) -> None:
    """Check that "-", which is stdin, occurs once at most. Raises FbragError `usage`."""
    if names.count("-") > 1:
        raise FbragError("usage", "'-' (stdin) is used twice", "use a file for one of them")


def check_no_address(words: Sequence[str]) -> None:
    """Raise FbragError `doc_not_found` for a URL among the words."""
    for word in filter(_ADDRESS.match, words):
        what = f"fbrag does not download documents: {word}"
        raise FbragError("doc_not_found", what, f'curl -sL {shlex.quote(word)} | fbrag ask - "QUESTION"', document=word)


def typed_with(option: str) -> str:
    """Return the command line of this process with one more option, ready to paste into a shell."""
    line = sys.argv[1:]
    place = line.index(command) + 1 if (command := first_word(line)) else 0
    return shlex.join(["fbrag", *line[:place], option, *line[place:]])
