"""OpenDocument: headings, lists, tables, notes and spaces; what was deleted is out; damaged, encrypted and hostile files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from fbrag_cli.documents.readers import archive
from tests.documents.making import odt, refused, written, zipped

_P = "<text:p>{}</text:p>".format


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (_P("one <text:span>two</text:span>\n three<text:s text:c='3'/>four<text:tab/>five"), "one two three four five"),
        (_P("one<text:line-break/>two"), "one\ntwo"),
        (_P("a<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>b</text:p></text:note-body></text:note>c"),
         "a [1 b]c"),
        (f"<text:list><text:list-item>{_P('one')}<text:list><text:list-item>{_P('two')}</text:list-item></text:list></text:list-item>"
         "</text:list>", "- one\n  - two"),
        (f"<table:table><table:table-row><table:table-cell>{_P('a')}</table:table-cell><table:table-cell>{_P('b')}</table:table-cell>"
         "</table:table-row></table:table>", "a\tb"),
        (f"<text:tracked-changes>{_P('deleted')}</text:tracked-changes>{_P('kept')}", "kept"),
        (_P("text<office:annotation><text:p>a comment</text:p></office:annotation>"), "text"),
        (_P("<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>kan</text:ruby-text></text:ruby>字"), "漢字"),
    ],
)  # fmt: skip
def test_text(tmp_path: Path, body: str, text: str) -> None:
    document = written(tmp_path, odt(body), "d.odt")
    assert document.text == text
    assert document.media_type == "application/vnd.oasis.opendocument.text"


def test_headings_are_sections(tmp_path: Path) -> None:
    body = (
        f'<text:h text:outline-level="2">Two</text:h>{_P("x")}<text:h>One</text:h><text:h text:outline-level="999">Deep</text:h>'
    )
    document = written(tmp_path, odt(body), "d.odt")
    assert [(section.title, section.level) for section in document.sections] == [("Two", 2), ("One", 1), ("Deep", 10)]
    assert all(document.text.startswith(section.title, section.start) for section in document.sections)


def test_the_flat_form_is_one_xml_file(tmp_path: Path) -> None:
    names = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text"))
    data = (
        f'<?xml version="1.0"?><office:document {names} office:mimetype="application/vnd.oasis.opendocument.text">'
        f"<office:meta>m</office:meta><office:body><office:text>{_P('text')}</office:text></office:body></office:document>"
    )
    assert written(tmp_path, data, "d.fodt").text == "text"
    assert refused(tmp_path, data[:-30], "d.fodt").code == "doc_unreadable"
    about = f"# Its root:\n{data}"
    assert written(tmp_path, about, "about.py").text == about


_ENCRYPTED = (
    '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
    '<manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry></manifest:manifest>'
)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (zipped({"mimetype": "application/vnd.oasis.opendocument.text"}, stored_first=True), "no content.xml"),
        (odt(_P("text"), {"content.xml": "not XML"}), "XML is broken"),
        (odt("<text:p>" * 5), "XML is broken"),
        (odt(_P("text"), {"content.xml": '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]><d>&b;</d>'}), "entities"),
        (odt(_P("text"), {"META-INF/manifest.xml": _ENCRYPTED}), "encrypted with a password"),
        (odt(_P("text " * 999))[:-200], "zip"),
    ],
)
def test_damaged_and_hostile_documents_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    error = refused(tmp_path, data, "d.odt")
    assert error.code == "doc_unreadable"
    assert says in error.message


def test_absurd_nesting(tmp_path: Path) -> None:
    for name in ("text:section", "text:list><text:list-item", "table:table-row><table:table-cell", "text:p", "text:note"):
        closing = "".join(f"</{tag}>" for tag in reversed(name.split("><")))
        document = written(tmp_path, odt(f"<{name}>" * 50_000 + _P("deep") + closing * 50_000), "d.odt")
        assert "deep" in document.text


def test_a_bomb_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1_000_000)
    assert "more than 1 MB" in refused(tmp_path, odt(_P("x" * 1_100_000)), "d.odt").message


def test_spaces_without_end_are_not_written_out(tmp_path: Path) -> None:
    assert written(tmp_path, odt(_P("a" + '<text:s text:c="999999999"/>' * 1000 + "b")), "d.odt").text == "a b"


def test_a_presentation_is_refused_with_a_way_out(tmp_path: Path) -> None:
    deck = zipped({"mimetype": "application/vnd.oasis.opendocument.presentation", "content.xml": "<x/>"}, stored_first=True)
    error = refused(tmp_path, deck, "d.odp")
    assert (error.code, "libreoffice" in str(error.hint)) == ("unsupported_format", True)


def test_an_empty_document(tmp_path: Path) -> None:
    assert refused(tmp_path, odt("<text:p/>"), "d.odt").code == "doc_empty"


def test_a_long_document_is_read(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number} has its own words." for number in range(200_000)]
    document = written(tmp_path, odt("".join(f"<text:p>{paragraph}</text:p>" for paragraph in paragraphs)), "d.odt")
    assert document.text.split("\n\n") == paragraphs


@pytest.mark.parametrize("encoding", ["UTF-7", "ISO-2022-JP", "HZ", "unicode-1-1-utf-7"])
def test_an_encoding_that_could_hide_entities_is_refused(tmp_path: Path, encoding: str) -> None:
    text = "+ADwAIQ-DOCTYPE a [+ADwAIQ-ENTITY x '" + "boom" * 10 + "'+AD4AXQ+AD4-<a>+ACY-x;</a>"
    error = refused(tmp_path, odt("", {"content.xml": f'<?xml version="1.0" encoding="{encoding}"?>{text}'}), "d.odt")
    assert "an unusual encoding" in error.message


def test_a_part_at_an_impossible_place_is_damage(tmp_path: Path) -> None:
    data = bytearray(odt("<text:p>text</text:p>"))
    entry = data.rindex(b"PK\x01\x02")  # of content.xml, in the directory
    name = entry + 46
    far = struct.pack("<HHQ", 1, 8, 1 << 63)
    data[entry + 30 : entry + 32] = struct.pack("<H", len(far))
    data[entry + 42 : entry + 46] = b"\xff" * 4
    data[name + len("content.xml") : name + len("content.xml")] = far
    end = data.rindex(b"PK\x05\x06")
    size = struct.unpack_from("<I", data, end + 12)[0]
    struct.pack_into("<I", data, end + 12, size + len(far))
    assert "is damaged" in refused(tmp_path, bytes(data), "d.odt").message
