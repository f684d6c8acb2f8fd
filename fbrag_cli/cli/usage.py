"""Usage errors in plain words, each with an example of the right command."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import typer

from fbrag_cli.errors import FbragError
from fbrag_cli.text.suggest import suggestion

#: The hint if a document and a question are missing.
EXAMPLE = 'fbrag ask book.txt "Who sealed the chronometer box?"'

#: Old names of options, each with its new one; with the command if only one had it. CHANGELOG.md has the same table.
RENAMED = {
    "--again": "--refresh",
    "--answer-anyway": "--allow-unsupported",
    "--budget": "--select N",
    "--comments": "--markup",
    "--compare": "--baseline",
    "--full": "-C all",
    "--more": "--select N",
    "--no-gpu-probe": "--skip-gpu",
    "--parallel": "-j/--jobs",
    "--reads": "--set granularity=chunk|window",
    "--samples-text": "--show-samples",
    "--suggested": "--recommended",
    "--together": "--merge",
    "chat --plain": "--no-rewrite",
    "eval --min": "--fail-under",
    "explain --limit": "--rows",
    "explain --prompt": "--show-prompt",
}

#: What people call a command elsewhere, with the command that does it here.
ELSEWHERE = {
    "bench": "fbrag doctor",
    "cache clean": "fbrag cache clear",
    "cache ls": "fbrag cache size",
    "cache prune": "fbrag cache clear --older-than 30d",
    "completion": "fbrag --show-completion SHELL",
    "config edit": '$EDITOR "$(fbrag config path)"',
    "config list": "fbrag config show",
    "config ls": "fbrag config show",
    "find": "fbrag explain DOC QUESTION --fast",
    "list": "fbrag models list",
    "ls": "fbrag models list",
    "models default": "fbrag models use NAME",
    "pull": "fbrag models pull",
    "search": "fbrag explain DOC QUESTION --fast",
}

_ADDRESS = re.compile(r"(https?|ftp)://", re.IGNORECASE)
_FILE_NAME = re.compile(r"(?!.*\?$).*(/|\.[A-Za-z]\w{1,5}$)")  # "notes/", "book.txt"; not "km/h?", "3.5", "U.S."
_CURLY = "“”„«»"
_NEAR = 0.74  # likeness of two names, dashes aside, from which one is probably meant


def usage_error(error: typer.TyperException, line: Any) -> FbragError:
    """Return Typer's error in fbrag's words. line: the context of the command, as far as it could be read."""
    context: Any = getattr(error, "ctx", None) or line
    path, command = context.command_path, context.command
    hint = f"{path} --help"
    if option := getattr(error, "option_name", ""):
        own = next((each.opts for each in command.params if option in each.opts), None)
        hint = command.help_with(path, max(own, key=len)) if own else _meant(option, context) or hint
    return FbragError("usage", error.message[:1].lower() + error.message[1:].rstrip("."), hint)


def no_such_command(context: Any, words: Sequence[str], line: Any) -> FbragError:
    """Return the error for words of which the first is none of a group's commands. line: as of `usage_error`."""
    word, path = words[0], context.command_path
    if not context.parent and (found := _without_command(word, line.params.get("arguments") or [word])):
        return found
    hint = ELSEWHERE.get(f"{path} {word}".removeprefix("fbrag ")) or suggestion(word, context.command.commands, f"{path} --help")
    return FbragError("usage", f"no such command {word!r}", hint)


def _meant(option: str, context: Any) -> str:
    """Return the hint for an option that a command does not have; "" if nothing is known.

    It is a setting for experts, an option that was renamed, one of another command, or nearly one of this command.
    """
    if questions := [word for word in sys.argv[1:] if word.startswith(option) and " " in word]:
        return f"put -- before what begins with a dash: … -- {shlex.quote(questions[0])}"
    command = context.command
    name = option.lstrip("-").replace("-", "_")
    if name in getattr(command, "experts", ()):
        return f"it is a setting for experts: --set {option.lstrip('-')}={command.experts[name].metavar or 'VALUE'}"
    path = context.command_path.removeprefix("fbrag").strip()
    if new := RENAMED.get(f"{path} {option}") or RENAMED.get(option):
        return f"it is {new} now"
    if others := [other for other, flags in _options_of(context.find_root().command, "fbrag") if option in flags]:
        return f"{option} belongs to {others[0]}"
    own = {flag.strip("-").replace("-", ""): flag for each in command.params for flag in each.opts if flag.startswith("--")}
    near = get_close_matches(name.replace("_", ""), own, 1, _NEAR)
    return f"did you mean {own[near[0]]}?" if near else ""


def _options_of(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the path of a command and of each below it, and its options."""
    yield path, {flag for each in command.params for flag in each.opts}
    for name in getattr(command, "commands", ()):
        yield from _options_of(command.commands[name], f"{path} {name}")


def _without_command(word: str, words: Sequence[str]) -> FbragError | None:
    """Return the error for a document or question in the place of the command; None for any other word. words: all but the
    options."""
    hint = shlex.join(["fbrag", "ask", *_in_order([each for each in words if not each.startswith("--")])])
    if word == "-" or os.path.exists(word) or _is_address(word):
        return FbragError("usage", f"{word} is a document, not a command", hint)
    if " " in word:
        return FbragError("usage", f"{word!r} is a question, not a command", hint)
    return FbragError("usage", f"unknown command {word}", hint) if _FILE_NAME.match(word) else None


def _is_document(word: str) -> bool:
    return word == "-" or os.path.exists(word)


def _is_address(word: str) -> bool:
    """Return whether a word is a URL, and not a question that begins with one."""
    return bool(_ADDRESS.match(word)) and not (" " in word and word.endswith("?"))


def is_question(word: str) -> bool:
    """Return whether a word of the command line looks like a question, and not like a file."""
    return word.endswith("?") or (" " in word and not _FILE_NAME.match(word))


def _in_order(words: Sequence[str]) -> list[str]:
    """Return the user's own words with the documents first, then the question; "QUESTION" if there is none."""
    documents, questions = list[str](), list[str]()
    for word in words:
        (documents if _is_document(word) or _FILE_NAME.match(word) else questions).append(word)
    return [*documents, *(questions or ["QUESTION"])]


def check_words(words: Sequence[str], command: str) -> None:
    """Check that documents come first, and that the question comes last and is one argument. Raises FbragError.

    command: the name of the command, for the hint. The error is `doc_not_found` for a URL among the documents, else `usage`.
    """
    *paths, question = words
    hint = shlex.join(["fbrag", command, *_in_order(words)])
    check_no_address(paths)
    rest = [word for word in words if not _is_document(word)]
    if curly := [word for word in rest if word[0:1] in _CURLY]:
        problem = f"{curly[0]} begins with a curly quote, which a shell takes for a letter"
        raise FbragError("usage", problem, 'put the question in straight quotes: "…"')
    for before, word in pairwise(sys.argv):
        if word.isdigit() and before.startswith("-") and word in rest:
            others = [each for each in words if each != word]
            raise FbragError("usage", f"{before} takes no number", shlex.join(["fbrag", command, *_in_order(others), before]))
    if question != "-" and os.path.exists(question):
        problem = (
            "the question goes last"
            if rest and is_question(rest[0])
            else f"the question is missing: it goes last, after {question}"
        )
        raise FbragError("usage", problem, hint)
    if not paths:
        raise FbragError("usage", "name a document and a question (the question goes last)", EXAMPLE)
    if len(rest) > 1 and all(map(is_question, rest)):
        first = shlex.join(["fbrag", command, *(word for word in words if _is_document(word)), rest[0]])
        raise FbragError("usage", f"one question at a time: {len(rest)} were given", first)
    if 1 < len(rest) < len(words) and not any(" " in word or _FILE_NAME.match(word) for word in rest):
        whole = shlex.join(["fbrag", command, *(word for word in words if _is_document(word)), " ".join(rest)])
        raise FbragError("usage", f"file not found: {rest[0]} (put a question of several words in quotes)", whole)


def check_stdin(names: Sequence[str | None]) -> None:
    """Check that "-", which is stdin, occurs once at most. Raises FbragError `usage`."""
    if names.count("-") > 1:
        raise FbragError("usage", "'-' (stdin) is used twice", "use a file for one of them")


def check_no_address(words: Sequence[str]) -> None:
    """Raise FbragError `doc_not_found` for a URL among the words."""
    for word in filter(_is_address, words):
        what = f"fbrag does not download documents: {word}"
        raise FbragError("doc_not_found", what, f'curl -sL {shlex.quote(word)} | fbrag ask - "QUESTION"', document=word)


def typed_with(option: str, value: str) -> str:
    """Return the command line of this process with this value of an option, ready to paste into a shell."""
    line = sys.argv[1:]
    kept = [word for at, word in enumerate(line) if option not in (word.split("=")[0], line[at - 1] if at else "")]
    end = kept.index("--") if "--" in kept else len(kept)
    return shlex.join(["fbrag", *kept[:end], option, value, *kept[end:]])
