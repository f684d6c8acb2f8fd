"""The command line before it is parsed: the names of the commands, and the few words that are needed early."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from fbrag_cli.errors import FbragError

#: The commands, in the order of the help, each with the first sentence of its own help.
COMMANDS: Mapping[str, str] = {
    "ask": "Answer a question about one or more documents, with sources.",
    "explain": "Show which chunks were selected for a question, and why.",
    "text": "Print the text of documents, with line and page numbers.",
    "chat": "Ask follow-up questions interactively.",
    "batch": "Answer many questions about many documents.",
    "ui": "Ask questions in your browser, with the document next to them.",
    "serve": "Keep models and documents loaded, and answer over HTTP.",
    "mcp": "Run an MCP server for AI agents, on stdin and stdout.",
    "skill": "Print a SKILL.md for AI agents.",
    "doctor": "Check the installation, the GPU and the models.",
    "eval": "Evaluate methods and settings on a labeled dataset.",
    "train": "Train the components that a method needs.",
    "models": "Download, choose, list, verify and delete models.",
    "config": "View and change settings.",
    "cache": "View and clear the cache.",
}

_WITH_FORMATS = ("ask", "chat", "explain", "eval")
_FORM = re.compile(r"(?:--format(?:=|$)|-[aqvy]*f)(.*)")


def value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Return the last value of an option, given as `--config X` or `--config=X`."""
    value = None
    rest = iter(arguments)
    for argument in rest:
        if argument == option:
            value = next(rest, value)
        elif argument.startswith(option + "="):
            value = argument.partition("=")[2]
    return value


def first_word(arguments: Sequence[str]) -> str | None:
    """Return the command: the first argument that is neither an option nor an option's value."""
    rest = iter(arguments)
    for argument in rest:
        if argument in ("--config", "--color"):
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return None


def with_options_for_words(arguments: Sequence[str]) -> list[str]:
    """Turn `fbrag help ask` and `fbrag version` into `fbrag ask --help` and `fbrag --version`; return other arguments
    unchanged."""
    found = [*arguments]
    if (word := first_word(arguments)) in ("help", "version"):
        found.remove(word)
        found.append(f"--{word}")
    return found


def in_json(arguments: list[str]) -> bool:
    """Return whether errors are also printed as JSON: from the command line, else FBRAG_FORMAT, else the configuration file."""
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments  # only those before "--" can be options
    if "--json" in flags:
        return True
    form, rest = "", iter(flags)
    for argument in rest:
        if found := _FORM.fullmatch(argument):
            form = found[1] or next(rest, "")
    command = first_word(flags)
    if command not in COMMANDS:
        command = "ask"  # the default command
    if not form and command in _WITH_FORMATS:
        form = "" if command == "eval" else _format_of_file(flags)
    return form in ("json", "jsonl")


def _format_of_file(flags: Sequence[str]) -> str:
    from fbrag_cli.cli.option import options_of
    from fbrag_cli.cli.options import OutputOptions
    from fbrag_cli.storage.config_file import load, locate

    try:
        file = load(locate(value_of("--config", flags), os.environ), {"format": options_of(OutputOptions)["format"]})
    except FbragError:  # an unreadable file sets nothing
        return ""
    return str(file.values.get("format", ""))
