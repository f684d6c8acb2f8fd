"""The order of boxes on a page: columns, boxes next to each other, tables and forms."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from time import process_time

import pytest

from fbrag_cli.documents.layout import Box, reading_order

Item = tuple[str, Box]  # name and place

WIDTHS = [1.0, 0.97, 0.99, 0.95, 1.0, 0.6]  # of the lines of a paragraph, in widths of its column


def text(name: str, left: float, top: float, width: float = 220, n: int = 6, *, step: float = 12, size: float = 10) -> list[Item]:
    """Return the lines of a paragraph, from the top down."""
    shares = (WIDTHS[number % len(WIDTHS)] for number in range(n))
    rows = enumerate(shares)
    return [(f"{name}{row}", Box(left, top + step * row, left + width * share, top + step * row + size)) for row, share in rows]


def line(name: str, left: float, right: float, top: float, size: float = 10) -> Item:
    return name, Box(left, top, right, top + size)


def table(columns: Sequence[tuple[float, float]], n: int, top: float = 100, step: float = 14) -> Iterator[Item]:
    """Yield the cells of a table, row by row. columns: left edge of each, and the width of its widest cell."""
    drawn = random.Random(3)
    for row in range(n):
        for column, (left, width) in enumerate(columns):
            yield line(f"r{row}c{column}", left, left + width * drawn.uniform(0.3, 1), top + step * row)


def in_order(items: Sequence[Item]) -> list[str]:
    order = reading_order([box for _, box in items])
    assert sorted(order) == list(range(len(items)))
    return [items[index][0] for index in order]


def interleaved(*columns: Sequence[Item]) -> list[Item]:
    """Return the lines as a program draws them that goes down the page in all columns at once."""
    return sorted((item for column in columns for item in column), key=lambda item: item[1].top)


def names(*parts: Sequence[Item]) -> list[str]:
    return [name for part in parts for name, _ in part]


LEFT, RIGHT = text("L", 50, 100, n=20), text("R", 300, 100, n=20)
TITLE = [line("title", 150, 420, 60, 16)]
FOOTER = [line("footer", 280, 300, 400)]


@pytest.mark.parametrize("shift", [0, 5, 11])
def test_two_columns_with_a_heading_and_a_footer_across(shift: float) -> None:
    right = [(name, Box(box.left, box.top + shift, box.right, box.bottom + shift)) for name, box in RIGHT]
    assert in_order([*TITLE, *interleaved(LEFT, right), *FOOTER]) == names(TITLE, LEFT, right, FOOTER)


def test_three_columns_and_one_that_ends_sooner() -> None:
    columns = [text(name, left, 100, width=150, n=n) for name, left, n in (("A", 50, 20), ("B", 215, 20), ("C", 380, 4))]
    assert in_order(interleaved(*columns)) == names(*columns)


def test_a_heading_above_each_column_belongs_to_it() -> None:
    heads = [[line("H", 50, 130, 78, 12)], [line("K", 300, 350, 78, 12)]]
    assert in_order([*heads[0], *heads[1], *interleaved(LEFT, RIGHT)]) == names(heads[0], LEFT, heads[1], RIGHT)


@pytest.mark.parametrize("caption", [line("caption", 60, 500, 300), line("caption", 120, 400, 300)])
def test_a_figure_between_columns_separates_what_is_above_and_below(caption: Item) -> None:
    above = text("L", 50, 50, n=8), text("R", 300, 50, n=8)
    below = text("l", 50, 340, n=8), text("r", 300, 340, n=8)
    expected = names(*above, [caption], *below)
    assert in_order([*interleaved(*above), caption, *interleaved(*below)]) == expected


def test_a_sidebar_of_text() -> None:
    body, side = text("body", 50, 100, width=330, n=30), text("side", 400, 130, width=130, n=12, step=10, size=8)
    assert in_order(interleaved(body, side)) == names(body, side)


def test_columns_in_a_column() -> None:
    body = text("body", 50, 100, width=250, n=24)
    inner = [
        text(name, left, 100, width=115, n=24)
        for name, left in (
            (
                "A",
                330,
            ),
            (
                "B",
                460,
            ),
        )
    ]
    assert in_order(interleaved(body, *inner)) == names(body, *inner)


def test_bullets_belong_to_their_column() -> None:
    bullets = [line(f"b{row}", 300, 304, 100 + 12 * row) for row in range(20)]
    items = [line(name, box.left + 14, box.right, box.top) for name, box in RIGHT]
    expected = [each for pair in zip(names(bullets), names(items), strict=True) for each in pair]
    assert in_order(interleaved(LEFT, bullets, items)) == [*names(LEFT), *expected]


def test_boxes_next_to_each_other_are_each_read_whole() -> None:
    heads = [(f"head{at}", Box(0.5 + 3.1 * at, 2.0, 3.3 + 3.1 * at, 2.6)) for at in range(3)]
    bodies = [(f"body{at}", Box(0.5 + 3.1 * at, 2.8, 3.3 + 3.1 * at, 5.0)) for at in range(3)]
    title = ("title", Box(0.5, 0.3, 9.5, 1.5))
    expected = ["title", "head0", "body0", "head1", "body1", "head2", "body2"]
    assert in_order([heads[2], bodies[0], title, heads[1], bodies[2], heads[0], bodies[1]]) == expected


def test_rows_of_boxes_next_to_each_other() -> None:
    boxes = {}
    for row in range(3):
        for at in range(2):
            boxes[f"head{row}{at}"] = Box(100.0 * at, 200.0 * row, 100.0 * at + 90, 200.0 * row + 20)
            boxes[f"body{row}{at}"] = Box(100.0 * at, 200.0 * row + 22, 100.0 * at + 90, 200.0 * row + 150)
    shuffled = random.Random(1).sample(list(boxes.items()), len(boxes))
    assert in_order(shuffled) == list(boxes)


def test_a_grid_of_labels_and_values_on_a_slide() -> None:
    rows = [
        (f"{kind}{row}", Box(left, row, left + 2, row + 0.6)) for row in range(4) for kind, left in (("label", 1), ("value", 4))
    ]
    assert in_order(random.Random(2).sample(rows, 8)) == names(rows)


TABLES = {
    "numbers": [(50, 40), (150, 40), (250, 40), (350, 40), (450, 40)],
    "wide gaps": [(50, 60), (280, 50), (480, 50)],
    "a column of names": [(50, 160), (260, 40), (350, 40)],
    "two columns": [(50, 100), (400, 60)],
    "codes of one length": [(50, 30), (100, 30), (150, 30), (200, 30), (250, 30), (300, 30)],
    "a form": [(50, 80), (160, 220)],
}


@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_tables_and_forms_stay_rows(kind: str) -> None:
    cells = list(table(TABLES[kind], 25))
    assert in_order(cells) == names(cells)


def test_a_contents_list_and_a_list_with_numbers() -> None:
    rows = [[line(f"n{row}", 50, 60, 100 + 14 * row), line(f"t{row}", 75, 300 + 5 * row, 100 + 14 * row)] for row in range(20)]
    for number, row in enumerate(rows):
        row.append(line(f"p{number}", 500, 510, 100 + 14 * number))
    items = [item for row in rows for item in row]
    assert in_order(items) == names(items)


def test_a_table_whose_cells_are_texts_is_read_cell_by_cell() -> None:
    cells = [text(f"r{row}c{at}-", 50 + 250 * at, 100 + 50 * row, n=3) for row in range(5) for at in range(2)]
    assert in_order(interleaved(*cells)) == names(*cells)


def test_a_letter() -> None:
    address = [line(f"a{row}", 60, 60 + width, 100 + 13 * row) for row, width in enumerate((80, 120, 95, 70))]
    about = [line(f"d{row}", 400, 400 + width, 100 + 13 * row) for row, width in enumerate((60, 45))]
    body = text("body", 60, 220, width=440, n=18)
    rows = interleaved(address, about)
    assert in_order([*rows, *body]) == names(rows, body)


@pytest.mark.parametrize("seed", range(5))
def test_a_single_column_stays_as_it_is(seed: int) -> None:
    drawn = random.Random(seed)
    items, top = [], 50.0
    for number in range(60):
        size = drawn.choice([8, 10, 10, 10, 14])
        left = drawn.choice([50, 50, 70, 200])
        items.append(line(str(number), left, left + drawn.uniform(20, 480), top, size))
        top += size + drawn.choice([2, 2, 2, 12, 60])
    assert in_order(items) == names(items)


def test_a_high_initial_is_read_before_the_lines_next_to_it() -> None:
    initial = [("B", Box(50, 96, 80, 140))]
    body = [*text("t", 84, 100, width=300, n=3, step=14), *text("u", 50, 142, width=334, n=4, step=14)]
    assert in_order([*initial, *body]) == names(initial, body)


def test_the_order_does_not_depend_on_that_of_the_file() -> None:
    items = [*TITLE, *LEFT, *RIGHT, *FOOTER]
    for seed in range(5):
        assert in_order(random.Random(seed).sample(items, len(items))) == names(items)


def test_no_boxes_and_boxes_without_a_size() -> None:
    assert reading_order([]) == []
    assert reading_order([Box(1, 1, 1, 1)] * 3) == [0, 1, 2]
    assert sorted(reading_order([Box(0, 0, 0, 0), Box(5, 5, 1, 1), Box(-1e300, 0, 1e300, 1e-300)])) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["stairs", "comb", "grid", "one place"])
def test_pages_made_to_be_slow_to_lay_out(kind: str) -> None:
    n = 20_000
    boxes = {
        "stairs": [Box(at, at, at + 1.5, at + 1.5) for at in range(n)],
        "comb": [*(Box(2 * at, 0, 2 * at + 1, 1) for at in range(n // 2)), *(Box(0, at + 2, 1, at + 3) for at in range(n // 2))],
        "grid": [Box(20 * column, row, 20 * column + 18, row + 0.9) for row in range(n // 100) for column in range(100)],
        "one place": [Box(0, 0, 10, 1)] * n,
    }[kind]
    started = process_time()
    assert len(reading_order(boxes)) == n
    assert process_time() - started < 10
