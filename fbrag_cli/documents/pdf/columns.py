"""Keep the cells of tables in the columns of their header or first row, on its page and on those that follow.

A PDF has no tables, only words at places: where a row leaves a cell empty, its other values would seem to be in other columns.
Rows of a table become lines with tabs between the cells, as in other formats; an empty cell is nothing between two tabs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from statistics import median

from fbrag_cli.documents.pdf.page_text import Cell, PageLines
from fbrag_cli.documents.tables import is_name

_MIN_COLUMNS = 3  # with two, a value can belong to one column only
_MAX_COLUMNS = 50
_MIN_ROWS = 2  # below a header
_MIN_ROWS_ALONE = 4  # below a first row that is not a header
_MAX_SINGLE = 2  # lines of one cell between two rows: a heading, or the rest of a cell
_MAX_BETWEEN = 3  # lines between the rows of two pages: a footer and a header
_MAX_GAP = 3.0  # distance of two rows, in distances of the first two
_TIGHT = 0.9  # distance of two lines of one cell, in distances of rows
_SAMPLE = 10  # rows that tell whether there is a table, and how wide its columns are
_MAX_LINES = 2_000  # of a page: all may look like a header
_ALIGNED = 0.75  # share of the columns that have an edge
_AT_EDGE = 0.6  # share of a column's cells that are at it
_SAME_EDGE = 2.0  # points
_SAME_BASELINE = 1.0  # points
_MAX_LENGTH = 25  # characters of half of the cells; longer are those of text in columns
_WIDE = 2.0  # room between the columns of a table without numbers, in sizes of the font
_SPANNED = 0.5  # share of a column, or of itself, by which a cell lies in it

_Columns = list[tuple[float, float]]  # left and right edge of each, in points
_Row = dict[int, list[Cell]]  # cells by column


def with_columns(pages: Sequence[PageLines]) -> list[PageLines]:
    """Return the pages of a document with tabs in the rows of tables that have a header; those without `cells` as they are."""
    columns: _Columns = []  # of the table at the end of the page before
    written = []
    for page in pages:
        if len(page.cells) != len(page.lines) or len(page.lines) > _MAX_LINES:
            columns = []
            written.append(page)
            continue
        groups = _on_one_baseline(page)
        whole = _chosen(page, groups)
        rows, columns = _rows_of(whole, columns)
        kept = [part for number, group in enumerate(groups) for part in ([group] if number in rows else [[at] for at in group])]
        places = {group[0]: rows[number] for number, group in enumerate(groups) if number in rows}
        page = _chosen(page, kept)
        lines = tuple(places.get(group[0], line) for group, line in zip(kept, page.lines, strict=True))
        page = replace(page, lines=lines)
        written.append(_chosen(page, [[index] for index, line in enumerate(lines) if line]))
    return written


def _on_one_baseline(page: PageLines) -> list[list[int]]:
    """Return the lines in groups of those that PDFium has cut if there is much room."""
    groups: list[list[int]] = []
    for index, cells in enumerate(page.cells):
        before = groups[-1][-1] if groups else None
        is_cut = before is not None and cells and page.cells[before] and cells[0].left > page.cells[before][-1].right
        if before is not None and is_cut and abs(page.baselines[index] - page.baselines[before]) <= _SAME_BASELINE:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _chosen(page: PageLines, groups: Sequence[Sequence[int]]) -> PageLines:
    """Return the page with a line for each group."""
    if groups == [[index] for index in range(len(page.lines))]:
        return page
    return replace(
        page,
        lines=tuple(" ".join(page.lines[index] for index in group) for group in groups),
        heights=tuple(page.heights[group[0]] for group in groups),
        baselines=tuple(page.baselines[group[0]] for group in groups),
        sizes=tuple(page.sizes[group[0]] for group in groups),
        cells=tuple(tuple(cell for index in group for cell in page.cells[index]) for group in groups),
    )


def _rows_of(page: PageLines, columns: _Columns) -> tuple[dict[int, str], _Columns]:
    """Return the lines of a page that are rows of tables, with tabs, and the columns of the table at its end; [] without one.

    The text of a line that continues the row above is empty. columns: those of the table at the end of the page before.
    """
    headers: dict[int, str] = {}
    index = 0
    while index < len(page.lines):
        rows: dict[int, _Row] = {}
        if columns and index <= _MAX_BETWEEN and not headers and not _begins_table(page, index) and len(page.cells[index]) > 1:
            rows = _rows(page, index, columns)
        if not rows and (header := _columns_of(page, index)) is not None:
            own = _widened(header, page.cells[index + 1 : index + 1 + _SAMPLE])
            below = _rows(page, index + 1, own, page.baselines[index], most=_SAMPLE)
            room = min(other[0] - one[1] for one, other in pairwise(header))
            fewest = _MIN_ROWS if _names_columns(page, index) else _MIN_ROWS_ALONE
            if _is_table(below, len(own), fewest, is_wide=room > _WIDE * page.sizes[index]):
                columns, rows = own, _rows(page, index + 1, own, page.baselines[index])
                rows[index] = _placed(page.cells[index], own) or {}
        for place, row in _unwrapped(page, rows).items():
            texts = (" ".join(cell.text for cell in row.get(column, ())) for column in range(len(columns)))
            headers[place] = "\t".join(texts).rstrip()
        headers |= dict.fromkeys(rows.keys() - headers.keys(), "")
        index = max(rows, default=index) + 1
    at_end = headers and len(page.lines) - max(headers) <= _MAX_BETWEEN + 1
    return headers, columns if at_end else []


def _unwrapped(page: PageLines, rows: Mapping[int, _Row]) -> dict[int, _Row]:
    """Return the rows with each line that continues the cells of the row above in that row."""
    places = sorted(rows)
    rooms = [page.baselines[one] - page.baselines[other] for one, other in pairwise(places) if 0 in rows[other]]
    tight = _TIGHT * median(rooms) if rooms else 0.0
    whole: dict[int, _Row] = {}
    last: _Row = {}
    for above, place in pairwise([-1, *places]):
        row = rows[place]
        is_rest = 0 not in row and row.keys() <= last.keys()
        is_small = len(row) == 1 and all(cells[0].text[0].islower() for cells in row.values())
        if is_rest and (is_small or page.baselines[above] - page.baselines[place] < tight):
            for column, cells in row.items():
                last[column] += cells
        else:
            whole[place] = last = {column: [*cells] for column, cells in row.items()}
    return whole


def _columns_of(page: PageLines, index: int) -> _Columns | None:
    """Return the columns of a table that may begin with this line; None if none can. The first column may be empty in it."""
    cells = page.cells[index]
    if not 2 <= len(cells) <= _MAX_COLUMNS:
        return None
    columns = [(cell.left, cell.right) for cell in cells]
    if any(one[1] > other[0] for one, other in pairwise(columns)):
        return None
    below = page.cells[index + 1] if index + 1 < len(page.cells) else ()
    if len(below) > 1 and below[0].right < columns[0][0]:
        columns.insert(0, (below[0].left, below[0].right))
    return columns if len(columns) >= _MIN_COLUMNS else None


def _names_columns(page: PageLines, index: int) -> bool:
    return all(is_name(cell.text) for cell in page.cells[index])


def _begins_table(page: PageLines, index: int) -> bool:
    """Return whether a line is surely a header: cells below it begin with digits, and none of its own do but years."""
    if not _names_columns(page, index) or _columns_of(page, index) is None:
        return False
    below = [cell.text for cells in page.cells[index + 1 : index + 1 + _MIN_ROWS] for cell in cells]
    has_years = any(cell.text[0].isdecimal() for cell in page.cells[index])
    return not all(map(is_name, below)) if has_years else any(cell[0].isdecimal() for cell in below)


def _widened(columns: _Columns, rows: Sequence[Sequence[Cell]]) -> _Columns:
    """Return the columns as wide as their cells are in rows without an empty one."""
    columns = list(columns)
    for cells in rows:
        if len(cells) != len(columns):
            continue
        wider = [(min(cell.left, left), max(cell.right, right)) for cell, (left, right) in zip(cells, columns, strict=True)]
        if all(one[1] < other[0] for one, other in pairwise(wider)):
            columns = wider
    return columns


def _rows(page: PageLines, start: int, columns: _Columns, above: float | None = None, most: int = _MAX_LINES) -> dict[int, _Row]:
    """Return the rows from line `start` on, of `most` lines, as long as they fit into the columns. above: baseline of the line
    before."""
    rows: dict[int, _Row] = {}
    single: dict[int, _Row] = {}  # lines of one cell, which are rows if others follow
    usual = 0.0
    for index in range(start, min(start + most, len(page.lines))):
        gap = above - page.baselines[index] if above is not None else 0.0
        usual = usual or gap
        row = _placed(page.cells[index], columns)
        if row is None or (above is not None and not 0 < gap <= _MAX_GAP * usual) or len(single) > _MAX_SINGLE:
            break
        single[index] = row
        if len(row) > 1:
            rows |= single
            single = {}
        above = page.baselines[index]
    return rows


def _is_table(rows: Mapping[int, _Row], n_columns: int, fewest: int, *, is_wide: bool) -> bool:
    """Return whether the rows below the first are those of a table, and not lines of text with wide spaces.

    fewest: rows of several cells. is_wide: whether the room between the columns is more than that.
    """
    full = [row for row in rows.values() if len(row) > 1]
    texts = [cell.text for row in full for cells in row.values() for cell in cells]
    if len(full) < fewest or median(map(len, texts)) > _MAX_LENGTH or (all(map(is_name, texts)) and not is_wide):
        return False
    columns = [[row[column][0] for row in full if column in row] for column in range(n_columns)]
    return sum(map(_is_aligned, columns)) >= _ALIGNED * n_columns


def _is_aligned(cells: Sequence[Cell]) -> bool:
    """Return whether most cells of a column have the same left or right edge, or the same middle."""
    for places in zip(*((cell.left, cell.right, (cell.left + cell.right) / 2) for cell in cells), strict=True):
        if max(sum(abs(one - other) <= _SAME_EDGE for other in places) for one in places) >= _AT_EDGE * len(cells):
            return True
    return not cells


def _placed(cells: Sequence[Cell], columns: _Columns) -> _Row | None:
    """Return the cells by their columns; None if they do not fit."""
    row: _Row = {}
    last = 0
    for cell in cells:
        column = _column_of(cell, columns, last)
        if column is None and len(cells) > 1:
            return None
        last = column or 0  # a line that spans columns is a heading above some rows
        row.setdefault(last, []).append(cell)
    return row or None


def _column_of(cell: Cell, columns: _Columns, first: int) -> int | None:
    """Return the column in which a cell lies, or else the nearest, from column `first` on; None if it spans several."""
    nearest, most = first, -inf
    spanned = []
    for index in range(first, len(columns)):
        left, right = columns[index]
        common = min(cell.right, right) - max(cell.left, left)
        if common > most:
            nearest, most = index, common
        if common > 0 and common >= _SPANNED * min(right - left, cell.right - cell.left):
            spanned.append(index)
        if left > cell.right:
            break
    if len(spanned) > 1:
        # A text that is too long for its column reaches into the next ones.
        return spanned[0] if abs(cell.left - columns[spanned[0]][0]) <= _SAME_EDGE and spanned[0] > 0 else None
    return spanned[0] if spanned else nearest
