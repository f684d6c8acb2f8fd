"""Rows of tables keep their header: which row it is, in each format, and what reads a chunk that begins below it."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fbrag_cli.citations import Candidate, citations
from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.documents.tables import cells_apart, header_of, tables_of
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.text.words import terms
from tests.documents.making import docx, o_row, ods, odt, written, x_row, xlsx

_NAMES = ["order", "harbour", "weight in kg", "carrier"]
_ROWS = [[f"A-{number}", f"Port {number % 7}", str(number * 3), "Blue Line"] for number in range(1000, 1200)]


def _csv(separator: str = ",", title: str = "") -> str:
    return title + "".join(separator.join(row) + "\n" for row in [_NAMES, *_ROWS])


def _word_row(cells: list[str]) -> str:
    return f"<w:tr>{''.join(f'<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>' for cell in cells)}</w:tr>"


def _open_row(cells: list[str]) -> str:
    return (
        "<table:table-row>"
        + "".join(f"<table:table-cell><text:p>{cell}</text:p></table:table-cell>" for cell in cells)
        + "</table:table-row>"
    )


_HTML = "<html><body><p>Orders</p><table>{}</table><p>The end.</p></body></html>".format(
    "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in [_NAMES, *_ROWS])
)
_FILES: dict[str, bytes | str] = {
    "a.csv": _csv(),
    "b.csv": _csv(";", "Orders of the year 2024\n\n"),
    "a.tsv": _csv("\t"),
    "semicolons": _csv(";"),
    "a.xlsx": xlsx({"Notes": x_row("no table"), "Orders": "".join(x_row(*row) for row in [["Year 2024"], _NAMES, *_ROWS])}),
    "a.ods": ods({"Orders": "".join(o_row(*row) for row in [_NAMES, *_ROWS])}),
    "a.docx": docx(f"<w:tbl>{''.join(map(_word_row, [_NAMES, *_ROWS]))}</w:tbl>"),
    "a.odt": odt(f"<table:table>{''.join(map(_open_row, [_NAMES, *_ROWS]))}</table:table>"),
    "a.html": _HTML,
    "a.md": "# Orders\n\n" + _csv("|").replace("\n", "\n---|---|---|---\n", 1) + "\nThe end.",
}


@pytest.mark.parametrize("name", _FILES)
def test_each_chunk_of_a_table_is_read_below_its_header(tmp_path: Path, name: str) -> None:
    document = written(tmp_path, _FILES[name], name)
    header = next(line for line in document.text.splitlines() if "weight in kg" in line)
    first, *chunks = build_corpus([document], 150).chunks
    assert len(chunks) > 2
    assert first.text_with_header == first.text
    assert header in first.text
    for chunk in chunks:
        assert document.text[chunk.start : chunk.end] == chunk.text  # places and sources are the document's
        assert chunk.text.startswith("A-1")  # whole rows
        assert chunk.text_with_header == f"{header}\n{chunk.text}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1,2,3\n4,5,6\n7,8,9\n", "numbers.csv"),
        ("one line, with commas, in prose, and more\nand a second one\n" * 20, "prose.txt"),
        ("def f(a, b):\n\treturn a\n" * 20, "code.py"),
        ("a\tb\n", "short.tsv"),
        ("a|b\nno rule below\n", "a.md"),
        ("|---|---|\n| 1 | 2 |\n\nthe last line | of all", "rule-first.md"),
        ("", "empty.csv"),
        ('{"id": "a", "port": "Hull", "ship": "Ada", "load": "tea"}\n' * 20, "rows.jsonl"),
        ("INSERT INTO ships VALUES ('a', 'Hull', 'Ada', 'tea');\n" * 20, "rows.sql"),
    ],
)
def test_no_header_where_none_is(text: str, name: str) -> None:
    kind = "text/markdown" if name.endswith(".md") else "text/plain"
    assert not any(table.header for table in tables_of(Document.of(name, name, Extracted(Content(text), kind))))


def test_a_text_of_nothing_but_rules_takes_no_quadratic_time() -> None:
    before = process_time()
    for first in ("x|\n", "x" * 1000 + "|\n"):
        text = first + "|-|\n" * 20_000
        assert len(tables_of(Document.of("a.md", "a.md", Extracted(Content(text), "text/markdown")))) == 1
    assert process_time() - before < 10  # 0.1 s measured; minutes if it were quadratic


def test_a_header_ends_with_its_table(tmp_path: Path) -> None:
    for name in ("a.html", "a.md"):
        document = written(tmp_path, _FILES[name], name)
        assert header_of(document, document.text.index("The end.")) == ""
        assert header_of(document, document.text.index("Orders")) == ""
        assert "weight in kg" in header_of(document, document.text.index("A-1150"))


def test_a_question_by_the_name_of_a_column_finds_the_row_not_the_header(tmp_path: Path) -> None:
    document = written(tmp_path, _csv(), "orders.csv")
    corpus = build_corpus([document], 100)
    bm25 = BM25.of(corpus)
    for row in random.Random(1).sample(_ROWS, 20):
        scores = bm25.scores(f"What is the weight in kg of the order {row[0]}, and its carrier?")
        assert f"{row[0]}," in corpus.chunks[int(scores.argmax())].text


@given(text=st.text(st.sampled_from('ab1,;|\t\n"- :'), max_size=300), name=st.sampled_from(["a.csv", "a.md", "a.html", "a"]))
@settings(max_examples=300)
def test_any_text_has_tables_in_order_within_it(text: str, name: str) -> None:
    kind = {"a.md": "text/markdown", "a.html": "text/html"}.get(name, "text/plain")
    end = 0
    for table in tables_of(Document.of(name, name, Extracted(Content(text), kind))):
        assert end <= table.start <= len(text) + 1
        assert {*table.apart} <= {*text[: table.start], " "}
        end = table.start


# -- cells are words apart ---------------------------------------------------------------------------------------------------

_TOWNS = ("Brook", "Dunmore", "Elsfield", "Fenton")
_METERS = [[f"M{11000 + i}", f"2026-{i % 12 + 1:02}-{i % 28 + 1:02}", f"{i + 10}.{i % 10}", _TOWNS[i % 4]] for i in range(600)]


def _metered(separator: str, *, header: bool = True, edge: str = "", point: str = ".") -> str:
    rows = [["meter", "date", "kwh", "town"]] * header + [[*row[:2], row[2].replace(".", point), row[3]] for row in _METERS]
    return "".join(f"{edge}{separator.join(row)}{edge}\n" for row in rows)


def _quoted() -> str:
    return "meter,kwh,note\n" + "".join(f'{row[0]},"1,{i + 100}","the ""old"" mill, {row[3]}"\n' for i, row in enumerate(_METERS))


_MD = _metered("|", edge="|").replace("\n", "\n|--|--|--|--|\n", 1)


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("comma.csv", _metered(","), "147.7"),
        ("no-header.csv", _metered(",", header=False), "147.7"),
        ("semicolon.csv", _metered(";", point=","), "147,7"),
        ("lines.txt", _metered(",", header=False), "147.7"),
        ("tabs.log", _metered("\t"), "147.7"),
        ("bars.txt", _metered("|"), "147.7"),
        ("table.md", _MD, "147.7"),
        ("quoted.csv", _quoted(), "1,237"),
    ],
)
def test_each_cell_of_a_row_has_words_of_its_own(tmp_path: Path, name: str, text: str, number: str) -> None:
    document = written(tmp_path, text, name)
    corpus = build_corpus([document], 300)
    bm25 = BM25.of(corpus)
    scores = bm25.scores("Which kwh has the meter M11137?")
    chunk = corpus.chunks[int(scores.argmax())]
    assert "M11137" in chunk.text
    assert bm25.missing_terms(f"M11137, {number}, Dunmore") == ()
    assert len(chunk.text) < 4000, "a chunk is as long in any format"
    assert all(250 < each.n_words < 350 for each in corpus.chunks[:-1])
    assert all(each.text.strip("|").startswith("M11") for each in corpus.chunks[1:]), "chunks end with rows"
    assert "".join("".join(each.text.split()) for each in corpus.chunks) == "".join(text.split())

    cited = citations("Which kwh has M11137?", f"It is {number}.", [Candidate(chunk, 1.0, "")], declined=False)
    assert cited.unsupported_terms == ()
    assert [document.text[slice(*mark)] for mark in cited.evidence[0].marks] == [number]
    absent = citations("Which kwh has M11137?", "It is 9,147.", [Candidate(chunk, 1.0, "")], declined=False)
    assert absent.unsupported_terms == ("9,147",)


def test_years_in_a_header_are_words_too(tmp_path: Path) -> None:
    text = "town,2019,2020,2021\n" + "".join(f"{town} {i},{i + 100},{i + 200},{i + 300}\n" for i in range(200) for town in _TOWNS)
    corpus = build_corpus([written(tmp_path, text, "years.csv")], 300)
    assert BM25.of(corpus).scores("2021").all()


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.py", "a.json"])
def test_a_separator_elsewhere_ends_no_word(tmp_path: Path, name: str) -> None:
    """Only rows are known to have cells: 1,234 stays a number, and a|b what it is."""
    text = (
        "The mill cost 1,234 or 5;6 pounds|crowns.\n\nIt stood at 12,345 Low Street, says the deed, and had 3,000 sacks.\n" * 20
    )
    document = written(tmp_path, text, name)
    assert cells_apart(document) == document.text


@given(
    rows=st.lists(st.lists(st.text('ab12,. "\n', max_size=8), min_size=2, max_size=4), min_size=3, max_size=8),
    separator=st.sampled_from(",|"),
)
def test_cells_are_those_that_csv_reads(rows: list[list[str]], separator: str) -> None:
    written = io.StringIO()
    csv.writer(written, delimiter=separator, lineterminator="\n").writerows(rows)
    text = written.getvalue()
    if separator == "|":  # which would look like the separator
        rows, text = [[cell.replace(",", ".") for cell in row] for row in rows], text.replace(",", ".")
    apart = cells_apart(Document.of("a.csv", "a.csv", Extracted(Content(text), "text/plain")))
    assert len(apart) == len(text)
    assert terms(apart) == [term for row in rows for cell in row for term in terms(cell.replace('"', '""'))]


@pytest.mark.parametrize("piece", ['"a,', '",""', "a,  ", '"""",', '"\n', ",", '1,"', ' "'])
def test_cells_of_hostile_rows_take_no_quadratic_time(piece: str) -> None:
    text = "a,b\n1,2\n" + piece * (400_000 // len(piece))
    before = process_time()
    assert len(cells_apart(Document.of("a.csv", "a.csv", Extracted(Content(text), "text/plain")))) == len(text)
    assert process_time() - before < 5  # 0.2 s measured
