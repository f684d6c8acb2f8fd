"""Escapes text for Markdown, so that it is shown unchanged."""

from __future__ import annotations

import re

from fbrag_cli.text.printable import printable

_ACTIVE = re.compile(r"[\\`*_{}\[\]<>|#&~@$]|:(?=//|[\w+-]+:)")  # a colon in a URL or an emoji name
_ADDRESS = re.compile(r"\bwww(?=\.)", re.IGNORECASE)
_START = re.compile(r"^(?:\d+(?=[.)])|(?=[-+=]))")  # the start of a list, or of a line that underlines a heading
_NO_BREAK = "\N{NO-BREAK SPACE}"


def escaped(text: str) -> str:
    """Return `text` for Markdown: no character is markup, and no URL becomes a link. Lists of several lines stay lists."""
    return _ADDRESS.sub(r"\g<0>\\", _ACTIVE.sub(r"\\\g<0>", printable(text)))


def escaped_line(line: str) -> str:
    """Return a line for Markdown as `escaped` does. It does not start a list or underline a heading, and keeps its indent."""
    text = line.lstrip(" \t")
    indent = line[: len(line) - len(text)].replace("\t", 4 * " ")
    return _NO_BREAK * len(indent) + _START.sub(r"\g<0>\\", escaped(text))
