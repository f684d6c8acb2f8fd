"""Read reStructuredText. The text stays as written; its titles are the sections, with levels by the order of their marks."""

from __future__ import annotations

import re
import unicodedata

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import Content, Extracted, Section
from fbrag_cli.documents.source import Source

_MEDIA_TYPE = "text/x-rst"
# docutils, which reads whole documents with their directives, takes a hundred times as long as this.
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*")


def read_rst(source: Source, codec: str | None = None) -> Extracted:
    """Read reStructuredText. codec: its encoding; None to detect it. Raises FbragError as `decode`."""
    decoded = decode(source, codec)
    sections = _sections(decoded.text)
    return Extracted(Content(decoded.text, sections=sections), _MEDIA_TYPE, decoded.encoding, warnings=decoded.warnings)


def _sections(text: str) -> tuple[Section, ...]:
    """Return the titles: lines with a line of one repeated mark below, at least as long (maybe above too), after a blank line."""
    lines = [line.rstrip() for line in text.split("\n")]
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    styles: list[str] = []
    sections = []
    for number in range(len(lines) - 1):
        title, mark = lines[number], _mark(lines[number + 1])
        if not mark or not title or _mark(title) or len(lines[number + 1]) < min(_columns(title.strip()), 1 << 16):
            continue
        above = lines[number - 1] if number else ""
        overlined = above == lines[number + 1] and (number < 2 or not lines[number - 2])
        if not overlined and (above or title[0].isspace()):
            continue
        style = mark * 2 if overlined else mark
        if style not in styles:
            styles.append(style)
        indent = len(title) - len(title.lstrip())
        sections.append(Section(title.strip(), styles.index(style) + 1, starts[number] + indent))
    return tuple(sections)


def _mark(line: str) -> str:
    """Return the character that `line` repeats; "" for other lines."""
    return line[0] if len(line) > 1 and _ADORNMENT.fullmatch(line) else ""


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
