"""Headings and tables of documents on a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fbrag_cli.corpus import Passage
from fbrag_cli.documents.document import Document
from fbrag_cli.render.answer import Source
from fbrag_cli.render.html import drawn
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import DocumentSettings, ModelSettings
from fbrag_cli.storage.cache import NOWHERE

ORDERS = 'id,customer,status\n1001,"Ortega, SA",paid\n1002,Fender,\n\n1003,"say ""hi""",open\n'
CONTRACT = "# Agreement\n\nBetween **Halvard Marine** and *us*.\n\n## 1 Fee\n\n"
CONTRACT += "| Quarter | Fee |\n|---|---|\n| Q1 | EUR 18,400 |\n\n2 ** 3 * 4\n"


def read(folder: Path, name: str, text: str) -> Document:
    (folder / name).write_text(text)
    with Session.open(ModelSettings(), NOWHERE) as session:
        (document,) = session.collect([str(folder / name)], DocumentSettings()).corpus.documents
    return document


def cells(html: str) -> list[list[str]]:
    rows = re.findall("<tr>(.*?)</tr>", html)
    return [re.findall("<td>(.*?)</td>", row) for row in rows]


def whole(document: Document) -> Passage:
    return Passage(0, document, 0, document.n_chars)


def test_rows_of_csv_are_a_table(tmp_path: Path) -> None:
    html = drawn(whole(read(tmp_path, "orders.csv", ORDERS)), ())
    assert cells(html) == [
        ["id", "customer", "status"],
        ["1001", "Ortega, SA", "paid"],
        ["1002", "Fender", ""],
        ["1003", "say &#34;&#34;hi&#34;&#34;", "open"],
    ]
    assert re.sub("<.*?>", "", html).count("\n") == 0


def test_markdown_has_headings_and_tables(tmp_path: Path) -> None:
    html = drawn(whole(read(tmp_path, "contract.md", CONTRACT)), ())
    assert re.findall("<b>(.*?)</b>", html) == ["Agreement", "1 Fee"]
    assert cells(html) == [[" Quarter ", " Fee "], [" Q1 ", " EUR 18,400 "]]
    assert "Between Halvard Marine and us." in html
    assert "2 ** 3 * 4" in html
    assert "#" not in html
    assert "---" not in html


@pytest.mark.parametrize(("name", "text"), [("orders.csv", ORDERS), ("contract.md", CONTRACT), ("a.txt", "One.\nTwo **x**.\n")])
def test_each_part_of_a_text_can_be_drawn_with_marks_that_end_where_they_begin(tmp_path: Path, name: str, text: str) -> None:
    document = read(tmp_path, name, text)
    for start in range(len(document.text)):
        for end in range(start + 1, len(document.text), 5):
            sentence = Passage(0, document, start, end)
            source = Source(
                passage=whole(document),
                rank=1,
                number=1,
                score="",
                also_in="",
                sentence=sentence,
                marks=((start, min(start + 3, end)),),
                shows="best",
            )
            html = drawn(whole(document), [source])
            assert not re.sub(r"<(mark|td|tr|table|b)\b[^>]*>|</(mark|td|tr|table|b)>|[^<>]", "", html)
            for cell in re.findall(r"<td>(.*?)</td>|<b>(.*?)</b>", html):
                assert "".join(cell).count("<mark") == "".join(cell).count("</mark>")
        drawn(Passage(0, document, start, document.n_chars), ())
