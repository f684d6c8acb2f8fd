"""Read text that stays as written: plain text and source code, Markdown, reStructuredText, and notebooks as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fbrag_cli.documents.broken_words import rejoin_lines
from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.document import HIDDEN, Content, Extracted, Section
from fbrag_cli.documents.lines import LineIndex
from fbrag_cli.documents.source import Source
from fbrag_cli.text.printable import plural
from fbrag_cli.text.table import width_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

# YAML or TOML of static site generators and of notes: a person sees it as a table.
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(?:#.*\n)*(?=[^\n:=]+[:=])(?s:.*?)\n(?:\1|\.\.\.)[ \t]*(?:\n|$)")
_HEADING_LIKE = re.compile(r"^.{0,20}#|^[ \t>]*(?:=+|-+)[ \t]*$", re.MULTILINE)
_MAX_INLINE = 200  # characters of a heading whose emphasis and links are taken out of its title
# docutils, which reads whole documents with their directives, takes a hundred times as long as this.
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*")
_STRUCK = re.compile(r"(?<!~)~~(?![\s~])[^~]*(?<!\s)~~(?!~)")
_CODE = re.compile(r"(?<!`)(`{1,3})(?!`)[^`]*\1(?!`)")
_FENCE = re.compile("`{3,}")
# What begins code or a comment: a fence, a code span, HTML's comment or Obsidian's.
_OPENING = re.compile(
    r"^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}(?=[^`\n]*$)|~{3,})|(`+)|<!--|(?<![\w%])%%(?!%)", re.MULTILINE
)
_CLOSING = {"<!--": "-->", "%%": "%%"}
_MAX_SPAN = 2_000  # characters of a code span


def read_prose(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read plain text. Words broken at line ends are joined if the text has them whole. codec, errors: as `read_plain`."""
    found = _read(source, codec, "text/plain")
    return replace(found, content=Content(rejoin_lines(found.content.text)))


def read_plain(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read source code, or rows, as written. codec: its encoding; None to detect it. Raises FbragError as `decode`."""
    return _read(source, codec, "text/plain")


def read_markdown(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read Markdown; its headings, by the rules of CommonMark, are the sections. codec, errors: as `read_plain`. markup: whether
    comments are read, and struck-out text, which stays as written, needs no warning."""
    decoded = decode(source, codec)
    text, n_hidden = (decoded.text, 0) if markup else _without_comments(decoded.text)
    n_struck = 0 if markup else _count_struck(text)
    warning = f"{source.name}: read as written: {plural(n_struck, 'struck-out passage')} (~~…~~)"
    return Extracted(
        Content(text, sections=tuple(_markdown_sections(text))),
        "text/markdown",
        decoded.encoding,
        warnings=(*decoded.warnings, warning) if n_struck else decoded.warnings,
        markup={HIDDEN: n_hidden} if n_hidden else {},
    )


def read_rst(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read reStructuredText; its titles are the sections, with levels by the order of their marks. codec, errors: as
    `read_plain`."""
    return _read(source, codec, "text/x-rst", _rst_sections)


def read_notebook(source: Source, codec: str | None = None, markup: bool = False) -> Extracted:
    """Read a notebook (Jupyter): its texts as written; its code, and what the code printed, in fences. Pictures are not read.

    codec: not used, because JSON is UTF-8. Raises FbragError doc_unreadable: damaged.
    """
    try:
        notebook = json.loads(source.data)
        old = [cell for sheet in notebook.get("worksheets", ()) for cell in sheet["cells"]]  # before version 4
        parts = [part for cell in notebook.get("cells", old) for part in _parts(cell)]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise source.damaged("a notebook", "it is not JSON of cells") from None
    data = "\n\n".join(parts).encode("utf-8", "replace")
    read = read_markdown(replace(source, data=data), "utf-8", markup)
    return replace(read, media_type="application/x-ipynb+json")


def _read(
    source: Source, codec: str | None, media_type: str, sections_of: Callable[[str], Iterable[Section]] = lambda _: ()
) -> Extracted:
    decoded = decode(source, codec)
    content = Content(decoded.text, sections=tuple(sections_of(decoded.text)))
    return Extracted(content, media_type, decoded.encoding, warnings=decoded.warnings)


def _count_struck(text: str) -> int:
    """Return the number of struck-out passages of Markdown outside of code."""
    if not _STRUCK.search(text):
        return 0
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").disable(["inline", "reference"]).parse(text)
    return sum(len(_STRUCK.findall(_CODE.sub("", token.content))) for token in tokens if token.type == "inline")


def _without_comments(text: str) -> tuple[str, int]:
    """Return Markdown without its comments, whose line ends stay, and their number. Code and front matter have none."""
    front = _FRONT_MATTER.match(text)
    at, kept, n_comments = front.end() if front else 0, 0, 0
    parts: list[str] = []
    last = {mark: text.rfind(closing) for mark, closing in _CLOSING.items()}
    while match := _OPENING.search(text, at):
        mark, fence, ticks, at = match[0], match[1], match[2], match.end()
        if fence:
            end = re.compile(rf"^[ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE).search(text, at)
            at = end.end() if end else len(text)
        elif ticks:
            paragraph = text[at : at + _MAX_SPAN].partition("\n\n")[0]
            end = re.search(rf"(?<!`){ticks}(?!`)", paragraph)
            at += end.end() if end else 0
        elif at <= last[mark]:
            closing = text.index(_CLOSING[mark], at)
            parts += text[kept : match.start()], "\n" * text.count("\n", at, closing)
            n_comments += bool(text[at:closing].strip())
            at = kept = closing + len(_CLOSING[mark])
    return "".join((*parts, text[kept:])), n_comments


def _markdown_sections(text: str) -> list[Section]:
    if not _HEADING_LIKE.search(text):
        return []
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


def _rst_sections(text: str) -> list[Section]:
    """Return the titles: lines with a line of one repeated mark below, at least as long (maybe above too), after a blank line."""
    lines, index = [line.rstrip() for line in text.split("\n")], LineIndex(text)
    styles: list[str] = []
    sections = []
    for number in range(len(lines) - 1):
        title, mark = lines[number], _mark(lines[number + 1])
        if not mark or not title or _mark(title) or len(lines[number + 1]) < min(width_of(title.strip()), 1 << 16):
            continue
        above = lines[number - 1] if number else ""
        overlined = above == lines[number + 1] and (number < 2 or not lines[number - 2])
        if not overlined and (above or title[0].isspace()):
            continue
        style = mark * 2 if overlined else mark
        if style not in styles:
            styles.append(style)
        indent = len(title) - len(title.lstrip())
        sections.append(Section(title.strip(), styles.index(style) + 1, index.span(number + 1)[0] + indent))
    return sections


def _mark(line: str) -> str:
    """Return the character that `line` repeats; "" for other lines."""
    return line[0] if len(line) > 1 and _ADORNMENT.fullmatch(line) else ""


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the text of a cell, and of what its code printed, if there is any."""
    text = _joined(cell.get("source") or cell.get("input") or "").strip("\n")
    is_code = cell.get("cell_type") == "code"
    if text.strip():
        yield _fenced(text) if is_code else text
    for output in cell.get("outputs", ()) if is_code else ():
        printed = _joined(output.get("text") or output.get("data", {}).get("text/plain") or "").strip("\n")
        if printed.strip():
            yield _fenced(printed)


def _fenced(text: str) -> str:
    """Return a text between fences, longer ones than it has itself."""
    fence = "`" * max((len(found) + 1 for found in _FENCE.findall(text)), default=3)
    return f"{fence}\n{text}\n{fence}"


def _joined(text: object) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
