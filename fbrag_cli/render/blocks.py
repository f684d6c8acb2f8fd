"""How the text of a document is laid out on a page: headings, tables, and the text between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Literal

from fbrag_cli.documents.document import Content, Document
from fbrag_cli.documents.tables import form_of, separator_of
from fbrag_cli.text.spans import Span

_TABBED = ("sheets", "rows", "pages")  # forms in which a tab is between two cells
_RULE = re.compile(r"[ |:\-]+")  # of a table of Markdown, below its header
_SIGNS = re.compile(r"#+\s+")  # of Markdown, before a heading
_STRESSED = re.compile(r"(?<![\w*])(\*{1,2})(?=[^\s*])[^\n*]+(?<=[^\s*])\1(?![\w*])")  # *so* or **so**
_LONGER = 30  # characters that a heading may have besides its title, as a number


Kind = Literal["text", "heading", "rows"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text that is laid out on its own. rows: (start, end) of each cell of each row; of a heading and of text one."""

    kind: Kind
    rows: Sequence[Sequence[Span]]


def blocks(document: Document, start: int, end: int) -> Iterator[Block]:
    """Yield the blocks of `text[start:end]` in order. What they leave out is rules of tables, and line ends between blocks."""
    text, titles = document.text, document.content().once(_titles)
    form, separator = form_of(document), separator_of(document)
    if not (separator or titles or form == "pipes" or (form in _TABBED and "\t" in text[start:end])):
        yield Block("text", [[(start, end)]])
        return
    lines = (_line(text, line, titles.get(line[0], ""), form, separator) for line in _lines(text, start, end))
    for kind, group in groupby(lines, key=lambda each: each[0]):
        rows = [cells for _, cells in group if cells]
        if kind == "text":
            shown = [line for (line,) in rows if text[slice(*line)].strip()]
            yield from [Block(kind, [[(shown[0][0], shown[-1][1])]])] if shown else []
        elif kind == "heading":
            yield from (Block(kind, [cells]) for cells in rows)
        elif rows:
            yield Block(kind, rows)


def unseen(document: Document, start: int, end: int) -> Iterator[Span]:
    """Yield the signs in `text[start:end]` that only say how Markdown is set."""
    if document.media_type == "text/markdown":
        for word in _STRESSED.finditer(document.text, start, end):
            yield from (word.span(1), (word.end() - len(word[1]), word.end()))


def _lines(text: str, start: int, end: int) -> Iterator[Span]:
    while start < end:
        last = text.find("\n", start, end)
        last = end if last < 0 else last
        yield start, last
        start = last + 1


def _line(text: str, line: Span, title: str, form: str, separator: str) -> tuple[Kind, Sequence[Span]]:
    """Return what a line is, and its cells; none of one that is not shown. title: of a section that begins there, or ""."""
    start, end = line
    shown = text[start:end]
    if title and title in shown and len(shown) <= len(title) + _LONGER:
        signs = _SIGNS.match(shown) if form == "pipes" else None
        return "heading", [(start + (signs.end() if signs else 0), end)]
    if form == "pipes" and shown.lstrip().startswith("|"):
        inner = (start + shown.index("|") + 1, start + len(shown.rstrip().removesuffix("|")))
        return "rows", () if _RULE.fullmatch(shown) else _cells(text, inner, "|")
    if separator:
        return "rows", _cells(text, line, separator) if shown.strip() else ()
    if form in _TABBED and "\t" in shown.strip():
        return "rows", _cells(text, line, "\t")
    return "text", [line]


def _cells(text: str, line: Span, separator: str) -> list[Span]:
    """Return the spans of the cells of a row, without their quotes. A separator in quotes belongs to its cell."""
    cell, (at, end) = _cell(separator), line
    cells = []
    while found := cell.match(text, at, end):
        cells.append(found.span("plain" if found["quoted"] is None else "quoted"))
        if not found["sign"]:
            break
        at = found.end()
    return cells


@cache
def _cell(separator: str) -> re.Pattern[str]:
    sign = re.escape(separator)
    return re.compile(rf'(?: *"(?P<quoted>(?:[^"]|"")*)" *|(?P<plain>[^{sign}]*))(?P<sign>{sign}|\Z)')


def _titles(content: Content) -> dict[int, str]:
    """Return the titles of sections by their starts."""
    return {section.start: section.title for section in content.sections}
