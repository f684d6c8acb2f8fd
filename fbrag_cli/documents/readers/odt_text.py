"""Lay out the text of an OpenDocument text: paragraphs, headings and lists with their numbers, tables and notes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from fbrag_cli.documents.readers.blocks import Block, BlockBuilder
from fbrag_cli.documents.readers.odt_styles import OUTLINE, Level, Styles, label
from fbrag_cli.documents.readers.quotes import Quotes

#: Key of the story of a note in a heading.
NOTE = "note"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"

_BULLET = "- "
_PLAIN = Level(is_bullet=True)
_MAX_LEVEL = 10
_MAX_SPACES = 100
_MAX_STORIES = 20  # in each other: the text of each is moved to the one around it
_ID = "{http://www.w3.org/XML/1998/namespace}id"


@dataclass(slots=True)
class List:
    """An open list. style: key of its style. counts: last number by level. begun: whether its open item has begun. start: number
    that its open item begins with. is_header: whether that item has no number."""

    style: str
    counts: dict[int, int]
    begun: bool = False
    start: int | None = None
    is_header: bool = False


@dataclass(slots=True)
class Story:
    """Text of its own: the body, a header, a comment or a note of a heading. levels: one for each open paragraph (0) or
    heading."""

    builder: BlockBuilder = field(default_factory=BlockBuilder)
    levels: list[int] = field(default_factory=list)
    notes: int = 0  # open ones: their text stays in the line that refers to them
    lists: list[List] = field(default_factory=list)
    after: list[Block] = field(default_factory=list)  # notes of an open heading
    author: list[str] = field(default_factory=list)
    key: str = ""
    said_before: int = 0  # pieces of text before it
    is_muted: bool = False  # whether the rest of the paragraph is hidden


class Text:
    """Collects the text of a document by its elements, in its order. left_out: number of each thing that was not read."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self._styles = Styles()
        self._story = Story()
        self._outer: list[Story] = []
        self._rows = 0
        self._outline: dict[int, int] = {}
        self._counts: dict[str, dict[int, int]] = {}  # numbers of lists by key, and of the last list of a style
        self._quotes = Quotes()

    def _begin_page(self, style: str) -> None:
        """Begin the page that a paragraph's style names."""
        raise NotImplementedError

    def _say(self, text: str) -> None:
        if self._story.is_muted:
            return
        self._story.builder.text(text)
        self._quotes.say(text)

    def _spaces(self, attributes: dict[str, str]) -> None:
        self._say(" " * _number(attributes.get(TEXT + "c"), _MAX_SPACES))

    def _line_break(self, _: dict[str, str]) -> None:
        self._story.builder.line_break()
        self._quotes.say(" ")

    # -- paragraphs ----------------------------------------------------------------------------------------------------------

    def _paragraph(self, attributes: dict[str, str], level: int = 0) -> None:
        story, style = self._story, attributes.get(TEXT + "style-name", "")
        self._begin_page(style)
        story.levels.append(level)
        if story.notes:
            self._say(" ")
            return
        story.builder.end_block()
        story.builder.level = level
        items = story.lists[-1] if story.lists else None
        if items is not None and not items.begun:
            items.begun = True
            mark = "" if items.is_header else self._mark(items, style, level)
            story.builder.begin_item("" if level else mark)
            if level and mark != _BULLET:
                story.builder.text(mark)
        elif items is None and level:
            story.builder.text(self._number_of_heading(attributes, style, level))

    def _number_of_heading(self, attributes: dict[str, str], style: str, level: int) -> str:
        if attributes.get(TEXT + "is-list-header") == "true" or self._styles.refuses_number(style):
            return ""
        restarts = attributes.get(TEXT + "restart-numbering") == "true"
        start = _number(attributes.get(TEXT + "start-value"), 10**9) if restarts else None
        return label(self._styles.lists.get(OUTLINE, {}), self._outline, level, start)

    def _heading(self, attributes: dict[str, str]) -> None:
        level = _number(attributes.get(TEXT + "outline-level"), _MAX_LEVEL)
        self._paragraph(attributes, 0 if self._story.notes else level)

    def _mark(self, items: List, style: str, level: int) -> str:
        """Count the open item of a list, and return its mark."""
        key = items.style or self._styles.list_of(style)
        levels = self._styles.lists.get(key)
        if levels is None and key.lower() == OUTLINE:
            levels, depth = self._styles.lists.get(OUTLINE), level or len(self._story.lists)
            return label(levels or {}, self._outline, depth, items.start)
        depth = min(len(self._story.lists), _MAX_LEVEL)
        return label({depth: _PLAIN} if levels is None else levels, items.counts, depth, items.start)

    def _end_paragraph(self) -> None:
        story = self._story
        if not story.notes:
            story.builder.end_block()
        story.levels.pop()
        story.is_muted = False
        story.builder.level = story.levels[-1] if story.levels else 0
        if story.after and not story.notes:
            blocks, story.after = story.after, []
            story.builder.extend(blocks)
        self._quotes.say(" ")

    def _hidden_paragraph(self, attributes: dict[str, str]) -> None:
        if attributes.get(TEXT + "is-hidden") == "true" and self._story.levels:
            self._story.builder.discard()
            self._story.is_muted = True
            self._leave_out("hidden passage")

    # -- lists ---------------------------------------------------------------------------------------------------------------

    def _list(self, attributes: dict[str, str]) -> None:
        story = self._story
        if story.notes:
            return
        outer = story.lists[-1] if story.lists else None
        style = attributes.get(TEXT + "style-name") or ("" if outer is None else outer.style)
        if outer is not None:
            counts = outer.counts
            if not outer.begun:  # its item holds this list alone, and has no number
                outer.begun = True
                story.builder.begin_item("")
        else:
            before = self._counts.get(f"last {style}") if attributes.get(TEXT + "continue-numbering") == "true" else None
            continued = self._counts.get(f"list {attributes.get(TEXT + 'continue-list')}", before)
            counts = {} if continued is None else continued
            self._counts[f"last {style}"] = counts
        if key := attributes.get(_ID):
            self._counts[f"list {key}"] = counts
        story.builder.begin_group()
        story.lists.append(List(style, counts))

    def _end_list(self) -> None:
        story = self._story
        if not story.notes and story.lists:
            story.builder.end_block()
            story.lists.pop()

    def _item(self, attributes: dict[str, str], *, is_header: bool = False) -> None:
        story = self._story
        if not story.notes and story.lists:
            items = story.lists[-1]
            start = attributes.get(TEXT + "start-value")
            items.begun, items.is_header, items.start = False, is_header, None if start is None else _number(start, 10**9)

    def _end_item(self) -> None:
        story = self._story
        if not story.notes and story.lists and story.lists[-1].begun:
            story.builder.end_item()
            story.lists[-1].begun = False

    # -- tables and notes ----------------------------------------------------------------------------------------------------

    def _table(self, _: dict[str, str]) -> None:
        self._begin_page("")
        if not self._story.notes:
            self._story.builder.begin_group()

    def _row(self, _: dict[str, str]) -> None:
        if not self._story.notes:
            self._rows += 1
            self._story.builder.begin_row()

    def _end_row(self) -> None:
        if not self._story.notes:
            self._rows -= 1
            self._story.builder.end_row()

    def _note(self, _: dict[str, str]) -> None:
        story = self._story
        if story.levels and story.levels[-1] and not story.notes and len(self._outer) < _MAX_STORIES:
            self._push(NOTE)  # below the heading, so that it is no part of the title
            self._story.levels.append(0)
        else:
            story.notes += 1
            self._say(" [")

    def _end_note(self) -> None:
        if self._story.key == NOTE and not self._story.notes:
            text = " ".join(block.text for block in self._pop().builder.blocks())
            self._story.after.append(Block(f"[{text}]"))
        else:
            self._story.notes -= 1
            self._say("]")

    def _push(self, key: str) -> None:
        self._outer.append(self._story)
        self._story = Story(key=key, said_before=len(self._quotes))

    def _pop(self) -> Story:
        story, self._story = self._story, self._outer.pop()
        return story

    def _leave_out(self, thing: str) -> None:
        self.left_out[thing] += 1


def _number(text: str | None, most: int) -> int:
    return min(int(text), most) if text and re.fullmatch(r"\d{1,9}", text) else 1
