"""Read Markdown. The text stays as written; its headings, by the rules of CommonMark, are the sections."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import Content, Extracted, Section
from fbrag_cli.documents.lines import LineIndex
from fbrag_cli.documents.source import Source

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MEDIA_TYPE = "text/markdown"
# YAML of static site generators.
_FRONT_MATTER = re.compile(r"---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_HEADING_LIKE = re.compile(r"^.{0,20}#|^[ \t>]*(?:=+|-+)[ \t]*$", re.MULTILINE)
_MAX_INLINE = 200  # characters of a heading whose emphasis and links are taken out of its title


def read_markdown(source: Source, codec: str | None = None) -> Extracted:
    """Read Markdown. codec: its encoding; None to detect it. Raises FbragError as `decode`."""
    decoded = decode(source, codec)
    sections = tuple(_sections(decoded.text)) if _HEADING_LIKE.search(decoded.text) else ()
    return Extracted(Content(decoded.text, sections=sections), _MEDIA_TYPE, decoded.encoding, warnings=decoded.warnings)


def _sections(text: str) -> list[Section]:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["inline", "reference"])  # blocks only: headings are blocks
    inline_parser = MarkdownIt("commonmark")
    lines = LineIndex(text)
    front = _FRONT_MATTER.match(text)
    begin, first = (front.end(), front[0].count("\n")) if front else (0, 0)  # characters, lines
    sections = []
    tokens = parser.parse(text[begin:])
    for opening, title in pairwise(tokens):
        if opening.type == "heading_open" and opening.map is not None and title.content:
            start, _ = lines.span(first + opening.map[0] + 1)
            sections.append(Section(_title(inline_parser, title.content), int(opening.tag[1:]), start))
    return sections


def _title(parser: MarkdownIt, written: str) -> str:
    """Return a heading's words, without the marks of emphasis, code and links."""
    if len(written) > _MAX_INLINE:
        return " ".join(written.split())
    (inline,) = parser.parseInline(written)
    return " ".join("".join(" " if token.type == "softbreak" else token.content for token in inline.children or ()).split())
