"""The command line before it is parsed: the commands that it may name, and the words that errors take from it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from fbrag_cli.errors import FbragError

#: The commands, in the order of the help, each with the first sentence of its own help.
COMMANDS: Mapping[str, str] = {
    "ask": "Answer a question from a document, and show the chunks that the answer rests on.",
    "explain": "Show every chunk's scores for a question, and why it was selected or not.",
    "chat": "Answer questions about documents, a line each; one may refer to those before it.",
    "batch": "Answer many questions on many documents, a row each.",
    "ui": "Open a page in the browser that answers questions about documents.",
    "serve": "Keep models and documents loaded, and answer over HTTP.",
    "mcp": "Serve tools for agents over the Model Context Protocol, on stdin and stdout.",
    "skill": "Print a skill for agents: how to answer from documents with fbrag.",
    "bench": "Measure how fast this machine loads models, scores a text, reads prompts and writes.",
    "doctor": "Check the installation, the GPU and the models.",
    "eval": "Measure answers, evidence, tokens and time of one or several configurations on the same questions.",
    "train": "Train the small parts of a method for a language model, which stays as it is.",
    "models": "Fetch, list, verify and delete models.",
    "config": "Read and change the configuration file.",
    "cache": "The cache of texts, indexes and samples that makes the next question quick.",
}

_WITH_FORMATS = ("ask", "chat", "explain", "eval")
_FORM = re.compile(r"(?:--format(?:=|$)|-[aqvy]*f)(.*)")


def value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Return the value of an option, as `--config X` or `--config=X`. The last one counts."""
    value = None
    rest = iter(arguments)
    for argument in rest:
        if argument == option:
            value = next(rest, value)
        elif argument.startswith(option + "="):
            value = argument.partition("=")[2]
    return value


def first_word(arguments: Sequence[str]) -> str | None:
    """Return the first argument that is neither an option nor the value of one: the command."""
    rest = iter(arguments)
    for argument in rest:
        if argument in ("--config", "--color"):
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return None


def with_options_for_words(arguments: Sequence[str]) -> list[str]:
    """Return `fbrag help ask` and `fbrag version` as `fbrag ask --help` and `fbrag --version`, other arguments as they are."""
    found = [*arguments]
    if (word := first_word(arguments)) in ("help", "version"):
        found.remove(word)
        found.append(f"--{word}")
    return found


def in_json(arguments: list[str]) -> bool:
    """Return whether an error is JSON too: by the command line, else by FBRAG_FORMAT, else by the configuration file."""
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments  # only these can be options
    if "--json" in flags:
        return True
    form, rest = "", iter(flags)
    for argument in rest:
        if found := _FORM.fullmatch(argument):
            form = found[1] or next(rest, "")
    command = first_word(flags)
    if command not in COMMANDS:
        command = "ask"  # a word that is no command was meant for it
    if not form and command in _WITH_FORMATS:
        form = os.environ.get("FBRAG_FORMAT") or ("" if command == "eval" else _format_of_file(flags))
    return form in ("json", "jsonl")


def _format_of_file(flags: Sequence[str]) -> str:
    from fbrag_cli.cli.options import OutputOptions
    from fbrag_cli.settings import settings_of
    from fbrag_cli.storage.config_file import load, locate

    try:
        file = load(locate(value_of("--config", flags), os.environ), {"format": settings_of(OutputOptions)["format"]})
    except FbragError:  # a file that cannot be read says nothing
        return ""
    return str(file.values.get("format", ""))
