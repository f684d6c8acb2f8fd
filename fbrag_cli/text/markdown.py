"""Text as Markdown that shows it unchanged."""

from __future__ import annotations

import re

from fbrag_cli.text.printable import printable

_ACTIVE = re.compile(r"[\\`*_{}\[\]<>|#&~@$]|:(?=//|[\w+-]+:)")  # a colon: of an address, or of an emoji's name
_ADDRESS = re.compile(r"\bwww(?=\.)", re.IGNORECASE)
_START = re.compile(r"^(?:\d+(?=[.)])|(?=[-+=]))")  # of a list, or of the line below a heading
_NO_BREAK = "\N{NO-BREAK SPACE}"


def escaped(text: str) -> str:
    """Return `text` for Markdown: no character is markup, and no address becomes a link. Lists of several lines stay lists."""
    return _ADDRESS.sub(r"\g<0>\\", _ACTIVE.sub(r"\\\g<0>", printable(text)))


def escaped_line(line: str) -> str:
    """Return a line for Markdown as `escaped` does: it begins no list and underlines no heading, and its indent stays."""
    text = line.lstrip(" \t")
    indent = line[: len(line) - len(text)].replace("\t", 4 * " ")
    return _NO_BREAK * len(indent) + _START.sub(r"\g<0>\\", escaped(text))
