"""Cells of workbooks are read as they are displayed: formats, formulas without a value, and what a person cannot see."""

from __future__ import annotations

import io
import zipfile
from html import escape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fbrag_cli.documents.load import load
from fbrag_cli.documents.readers.cell_formats import shown, shown_text
from tests.documents.making import o_row, ods, relations, written, x_row, xlsx

_EURO = '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'
_STOCK = '[=1]"in stock";[=0]"sold out"'
FORMATS: list[tuple[float, str, str]] = [
    (417, "00000", "00417"),
    (12.5, '0.0" kg"', "12.5 kg"),
    (318.4, "[$CHF-807] #,##0.00", "CHF 318.40"),
    (-1234.5, "[$CHF] #,##0.00", "-CHF 1,234.50"),
    (1, _STOCK, "in stock"),
    (0, _STOCK, "sold out"),
    (7, _STOCK, "7"),
    (0.025, "0.0%", "2.5%"),
    (-0.5, "0%", "-50%"),
    (1234567.891, "#,##0", "1,234,568"),
    (-1234.5, "#,##0.00_);[Red]\\(#,##0.00\\)", "(1,234.50)"),
    (0, '0.00;-0.00;"-"', "-"),
    (1234567, '0.0,,"M"', "1.2M"),
    (1234567, "#,##0,", "1,235"),
    (45000, "dd.mm.yyyy", "15.03.2023"),
    (45000.75, "d mmm yyyy h:mm AM/PM", "15 Mar 2023 6:00 PM"),
    (1.5, "[h]:mm", "36:00"),
    (-0.25, "[h]:mm", "-6:00"),
    (61.5 / 86400, "mm:ss.0", "01:01.5"),
    (2.25, "# ??/??", "2 1/4"),
    (12345, "0.00E+00", "1.23E+04"),
    (0.000123, "##0.0E+0", "123.0E-6"),
    (1234.5, _EURO, "1,234.50 €"),
    (0, _EURO, "- €"),
    (5551234567, "(000) 000-0000", "(555) 123-4567"),
    (12, '[<10]"low";[<100]"mid";"high"', "mid"),
    (0.1 + 0.2, "General", "0.3"),
    (1000, 'General" pcs"', "1000 pcs"),
    (45000, "[$-F800]dddd, mmmm dd, yyyy", "2023-03-15"),
    (45000, "[$-407]d. mmmm yyyy", "15. March 2023"),
    (0.125, "0.00", "0.13"),
    (59, "yyyy-mm-dd", "1900-02-28"),
    (5, "0;;", "5"),
    (-5, "0;;", ""),
]


def _styles(codes: list[str], fonts: str = "", fills: str = "", cells: str = "") -> str:
    """The styles of a workbook: style 0 is plain, then one for each code, then `cells`."""
    listed = "".join(f'<numFmt numFmtId="{164 + at}" formatCode="{escape(code)}"/>' for at, code in enumerate(codes))
    styles = "".join(f'<xf numFmtId="{164 + at}"/>' for at in range(len(codes)))
    plain = '<fill><patternFill/></fill><fill><patternFill patternType="gray125"/></fill>'
    return (
        f'<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><numFmts>{listed}</numFmts>'
        f"<fonts><font/>{fonts}</fonts><fills>{plain}{fills}</fills>"
        f'<cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs><xf numFmtId="0"/>{styles}{cells}</cellXfs></styleSheet>'
    )


@pytest.mark.parametrize("by", ["Excel", "openpyxl"])
def test_numbers_are_read_as_their_formats_show_them(tmp_path: Path, by: str) -> None:
    kind = ' t="n"' if by == "openpyxl" else ""
    cells = [f'<c r="A{at}" s="{at}"{kind}><v>{value!r}</v></c>' for at, (value, _, _) in enumerate(FORMATS, 1)]
    rows = "".join(f'<row r="{at}">{cell}</row>' for at, cell in enumerate(cells, 1))
    styles = _styles([code for _, code, _ in FORMATS])
    document = written(tmp_path, xlsx({"S": rows}, more={"xl/styles.xml": styles}), "book.xlsx")
    assert document.text.split("\n")[2:] == [text for _, _, text in FORMATS][:-1]
    assert document.warnings == (f"{tmp_path / 'book.xlsx'}: not read: 1 hidden passage (--markup reads them)",)  # the last one


def test_texts_and_days_from_1904(tmp_path: Path) -> None:
    assert shown_text("abc", '0;0;0;"<"@">"') == "<abc>"
    assert shown_text("abc", "0.00") == "abc"
    assert shown(0, "yyyy-mm-dd", from_1904=True) == "1904-01-01"
    assert shown(-3, "yyyy-mm-dd") == "-3"


@given(
    value=st.floats(),
    code=st.lists(
        st.sampled_from('0 # ? . , % / E+ E- " \\ y m d h s.00 [h] [$X-8] ; @ General AM/PM _ * [<5] [>=-1] ( [ ]'.split(" ")),
        max_size=9,
    ).map("".join),
)
def test_any_format_shows_any_number(value: float, code: str) -> None:
    assert "\n" not in shown(value, code)


def test_formulas_without_a_value_are_told(tmp_path: Path) -> None:
    cells = (
        "<c><f>A1+1</f><v></v></c>",
        '<c r="C1"><f>A1</f></c>',
        '<c t="str"><f>""</f><v></v></c>',
        "<c><f>A2</f><v>7</v></c>",
    )
    document = written(tmp_path, xlsx({"S": x_row("a", *cells)}), "book.xlsx")
    assert document.text == "S\n\na\t\t\t\t7"
    hint = "2 formulas without a value (open and save the file in a spreadsheet program)"
    assert document.warnings == (f"{tmp_path / 'book.xlsx'}: not read: {hint}",)
    cell = '<table:table-cell table:formula="of:=[.A1]+1"/>'
    (warning,) = written(tmp_path, ods({"S": o_row("a", cell)}), "book.ods").warnings
    assert "1 formula without a value (open and save" in warning


def test_cells_of_open_document_are_read_as_displayed(tmp_path: Path) -> None:
    value = 'office:value-type="float" office:value="417"'
    cells = (
        f"<table:table-cell {value}><text:p>00417</text:p></table:table-cell>",
        f"<table:table-cell {value}><text:p>417<text:s/>kg</text:p><text:p>net</text:p></table:table-cell>",
        f"<table:table-cell {value}/>",
        '<table:table-cell table:number-columns-repeated="2"><text:p>twice</text:p></table:table-cell>',
    )
    assert written(tmp_path, ods({"S": o_row(*cells)}), "book.ods").text == "S\n\n00417\t417 kg net\t417\ttwice\ttwice"


# -- hidden cells --------------------------------------------------------------------------------------------------------------

_ROWS = (
    '<row r="1"><c r="A1" t="str"><v>Town</v></c><c r="B1" t="str"><v>Bribe</v></c><c r="C1" t="str"><v>Cost</v></c></row>'
    '<row r="2"><c r="A2" t="str"><v>Hull</v></c><c r="B2"><v>91</v></c><c r="C2"><v>12</v></c></row>'
    '<row r="3"{}><c r="A3" t="str"><v>Leith</v></c><c r="B3"><v>92</v></c><c r="C3"><v>14</v></c></row>'
    '<row r="4"><c r="A4" t="str"><v>Brook</v></c><c r="B4"><v>93</v></c><c r="C4"><v>15</v></c></row>'
)
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def _sheet(before: str, rows: str, after: str = "") -> dict[str, bytes | str]:
    sheet = f"<worksheet {_MAIN}>{before}<sheetData>{rows}</sheetData>{after}</worksheet>"
    return {"xl/worksheets/sheet1.xml": sheet}


@pytest.mark.parametrize("by", ["hidden", "filtered"])
def test_hidden_rows_and_columns_are_left_out_and_told(tmp_path: Path, by: str) -> None:
    columns = '<cols><col min="2" max="2" width="0" hidden="1"/></cols>'
    after = '<autoFilter ref="A1:C4"><filterColumn colId="2"/></autoFilter>' if by == "filtered" else ""
    path = tmp_path / "book.xlsx"
    path.write_bytes(xlsx({"S": ""}, more=_sheet(columns, _ROWS.format(' hidden="1"'), after)))
    document = load(str(path))
    assert document.text == "S\n\nTown\tCost\nHull\t12\nBrook\t15"
    assert document.warnings == (f"{path}: not read: 1 hidden column, 1 hidden row (--markup reads them)",)
    document = load(str(path), markup=True)
    assert document.text == "S\n\nTown\tBribe\tCost\nHull\t91\t12\nLeith\t92\t14\nBrook\t93\t15"
    assert document.warnings == ()


def test_hidden_rows_columns_and_sheets_of_open_document(tmp_path: Path) -> None:
    columns = '<table:table-column/><table:table-column table:visibility="collapse"/><table:table-column/>'
    rows = [o_row("Town", "Bribe", "Cost"), o_row("Hull", "91", "12"), o_row("Leith", "92", "14"), o_row("Brook", "93", "15")]
    rows[2] = rows[2].replace("<table:table-row>", '<table:table-row table:visibility="filter">')
    rows[1] = rows[1].replace("<table:table-row>", '<table:table-row table:visibility="collapse">')
    (tmp_path / "book.ods").write_bytes(ods({"S": columns + "".join(rows)}))
    document = load(str(tmp_path / "book.ods"))
    assert document.text == "S\n\nTown\tCost\nBrook\t15"
    assert document.warnings[0].endswith("not read: 1 hidden column, 2 hidden rows (--markup reads them)")
    assert "Leith\t92\t14" in load(str(tmp_path / "book.ods"), markup=True).text


_FONTS = (
    '<font><color rgb="FFFFFFFF"/></font><font><color theme="0"/></font><font><sz val="0.5"/></font>'
    '<font><color rgb="FFFEFEFE"/></font><font><color rgb="FF1F4E78"/></font><font><color theme="0" tint="-0.5"/></font>'
)
_FILLS = (
    '<fill><patternFill patternType="solid"><fgColor rgb="FF1F4E78"/></patternFill></fill>'
    '<fill><patternFill patternType="solid"><fgColor theme="4"/></patternFill></fill>'
    '<fill><gradientFill degree="90"><stop position="0"><color rgb="FF000000"/></stop></gradientFill></fill>'
    '<fill><patternFill patternType="solid"><fgColor indexed="18"/></patternFill></fill>'
    '<fill><patternFill patternType="solid"><fgColor rgb="FFFFFFFF"/></patternFill></fill>'
    '<fill><patternFill patternType="darkGrid"/></fill>'
)


@pytest.mark.parametrize(
    ("font", "fill", "is_seen"),
    [
        (1, 0, False),  # white on nothing
        (2, 0, False),
        (3, 0, False),
        (4, 0, False),
        (1, 6, False),  # white on white
        (5, 2, False),  # blue on the same blue
        (1, 2, True),  # white on blue
        (2, 3, True),  # on a color of the theme
        (1, 4, True),  # on a gradient
        (1, 5, True),  # on a color by number
        (1, 7, True),  # on a pattern
        (5, 0, True),
        (6, 0, True),  # gray
        (0, 0, True),
    ],
)
def test_cells_that_cannot_be_seen_are_left_out(tmp_path: Path, font: int, fill: int, is_seen: bool) -> None:
    styles = _styles([], _FONTS, _FILLS, f'<xf numFmtId="0" fontId="{font}" fillId="{fill}"/>')
    cells = ("seen", '<c r="B1" s="1" t="str"><v>perhaps</v></c>', "too")
    path = tmp_path / "book.xlsx"
    path.write_bytes(xlsx({"S": x_row(*cells)}, more={"xl/styles.xml": styles}))
    document = load(str(path))
    assert document.text == ("S\n\nseen\tperhaps\ttoo" if is_seen else "S\n\nseen\t\ttoo")
    assert document.warnings == (() if is_seen else (f"{path}: not read: 1 hidden passage (--markup reads them)",))
    assert "perhaps" in load(str(path), markup=True).text


@pytest.mark.parametrize("by", ["a table", "a condition"])
def test_white_text_that_a_table_style_or_condition_may_color_is_read(tmp_path: Path, by: str) -> None:
    styles = _styles([], _FONTS, _FILLS, '<xf numFmtId="0" fontId="1"/>')
    rows = '<row r="1"><c r="A1" s="1" t="str"><v>Town</v></c><c r="B1" s="1" t="str"><v>Cost</v></c></row>'
    rows += '<row r="9"><c r="A9" s="1" t="str"><v>obey</v></c><c r="B9"><v>4</v></c></row>'
    condition = '<conditionalFormatting sqref="D1:D2 A1:B3"><cfRule type="expression" dxfId="0"/></conditionalFormatting>'
    more = _sheet("", rows, condition if by == "a condition" else "") | {"xl/styles.xml": styles}
    if by == "a table":
        more["xl/worksheets/_rels/sheet1.xml.rels"] = relations(("table", "../tables/table1.xml"))
        more["xl/tables/table1.xml"] = f'<table {_MAIN} ref="A1:B5"><tableStyleInfo name="TableStyleMedium2"/></table>'
    document = written(tmp_path, xlsx({"S": ""}, more=more), "book.xlsx")
    assert document.text == "S\n\nTown\tCost\n\n\t4"
    assert "1 hidden passage" in document.warnings[0]


def test_white_cells_of_open_document(tmp_path: Path) -> None:
    def style(name: str, color: str, ground: str = "", more: str = "") -> str:
        fill = f'<style:table-cell-properties fo:background-color="{ground}"/>' if ground else ""
        return f'<style:style style:name="{name}">{fill}<style:text-properties fo:color="{color}"/>{more}</style:style>'

    styles = style("a", "#ffffff") + style("b", "#ffffff", "#1f4e78") + style("c", "#ffffff", "", "<style:map/>")
    styles += style("d", "#000000") + '<style:style style:name="e" style:parent-style-name="b"/>'
    cells = (f'<table:table-cell table:style-name="{name}"><text:p>{name}</text:p></table:table-cell>' for name in "abcde")
    fo = 'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    content = zipfile.ZipFile(io.BytesIO(ods({"S": o_row(*cells)}))).read("content.xml").decode()
    content = content.replace("<office:body>", f"<office:automatic-styles {fo}>{styles}</office:automatic-styles><office:body>")
    document = written(tmp_path, ods({}, more={"content.xml": content}), "book.ods")
    assert document.text == "S\n\nb\tc\td\te"
    assert document.warnings == (f"{tmp_path / 'book.ods'}: not read: 1 hidden passage (--markup reads them)",)
