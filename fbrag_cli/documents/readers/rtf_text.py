"""Lay out the text of a rich text document: paragraphs, headings, lists, tables, notes, headers and comments."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fbrag_cli.documents.readers.blocks import Block, BlockBuilder
from fbrag_cli.documents.readers.margins import PAGE_NUMBER, Margins
from fbrag_cli.documents.readers.quotes import Quotes, comment

_BULLETS = frozenset("•·o▪▫-–—§■□●○◦➢❖→✓*")
_RUNNING_TEXT = 9  # outline level of no heading


@dataclass(slots=True)
class _Story:
    """Text of its own: the body, a header, a comment or a text box. begun: whether its paragraph has text. mark: number of a list
    that its paragraph begins with. notes: number of open notes, whose text stays in the line that refers to them."""

    key: str = ""
    builder: BlockBuilder = field(default_factory=BlockBuilder)
    begun: bool = False
    is_item: bool = False
    in_list: bool = False
    mark: str = ""
    notes: int = 0
    said_before: int = 0  # pieces of text before it
    in_row: bool = False
    in_cell: bool = False
    row_is_defined: bool = False
    boxes: list[Block] = field(default_factory=list)


class Text:
    """Collects the text of a document in its order. left_out: number of each thing that was not read. comments: the comments."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self.comments: list[str] = []
        self._story = _Story()
        self._outer: list[_Story] = []
        self._margins = Margins()
        self._footers: list[Block] = []
        self._in_hidden_passage = False
        self._was_raised = False
        self._author = ""
        self._quotes = Quotes()
        self._anchor = ""

    def blocks(self) -> list[Block]:
        """Return all blocks, with the footers after them."""
        while self._outer:
            self._end_box()
        self._leave_row()
        self._end_paragraph()
        return [*self._story.builder.blocks(), *self._footers]

    def _say(self, text: str, *, hidden: bool, raised: bool, in_table: bool, outline: int) -> None:
        if not text:
            return
        if hidden:
            if not (self._in_hidden_passage or text.isspace()):
                self._in_hidden_passage = True
                self.left_out["hidden passage"] += 1
            return
        story = self._story
        if not story.begun and not story.notes:
            if text.isspace():
                return
            self._begin_paragraph(in_table=in_table, outline=outline)
        self._in_hidden_passage = False
        if raised and not self._was_raised and text[0].isdigit() and story.builder.touches != " ":
            story.builder.text("^")  # otherwise 10^6 would be 106
        self._was_raised = raised
        story.builder.text(text.replace("\u00ad", ""))
        self._quotes.say(text)

    # -- paragraphs and tables -----------------------------------------------------------------------------------------------

    def _begin_paragraph(self, *, in_table: bool, outline: int) -> None:
        story = self._story
        builder = story.builder
        story.begun = True
        if in_table or story.row_is_defined:
            self._open_cell()
        else:
            self._leave_row()
            builder.end_block()
        builder.level = outline + 1 if outline < _RUNNING_TEXT and not story.in_row else 0
        mark = "" if not story.mark else "- " if story.mark in _BULLETS else f"{story.mark} "
        story.mark = ""
        story.is_item = bool(mark) and not builder.level
        if story.is_item:
            if not story.in_list:
                builder.begin_group()
            builder.begin_item(mark)
        elif mark != "- ":
            builder.text(mark)
        story.in_list = story.is_item

    def _end_paragraph(self) -> None:
        story = self._story
        if story.notes:
            story.builder.text(" ")
            return
        if story.begun:
            story.builder.end_item() if story.is_item else story.builder.end_block()
        story.builder.level = 0
        story.begun = story.is_item = False
        story.mark = ""
        if story.boxes:
            story.builder.extend(story.boxes)
            story.boxes = []
        self._quotes.say(" ")

    def _break(self) -> None:
        if self._story.begun and not self._story.notes:
            self._story.builder.line_break()
            self._quotes.say(" ")
        elif self._story.notes:
            self._story.builder.text(" ")

    def _define_row(self) -> None:
        self._story.row_is_defined = True

    def _open_cell(self) -> None:
        story = self._story
        if not story.in_row:
            if not story.in_list:
                story.builder.end_block()
            story.builder.begin_row()
            story.in_row, story.in_list = True, False
        if not story.in_cell:
            story.builder.begin_cell()
            story.in_cell = True

    def _end_cell(self) -> None:
        story = self._story
        if story.notes:
            return
        self._open_cell() if not story.begun else None
        self._end_paragraph()
        if story.in_cell:
            story.builder.end_cell()
            story.in_cell = story.in_list = False

    def _end_row(self) -> None:
        if not self._story.notes:
            self._leave_row()
            self._story.row_is_defined = False

    def _leave_row(self) -> None:
        """End the open row, if there is one."""
        story = self._story
        if story.in_cell:
            story.builder.end_cell()
        if story.in_row:
            story.builder.end_row()
        story.in_row = story.in_cell = False

    def _set_mark(self, text: str) -> None:
        self._story.mark = text

    # -- headers, notes, comments and boxes ----------------------------------------------------------------------------------

    @property
    def _is_margin(self) -> bool:
        return self._story.key in ("header", "footer")

    def _write_page(self) -> None:
        self._say(PAGE_NUMBER, hidden=False, raised=False, in_table=False, outline=_RUNNING_TEXT)

    def _push(self, key: str) -> None:
        self._outer.append(self._story)
        self._story = _Story(key, said_before=len(self._quotes))

    def _pop(self) -> list[Block]:
        self._leave_row()
        self._end_paragraph()
        blocks = self._story.builder.blocks()
        self._story = self._outer.pop()
        return blocks

    def _end_margin(self) -> None:
        kind = self._story.key
        blocks = list(self._margins.blocks(kind, self._pop()))
        if kind == "footer":
            self._footers += blocks
        else:
            self._end_box_with(blocks)

    def _end_box(self) -> None:
        self._end_box_with(self._pop())

    def _end_box_with(self, blocks: list[Block]) -> None:
        if self._story.begun:
            self._story.boxes += blocks
        else:
            self._story.builder.extend(blocks)

    def _begin_note(self) -> None:
        self._story.builder.text(" [")
        self._story.notes += 1

    def _end_note(self) -> None:
        self._story.notes -= 1
        self._story.builder.text("]")

    def _set_author(self, text: str) -> None:
        self._author = text

    def _begin_anchor(self, key: str) -> None:
        self._quotes.begin(key)

    def _end_anchor(self, key: str) -> None:
        if (quote := self._quotes.end(key)) is not None:
            self._anchor = quote

    def _end_comment(self) -> None:
        said_before = self._story.said_before
        text = "\n".join(block.prefix + block.text for block in self._pop())
        self._quotes.cut(said_before)  # it is no part of the text that another comment is on
        if text:
            self.comments.append(comment(self._author, self._anchor, text))
        self._author = self._anchor = ""

    def _leave_out_object(self, text: str) -> None:
        self.left_out["equation object" if text.startswith("Equation") else "embedded object"] += 1
