"""Spreadsheets: sheets as sections, rows as lines, values as people write them; damaged and hostile files."""

from __future__ import annotations

import struct
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest

from fbrag_cli.documents.lines import section_of
from fbrag_cli.documents.load import load
from fbrag_cli.documents.readers import spreadsheet as reader
from fbrag_cli.errors import FbragError
from tests.documents.making import o_row, ods, refused, relations, written, x_row, xlsx
from tests.documents.test_slides import CHART

_CELL = '<c r="{}" t="inlineStr"><is><t>x</t></is></c>'


def test_sheets_rows_and_cells(tmp_path: Path) -> None:
    strings = '<si><t>Harbour</t></si><si><r><t xml:space="preserve">two </t></r><r><t>runs</t></r></si>'
    sales = x_row("Place", "Sum") + x_row() + x_row('<c t="s"><v>0</v></c>', "<c><v>1200</v></c>") + x_row("", "  ")
    notes = x_row('<c t="s"><v>1</v></c>', "line one\nline two")
    document = written(tmp_path, xlsx({"Sales": sales, "Empty": "", "Notes & more": notes}, strings), "book.xlsx")
    assert document.text == "Sales\n\nPlace\tSum\n\nHarbour\t1200\n\nNotes & more\n\ntwo runs\tline one line two"
    assert [(section.title, section.level) for section in document.sections] == [("Sales", 1), ("Notes & more", 1)]
    found = section_of(document, document.text.index("Harbour"), len(document.text))
    assert found is not None
    assert found.title == "Sales"
    assert document.media_type.endswith("spreadsheetml.sheet")


def test_values_are_read_and_formulas_are_not(tmp_path: Path) -> None:
    cells = (
        "<c><f>SUM(A2:A9)</f><v>0.30000000000000004</v></c>",
        '<c t="str"><f>CONCAT("never ", "this")</f><v>shown</v></c>',
        '<c t="b"><v>1</v></c>',
        '<c s="1"><v>45429</v></c>',
        '<c s="2"><v>45429.604166666664</v></c>',
        '<c s="3"><v>0.25</v></c>',
    )
    text = written(tmp_path, xlsx({"S": x_row(*cells)}), "book.xlsx").text
    assert text == "S\n\n0.3\tshown\tTRUE\t2024-05-17\t2024-05-17 14:30\t6:00"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (-0.5, "-0.5"),
        (1e20, "1e+20"),
        (123456789012.0, "123456789012"),
        (1234567890123451.0, "1234567890123451"),
        (2.0**60, "1.15292150460685e+18"),
        (float("nan"), "nan"),
        (False, "FALSE"),
        (datetime(2024, 2, 29, 23, 59, 59, 999_600), "2024-03-01 00:00"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000), "9999-12-31 23:59:59"),
        (datetime(2024, 2, 29, 1, 2, 3), "2024-02-29 01:02:03"),
        (date(1900, 1, 1), "1900-01-01"),
        (time(7, 5), "07:05"),
        (timedelta(hours=26, minutes=3), "26:03"),
        (timedelta(minutes=-90, seconds=-5), "-1:30:05"),
        (" a \n b ", "a b"),
    ],
)
def test_values_as_people_write_them(value: object, text: str) -> None:
    assert reader.written(value) == text


def test_an_open_document_spreadsheet(tmp_path: Path) -> None:
    more = (
        '<table:table-cell office:value-type="float" office:value="12.5"/>',
        '<table:table-cell office:value-type="date" office:date-value="2024-05-17"/>',
    )
    empty = '<table:table-cell table:number-columns-repeated="16384"/>'
    gap = f'<table:table-row table:number-rows-repeated="1000">{empty}</table:table-row>'
    document = written(tmp_path, ods({"Häfen": o_row("Place") + gap + o_row("Hull", *more)}), "book.ods")
    assert document.text == "Häfen\n\nPlace\n\nHull\t12.5\t2024-05-17"
    assert [section.title for section in document.sections] == ["Häfen"]
    assert document.media_type.endswith("opendocument.spreadsheet")


def test_what_lies_on_a_sheet_of_open_document_is_said_to_be_left_out(tmp_path: Path) -> None:
    note = "<office:annotation office:display='0'><text:p>why?</text:p></office:annotation>"
    cell = f'<table:table-cell office:value-type="string">{note}<text:p>Hull</text:p></table:table-cell>'
    document = written(tmp_path, ods({"S": o_row(cell)}), "book.ods")
    assert document.text == "S\n\nHull"
    assert document.warnings == (f"{tmp_path / 'book.ods'}: not read: 1 comment",)


def _flat(kind: str, body: str) -> str:
    content = f"<office:{kind}>\n {body}\n</office:{kind}>"
    names = " ".join(f'xmlns:{each}="urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"' for each in ("office", "table", "text"))
    mimetype = f'office:mimetype="application/vnd.oasis.opendocument.{kind}"'
    return f'<?xml version="1.0"?>\n<office:document {names} {mimetype}>\n<office:body>{content}</office:body></office:document>'


_INDENTED = (
    '<table:table table:name="Ports">\n  ' + o_row("Hull", "two  words").replace("<table:", "\n  <table:") + "\n</table:table>"
)


def test_open_document_with_white_space_between_its_elements(tmp_path: Path) -> None:
    """As one file (fods) and from some programs; calamine takes none of it."""
    assert written(tmp_path, _flat("spreadsheet", _INDENTED), "a.fods").text == "Ports\n\nHull\ttwo words"
    package = ods({"Ports": "\n " + o_row("Hull").replace("<table:", "\n  <table:")})
    assert written(tmp_path, package, "a.ods").text == "Ports\n\nHull"
    entities = '<!DOCTYPE d [<!ENTITY a "lol">]>' + _flat("spreadsheet", _INDENTED).split("\n", 1)[1]
    assert "entities" in refused(tmp_path, entities, "b.fods").message
    error = refused(tmp_path, _flat("presentation", "<x/>"), "a.fodp")
    assert error.message.endswith("is an OpenDocument presentation (odp), which is not read")


def _xls(rows: list[list[str | float]], name: str = "Workbook", first: bytes = b"", *, embedded_in: str = "") -> bytes:
    """A workbook of Excel 97: records of one sheet, in the one stream of a compound file.

    name: of the stream. first: records after the first one. embedded_in: the root's stream; then it is in a folder.
    """

    def record(kind: int, data: bytes = b"") -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    def begin(kind: int) -> bytes:
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 1997, 0, 0))

    cells = b"".join(
        record(0x203, struct.pack("<HHHd", y, x, 0, cell))
        if isinstance(cell, float)
        else record(0x204, struct.pack("<HHHHB", y, x, 0, len(cell), 1) + cell.encode("utf-16-le"))
        for y, row in enumerate(rows)
        for x, cell in enumerate(row)
    )
    sheet = b"\x04\x00Data"
    start = len(begin(0x5) + first) + 4 + 6 + len(sheet) + 4
    head = begin(0x5) + first + record(0x85, struct.pack("<IH", start, 0) + sheet) + record(0xA)
    stream = (head + begin(0x10) + cells + record(0xA)).ljust(4096, b"\0")

    def entry(title: str, kind: int, child: int, start: int, size: int) -> bytes:
        data = title.encode("utf-16-le").ljust(64, b"\0") + struct.pack("<HBB", 2 * len(title) + 2, kind, 1)
        return data + struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, child) + bytes(36) + struct.pack("<IQ", start, size)

    n_data = len(stream) // 512
    table = [0xFFFFFFFD, 0xFFFFFFFE, *range(3, 2 + n_data), 0xFFFFFFFE]
    table += [0xFFFFFFFF] * (128 - len(table))
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0) + struct.pack("<I", 0)
    root, book = entry("Root Entry", 5, 1, 0xFFFFFFFE, 0), entry(name, 2, 0xFFFFFFFF, 2, len(stream))
    folder = root + book + bytes(256)
    if embedded_in:
        other = entry(embedded_in, 2, 0xFFFFFFFF, 2, len(stream))
        other = other[:68] + struct.pack("<I", 2) + other[72:]  # its sibling is the folder
        folder = root + other + entry("ObjectPool", 1, 3, 0, 0) + book
    return header.ljust(512, b"\xff") + struct.pack("<128I", *table) + folder + stream


def test_an_old_workbook(tmp_path: Path) -> None:
    document = written(tmp_path, _xls([["Place", "Sum"], ["Hüll", 12.5]]), "book.xls")
    assert document.text == "Data\n\nPlace\tSum\nHüll\t12.5"
    assert document.media_type == "application/vnd.ms-excel"
    with pytest.raises(FbragError, match="old Office document"):
        written(tmp_path, _xls([["Place"]], embedded_in="WordDocument"), "letter.doc")


@pytest.mark.parametrize("name", ["WORKBOOK", "BOOK"])
def test_an_old_workbook_under_another_name_of_its_stream(tmp_path: Path, name: str) -> None:
    """A document of Word inside it does not make it one."""
    data = _xls([["Place", "Sum"]], name) + "WordDocument".encode("utf-16-le")
    assert written(tmp_path, data, "book.xls").text == "Data\n\nPlace\tSum"


def test_an_old_workbook_with_a_password(tmp_path: Path) -> None:
    locked = _xls([["Place"]], first=struct.pack("<HHHHHH", 0x2F, 8, 0, 0, 0x1234, 0x5678))
    assert refused(tmp_path, locked, "book.xls").message.endswith("is encrypted with a password")


_BOMB = '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (xlsx({"S": x_row("a")}, more={"xl/workbook.xml": "x"}), "its XML is broken"),
        (xlsx({"S": "<row><c"}), "its XML is broken"),
        (xlsx({"S": x_row("a")}, more={"xl/worksheets/sheet1.xml": _BOMB + "<worksheet>&b;</worksheet>"}), "entities"),
        (xlsx({"S": x_row("a")}, more={"xl/sharedStrings.xml": (_BOMB + "<sst/>").encode("utf-16")}), "entities"),
        (ods({"S": "<table:table-row><table:table-cell"}), "its XML is broken"),
        (_xls([["Place"]])[:3000], "cannot be read"),
    ],
)
def test_damaged_and_hostile_workbooks_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    error = refused(tmp_path, data, "book")
    assert error.code == "doc_unreadable"
    assert says in error.message


def test_encrypted_workbooks(tmp_path: Path) -> None:
    entry = '<manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry>'
    manifest = (
        f'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">{entry}</manifest:manifest>'
    )
    locked = ods({"S": o_row("a")}, more={"META-INF/manifest.xml": manifest})
    assert "encrypted with a password" in refused(tmp_path, locked, "book.ods").message


def test_a_string_that_many_cells_share_is_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = "<si><t>" + "x" * 20_000 + "</t></si>"
    amplified = xlsx({"S": x_row('<c t="s"><v>0</v></c>') * 100}, shared)
    monkeypatch.setattr(reader, "MAX_UNPACKED", 1_000_000)
    assert "more than 1 MB of text" in refused(tmp_path, amplified, "book.xlsx").message


def test_declared_emptiness_costs_nothing(tmp_path: Path) -> None:
    far = f'<row r="1">{_CELL.format("A1")}</row><row r="1048576"><c r="XFD1048576" s="1"/></row>'
    dimension = '<dimension ref="A1:XFD1048576"/>'
    sheet = (
        f'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">{dimension}<sheetData>{far}</sheetData>'
    )
    resource = pytest.importorskip("resource", reason="Windows does not count it")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = xlsx({"S": ""}, more={"xl/worksheets/sheet1.xml": sheet + "</worksheet>"})
    assert written(tmp_path, data, "book.xlsx").text == "S\n\nx"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_cells_in_opposite_corners_cost_no_memory(tmp_path: Path) -> None:
    far = f'<row r="1">{_CELL.format("A1")}</row><row r="1048576">{_CELL.format("XFD1048576")}</row>'
    assert written(tmp_path, xlsx({"S": far}), "book.xlsx").text == "S\n\nx\n\n" + "\t" * 16_383 + "x"
    wide = "".join(f'<row r="{row}">{_CELL.format(f"A{row}")}{_CELL.format(f"XFD{row}")}</row>' for row in range(1, 5001))
    assert "of more than 64 MB of text" in refused(tmp_path, xlsx({"S": wide}), "book.xlsx").message


def test_a_long_string_in_many_cells_is_refused_before_it_costs_memory(tmp_path: Path) -> None:
    shared = f"<si><t>{'x' * 10_000}</t></si><si><t>short</t></si>"
    cells = '<c t="s"><v>{}</v></c>'
    many = x_row(*[cells.format(0)] * 100) * 600
    assert "a spreadsheet of more than 64 MB of text" in refused(tmp_path, xlsx({"S": many}, shared), "book.xlsx").message
    few = x_row(cells.format(0), *[cells.format(1)] * 99) * 600
    assert written(tmp_path, xlsx({"S": few}, shared), "book.xlsx").text.count("short") == 59_400


@pytest.mark.parametrize("place", ["A99999999999", "XFDZZZZ1", "1", "A", "-1", "$A$1"])
def test_a_cell_with_a_wrong_place_is_read(tmp_path: Path, place: str) -> None:
    cells = f'<row r="{place}"><c r="{place}" t="str"><v>x</v></c></row>'
    assert written(tmp_path, xlsx({"S": cells}), "book.xlsx").text == "S\n\nx"


@pytest.mark.parametrize("repeated", ['table:number-rows-repeated="1048576"', 'table:number-rows-repeated="999999999"'])
def test_rows_of_open_document_that_are_repeated_without_end_are_refused(tmp_path: Path, repeated: str) -> None:
    cells = o_row(*["a text of some length"] * 10).replace("<table:table-row>", f"<table:table-row {repeated}>")
    assert "of more than 64 MB of text" in refused(tmp_path, ods({"S": cells}), "book.ods").message


def test_other_files_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_text("<secret/>")
    more: dict[str, bytes | str] = {
        "xl/externalLinks/externalLink1.xml": "<externalLink><x>elsewhere</x></externalLink>",
        "xl/externalLinks/_rels/externalLink1.xml.rels": relations(external=f"file://{tmp_path}/secret.xml"),
        "../../evil.xml": "<x/>",
    }
    cell = "<c><f>[1]Sheet1!A1</f><v>7</v></c>"
    assert written(tmp_path, xlsx({"S": x_row(cell)}, more=more), "book.xlsx").text == "S\n\n7"


def test_percentages_are_written_as_such(tmp_path: Path) -> None:
    styles = (
        '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        '<numFmts><numFmt numFmtId="170" formatCode="0.0%;[Red]-0.0%"/>'
        '<numFmt numFmtId="171" formatCode="0.0&quot;%&quot;"/><numFmt numFmtId="172" formatCode="0.0\\%"/></numFmts>'
        '<cellStyleXfs><xf numFmtId="9"/></cellStyleXfs>'
        '<cellXfs><xf numFmtId="0"/><xf fontId="1" numFmtId="10"/><xf numFmtId="170"/><xf numFmtId="1"/>'
        '<xf fontId="1"/><xf numFmtId="171"/><xf numFmtId="172"/><xf numFmtId="10"/></cellXfs></styleSheet>'
    )
    cells = (
        '<c r="A1" s="1"><v>2.5000000000000001E-2</v></c>',
        '<c r="B1" s="2"><f>A1/3</f><v>-0.318701104052858</v></c>',
        '<c r="C1" s="3"><v>0.025</v></c>',
        '<c r="D1" s="1" t="str"><v>0.5</v></c>',
        '<c r="E1" s="1"><v>0.000001</v></c>',
        '<c r="F1" s="5"><v>2.5</v></c>',  # a sign after the number: it is no share
        '<c r="G1" s="6"><v>2.5</v></c>',
        '<c r="H1" s="7"><v>0.5</v></c>',
        '<c r="I1" s="1"/>',
    )
    document = written(tmp_path, xlsx({"S": x_row(*cells)}, more={"xl/styles.xml": styles}), "book.xlsx")
    assert document.text == "S\n\n2.50%\t-31.9%\t0\t0.5\t0.00%\t2.5%\t2.5%\t50.00%"
    shown = '<table:table-cell office:value-type="percentage" office:value="0.025"><text:p>2.50%</text:p></table:table-cell>'
    assert written(tmp_path, ods({"S": o_row("a", shown)}), "book.ods").text == "S\n\na\t2.50%"


def _sheet_parts(**targets: str) -> str:
    return relations(*((kind, f"../{path}") for kind, path in targets.items()))


def test_text_boxes_and_charts_lie_below_the_rows_of_their_sheet(tmp_path: Path) -> None:
    frame = '<xdr:graphicFrame><a:graphic><c:chart xmlns:c="c" xmlns:r="r" r:id="r1"/></a:graphic></xdr:graphicFrame>'
    lines = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in ("Figures of May", "are late."))
    box = f"<xdr:sp><xdr:txBody>{lines}</xdr:txBody></xdr:sp>"
    picture = '<xdr:pic><xdr:nvPicPr><xdr:cNvPr id="2" name="P" descr="A map"/></xdr:nvPicPr></xdr:pic>'
    more: dict[str, bytes | str] = {
        "xl/worksheets/_rels/sheet1.xml.rels": _sheet_parts(drawing="drawings/drawing1.xml"),
        "xl/drawings/drawing1.xml": f'<xdr:wsDr xmlns:xdr="x" xmlns:a="a">{box}{frame}{picture}</xdr:wsDr>',
        "xl/drawings/_rels/drawing1.xml.rels": _sheet_parts(chart="charts/chart1.xml"),
        "xl/charts/chart1.xml": CHART,
        "xl/worksheets/_rels/sheet2.xml.rels": _sheet_parts(drawing="drawings/drawing2.xml"),
        "xl/drawings/drawing2.xml": f'<xdr:wsDr xmlns:xdr="x" xmlns:a="a">{picture}</xdr:wsDr>',
    }
    document = written(tmp_path, xlsx({"Ports": x_row("Hull", "12"), "Map": "", "Last": x_row("a")}, more=more), "book.xlsx")
    chart = "Chart: Ships in port\n\t2024\nHull\t12\nLeith\t7.5"
    assert document.text == (
        f"Ports\n\nHull\t12\n\nFigures of May\nare late.\n\n{chart}\n\n[A map]\n\nMap\n\n[A map]\n\nLast\n\na"
    )
    assert [section.title for section in document.sections] == ["Ports", "Map", "Last"]


def test_hidden_sheets_are_left_out_and_said(tmp_path: Path) -> None:
    listed = "".join(
        f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"{state}/>'
        for n, state in enumerate(("", ' state="hidden"', ' state="veryHidden"'), 1)
    )
    book = (
        '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        f'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>{listed}</sheets></workbook>'
    )
    rows = {name: x_row(text) for name, text in (("S1", "seen"), ("S2", "obey"), ("S3", "obey"))}
    document = written(tmp_path, xlsx(rows, more={"xl/workbook.xml": book}), "book.xlsx")
    assert document.text == "S1\n\nseen"
    assert document.warnings == (f"{tmp_path / 'book.xlsx'}: not read: 2 hidden sheets (--markup reads them)",)
    assert load(str(tmp_path / "book.xlsx"), markup=True).text == "S1\n\nseen\n\nS2\n\nobey\n\nS3\n\nobey"


def test_a_workbook_of_hidden_sheets_is_told_from_an_empty_one(tmp_path: Path) -> None:
    book = (
        '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
        '<sheets><sheet name="S" sheetId="1" r:id="r1" state="hidden"/></sheets></workbook>'
    )
    error = refused(tmp_path, xlsx({"S": x_row("a")}, more={"xl/workbook.xml": book}), "book.xlsx")
    assert error.message.endswith("has no text but hidden sheets")


def test_comments_name_their_cell(tmp_path: Path) -> None:
    old = (
        "<comments><authors><author>Ann Lee</author><author>tc={1}</author></authors><commentList>"
        '<comment ref="B4" authorId="0"><text><r><t>Ann Lee:</t></r><r><t>\ntoo high</t></r></text></comment>'
        '<comment ref="C1" authorId="1"><text><t>[Threaded comment] Your Excel</t></text></comment></commentList></comments>'
    )
    thread = '<t:threadedComment ref="C1" personId="{P}"><t:text>why?</t:text></t:threadedComment>'
    thread = f'<t:ThreadedComments xmlns:t="t">{thread}</t:ThreadedComments>'
    more: dict[str, bytes | str] = {
        "xl/worksheets/_rels/sheet1.xml.rels": _sheet_parts(comments="comments1.xml", threadedComment="threadedComments/t1.xml"),
        "xl/comments1.xml": old,
        "xl/threadedComments/t1.xml": thread,
        "xl/_rels/workbook.xml.rels": relations(("worksheet", "worksheets/sheet1.xml"), ("person", "persons/person.xml")),
        "xl/persons/person.xml": '<personList><person displayName="Bob" id="{P}"/></personList>',
    }
    path = tmp_path / "book.xlsx"
    path.write_bytes(xlsx({"Sales": x_row("12")}, more=more))
    assert load(str(path)).warnings == (f"{path}: not read: 2 comments (--markup reads them)",)
    read = load(str(path), markup=True).text
    assert read.endswith("Comments\n\nComment by Ann Lee on Sales!B4: too high\n\nComment by Bob on Sales!C1: why?\n")


def test_a_number_that_is_none_costs_only_its_cell(tmp_path: Path) -> None:
    cells = ('<c t="n"><v>x</v></c>', '<c s="1"><v>soon</v></c>', "<c><v>1.5</v></c>", '<c t="str"><v>text</v></c>')
    assert written(tmp_path, xlsx({"S": x_row(*cells)}), "book.xlsx").text == "S\n\nx\tsoon\t1.5\ttext"


def test_a_workbook_of_pictures_is_told_from_an_empty_one(tmp_path: Path) -> None:
    more: dict[str, bytes | str] = {
        "xl/worksheets/_rels/sheet1.xml.rels": relations(("drawing", "../drawings/drawing1.xml")),
        "xl/drawings/drawing1.xml": '<x:wsDr xmlns:x="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing"><x:pic/></x:wsDr>',
    }
    error = refused(tmp_path, xlsx({"S": ""}, more=more), "book.xlsx")
    assert error.message.endswith("has no text, only 1 picture")
    assert "by OCR" in str(error.hint)
