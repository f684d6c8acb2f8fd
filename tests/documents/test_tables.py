"""Rows of tables keep their header: which row it is, in each format, and what reads a chunk that begins below it."""

from __future__ import annotations

import random
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fbrag_cli.corpus import build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.documents.tables import header_of, tables_of
from fbrag_cli.retrieval.bm25 import BM25
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
    assert tables_of(Document.of(name, name, Extracted(Content(text), kind))) == ()


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
    windows = bm25.window_scores("What is the weight in kg of A-1150?", corpus)
    assert "A-1150," in corpus.chunks[int(windows.argmax())].text


@given(text=st.text(st.sampled_from('ab1,;|\t\n"- :'), max_size=300), name=st.sampled_from(["a.csv", "a.md", "a.html", "a"]))
@settings(max_examples=300, deadline=None)
def test_any_text_has_tables_in_order_within_it(text: str, name: str) -> None:
    kind = {"a.md": "text/markdown", "a.html": "text/html"}.get(name, "text/plain")
    end = 0
    for table in tables_of(Document.of(name, name, Extracted(Content(text), kind))):
        assert end <= table.start <= len(text) + 1
        assert table.header
        assert text.count(table.header, 0, table.start)
        end = table.start
