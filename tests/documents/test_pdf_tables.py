"""Tables of PDFs: cells keep the column of their header, also on the pages that follow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import process_time

import pytest

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Document
from fbrag_cli.documents.load import load
from fbrag_cli.documents.pdf.columns import with_columns
from fbrag_cli.documents.pdf.page_text import Cell, PageLines
from tests.documents.test_pdf import page_texts, pdf_of_contents, stream, written

Item = tuple[float, float, str]  # left edge, height, text

HEADER = ["Vehicle", "Allowed litres", "Used litres", "District"]
LEFT = [72, 150, 250, 340]


def drawn(items: Sequence[Item], size: float = 10) -> bytes:
    lines = (b"BT /F1 %g Tf 1 0 0 1 %g %g Tm (%b) Tj ET" % (size, x, y, text.encode("cp1252")) for x, y, text in items)
    return stream(b"\n".join(lines))


def row(height: float, cells: Sequence[str], left: Sequence[float] = LEFT) -> list[Item]:
    return [(x, height, cell) for x, cell in zip(left, cells, strict=True) if cell]


def read(tmp_path: Path, *pages: Sequence[Item]) -> Document:
    return load(written(tmp_path, pdf_of_contents(*map(drawn, pages))))


def test_an_empty_cell_stays_empty(tmp_path: Path) -> None:
    left = [72.0, 250.0, 310.0, 370.0, 430.0]
    rows = [
        ["Parameter", "MIN", "TYP", "MAX", "UNIT"],
        ["Supply voltage", "4.5", "", "16", "V"],
        ["Input current", "", "", "3", "mA"],
        ["Start-up time", "", "12", "", "ms"],
        ["Ambient temperature", "", "", "85", "C"],
        ["Storage temperature", "-40", "", "", "C"],
        ["Weight", "", "", "", "g"],
    ]
    items = [(72.0, 780.0, "Pump controller: operating conditions")]
    for number, cells in enumerate(rows):
        items += row(740 - 16 * number, cells, left)
    items.append((72, 600, "It is delivered with a mains plug and two clamps. The clamps are not needed."))
    lines = read(tmp_path, items).text.split("\n")
    assert lines[1:-1] == ["\t".join(cells) for cells in rows]
    assert lines[0].startswith("Pump")
    assert "\t" not in lines[-1]


def test_numbers_that_end_at_one_edge_and_a_first_column_without_a_name(tmp_path: Path) -> None:
    rows = [["Revenue", "1,204", "980", "22.9"], ["Costs", "7", "", "-3.1"], ["Profit and loss", "", "1,011", "104.0"]]
    items = row(740, ["", "2022", "2023", "Change"], [0, 215, 315, 398])
    width = {",": 2.78, ".": 2.78, "-": 3.33}
    for number, (name, *values) in enumerate(rows):
        ends = zip((240, 340, 430), values, strict=True)
        left = [end - sum(width.get(sign, 5.56) for sign in value) for end, value in ends]
        items += row(726 - 14 * number, [name, *values], [72, *left])
    assert read(tmp_path, items).text.split("\n") == ["\t2022\t2023\tChange", *("\t".join(cells) for cells in rows)]


def test_a_heading_between_rows_and_the_rest_of_a_cell_belong_to_the_table(tmp_path: Path) -> None:
    items = [*row(740, HEADER), *row(726, ["V1", "684", "", "Brook"])]
    items += [(72, 712, "Vans of the northern depot, which are older"), *row(698, ["V2", "", "590", "Elsfield"])]
    items += [(340, 684, "and Dunmore"), *row(670, ["V3", "1", "2", "Brook"])]
    assert read(tmp_path, items).text.split("\n")[2:] == [
        "Vans of the northern depot, which are older",
        "V2\t\t590\tElsfield and Dunmore",
        "V3\t1\t2\tBrook",
    ]


def register(number: int, first: int, *, header: bool, footer: bool) -> list[Item]:
    items: list[Item] = row(744, HEADER) if header else []
    for index in range(40):
        cells = [f"V{first + index}", str(100 + 7 * index), "" if index % 3 else str(200 + index), "Brook"]
        items += row(730 - 14 * index, cells)
    return [*items, (280, 40, f"Page {number}")] if footer else items


@pytest.mark.parametrize("footer", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("n_pages", [3, 6])
def test_the_header_of_the_first_page_is_known_on_all(tmp_path: Path, footer: bool, repeated: bool, n_pages: int) -> None:
    pages = [register(number + 1, 200 + 40 * number, header=repeated or number == 0, footer=footer) for number in range(n_pages)]
    document = read(tmp_path, *pages)
    assert "V245\t135\t\tBrook" in document.text
    for chunk in build_corpus([document], 60).chunks[1:]:
        assert chunk.text_with_header.startswith("\t".join(HEADER))


def test_another_table_has_its_own_header(tmp_path: Path) -> None:
    other = ["Member", "Joined", "Left", "Town"]
    items = row(744, other)
    for index in range(30):
        items += row(730 - 14 * index, [f"Ann {chr(65 + index % 26)}", str(1950 + index), "", "Hull"])
    document = read(tmp_path, register(1, 200, header=True, footer=True), items)
    last = build_corpus([document], 60).chunks[-1]
    assert last.text_with_header.startswith("\t".join(other))


@pytest.mark.parametrize(
    "lines",
    [
        [["Name", "Value"], ["Weight", "4"], ["Height", "12"]],
        [["The mayor, who", "of three towns", "wrote a letter"], ["had no office", "and of which", "in the year of"]] * 6,
        [["4", "5", "6"], ["7", "8", "9"], ["1", "2", "3"]],
        [["Alpha", "Beta", "Gamma"], ["only one row", "1", "2"]],
    ],
    ids=["two columns", "text in columns", "no names", "one row"],
)
def test_what_is_no_table_with_a_header(tmp_path: Path, lines: list[list[str]]) -> None:
    text = [
        (72 + 80 * column, 740.0 - 14 * number, cell) for number, line in enumerate(lines) for column, cell in enumerate(line)
    ]
    assert "\t" not in read(tmp_path, text).text


def test_prose_with_wide_spaces_is_no_table(tmp_path: Path) -> None:
    words = "the harbour office keeps all the letters of that year in one iron chest".split()
    items = []
    for line in range(8):
        left = 72.0
        for word in words[line : line + 4]:
            items.append((left, 740.0 - 12 * line, word))
            left += 5.2 * len(word) + 14
    assert "\t" not in read(tmp_path, items).text


def test_the_words_of_a_table_stay_those_of_the_page(tmp_path: Path) -> None:
    document = read(tmp_path, register(1, 200, header=True, footer=True), register(2, 240, header=False, footer=True))
    assert list(page_texts(document)) == [1, 2]
    assert document.text.split()[:5] == ["Vehicle", "Allowed", "litres", "Used", "litres"]
    assert len(document.text.split()) == 6 + 2 * (2 + sum(4 if index % 3 == 0 else 3 for index in range(40)))


@pytest.mark.parametrize("text", ["Name", "7"])
@pytest.mark.parametrize("n_lines", [1_500, 100_000])
def test_pages_made_to_be_slow_to_lay_out(text: str, n_lines: int) -> None:
    cells = tuple(Cell(10.0 * place + 3, 10.0 * place + 7, text) for place in range(50))
    ragged = tuple(cell._replace(left=cell.left - place % 7 / 2) for place, cell in enumerate(cells))
    heights = tuple(1e6 - 10.0 * number for number in range(n_lines))
    page = PageLines(("x",) * n_lines, heights, 1e6, (10.0,) * n_lines, (cells, ragged) * (n_lines // 2), heights)
    wide = PageLines(("x",), (1.0,), 1e6, (10.0,), (cells * 4_000,), (1.0,))
    before = process_time()
    with_columns([page, wide, page])
    assert process_time() - before < 15


# -- turned tables ------------------------------------------------------------------------------------------------------------

ROWS = [
    ["Part", "every 250 h", "every 500 h", "every 1000 h"],
    ["Gearbox oil", "", "inspect", "change"],
    ["Drive chain", "grease", "", "tension"],
    ["Air filter", "", "clean", ""],
    ["Door switches", "inspect", "", ""],
    ["Cooling fan", "clean", "", "change"],
]


def turned(items: Sequence[Item], quarters: int, size: float = 10) -> bytes:
    """Draw items on a page of 800 by 800 points that is turned against the clock."""
    a, b = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarters]
    lines = []
    for x, y, text in items:
        to_x, to_y = ((x, y), (800 - y, x), (800 - x, 800 - y), (y, 800 - x))[quarters]
        lines.append(b"BT /F1 %g Tf %g %g %g %g %g %g Tm (%b) Tj ET" % (size, a, b, -b, a, to_x, to_y, text.encode()))
    return stream(b"\n".join(lines))


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_a_table_that_is_set_sideways_on_a_page_that_is_turned(tmp_path: Path, quarters: int, rotation: int) -> None:
    if (90 * quarters - rotation) % 360 == 180:
        pytest.skip("every viewer shows it upside down")
    items = [item for number, cells in enumerate(ROWS) for item in row(700 - 16 * number, cells)]
    data = pdf_of_contents(turned(items, quarters))
    assert data.count(b"[0 0 612 792]") == 1
    text = load(written(tmp_path, data.replace(b"[0 0 612 792]", b"[0 0 800 800]/Rotate %d" % rotation))).text
    assert text.split("\n") == ["\t".join(cells).rstrip("\t") for cells in ROWS]


def test_a_sideways_table_below_a_header_and_above_a_footer(tmp_path: Path) -> None:
    items = [item for number, cells in enumerate(ROWS) for item in row(600 - 16 * number, cells)]
    parts = drawn([(60, 780, "Manual of the filling line")]), turned(items, 1), drawn([(60, 20, "Page 7")])
    content = b"\n".join(part.split(b"stream\n")[1].split(b"\nendstream")[0] for part in parts)
    lines = load(written(tmp_path, pdf_of_contents(stream(content)))).text.split("\n")
    assert lines == ["Manual of the filling line", *("\t".join(cells).rstrip("\t") for cells in ROWS), "Page 7"]


@pytest.mark.parametrize(
    "first", [["", "2003-04", "2004-05", "2005-06"], ["2011", "54,956", "38,909", "16,047"]], ids=["years", "a row"]
)
def test_a_table_whose_first_row_names_no_columns(tmp_path: Path, first: list[str]) -> None:
    rows = [
        first,
        *(
            [name, str(n), "" if n % 2 else "7.5", f"{n},100"]
            for n, name in enumerate(["Maine", "Ohio", "Utah", "Iowa", "Texas"])
        ),
    ]
    items = [item for number, cells in enumerate(rows) for item in row(740 - 14 * number, cells)]
    assert read(tmp_path, items).text.split("\n") == ["\t".join(cells) for cells in rows]


def test_a_text_that_reaches_into_the_next_column(tmp_path: Path) -> None:
    rows = [["Date", "For", "Paid", "Left"], ["1 May", "rent", "40", "7"], ["2 May", "oil for the lamps of the mole", "", "9"]]
    rows += [["3 May", "tar", "2", "5"]]
    items = [item for number, cells in enumerate(rows) for item in row(740 - 14 * number, cells, [72, 150, 200, 340])]
    assert read(tmp_path, items).text.split("\n") == ["\t".join(cells) for cells in rows]


def test_cells_of_several_lines_are_whole(tmp_path: Path) -> None:
    left = [72, 200, 340, 460]
    lines = [
        (740, ["Attribute", "Meaning", "Owner", "Since"]),
        (720, ["Access", "Degree to which a", "The harbor", "2001"]),
        (709, ["", "system can be used by", "Office", ""]),
        (698, ["", "People", "", ""]),
        (678, ["Audit", "Control of books", "Clerk", "2004"]),
        (658, ["Lamps", "Oil and wicks", "Keeper", "1999"]),
    ]
    items = [item for height, cells in lines for item in row(height, cells, left)]
    assert read(tmp_path, items).text.split("\n") == [
        "Attribute\tMeaning\tOwner\tSince",
        "Access\tDegree to which a system can be used by People\tThe harbor Office\t2001",
        "Audit\tControl of books\tClerk\t2004",
        "Lamps\tOil and wicks\tKeeper\t1999",
    ]


def test_rows_below_a_cell_that_spans_them_stay_rows(tmp_path: Path) -> None:
    rows = [
        ["Vehicle", "Part", "Work", "Hours"],
        ["V1", "oil", "change", "2"],
        ["", "filter", "clean", "1"],
        ["V2", "oil", "change", "3"],
    ]
    rows += [["", "vanes", "inspect", "4"]]
    items = [item for number, cells in enumerate(rows) for item in row(740 - 14 * number, cells)]
    assert read(tmp_path, items).text.split("\n") == ["\t".join(cells) for cells in rows]
