"""Lay out the text of an office document as its reader comes to it: paragraphs, tables, notes, boxes, headers and comments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fbrag_cli.documents.document import HIDDEN, STRUCK
from fbrag_cli.documents.readers.blocks import SOFT_HYPHEN, Block, BlockBuilder, MarkupText

#: Returns the level of a heading (from 1; 0 for running text), and what precedes its text, as "4.2 " or "- ".
Opening = Callable[[], tuple[int, str]]

_BULLET = "-"
#: Stands for the number of a page in the text of a header or footer. XML has no NULs.
PAGE_NUMBER = "\0"

# "Page 3 of 9" in the languages that we know
_PAGE_OF = re.compile(
    rf"(?:\b(?:page|seite|página|pagina|pag|p|pg|sida|side|strona|стр|страница)\b|第)?[.:]?\s*{PAGE_NUMBER}\s*[页頁]?"
    rf"(?:\s*(?:of|von|de|di|sur|av|af|z|из|/|共)?\s*{PAGE_NUMBER}\s*[页頁]?)*",
    re.IGNORECASE,
)
_EDGES = " |/,;–—-−·•\t"
_MAX_QUOTED = 120  # characters
_MAX_PIECES = 100  # of text that are looked at for a quote
_MAX_PIECE = 1000  # characters; hostile documents have thousands of comments on one long text
_MAX_STORIES = 20  # within each other: the text of each is copied to the one around it


@dataclass(slots=True)
class _Paragraph:
    """An open paragraph. begun: whether it has text. after: blocks of what is anchored in it."""

    opening: Opening
    begun: bool = False
    is_item: bool = False
    after: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class _Story:
    """Text of its own: the body, a box, a note, a header or a comment.

    carried: text that the next paragraph begins with. in_list: whether the paragraph before was an item. n_quoted: number of
    pieces that the quotes had before it.
    """

    builder: BlockBuilder = field(default_factory=BlockBuilder)
    paragraphs: list[_Paragraph] = field(default_factory=list)
    carried: str = ""
    in_list: bool = False
    n_quoted: int = 0


class Quotes:
    """The text that each comment is on, of a document that is read in its order. found: that text in quotation marks, by the
    key of the comment; "" if there is none."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._said: list[str] = []  # while a comment is open
        self._starts: dict[str, int] = {}  # in `_said`, of each open comment

    def __len__(self) -> int:
        """Return the number of pieces of text so far, for `cut`."""
        return len(self._said)

    def say(self, text: str) -> None:
        """Add a piece of text that is shown, or " " between two of them."""
        if self._starts:
            self._said.append(text[:_MAX_PIECE])

    def cut(self, length: int) -> None:
        """Forget the pieces after the first `length` ones."""
        del self._said[length:]

    def begin(self, key: str) -> None:
        """Begin the text that comment `key` is on."""
        self._starts[key] = len(self._said)

    def end(self, key: str) -> None:
        """End that text, and keep it shortened in `found`."""
        start = self._starts.pop(key, None)
        if start is None:
            return
        text = " ".join("".join(self._said[start : start + _MAX_PIECES])[:_MAX_PIECE].split())
        text = text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
        self.found[key] = f"“{text}”" if text else ""
        if not self._starts:
            self._said.clear()


class Writer:
    """The text of a document so far. Its reader calls the methods in the document's order, and ends what it has begun.

    markup: decides whether hidden and struck-out text is read. left_out: number of each thing that was not read. n_said: pieces
    of text so far. quotes: the text that each comment is on.
    """

    def __init__(self, markup: bool) -> None:
        self.markup = MarkupText(markup)
        self.left_out = Counter[str]()
        self.n_said = 0
        self.quotes = Quotes()
        self._story = _Story()
        self._outer: list[_Story] = []
        self._deeper = 0  # open stories beyond _MAX_STORIES, whose text stays in the one around them
        self._headers: list[Block] = []
        self._footers: list[Block] = []
        self._notes: list[Block] = []
        self._added: set[tuple[str, tuple[str, ...]]] = set()  # headers and footers
        self._shift = ""

    def blocks(self) -> list[Block]:
        """Return all blocks: the headers, the body, the footers, the notes."""
        self._finish()
        return [*self._headers, *self._story.builder.blocks(), *self._footers, *self._notes]

    @property
    def builder(self) -> BlockBuilder:
        """Return the builder of the innermost text: lists and rows are begun and ended there."""
        return self._story.builder

    # -- paragraphs ----------------------------------------------------------------------------------------------------------

    @property
    def in_paragraph(self) -> bool:
        return bool(self._story.paragraphs)

    def begin_paragraph(self, opening: Opening) -> None:
        """Begin a paragraph. opening: called before its first text; never, if it has none."""
        self._story.paragraphs.append(_Paragraph(opening))

    def say(self, text: str, *, hidden: bool = False, struck: bool = False, shift: str = "") -> None:
        """Add text to the open paragraph. shift: as of `BlockBuilder.text`, of all of it."""
        text = text.replace(SOFT_HYPHEN, "")
        text = self.markup.read(text, HIDDEN if hidden else STRUCK if struck else "")
        story = self._story
        paragraph = story.paragraphs[-1] if story.paragraphs else None
        if not text or (text.isspace() and paragraph is not None and not paragraph.begun):
            return
        if paragraph is not None and not paragraph.begun:
            self._open(paragraph)
        story.builder.text(text, shift="" if shift == self._shift else shift, is_struck=struck)
        self._shift = shift
        self.n_said += 1
        self.quotes.say(text)

    def _open(self, paragraph: _Paragraph) -> None:
        """Begin the block of a paragraph: a heading, an item or running text."""
        paragraph.begun = True
        story, builder = self._story, self._story.builder
        level, mark = paragraph.opening()
        builder.end_block()
        if level:
            builder.level = level
            builder.text("" if mark.strip() == _BULLET else mark)
        elif mark:
            if not story.in_list:
                builder.begin_group()
            builder.begin_item(mark)
            paragraph.is_item = True
        story.in_list = paragraph.is_item
        builder.text(story.carried)
        story.carried = ""

    def carry(self, text: str, *, struck: bool = False) -> None:
        """Add text to the beginning of the next paragraph that has text."""
        text = self.markup.read(text, STRUCK if struck else "")
        self.n_said += 1
        self._story.carried += f"~~{text}~~" if struck and text.strip() else text

    def line_break(self) -> None:
        paragraph = self._story.paragraphs[-1] if self._story.paragraphs else None
        if paragraph is not None and paragraph.begun:
            self._story.builder.line_break()
            self.quotes.say(" ")

    def discard(self) -> None:
        """Drop the text of the open paragraph so far, which turns out to be hidden."""
        self._story.builder.discard()
        self.markup.left_out[HIDDEN] += 1

    def end_paragraph(self, joins: str | None = None) -> bool:
        """End a paragraph, and add what is anchored in it. Return whether it had text.

        joins: what separates its text, which was carried, from the next paragraph, a part of which it is; None for others.
        """
        story, builder = self._story, self._story.builder
        paragraph = story.paragraphs.pop()
        if joins is not None:
            story.carried += joins
        elif story.carried and not paragraph.begun:
            self._open(paragraph)
        if paragraph.begun:
            builder.end_item() if paragraph.is_item else builder.end_block()
            builder.level = 0
        if paragraph.after:
            builder.extend(paragraph.after)
        self.quotes.say(" ")
        return paragraph.begun

    # -- tables --------------------------------------------------------------------------------------------------------------

    def begin_table(self) -> None:
        self._end_text()
        self._story.builder.begin_group()

    def begin_cell(self) -> None:
        self._story.in_list = False
        self._story.builder.begin_cell()

    def end_cell(self, n_columns: int = 1) -> None:
        """End a cell. n_columns: number of the columns over which it is merged."""
        self._end_text()
        self._story.builder.end_cell()
        self._story.in_list = False
        for _ in range(n_columns - 1):
            self._story.builder.begin_cell()
            self._story.builder.end_cell()

    def _end_text(self) -> None:
        """End the running text: also that which was carried to a paragraph that does not follow."""
        self._story.builder.text(self._story.carried)
        self._story.carried = ""
        self._story.builder.end_block()

    # -- text of its own -----------------------------------------------------------------------------------------------------

    def begin_story(self) -> None:
        """Begin text of its own, which one of the methods below ends: a box, a note, a comment, a header or footer."""
        if len(self._outer) >= _MAX_STORIES:
            self._deeper += 1
            return
        self._outer.append(self._story)
        self._story = _Story(n_quoted=len(self.quotes))

    def end_story(self, *, is_box: bool = False) -> list[Block]:
        """End the innermost text, and return its blocks. is_box: whether a comment around it is on its text too."""
        if self._deeper:
            self._deeper -= 1
            return []
        self._finish()
        story, self._story = self._story, self._outer.pop()
        if not is_box:
            self.quotes.cut(story.n_quoted)
        return story.builder.blocks()

    def end_box(self) -> None:
        self.add(self.end_story(is_box=True))

    def end_note(self, label: str) -> None:
        """End a note: "[1]" is at its place, and its text at the end of the document."""
        self.add_note(label, self.end_story())
        self.say(f"[{label}]")

    def add_note(self, label: str, blocks: list[Block]) -> None:
        """Add a note after the body, as "1. TEXT"."""
        prefix = f"{label}. " if label else ""
        self._notes += (Block(f"{prefix if not place else ''}{each.line}", group="notes") for place, each in enumerate(blocks))

    def add_header_or_footer(self, kind: str, blocks: list[Block]) -> None:
        """Add a header or footer, unless it was added before, as "Header: TEXT". kind: "header" or "footer"."""
        lines = tuple(text for text in (_without_page(block.line) for block in blocks) if text)
        if not lines or (kind, lines) in self._added:
            return
        self._added.add((kind, lines))
        group, added = f"{kind} {len(self._added)}", self._headers if kind == "header" else self._footers
        added += (Block(line, prefix="" if at else f"{kind.capitalize()}: ", group=group) for at, line in enumerate(lines))

    def end_comment(self) -> str:
        """End a comment, and return its text."""
        return "\n".join(block.line for block in self.end_story())

    def add(self, blocks: list[Block]) -> None:
        """Add blocks after the open paragraph."""
        self.n_said += len(blocks)
        if self._story.paragraphs:
            self._story.paragraphs[-1].after += blocks
        else:
            self._story.builder.extend(blocks)

    def _finish(self) -> None:
        while self._story.paragraphs:
            self.end_paragraph()
        self._end_text()


def _without_page(line: str) -> str:
    """Return a line without the number of the page; "" if it has nothing else."""
    if PAGE_NUMBER in line:
        line = _PAGE_OF.sub(" ", line).strip(_EDGES)
    return line if any(letter.isalnum() for letter in line) else ""
