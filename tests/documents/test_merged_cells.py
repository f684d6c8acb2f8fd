"""A cell that is merged over several rows has its value in each of them, in every format that has tables."""

from pathlib import Path

import pytest

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.load import load
from tests.conftest import SHARED
from tests.documents.making import docx, o_row, ods, odt, pptx, slide, w_paragraph, written, x_row, xlsx

ROWS = ["Region\tTown\tShop", "North\tBrook\t1", "North\tDunmore\t2", "North\tElsfield\t3", "South\tFenton\t4"]


def w_cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{w_paragraph(text) if text else '<w:p/>'}</w:tc>"


def w_table(*rows: str) -> bytes:
    return docx(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>")


def o_cell(text: str, n_rows: int = 1, n_columns: int = 1) -> str:
    spans = f'table:number-rows-spanned="{n_rows}" table:number-columns-spanned="{n_columns}"'
    return f'<table:table-cell office:value-type="string" {spans}><text:p>{text}</text:p></table:table-cell>'


def a_cell(text: str, properties: str = "") -> str:
    return f"<a:tc {properties}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"


COVERED = "<table:covered-table-cell/>"
HTML_ROWS = (
    "<table><tr><th>Region<th>Town<th>Shop</tr><tr><td rowspan=3>North</td><td>Brook</td><td>1</td></tr>"
    "<tr><td>Dunmore</td><td>2</td></tr><tr><td>Elsfield</td><td>3</td></tr><tr><td>South</td><td>Fenton</td><td>4</td></tr></table>"
)
HEAD = ("Region", "Town", "Shop")
X_NORTH = (x_row(*HEAD), x_row("North", "Brook", "1"), x_row("", "Dunmore", "2"), x_row("", "Elsfield", "3"))
O_NORTH = (
    o_row(*HEAD),
    o_row(o_cell("North", 3), "Brook", "1"),
    o_row(COVERED, "Dunmore", "2"),
    o_row(COVERED, "Elsfield", "3"),
    o_row("South", "Fenton", "4"),
)


def x_merged(rows: str, ranges: str) -> bytes:
    sheet = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    merged = f'<worksheet xmlns="{sheet}"><sheetData>{rows}</sheetData><mergeCells>{ranges}</mergeCells></worksheet>'
    return xlsx({"S": ""}, more={"xl/worksheets/sheet1.xml": merged})


FILES = {
    "a.html": HTML_ROWS.encode(),
    "a.docx": w_table(
        "".join(map(w_cell, HEAD)),
        w_cell("North", '<w:vMerge w:val="restart"/>') + w_cell("Brook") + w_cell("1"),
        w_cell("", "<w:vMerge/>") + w_cell("Dunmore") + w_cell("2"),
        w_cell("", '<w:vMerge w:val="continue"/>') + w_cell("Elsfield") + w_cell("3"),
        w_cell("South") + w_cell("Fenton") + w_cell("4"),
    ),
    "a.odt": odt(f"<table:table>{''.join(O_NORTH)}</table:table>"),
    "a.ods": ods({"S": "".join(O_NORTH)}),
    "a.xlsx": x_merged("".join([*X_NORTH, x_row("South", "Fenton", "4")]), '<mergeCell ref="A2:A4"/>'),
    "a.pptx": pptx(
        [
            slide(
                "<p:graphicFrame><a:graphic><a:graphicData><a:tbl>"
                + "".join(
                    f"<a:tr>{row}</a:tr>"
                    for row in (
                        "".join(map(a_cell, HEAD)),
                        a_cell("North", 'rowSpan="3"') + a_cell("Brook") + a_cell("1"),
                        a_cell("", 'vMerge="1"') + a_cell("Dunmore") + a_cell("2"),
                        a_cell("", 'vMerge="true"') + a_cell("Elsfield") + a_cell("3"),
                        a_cell("South") + a_cell("Fenton") + a_cell("4"),
                    )
                )
                + "</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
            )
        ]
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_the_value_of_a_merged_cell_is_in_each_of_its_rows(tmp_path: Path, name: str) -> None:
    text = written(tmp_path, FILES[name], name).text
    assert [line for line in text.split("\n") if "\t" in line] == ROWS


def test_a_cell_over_rows_and_columns_is_in_the_first_of_its_columns(tmp_path: Path) -> None:
    rows = (o_row("A", "B", "C"), o_row(o_cell("x", 2, 2), COVERED, "1"), o_row(COVERED, COVERED, "2"), o_row("p", "q", "3"))
    expected = ["A\tB\tC", "x\t\t1", "x\t\t2", "p\tq\t3"]
    page = "<table><tr><td>A<td>B<td>C</tr><tr><td rowspan=2 colspan=2>x<td>1</tr><tr><td>2</tr><tr><td>p<td>q<td>3</tr></table>"
    for name, data in (
        ("b.odt", odt(f"<table:table>{''.join(rows)}</table:table>")),
        ("b.ods", ods({"S": "".join(rows)})),
        ("b.html", page),
    ):
        text = written(tmp_path, data, name).text
        assert [line for line in text.split("\n") if "\t" in line] == expected, name


def test_merged_cells_end_with_their_table_and_long_ones_are_not_repeated(tmp_path: Path) -> None:
    long = "word " * 80
    page = (
        f"<table><tr><td rowspan=9>open<td>1</tr><tr><td>2</tr></table><table><tr><td>a<td>b</tr><tr><td>c<td>d</tr></table>"
        f"<table><tr><td rowspan=2>{long}</td><td>1</td></tr><tr><td>2</td></tr></table>"
    )
    text = written(tmp_path, page, "c.html").text
    assert "open\t1\nopen\t2\n" in text
    assert "a\tb\nc\td" in text
    assert text.count("word") == 80


def test_the_last_columns_are_merged_too_and_columns_of_a_sheet_count_from_its_first_one(tmp_path: Path) -> None:
    page = "<table><tr><td>a<td rowspan=2>z</tr><tr><td>b</tr><tr><td>c<td>y</tr></table>"
    assert "a\tz\nb\tz\nc\ty" in written(tmp_path, page, "d.html").text
    cell = '<c r="{}" t="inlineStr"><is><t>{}</t></is></c>'
    rows = (
        '<row r="3">' + cell.format("C3", "a") + cell.format("D3", "z") + '</row><row r="4">' + cell.format("C4", "b") + "</row>"
    )
    assert "a\tz\nb\tz" in written(tmp_path, x_merged(rows, '<mergeCell ref="D3:D4"/>'), "d.xlsx").text


def test_a_page_cannot_grow_by_its_merged_cells(tmp_path: Path) -> None:
    cells = "".join(f"<td rowspan=9999>{'x' * 200}" for _ in range(200))
    page = f"<table><tr>{cells}</tr>{'<tr><td>y</tr>' * 2000}</table>"
    assert len(written(tmp_path, page, "e.html").text) < 2_500_000


def test_a_region_over_two_hundred_rows(tmp_path: Path) -> None:
    path = SHARED / "cases" / "c19-merged.xlsx"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    corpus = build_corpus([load(str(path))])
    (row,) = (line for chunk in corpus.chunks for line in chunk.text.split("\n") if "Lantern House" in line)
    assert row.startswith("South\t")
