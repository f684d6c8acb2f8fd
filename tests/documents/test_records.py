"""JSON, JSON Lines and XML as values under their names: escapes, records, duplicates, nesting, damage, bombs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fbrag_cli.corpus import build_corpus
from tests.documents.making import written


def as_written(tmp_path: Path, text: str, name: str = "a.json") -> bool:
    document = written(tmp_path, text, name)
    return document.text == text and document.media_type == "text/plain" and document.warnings == ()


def test_escapes_are_decoded(tmp_path: Path) -> None:
    record = {"frage": "Was kostet ein Büchereiausweis?", "antwort": 'Er ist "frei".\nFür alle 😀', "pfad": "a/b\\c"}
    for text, name in ((json.dumps(record), "a.json"), (json.dumps(record) + "\n", "a.jsonl"), (json.dumps(record), "-x")):
        document = written(tmp_path, text, name)
        assert document.text == ('frage: Was kostet ein Büchereiausweis?\nantwort: Er ist "frei".\n  Für alle 😀\npfad: a/b\\c')
        assert document.media_type == "application/json"
    assert written(tmp_path, '{"a": "\\ud83d\\ude00 \\ud83d"}', "a.json").text == "a: 😀 \ufffd"
    assert written(tmp_path, '{"a": "ü"}'.encode("utf-16"), "a.json").text == "a: ü"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('{"a": 1.10, "b": 1e400, "c": true, "d": null, "e": "", "f": [], "g": {}}',
         "a: 1.10\nb: 1e400\nc: true\nd: null\ne:\nf:\ng:"),
        ('{"a": 1, "a": 2}', "a: 1\na: 2"),
        ('{"tags": ["red", "blue"], "at": [[1.5, 2], [3, 4]]}', "tags: red, blue\nat:\n  - 1.5, 2\n  - 3, 4"),
        ('[{"n": 1}, {"n": 2}]', "n: 1\n\nn: 2"),
        ('{"n": 1}\n{"n": 2}\n', "n: 1\n\nn: 2"),
        ('{"meta": {"v": 1}, "data": [{"n": 1}, {"n": 2}]}', "meta:\n  v: 1\ndata:\n  n: 1\n\n  n: 2"),
        ('{"ann": {"age": 1}, "bo": {"age": 2}}', "ann:\n  age: 1\n\nbo:\n  age: 2"),
        ('[{"n": 1, "of": [{"x": 1}, {"x": 2}]}, {"n": 2}]', "n: 1\nof:\n  -\n    x: 1\n  -\n    x: 2\n\nn: 2"),
        ('["one", "two"]', "- one\n- two"),
        ('{"long": ["' + "word" * 30 + '", "b"]}', "long:\n  - " + "word" * 30 + "\n  - b"),
        ("[" + "9" * 5000 + "]", "- " + "9" * 5000),
    ],
)  # fmt: skip
def test_values_are_under_their_keys(tmp_path: Path, value: str, text: str) -> None:
    assert written(tmp_path, value, "a.json").text == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, // a comment\n "b": 2}',
        '{"a": "cut',
        "[" * 5000 + "]" * 5000,
        '{"a": ' * 300 + "1" + "}" * 300,
        "not JSON\nat all",
        '"a word"',
        "12",
        '{"a": 1}}\n{"b": ',
        "[1, 2,\n3 4]",
    ],
)
def test_what_is_no_json_is_plain_text(tmp_path: Path, text: str) -> None:
    assert as_written(tmp_path, text)


def test_a_damaged_line_among_records_stays_as_it_is(tmp_path: Path) -> None:
    assert (
        written(tmp_path, '{"a": 1}\n{"a": 2, "b\n{"a": 3}\n{"a": 4}\n', "a.jsonl").text == 'a: 1\n\n{"a": 2, "b\n\na: 3\n\na: 4'
    )


def test_a_bomb_of_spaces_is_plain_text(tmp_path: Path) -> None:
    assert as_written(tmp_path, "[" * 90 + ",".join(['"' + "x\\n" * 200_000 + '"'] * 40) + "]" * 90)


def test_other_data_stays_as_written(tmp_path: Path) -> None:
    for name in ("a.yaml", "a.toml", "a.ini", "a.js"):
        assert as_written(tmp_path, '{"a": "\\u00fc"}\n', name)
    assert as_written(tmp_path, "[section]\na = 1\n", "b.txt")


def test_a_chunk_ends_between_two_records(tmp_path: Path) -> None:
    records = [{"id": n, "name": f"The keeper {n}", "text": f"He lit the lamp {n} times. " * (n % 5 + 1)} for n in range(200)]
    for name, text in (("a.json", json.dumps(records)), ("a.jsonl", "\n".join(map(json.dumps, records)))):
        chunks = build_corpus([written(tmp_path, text, name)], 200).chunks
        assert len(chunks) > 10
        assert all(chunk.text.startswith("id: ") for chunk in chunks)


# XML


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<a>B&#252;cher &amp; more</a>", "a: Bücher & more"),
        ('<s><b id="1"><t>A</t></b><b id="2"><t>C</t></b></s>', "s:\n  b:\n    id: 1\n    t: A\n\n  b:\n    id: 2\n    t: C"),
        ("<d><p>Some <b>bold</b> and <a href='x'>a link</a>.</p></d>", "d:\n  p: Some bold and a link."),
        ("<d><p><i>First</i> words</p></d>", "d:\n  p: First words"),
        ("<d>\n  <p>one\n     two</p>\n  <!-- no --><?pi x?>\n</d>", "d:\n  p: one\n    two"),
        ('<d xmlns="u" xmlns:x="v"><x:t x:lang="de">A</x:t></d>', "d:\n  t:\n    lang: de\n    A"),
        ("<d><![CDATA[1 < 2]]></d>", "d: 1 < 2"),
    ],
)
def test_the_text_of_xml(tmp_path: Path, xml: str, text: str) -> None:
    assert written(tmp_path, xml, "a.xml").text == text
    document = written(tmp_path, f'<?xml version="1.0" encoding="utf-8"?>{xml}', "noname")
    assert (document.text, document.media_type) == (text, "application/xml")


def test_a_drawing_is_read_as_its_text(tmp_path: Path) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><title>The plan</title><path d="M0 0L9 9"/><text x="1">Harbor</text></svg>'
    text = written(tmp_path, svg, "a.svg").text
    assert "title: The plan" in text
    assert "text: Harbor" in text
    assert "M0" not in text


def test_xml_in_its_declared_encoding(tmp_path: Path) -> None:
    data = '<?xml version="1.0" encoding="ISO-8859-1"?><a>Müller</a>'.encode("latin-1")
    assert written(tmp_path, data, "a.xml").text == "a: Müller"


@pytest.mark.parametrize(
    "xml",
    [
        "<a><b>cut",
        "<a>1</b>",
        '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]><d>&b;</d>',
        '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><d>&x;</d>',
        "<a>" * 150 + "</a>" * 150,
        "a < b",
    ],
)
def test_xml_that_is_damaged_or_hostile_is_plain_text(tmp_path: Path, xml: str) -> None:
    assert as_written(tmp_path, xml, "a.xml")
