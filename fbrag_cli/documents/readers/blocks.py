"""Lay out marked-up text (HTML, OpenDocument) as plain text, as a browser does: blocks, list items, rows of tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fbrag_cli.documents.document import Content, Extracted, Section
from fbrag_cli.text.printable import plural

_MAX_TABLES = 20  # nested in each other; people make no deeper ones
_MAX_INDENT = 10  # levels of lists
_MAX_MERGED = 1_000_000  # characters that merged cells have in all rows but their first
_MAX_CELL = 300  # characters of a cell that may hold several paragraphs and still be part of its row's line
#: Rows over which a cell is merged at most, as if it says no number.
MANY_ROWS = 1 << 20
#: Where a word may break: it is not shown.
SOFT_HYPHEN = "\u00ad"

_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, heading, list item or row of a table.

    level: level of a heading, from 1; otherwise 0. prefix: a list item's mark, before `text`. group: neighbours of one group are
    separated by a line end, all other blocks by an empty line. anchors: names of places in it.
    """

    text: str
    level: int = 0
    prefix: str = ""
    group: str = ""
    anchors: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return self.prefix + self.text


def content_of(blocks: Iterable[Block], anchors: dict[str, int] | None = None) -> Content:
    """Return the text of blocks and its headings. anchors: gets, for each anchor, the start (characters) of its block."""
    parts: list[str] = []
    sections: list[Section] = []
    length, group = 0, ""
    for block in blocks:
        if parts:
            gap = "\n" if block.group and block.group == group else "\n\n"
            parts.append(gap)
            length += len(gap)
        group = block.group
        if block.level:
            sections.append(Section(block.text, block.level, length + len(block.prefix)))
        if anchors is not None:
            for anchor in block.anchors:
                anchors.setdefault(anchor, length)
        parts += block.prefix, block.text
        length += len(block.prefix) + len(block.text)
    return Content("".join(parts), sections=tuple(sections))


class MarkupText:
    """Tells what is read of the text that only `--markup` reads (`document.HIDDEN`, `STRUCK`), and counts the rest.

    is_read: whether it is read. left_out: number of passages of each kind that were not.
    """

    def __init__(self, is_read: bool) -> None:
        self.is_read, self.left_out = is_read, Counter[str]()
        self._passage = ""  # kind of the passage that is left out

    def read(self, text: str, kind: str) -> str:
        """Return what is read of the next piece of text: of one that is left out, the space at its edges. kind: "" for text that
        is always read."""
        if kind and not self.is_read and text.strip():
            self.leave_out(text, kind)
            return " " if text[0].isspace() or text[-1].isspace() else ""
        if text.strip():
            self._passage = ""
        return text

    def leave_out(self, text: str, kind: str) -> None:
        """Count the next piece of text as left out. Pieces of a kind with no other text between them are one passage."""
        if text.strip() and self._passage != kind:
            self._passage = kind
            self.left_out[kind] += 1


def extracted(
    blocks: Iterable[Block],
    media_type: str,
    left_out: Mapping[str, int],
    markup: MarkupText,
    comments: Iterable[str] = (),
    warnings: Iterable[str] = (),
) -> Extracted:
    """Return what a reader has read. left_out: number of each thing that it has not read."""
    told = tuple(plural(n, thing) for thing, n in left_out.items())
    return Extracted(
        content_of(blocks),
        media_type,
        warnings=tuple(warnings),
        left_out=told,
        comments=tuple(comments),
        markup=markup.left_out,
    )


@dataclass(slots=True)
class _Row:
    """An open row of a table. outer: the blocks to which it will be added. cells: its cells so far. merged: of the cells that are
    merged with others above or below, by their columns: the number of rows, 0 for a cell that one above is merged over."""

    outer: list[Block]
    cells: list[list[Block]] = field(default_factory=list)
    merged: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _MergedCell:
    """A cell that is merged over rows below its own. n_rows: number of those that are still to come."""

    blocks: list[Block]
    n_rows: int


class BlockBuilder:
    """Collects running text, and the begin and end of its blocks, in the document's order. `blocks` returns the result.

    White space collapses as in a browser, unless `preformatted` is set. While `level` is set, blocks are headings. Each item, row
    and cell that is begun must be ended.
    """

    def __init__(self) -> None:
        self.level = 0
        self.preformatted = False
        self._lines: list[list[str]] = [[]]
        self._is_struck = False
        self._anchors: list[str] = []
        self._markers: list[str] = []
        self._marked = False
        self._group = 0
        self._blocks: list[Block] = []
        self._rows: list[_Row | None] = []  # open rows, each in a cell of the one before; None: not laid out
        self._merged: dict[int, dict[int, _MergedCell]] = {}  # by the number of open rows around the table, and the column
        self._n_merged = 0  # characters of merged cells in all rows but their first

    def text(self, data: str, *, shift: str = "", is_struck: bool = False) -> None:
        """Add running text. shift: "^" if it begins to be raised, as in 10⁶, "_" if lowered. is_struck: whether it is marked as
        struck out, "~~old~~"."""
        if self._is_struck and not is_struck:
            self._end_struck()
        if not data:
            return
        if shift and data[0].isdigit() and (self.touches.isdigit() if shift == "_" else self.touches != " "):
            self._lines[-1].append(shift)  # otherwise 10^6 would be 106; but CO₂ is a word
        if is_struck and not self._is_struck and (begun := data.lstrip()):
            self._lines[-1].append(f"{data[: -len(begun)]}~~")
            self._is_struck, data = True, begun
        self._lines[-1].append(data)

    def _end_struck(self) -> None:
        """Write the mark after struck-out text, before the space that follows it."""
        last = self._lines[-1].pop()
        struck = last.rstrip()
        self._lines[-1] += filter(None, (f"{struck}~~", last[len(struck) :]))
        self._is_struck = False

    def extend(self, blocks: Iterable[Block]) -> None:
        """Add finished blocks after the running text."""
        self.end_block()
        self._blocks += blocks

    def discard(self) -> None:
        """Drop the running text."""
        self._lines, self._is_struck = [[]], False

    def line_break(self) -> None:
        if self._is_struck:
            self._end_struck()
        self._lines.append([])

    @property
    def touches(self) -> str:
        """Return the last character of the running text; " " after white space or at the beginning."""
        last = self._lines[-1][-1][-1:] if self._lines[-1] else ""
        return " " if not last or last.isspace() else last

    def anchor(self, name: str) -> None:
        self._anchors.append(name)

    def end_block(self) -> None:
        """Make a block of the running text, if there is any."""
        if self._lines == [[]]:
            return
        if self._is_struck:
            self._end_struck()
        lines = ["".join(parts) for parts in self._lines]
        self._lines = [[]]
        if self.preformatted:
            text = "\n".join(lines).strip("\r\n").expandtabs().rstrip()
            text = "" if text.isspace() else text
        else:
            text = (" " if self.level else "\n").join(" ".join(line.split()) for line in lines).strip()
            text = _BLANK_LINES.sub("\n\n", text)
        if not text:
            return
        prefix = ""
        if self._markers and not self._marked:
            prefix = "  " * min(len(self._markers) - 1, _MAX_INDENT) + self._markers[-1]
            self._marked = True
        group = f"item {self._group}" if self._markers else ""
        self._blocks.append(Block(text, self.level, prefix, group, tuple(self._anchors)))
        self._anchors.clear()

    def begin_group(self) -> None:
        """Begin a list or table, which is separate from one before it."""
        self.end_block()
        self._merged.pop(len(self._rows), None)
        if not self._markers:
            self._group += 1

    def begin_item(self, marker: str) -> None:
        """Begin a list item. marker: as "- " or "1. ", before the item's first block; "" for none."""
        self.end_block()
        self._markers.append(marker)
        self._marked = not marker

    def end_item(self) -> None:
        self.end_block()
        self._markers.pop()
        self._marked = True

    def begin_row(self) -> None:
        self.end_block()
        self._rows.append(_Row(self._blocks) if len(self._rows) < _MAX_TABLES else None)

    def row(self, cells: Iterable[str]) -> None:
        """Add a row of cells."""
        self.begin_row()
        for cell in cells:
            self.begin_cell()
            self.text(cell)
            self.end_cell()
        self.end_row()

    def begin_cell(self, *, beside_merged: bool = False) -> None:
        """Begin a cell. Outside a row, it is running text. beside_merged: whether the row has no cells of its own where cells
        above it are merged over it, as in HTML."""
        self.end_block()
        row = self._rows[-1] if self._rows else None
        if row is not None:
            if beside_merged:
                self._skip_merged(row, len(self._rows) - 1)
            row.cells.append([])
            self._blocks = row.cells[-1]

    def end_cell(self) -> None:
        self.end_block()
        row = self._rows[-1] if self._rows else None
        if row is not None:
            self._blocks = row.outer

    def merge_cell(self, n_rows: int) -> None:
        """Merge the open cell over `n_rows` rows, of which its own is the first. 0: it is what one above is merged over."""
        row = self._rows[-1] if self._rows else None
        if row is not None and n_rows != 1:
            row.merged[len(row.cells) - 1] = n_rows

    def end_row(self, *, beside_merged: bool = False) -> None:
        """End a row. beside_merged: as for `begin_cell`."""
        self.end_block()
        row = self._rows.pop()
        if row is not None:
            self._blocks = row.outer
            if beside_merged:
                self._skip_merged(row, len(self._rows))
            self._fill_merged(row)
            self._blocks += _merged(row.cells, f"row {self._group}")

    def _skip_merged(self, row: _Row, depth: int) -> None:
        """Add the cells that follow in a row because cells above are merged over it. depth: number of the rows around it."""
        above = self._merged.get(depth, {})
        while len(row.cells) in above:
            row.merged[len(row.cells)] = 0
            row.cells.append([])

    def _fill_merged(self, row: _Row) -> None:
        """Give each cell of a row the text of the short one that is merged over it, and note those that are merged over rows
        below."""
        above = self._merged.setdefault(len(self._rows), {})
        for column, blocks in enumerate(row.cells):
            n_rows, cell = row.merged.get(column, 1), above.get(column)
            if n_rows or cell is None:
                above.pop(column, None)
                if n_rows > 1:
                    is_short = _fits_a_line(blocks) and sum(len(block.text) for block in blocks) <= _MAX_CELL
                    said = [replace(block, anchors=()) for block in blocks] if is_short else []
                    above[column] = _MergedCell(said, n_rows - 1)
                continue
            self._n_merged += 1 + sum(len(block.text) for block in cell.blocks)
            if not blocks and self._n_merged <= _MAX_MERGED:
                row.cells[column] = cell.blocks
            cell.n_rows -= 1
            if not cell.n_rows:
                del above[column]

    def blocks(self) -> list[Block]:
        self.end_block()
        return self._blocks


def _merged(cells: list[list[Block]], group: str) -> list[Block]:
    """Join a row's cells with tabs to one line. Cells too long for a line (page layout) become blocks of their own."""
    if not all(_fits_a_line(blocks) for blocks in cells):
        return [block for blocks in cells for block in blocks]
    text = "\t".join(" ".join(block.line.replace("\n", " ") for block in blocks) for blocks in cells).rstrip()
    anchors = tuple(anchor for blocks in cells for block in blocks for anchor in block.anchors)
    return [Block(text, group=group, anchors=anchors)] if text else []


def _fits_a_line(blocks: list[Block]) -> bool:
    if any(block.level or block.group.startswith("row") for block in blocks):
        return False
    if len(blocks) <= 1 and not any("\n" in block.text for block in blocks):
        return True
    return sum(len(block.text) for block in blocks) <= _MAX_CELL
