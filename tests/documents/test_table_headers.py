"""What is read above the rows of a table: all rows of its header, and its unit; and which tables have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import pytest

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.tables import header_of, tables_of
from tests.documents.making import docx, o_row, ods, odt, pptx, w_paragraph, written, x_row, xlsx

Rows = Sequence[Sequence[str]]


def _html(rows: Rows, above: str = "") -> str:
    made = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<!DOCTYPE html><html><body>{f'<p>{above}</p>' if above else ''}<table>{made}</table></body></html>"


def _docx(rows: Rows, above: str = "") -> bytes:
    cells = ("".join(f"<w:tc>{w_paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return docx((w_paragraph(above) if above else "") + f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>")


def _odt(rows: Rows, above: str = "") -> bytes:
    return odt(
        (f"<text:p>{above}</text:p>" if above else "") + f"<table:table>{''.join(o_row(*row) for row in rows)}</table:table>"
    )


def _pptx(rows: Rows, above: str = "") -> bytes:
    def cell(text: str) -> str:
        return f"<a:tc><a:txBody><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></a:txBody></a:tc>"

    made = "".join(f"<a:tr>{''.join(map(cell, row))}</a:tr>" for row in rows)
    table = f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{made}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    return pptx([(f"<p:sp><p:txBody><a:p><a:r><a:t>{above}</a:t></a:r></a:p></p:txBody></p:sp>" if above else "") + table])


def _xlsx(rows: Rows, above: str = "") -> bytes:
    return xlsx({"S": "".join(x_row(*row) for row in ([[above]] if above else []) + [*rows])})


def _ods(rows: Rows, above: str = "") -> bytes:
    return ods({"S": "".join(o_row(*row) for row in ([[above]] if above else []) + [*rows])})


def _csv(separator: str) -> Callable[[Rows, str], str]:
    return lambda rows, above="": (f"{above}\n" if above else "") + "".join(separator.join(row) + "\n" for row in rows)


WRITERS: dict[str, Callable[..., bytes | str]] = {
    "a.html": _html,
    "a.docx": _docx,
    "a.odt": _odt,
    "a.pptx": _pptx,
    "a.xlsx": _xlsx,
    "a.ods": _ods,
    "a.csv": _csv(";"),
    "a.tsv": _csv("\t"),
}
_TOWNS = ("Hull", "Leith", "Brook", "Dunmore", "Elsfield", "Fenton", "Garth", "Holm", "Irby", "Kelso", "Louth", "Melton")
_PEOPLE = ("Ann", "Bob", "Cid", "Dora", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kit", "Lou")
_LANDS = "France Paris,Italy Rome,Norway Oslo,Austria Vienna,Greece Athens,Poland Warsaw,Latvia Riga,Peru Lima,Cuba Havana"
_TRADES = "Name Ann,Town Brook,Trade Cooper,Faith None,Ship Ada,Master Voss,Mate Pell,Cook Dunn,Port Hull,Load Tea"
_WEEK = "Monday Swimming,Tuesday Rowing,Wednesday Chess,Thursday Dancing,Friday Singing,Saturday Football,Sunday Rest"
_STATES = ("open", "closed", "sold")


def _pairs(text: str) -> list[list[str]]:
    return [each.split() for each in text.split(",")]


WITHOUT_HEADER: dict[str, Rows] = {
    "a person, a town, a number": [
        [one, two, str(7 * at + 3)] for at, (one, two) in enumerate(zip(_PEOPLE, _TOWNS, strict=True))
    ],
    "numbers": [[str(at), str(at * 3), str(at * at)] for at in range(1, 15)],
    "days": [[f"2024-05-{at:02}", f"{at}.50", "Rent"] for at in range(1, 15)],
    "lands": _pairs(_LANDS),
    "codes": [[f"A-{1000 + at}", town, _TOWNS[at - 1]] for at, town in enumerate(_TOWNS)],
    "years": [[str(1990 + at), str(2000 + at), str(1960 + at)] for at in range(12)],
    "names and values": _pairs(_TRADES),
    "states": [[name, _STATES[at % 3]] for at, name in enumerate(_PEOPLE)],
    "times": [[f"{at + 6:02}:15", f"Bus {at}", _TOWNS[at]] for at in range(12)],
    "telephones": [[name, f"+44 20 7946 {at + 1000}"] for at, name in enumerate(_PEOPLE)],
    "addresses": [[f"{name.lower()}@weir.org", name] for name in _PEOPLE],
    "meanings": [[town, f"A town of the north, with {name}s and a fair."] for town, name in zip(_TOWNS, _PEOPLE, strict=True)],
    "sums": [[town, f"€ {at + 5},{at + 100}.00"] for at, town in enumerate(_TOWNS)],
    "brackets": [[f"({at},100)", f"-{at}", town] for at, town in enumerate(_TOWNS)],
    "an empty first cell": [["" if at == 0 else town, f"{at + 12}", f"{at + 40}"] for at, town in enumerate(_TOWNS)],
    "a week": _pairs(_WEEK),
    "matches": [[f"{town} v {_TOWNS[at - 1]}", f"{at}:1", f"{at + 310}"] for at, town in enumerate(_TOWNS)],
    "a log": [["INFO" if at % 2 else "WARN", f"step {at} ended", f"{at} ms"] for at in range(14)],
    "no letters of Latin": [[f"北{at}京", f"{2154 + at}", f"{at}"] for at in range(12)],
    "shares": [[town, f"{at + 12}%", f"{at + 40}.5%"] for at, town in enumerate(_TOWNS)],
}


@pytest.mark.parametrize("named", WITHOUT_HEADER)
def test_a_table_without_a_header_keeps_its_first_row_as_data(tmp_path: Path, named: str) -> None:
    formats = [*WRITERS]
    first = [*WITHOUT_HEADER].index(named) % len(formats)
    for name in (formats[first], formats[(first + 3) % len(formats)]):
        document = written(tmp_path, WRITERS[name](WITHOUT_HEADER[named]), name)
        assert [table.header for table in tables_of(document)] == [""], name
        assert all(chunk.text_with_header == chunk.text for chunk in build_corpus([document], 10).chunks)


def _rows(n_numbers: int, n: int = 60) -> list[list[str]]:
    return [
        [f"{_TOWNS[at % 12]} {_PEOPLE[at % 7]}", *(str(1000 + 37 * at + 11 * column) for column in range(n_numbers))]
        for at in range(n)
    ]


_FULL = {
    "years over plan and actual": (
        [["Building", "2023", "", "2024", ""], ["", "Plan", "Actual", "Plan", "Actual"]],
        "Building|2023 Plan|2023 Actual|2024 Plan|2024 Actual",
    ),
    "names in each cell": (
        [["Building", "2023", "2023", "2024", "2024"], ["Building", "Plan", "Actual", "Plan", "Actual"]],
        "Building|2023 Plan|2023 Actual|2024 Plan|2024 Actual",
    ),
    "one name over all": (
        [["", "Visitors", "", "", ""], ["Museum", "May", "June", "July", "August"]],
        "Museum|Visitors May|Visitors June|Visitors July|Visitors August",
    ),
    "units below": (
        [["Harbour", "Depth", "Length", "Cost", "Share"], ["", "m", "m", "EUR", "%"]],
        "Harbour|Depth m|Length m|Cost EUR|Share %",
    ),
    "three rows": (
        [["", "2023", "", "2024", ""], ["Works", "North", "South", "North", "South"], ["", "t", "t", "t", "t"]],
        "Works|2023 North t|2023 South t|2024 North t|2024 South t",
    ),
    "a name beside groups": (
        [["Town", "Men", "", "Women", "Total"], ["", "young", "old", "all", ""]],
        "Town|Men young|Men old|Women all|Total",
    ),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("case", _FULL)
def test_all_rows_of_a_header_are_read_above_each_later_passage(tmp_path: Path, case: str, name: str) -> None:
    header, joined = _FULL[case]
    document = written(tmp_path, WRITERS[name]([*header, *_rows(4)]), name)
    separator = ";" if name == "a.csv" else "\t"
    first, *chunks = build_corpus([document], 60).chunks
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.text_with_header == f"{joined.replace('|', separator)}\n{chunk.text}"
        assert chunk.text.split(" ")[0] in _TOWNS, "the rows of the header are not data"
    assert first.text_with_header == first.text


@pytest.mark.parametrize("name", WRITERS)
def test_a_row_without_numbers_below_a_header_is_data(tmp_path: Path, name: str) -> None:
    rows = [["Building", "Pupils", "Rooms"], ["Mill School", "closed", "n/a"], *_rows(2)]
    (table,) = tables_of(document := written(tmp_path, WRITERS[name](rows), name))
    assert table.header.replace(";", "\t") == "Building\tPupils\tRooms"
    assert document.text[table.start :].startswith("Mill School")


UNITS = [
    "All amounts in this table are given in thousands of euros.",
    "Angaben in Tsd. EUR",
    "(000s)",
    "Amounts in USD million",
    "En milliers d'euros",
    "Statement of income (in millions, except per share)",
    "Importes en miles de euros",
    "Figures are in tonnes",
    "Unit: EUR million",
    "(£000)",
    "単位：千円",
    "Werte in Mio. €",
]
NO_UNITS = [
    "The accounts were audited in March and passed by the council in May.",
    "Thousands of visitors came.",
    "He paid in euros, and left in 2003.",
    "Route 1000s of miles long",
    "The next table lists all schools in the county.",
]


@pytest.mark.parametrize("at", range(len(UNITS)))
def test_the_unit_above_a_table_is_read_with_each_passage(tmp_path: Path, at: int) -> None:
    unit, name = UNITS[at], [*WRITERS][at % len(WRITERS)]
    rows = [["School", "Rent", "Repairs"], *_rows(2)]
    separator = ";" if name == "a.csv" else "\t"
    for each in {name, "a.md"}:
        made = _md(rows, unit) if each == "a.md" else WRITERS[each](rows, unit)
        header = "| School | Rent | Repairs |" if each == "a.md" else separator.join(rows[0])
        _, *chunks = build_corpus([written(tmp_path, made, each)], 60).chunks
        assert chunks
        for chunk in chunks:
            assert chunk.text_with_header == f"{unit}\n{header}\n{chunk.text}"
            assert unit not in chunk.indexed_text


def _md(rows: Rows, above: str) -> str:
    first, *others = (f"| {' | '.join(row)} |\n" for row in rows)
    return f"# Accounts\n\n{above}\n\n{first}|---|---|---|\n{''.join(others)}"


@pytest.mark.parametrize("above", NO_UNITS)
def test_other_lines_above_a_table_are_not_repeated(tmp_path: Path, above: str) -> None:
    for name in ("a.html", "a.xlsx", "a.csv"):
        document = written(tmp_path, WRITERS[name]([["School", "Rent", "Repairs"], *_rows(2)], above), name)
        assert header_of(document, len(document.text) - 5).replace(";", "\t") == "School\tRent\tRepairs"


# -- several tables in a sheet -------------------------------------------------------------------------------------------------

_PRICES = [["Model", "Price", "In stock"], *_rows(2, 30)]
_RETURNS = [["Model", "Returned", "Damaged"], *_rows(2, 30)]
_STAFF = [["Clerk", "Hours"], *_rows(1, 30)]
_TWO = ["Model|Price|In stock", "Model|Returned|Damaged"]
STACKED: dict[str, tuple[Rows, list[str]]] = {
    "an empty row": ([*_PRICES, [""], *_RETURNS], _TWO),
    "empty rows and a title": (
        [*_PRICES, [""], [""], ["Returns"], *_RETURNS],
        ["Model|Price|In stock", "Model|Returned|Damaged"],
    ),
    "a new header alone": ([*_PRICES, *_RETURNS], _TWO),
    "a title alone": ([*_PRICES, ["Returns"], *_RETURNS], _TWO),
    "another width": ([*_PRICES, [""], *_STAFF], ["Model|Price|In stock", "Clerk|Hours"]),
    "an empty row in a table": ([*_PRICES, [""], ["Total", "99", "120"], ["Mean", "3", "4"]], ["Model|Price|In stock"]),
    "three": ([*_PRICES, [""], *_RETURNS, [""], *_STAFF], [*_TWO, "Clerk|Hours"]),
}


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods", "a.csv", "a.tsv"])
@pytest.mark.parametrize("case", STACKED)
def test_tables_below_each_other_have_their_own_headers(tmp_path: Path, case: str, name: str) -> None:
    rows, headers = STACKED[case]
    if name == "a.csv":  # which may hold any text: there, only an empty line ends a table
        rows = [line for row in rows for line in ([[""], row] if row[0] in ("Model", "Returns") else [row])]
    document = written(tmp_path, WRITERS[name](rows), name)
    found = tables_of(document)
    assert [table.header.replace(";", "|").replace("\t", "|") for table in found] == headers
    assert header_of(document, len(document.text) - 2) == found[-1].header
