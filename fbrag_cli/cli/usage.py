"""Errors of usage in plain words, each with the command that was meant, quoted so that it can be pasted."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import typer

from fbrag_cli.cli.argv import first_word
from fbrag_cli.cli.options import AnswerOptions, ExplainOptions
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import settings_of
from fbrag_cli.text.near import closest

#: A question to put into a command where none was given.
EXAMPLE = "Who …?"

#: ask, explain -> the other command, the options that only that one has, and why.
_OTHERS = {"ask": ("explain", ExplainOptions, "does not explain"), "explain": ("ask", AnswerOptions, "gives no answer")}

#: Options that earlier versions had.
_GONE = {"--fusion": "it went in 0.3.0: the scores of both lookups are added, which answered best"}

_ADDRESS = re.compile(r"(https?|ftp)://", re.IGNORECASE)
_FILE_NAME = re.compile(r".*(/|\.[A-Za-z]\w{1,5}$)")  # "notes/", "book.txt"; not "Who?", "3.5", "U.S."


# -- what Typer reports ----------------------------------------------------------------------------------------------------


def usage_error(error: typer.TyperException, arguments: Sequence[str]) -> FbragError:
    """Return Typer's error in the words of this program. arguments: the whole command line."""
    message = error.format_message().strip()
    context: Any = getattr(error, "ctx", None)
    if found := _of_the_other_command(error, context, arguments):
        return found
    if message.startswith("No such command") and not context.parent and (found := _without_command(arguments)):
        return found
    hint = _GONE.get(getattr(error, "option_name", ""))
    if option := closest(getattr(error, "option_name", None) or "", getattr(error, "possibilities", None) or ()):
        hint = hint or f"did you mean {option}?"
    for separator in (" Did you mean ", " (Possible options: "):
        if separator in message:
            message, _, rest = message.partition(separator)
            hint = hint or f"did you mean {rest.strip().rstrip('?)')}?"
    message = message[:1].lower() + message[1:].rstrip(".")
    return FbragError("usage", message, hint or f"{context.command_path if context else 'fbrag'} --help")


def _of_the_other_command(error: Any, context: Any, arguments: Sequence[str]) -> FbragError | None:
    """Return the error of an option that `ask` has and `explain` has not, or the other way round; None for another error."""
    option, command = getattr(error, "option_name", None), context and context.info_name
    if command not in _OTHERS or option not in _names_of(_OTHERS[command][1]):
        return None
    other, _, reason = _OTHERS[command]
    place = arguments.index(command)
    meant = shlex.join(["fbrag", *arguments[:place], other, *arguments[place + 1 :]])
    return FbragError("usage", f"{command} {reason}: leave out {option}", meant)


def _names_of(group: type[Any]) -> list[str]:
    return [name for each in settings_of(group).values() for names in each.names for name in names.split("/")]


def _without_command(arguments: Sequence[str]) -> FbragError | None:
    """Return the error of a document or a question where a command is expected; None for any other word."""
    word = first_word(arguments)
    if word is None:
        return None
    place = arguments.index(word)
    if os.path.exists(word) or _ADDRESS.match(word) or word == "-":
        what = f"{word} is a document, not a command"
    elif " " in word:
        what = f"{word!r} is a question, not a command"
    elif _FILE_NAME.match(word):
        what = f"there is no command {word}"
    else:
        return None
    words = list(takewhile(lambda each: not each.startswith("-") or each == "-", arguments[place:]))
    command = [*arguments[:place], "ask", *_meant(words), *arguments[place + len(words) :]]
    return FbragError("usage", what, shlex.join(["fbrag", *command]))


# -- the documents and the question ----------------------------------------------------------------------------------------


def check_words(words: Sequence[str]) -> None:
    """Check that documents come first and a question comes last, in one word. Raises FbragError.

    The error is `doc_not_found` for an address, else `usage`.
    """
    *paths, question = words
    check_no_address(words, _meant(words))
    if question != "-" and os.path.exists(question):
        what = f"{question} is a document, not a question: the question comes last"
        raise FbragError("usage", what, typed(words, _meant(words)))
    if not paths:
        raise FbragError("usage", "a document and a question are needed: the question comes last", typed(words, _meant(words)))
    n_documents = len(list(takewhile(lambda path: path == "-" or os.path.exists(path), paths)))
    rest = words[n_documents:]
    if n_documents and len(rest) > 1 and not any(" " in word or _FILE_NAME.match(word) for word in rest):
        what = f"there is no file {rest[0]}: a question of several words needs quotes"
        raise FbragError("usage", what, typed(words, _meant(words)))


def check_no_address(words: Sequence[str], meant: Sequence[str]) -> None:
    """Raise FbragError `doc_not_found` for a URL among the words, with the command that fetches it. meant: as for `typed`."""
    if not (addresses := [word for word in words if _ADDRESS.match(word)]):
        return
    hint = f"curl -sLO {shlex.quote(addresses[0])}"
    if len(addresses) == 1 and "-" not in words:
        piped = ["-" if word == addresses[0] else word for word in meant]
        hint = f"curl -sL {shlex.quote(addresses[0])} | {typed(words, piped)}"
    what = f"{addresses[0]} is an address: fbrag reads files and stdin, and fetches no document"
    raise FbragError("doc_not_found", what, hint, document=addresses[0])


def typed(words: Sequence[str], meant: Sequence[str]) -> str:
    """Return the command line of this process with `meant` in place of `words`, to be pasted into a shell."""
    line = sys.argv[1:]
    for place in range(len(line) - len(words) + 1):
        if line[place : place + len(words)] == list(words):
            return shlex.join(["fbrag", *line[:place], *meant, *line[place + len(words) :]])
    return shlex.join(["fbrag", "explain" if "explain" in line[:1] else "ask", *meant])


def typed_with(option: str) -> str:
    """Return the command line of this process with one more option, to be pasted into a shell."""
    line = sys.argv[1:]
    place = line.index(command) + 1 if (command := first_word(line)) else 0
    return shlex.join(["fbrag", *line[:place], option, *line[place:]])


def _meant(words: Sequence[str]) -> list[str]:
    """Return the documents, and then the question as one word, that `words` most likely stand for."""
    documents = list(takewhile(_is_document, words))
    if documents:
        return [*documents, " ".join(words[len(documents) :]) or EXAMPLE]
    documents = [word for word in words if _is_document(word)]
    return [*(documents or ["DOC"]), " ".join(word for word in words if word not in documents)]


def _is_document(word: str) -> bool:
    found = os.path.exists(word) or _ADDRESS.match(word) or (" " not in word and _FILE_NAME.match(word))
    return word == "-" or bool(found)
