"""Lay out the text of a Word document: paragraphs with their numbers, headings, tables and text boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fbrag_cli.documents.readers.blocks import Block, BlockBuilder
from fbrag_cli.documents.readers.docx_numbering import Label, Numbering
from fbrag_cli.documents.readers.docx_styles import Styles, is_on
from fbrag_cli.documents.readers.quotes import Quotes

_MAX_COLUMNS = 63  # as Word allows
_MAX_BOXES = 20  # in each other: the text of each is moved to the one around it


@dataclass(slots=True)
class Found:
    """What the parts of a document share. links: returns blocks of a part by kind and identity (r:id) of its relation. notes:
    numbers of the notes by kind and key, in the order of their references. left_out: number of each thing that was not read."""

    styles: Styles
    numbering: Numbering
    links: Callable[[str, str], list[Block]]
    notes: dict[tuple[str, str], int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Paragraph:
    """An open paragraph. joins: what separates it from the next one, into whose line it goes; None if it is one by itself. after:
    blocks of text boxes and charts in it."""

    style: str
    number: str = ""
    depth: int | None = None
    outline: int | None = None
    joins: str | None = None
    hidden: bool = False
    begun: bool = False
    is_item: bool = False
    after: list[Block] = field(default_factory=list)


class Text:
    """Collects the text of a part by its elements, in the document's order. found: receives notes, and what is left out."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._builder = BlockBuilder()
        self._outer: list[tuple[BlockBuilder, list[_Paragraph], list[str]]] = []
        self._paragraphs: list[_Paragraph] = []
        self._deeper = 0  # text boxes in each other beyond those that are laid out by themselves
        self._columns = 0  # of the open row
        self._carried: list[str] = []  # text of a paragraph that continues in the next one
        self._spans: list[int] = []  # columns of each open cell
        self._in_list = self._in_properties = False
        self._run_is_hidden = self._is_raised = self._in_hidden_passage = False
        self._font = ""
        self._silent = 0  # open fields that show the number of a page
        self._n_said = 0
        self._quotes = Quotes()

    def _say(self, text: str) -> None:
        """Add text that is shown. Text of hidden runs is counted as left out."""
        if not text or self._silent:
            return
        if self._run_is_hidden:
            if not (self._in_hidden_passage or text.isspace()):
                self._leave_out("hidden passage")
                self._in_hidden_passage = True
            return
        paragraph = self._paragraphs[-1] if self._paragraphs else None
        if text.isspace() and paragraph is not None and not paragraph.begun and paragraph.joins is None:
            return
        self._in_hidden_passage = False
        self._n_said += 1
        self._quotes.say(text)
        if paragraph is not None and paragraph.joins is not None:
            self._carried.append(text)
            return
        if paragraph is not None and not paragraph.begun:
            self._begin(paragraph)
        if self._is_raised:  # otherwise 10^6 would be 106
            if text[0].isdigit() and self._builder.touches != " ":
                self._builder.text("^")
            self._is_raised = False
        self._builder.text(text)

    def _begin(self, paragraph: _Paragraph) -> None:
        """Begin the block of a paragraph, once it has text: a heading, an item of a list or running text."""
        paragraph.begun = True
        builder = self._builder
        style = self._found.styles[paragraph.style]
        label, depth = self._label(paragraph)
        level = style.outline if paragraph.outline is None else paragraph.outline
        if level:
            builder.end_block()
            builder.level = level
            builder.text("" if label.text == "- " else label.text)
        elif label.text:
            if not self._in_list:
                builder.begin_group()
            builder.begin_item(("" if label.is_outline else "  " * depth) + label.text)
            paragraph.is_item = True
        else:
            builder.end_block()
        self._in_list = paragraph.is_item
        builder.text("".join(self._carried))
        self._carried.clear()

    def _label(self, paragraph: _Paragraph) -> tuple[Label, int]:
        """Count a paragraph, and return its number and the level of this, from 0."""
        style, numbering = self._found.styles[paragraph.style], self._found.numbering
        key, depth = paragraph.number or style.number, paragraph.depth
        if key in ("", "0"):
            return Label(""), 0
        if depth is None:
            depth = numbering.depth_of(key, paragraph.style)
        if depth is None and not paragraph.number:
            depth = numbering.depth_of(key, style.numbered_by) if style.depth is None else style.depth
        return numbering.label(key, depth or 0), depth or 0

    def _paragraph(self, _: dict[str, str]) -> None:
        self._paragraphs.append(_Paragraph(self._found.styles.default))
        self._in_properties = False

    def _end_paragraph(self) -> None:
        paragraph = self._paragraphs.pop()
        builder = self._builder
        if paragraph.joins is not None:
            self._carried.append(paragraph.joins)
        else:
            if self._carried and not paragraph.begun:
                self._begin(paragraph)
            if paragraph.begun:
                builder.end_item() if paragraph.is_item else builder.end_block()
                builder.level = 0
            elif not paragraph.hidden:
                self._label(paragraph)  # an empty paragraph counts
        if paragraph.after:
            builder.extend(paragraph.after)
        self._quotes.say(" ")

    def _run(self, _: dict[str, str]) -> None:
        style = self._paragraphs[-1].style if self._paragraphs else ""
        self._run_is_hidden = self._found.styles[style].hidden
        self._is_raised, self._font = False, ""

    def _space(self, _: dict[str, str]) -> None:
        self._say(" ")

    def _break(self, _: dict[str, str]) -> None:
        paragraph = self._paragraphs[-1] if self._paragraphs else None
        if paragraph is None or not paragraph.begun or self._run_is_hidden:
            self._say(" ")
        else:
            self._builder.line_break()
            self._quotes.say(" ")

    def _note(self, kind: str, given: dict[str, str]) -> None:
        notes = self._found.notes
        self._say(f"[{notes.setdefault((kind, of(given, 'id')), len(notes) + 1)}]")

    # -- properties ----------------------------------------------------------------------------------------------------------

    def _properties(self, _: dict[str, str]) -> None:
        self._in_properties = True

    def _end_properties(self) -> None:
        self._in_properties = False

    @property
    def _described(self) -> _Paragraph | None:
        """Return the paragraph whose properties are read."""
        return self._paragraphs[-1] if self._in_properties and self._paragraphs else None

    def _on_pStyle(self, given: dict[str, str]) -> None:
        if (paragraph := self._described) is not None:
            paragraph.style = of(given, "val")

    def _on_numId(self, given: dict[str, str]) -> None:
        if (paragraph := self._described) is not None:
            paragraph.number = of(given, "val")

    def _on_ilvl(self, given: dict[str, str]) -> None:
        if (paragraph := self._described) is not None:
            paragraph.depth = min(number_of(given), 8)

    def _on_outlineLvl(self, given: dict[str, str]) -> None:
        if (paragraph := self._described) is not None:
            level = number_of(given)
            paragraph.outline = level + 1 if level < 9 else 0

    def _on_framePr(self, given: dict[str, str]) -> None:
        if (paragraph := self._described) is not None and of(given, "dropCap") in ("drop", "margin"):
            paragraph.joins = ""

    def _on_vanish(self, given: dict[str, str]) -> None:
        if (paragraph := self._described) is not None:
            paragraph.hidden = is_on(of(given, "val"))
        else:
            self._run_is_hidden = is_on(of(given, "val"))

    def _on_rStyle(self, given: dict[str, str]) -> None:
        if self._described is None and self._found.styles[of(given, "val")].hidden:
            self._run_is_hidden = True

    def _on_vertAlign(self, given: dict[str, str]) -> None:
        self._is_raised = self._described is None and of(given, "val") == "superscript"

    def _on_rFonts(self, given: dict[str, str]) -> None:
        if self._described is None:
            self._font = of(given, "ascii")

    # -- tables, boxes and other parts ---------------------------------------------------------------------------------------

    def _table(self, _: dict[str, str]) -> None:
        self._flush()
        self._builder.begin_group()

    def _row(self, _: dict[str, str]) -> None:
        self._columns = 0
        self._builder.begin_row()

    def _cell(self, _: dict[str, str]) -> None:
        self._in_list = False
        self._spans.append(1)
        self._builder.begin_cell()

    def _span(self, given: dict[str, str]) -> None:
        if self._spans:
            self._spans[-1] = number_of(given)

    def _end_cell(self) -> None:
        self._flush()
        self._builder.end_cell()
        span = max(1, min(self._spans.pop(), _MAX_COLUMNS - self._columns))
        self._columns += span
        for _ in range(span - 1):
            self._builder.begin_cell()
            self._builder.end_cell()

    def _end_row(self) -> None:
        self._builder.end_row()

    def _end_table(self) -> None:
        self._in_list = False

    def _flush(self) -> None:
        """End the running text: also that of a paragraph that no other one follows."""
        self._builder.text("".join(self._carried))
        self._carried.clear()
        self._builder.end_block()

    def _box(self, _: dict[str, str]) -> None:
        if len(self._outer) >= _MAX_BOXES:
            self._deeper += 1
            return
        self._outer.append((self._builder, self._paragraphs, self._carried))
        self._builder, self._paragraphs, self._carried = BlockBuilder(), [], []
        self._in_list = False

    def _end_box(self) -> None:
        if self._deeper:
            self._deeper -= 1
            return
        self._flush()
        blocks = self._builder.blocks()
        self._builder, self._paragraphs, self._carried = self._outer.pop()
        self._add(blocks)

    def _add(self, blocks: list[Block]) -> None:
        self._n_said += len(blocks)
        if self._paragraphs:
            self._paragraphs[-1].after += blocks
        else:
            self._builder.extend(blocks)

    def _leave_out(self, thing: str) -> None:
        self._found.left_out[thing] += 1


def of(given: Mapping[str, str], name: str) -> str:
    """Return an attribute whatever its namespace; "" without it."""
    for key, value in given.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


def number_of(given: Mapping[str, str]) -> int:
    """Return the attribute "val" as a number; 0 if it is none."""
    value = of(given, "val")
    return int(value) if value.isdecimal() and len(value) < 10 else 0
