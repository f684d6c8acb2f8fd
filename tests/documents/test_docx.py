"""Word: paragraphs, tables, notes, headings by style or outline level, revisions; damaged and hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.readers import archive
from fbrag_cli.documents.readers import docx as reader
from tests.documents.making import docx, refused, w_paragraph, written, zipped

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def _cell(text: str) -> str:
    return f"<w:tc>{w_paragraph(text)}</w:tc>"


def test_tables_lists_and_breaks(tmp_path: Path) -> None:
    rows = "".join(f"<w:tr>{_cell(a)}{_cell(b)}</w:tr>" for a, b in (("Name", "Age"), ("Ann", "5")))
    broken = "<w:p><w:r><w:t>one</w:t><w:br/><w:t>two</w:t><w:tab/><w:t>three</w:t></w:r></w:p>"
    document = written(tmp_path, docx(f"{w_paragraph('Before')}<w:tbl>{rows}</w:tbl>{broken}"), "d.docx")
    assert document.text == "Before\n\nName\tAge\nAnn\t5\n\none\ntwo three"


def test_headings_by_style_title_and_outline_level(tmp_path: Path) -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Kapitel"><w:name w:val="Kapitel"/>'
        '<w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="Sub"><w:name w:val="Sub"/><w:basedOn w:val="Kapitel"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Body"><w:name w:val="Body"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>'
    )
    named = [("Book", "Title"), ("One", "Heading1"), ("Two", "Kapitel"), ("Three", "Sub"), ("loop", "Loop"), ("body", "Body")]
    document = written(tmp_path, docx("".join(w_paragraph(*each) for each in named), styles), "d.docx")
    assert [(section.title, section.level) for section in document.sections] == [
        ("Book", 1),
        ("One", 1),
        ("Two", 2),
        ("Three", 2),
    ]
    assert document.text == "\n\n".join(text for text, _ in named)


def test_insertions_are_read_and_deletions_are_not(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>kept </w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
    )
    assert written(tmp_path, docx(body), "d.docx").text == "kept inserted"


def test_footnotes_are_read(tmp_path: Path) -> None:
    body = '<w:p><w:r><w:t>claim</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    notes = f'<w:footnotes {_W}><w:footnote w:id="2">{w_paragraph("the source")}</w:footnote></w:footnotes>'
    document = written(tmp_path, docx(body, more={"word/footnotes.xml": notes}), "d.docx")
    assert document.text == "claim[1]\n\n1. the source"


def test_text_boxes_and_content_controls_are_read(tmp_path: Path) -> None:
    box = f'<w:p><w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox><w:txbxContent>{w_paragraph("boxed")}'
    box += "</w:txbxContent></v:textbox></v:shape></w:pict></w:r></w:p>"
    control = f"<w:sdt><w:sdtContent>{w_paragraph('controlled')}</w:sdtContent></w:sdt>"
    assert written(tmp_path, docx(box + control), "d.docx").text == "boxed\n\ncontrolled"


def test_a_word_document_is_known_whatever_its_name(tmp_path: Path) -> None:
    data = docx(w_paragraph("text"))
    assert written(tmp_path, data, "download").warnings == ()
    document = written(tmp_path, data, "d.txt")
    assert document.text == "text"
    assert "d.txt is not plain text: read as a Word document" in document.warnings[0]


@pytest.mark.parametrize(
    ("data", "text", "kind"), [(b"just text", "just text", "plain text"), (b"<html><p>hi", "hi", "an HTML page")]
)
def test_what_is_only_called_docx_is_read_with_a_warning(tmp_path: Path, data: bytes, text: str, kind: str) -> None:
    document = written(tmp_path, data, "d.docx")
    assert document.text == text
    assert f"d.docx is not a Word document: read as {kind}" in document.warnings[0]


_FINE = docx(w_paragraph("text " * 500))
_BOMB = '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (zipped({"[Content_Types].xml": "<Types/>", "word/styles.xml": "<x/>"}), "no word/document.xml"),
        (zipped({"[Content_Types].xml": "x", "word/document.xml": "x"}), "cannot be read"),
        (_FINE[: len(_FINE) // 2], "zip"),
        (docx("<w:p>", more={}), "cannot be read"),
        (docx("", more={"word/document.xml": _BOMB + f"<w:document {_W}><w:body>&b;</w:body></w:document>"}), "entities"),
        (docx("", more={"word/styles.xml": (_BOMB + f"<w:styles {_W}/>").encode("utf-16")}), "entities"),
        (docx("<w:sdt><w:sdtContent>" * 100_000 + "</w:sdtContent></w:sdt>" * 100_000), "cannot be read"),
        (b"PK\x03\x04" + _FINE[4:].replace(b"PK\x03\x04", b"PK\x03\x05"), "Bad magic number"),
    ],
)
def test_damaged_and_hostile_documents_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    error = refused(tmp_path, data, "d.docx")
    assert error.code == "doc_unreadable"
    assert says in error.message


def test_an_encrypted_part(tmp_path: Path) -> None:
    data = bytearray(_FINE)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags of each entry, here and in the directory
        position = data.find(mark)
        while position >= 0:
            data[position + offset] |= 1
            position = data.find(mark, position + 1)
    assert "encrypted zip" in refused(tmp_path, bytes(data), "d.docx").message


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1_000_000)
    assert "more than 1 MB" in refused(tmp_path, docx(w_paragraph("x" * 1_100_000)), "d.docx").message
    monkeypatch.setattr(reader, "_MAX_TAGS", 1000)
    assert "more than 1,000 tags" in refused(tmp_path, docx("<w:p/>" * 1100), "d.docx").message


def test_paths_out_of_the_zip_reach_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_text("<secret/>")
    more = {"../../evil.xml": "<x/>", "/etc/evil.xml": "<x/>", f"{tmp_path}/written.xml": "<x/>"}
    assert written(tmp_path, docx(w_paragraph("text"), more=more), "d.docx").text == "text"  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.docx", "secret.xml"]


def test_pictures_are_neither_read_nor_missed(tmp_path: Path) -> None:
    assert written(tmp_path, docx(w_paragraph("text"), more={"word/media/a.png": b"\0" * 1000}), "d.docx").text == "text"


def test_an_empty_document(tmp_path: Path) -> None:
    error = refused(tmp_path, docx("<w:p/>"), "d.docx")
    assert error.code == "doc_empty"
    assert "has no text" in error.message


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        (_OLE + bytes(500) + "EncryptedPackage".encode("utf-16-le") + bytes(100), "with a password", "without a password"),
        (_OLE + bytes(600), "old Office document", "libreoffice"),
    ],
)
def test_what_office_writes_else(tmp_path: Path, data: bytes, says: str, hint: str) -> None:
    error = refused(tmp_path, data, "d.docx")
    assert error.code == "unsupported_format"
    assert says in error.message
    assert hint in str(error.hint)


def test_damaged_styles_are_said_once(tmp_path: Path) -> None:
    error = refused(tmp_path, docx(w_paragraph("text"), more={"word/styles.xml": ""}), "d.docx")
    assert error.message.count("is damaged") == 1
    assert "FbragError" not in error.message
