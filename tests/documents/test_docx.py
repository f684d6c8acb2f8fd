"""Word: paragraphs, tables, notes, headings by style or outline level, revisions; damaged and hostile files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.making import docx, refused, w_paragraph, written, zipped

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


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
    document = written(tmp_path, docx(body), "d.docx")
    assert document.text == "kept inserted"
    assert document.warnings == (f"{tmp_path / 'd.docx'}: not read: 1 struck-out passage (--markup reads them)",)
    assert load(str(tmp_path / "d.docx"), markup=True).text == "kept inserted~~deleted~~"


def test_moved_text_is_read_where_it_is_now(tmp_path: Path) -> None:
    body = (
        f"<w:p><w:moveFrom>{_run('Pay.')}</w:moveFrom></w:p>{w_paragraph('Eat.')}<w:p><w:moveTo>{_run('Pay.')}</w:moveTo></w:p>"
    )
    assert written(tmp_path, docx(body), "d.docx").text == "Eat.\n\nPay."
    assert load(str(tmp_path / "d.docx"), markup=True).text == "~~Pay.~~\n\nEat.\n\nPay."


_OLD = """<w:style w:type="paragraph" w:styleId="Old"><w:name w:val="Old"/><w:rPr><w:strike/></w:rPr></w:style>
<w:style w:type="paragraph" w:styleId="Older"><w:name w:val="Older"/><w:basedOn w:val="Old"/></w:style>
<w:style w:type="character" w:styleId="Void"><w:name w:val="Void"/><w:rPr><w:strike/></w:rPr></w:style>
<w:style w:type="character" w:styleId="Twice"><w:name w:val="Twice"/><w:rPr><w:dstrike/></w:rPr></w:style>"""


@pytest.mark.parametrize(
    ("properties", "style", "is_struck"),
    [
        ("<w:strike/>", "", True),
        ("<w:dstrike/>", "", True),
        ('<w:strike w:val="0"/>', "", False),
        ("", "Older", True),
        ('<w:rStyle w:val="Void"/>', "", True),
        ('<w:rStyle w:val="Twice"/>', "", True),
        ('<w:rStyle w:val="Void"/>', "Older", False),  # each switches the other off
        ('<w:strike w:val="0"/>', "Older", False),
        ('<w:rStyle w:val="Void"/><w:strike/>', "Older", True),
    ],
)
def test_struck_out_runs_by_their_own_properties_and_by_styles(
    tmp_path: Path, properties: str, style: str, is_struck: bool
) -> None:
    body = f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{_run("120 euros", properties)}</w:p>{w_paragraph("150 euros")}'
    document = written(tmp_path, docx(body, _OLD), "d.docx")
    assert document.text == ("150 euros" if is_struck else "120 euros\n\n150 euros")
    assert len(document.warnings) == is_struck


def test_what_follows_struck_out_text_is_read(tmp_path: Path) -> None:
    equation = "<m:oMath><m:r><m:t>x=2</m:t></m:r></m:oMath>"
    body = f"<w:p>{_run('Let ')}{_run('y ', '<w:strike/>')}{equation}{_run(' hold.')}</w:p>"
    assert written(tmp_path, docx(body), "d.docx").text == "Let x=2 hold."


def test_a_struck_out_clause_counts_but_is_left_out(tmp_path: Path) -> None:
    numbering = f'<w:numbering {_W}><w:abstractNum w:abstractNumId="0">{_level(0, "decimal", "%1.")}</w:abstractNum>'
    numbering += '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
    numbered = '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>{}</w:p>'.format
    body = numbered(_run("One.")) + numbered(_run("Two.", "<w:strike/>")) + numbered(_run("Three."))
    data = docx(body, more={"word/numbering.xml": numbering})
    assert written(tmp_path, data, "d.docx").text == "1. One.\n3. Three."
    assert load(str(tmp_path / "d.docx"), markup=True).text == "1. One.\n2. ~~Two.~~\n3. Three."


def test_lowered_digits_are_apart_from_those_before(tmp_path: Path) -> None:
    lowered = '<w:vertAlign w:val="subscript"/>'
    body = f"<w:p>{_run('2011')}{_run('15ya', lowered)}{_run(' CO')}{_run('2', lowered)}</w:p>"
    assert written(tmp_path, docx(body), "d.docx").text == "2011_15ya CO2"


def test_footnotes_are_read(tmp_path: Path) -> None:
    body = '<w:p><w:r><w:t>claim</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    notes = f'<w:footnotes {_W}><w:footnote w:id="2">{w_paragraph("the source")}</w:footnote></w:footnotes>'
    document = written(tmp_path, docx(body, more={"word/footnotes.xml": notes}), "d.docx")
    assert document.text == "claim[1]\n\n1. the source"


def _fields(*marks: str) -> str:
    """A paragraph of runs: "{" begins a field, "|" its result, "}" ends it; "=X" is an instruction, all others are text."""
    kinds = {"{": "begin", "|": "separate", "}": "end"}
    return "".join(
        f'<w:r><w:fldChar w:fldCharType="{kinds[mark]}"/></w:r>' if mark in kinds
        else f'<w:r><w:instrText xml:space="preserve">{mark[1:]}</w:instrText></w:r>' if mark[0] == "="
        else _run(mark)
        for mark in marks
    )  # fmt: skip


@pytest.mark.parametrize(
    ("marks", "text"),
    [
        (("Dear ", "{", "=IF ", "{", "=MERGEFIELD sex", "|", "male", "}", '= = "male" "Sir" "Madam"', "|", "Sir", "}", ", hello"),
         "Dear Sir, hello"),
        (("{", "=MERGEFIELD name", "|", "Ann", "}", " came"), "Ann came"),
        (("{", "=IF ", "{", "=IF ", "{", "=A", "|", "deep", "}", "|", "inner", "}", "|", "outer", "}", "!"), "outer!"),
        (("Total ", "{", "= =", "{", "=PRICE", "|", "4", "}", "=*2", "|", "8", "}", " euros"), "Total 8 euros"),
        (("see ", "{", "=HYPERLINK", "|", "the ", "{", "=REF", "|", "link", "}", "}"), "see the link"),
        (("a", "{", '=XE "entry"', "}", "b"), "ab"),
        (("never ended {".rstrip("{"), "{", "=IF", "lost"), "never ended"),
        (("}", "|", "stray marks"), "stray marks"),
    ],
)  # fmt: skip
def test_nothing_is_said_before_each_open_field_has_its_result(tmp_path: Path, marks: tuple[str, ...], text: str) -> None:
    document = written(tmp_path, docx(f"<w:p>{_fields(*marks)}</w:p>{w_paragraph('Next.')}"), "d.docx")
    assert document.text == f"{text}\n\nNext."


def _notes(**notes: str) -> dict[str, bytes | str]:
    """The parts of the notes: a text by kind and key, as footnote2."""
    parts: dict[str, bytes | str] = {}
    for kind in ("footnote", "endnote"):
        own = (
            f'<w:{kind} w:id="{name.removeprefix(kind)}">{w_paragraph(text)}</w:{kind}>'
            for name, text in notes.items()
            if name.startswith(kind)
        )
        parts[f"word/{kind}s.xml"] = f"<w:{kind}s {_W}>{''.join(own)}</w:{kind}s>"
    return parts


def _mark(kind: str, key: int, more: str = "") -> str:
    return f'<w:r><w:{kind}Reference w:id="{key}" {more}/></w:r>'


def test_footnotes_and_endnotes_are_counted_by_themselves(tmp_path: Path) -> None:
    body = f"<w:p>{_run('a')}{_mark('footnote', 2)}{_run('b')}{_mark('endnote', 2)}{_run('c')}{_mark('footnote', 3)}</w:p>"
    data = docx(body, more=_notes(footnote2="foot", footnote3="second", endnote2="end"))
    assert written(tmp_path, data, "d.docx").text == "a[1]b[i]c[2]\n\n1. foot\ni. end\n2. second"


@pytest.mark.parametrize(
    ("settings", "section", "marks"),
    [
        ("", '<w:footnotePr><w:numFmt w:val="upperLetter"/></w:footnotePr>', "[A] [B] [i]"),
        ('<w:endnotePr><w:numFmt w:val="decimal"/></w:endnotePr>', "", "[1] [2] [1]"),
        ("", '<w:footnotePr><w:numFmt w:val="lowerRoman"/><w:numStart w:val="4"/></w:footnotePr>', "[iv] [v] [i]"),
        ('<w:footnotePr><w:numFmt w:val="chicago"/></w:footnotePr>', "", "[*] [†] [i]"),
        ('<w:footnotePr><w:numFmt w:val="lowerLetter"/></w:footnotePr>',
         '<w:footnotePr><w:numFmt w:val="decimal"/></w:footnotePr>', "[1] [2] [i]"),
    ],
)  # fmt: skip
def test_the_form_of_the_numbers_of_notes(tmp_path: Path, settings: str, section: str, marks: str) -> None:
    marks_of = _run(" ").join((_mark("footnote", 2), _mark("footnote", 3), _mark("endnote", 2)))
    body = f"<w:p>{marks_of}</w:p><w:sectPr>{section}</w:sectPr>"
    more = _notes(footnote2="f", footnote3="g", endnote2="e") | {"word/settings.xml": f"<w:settings {_W}>{settings}</w:settings>"}
    assert written(tmp_path, docx(body, more=more), "d.docx").text.split("\n")[0] == marks


def test_numbers_of_notes_begin_again_in_each_section_that_says_so(tmp_path: Path) -> None:
    restart = '<w:sectPr><w:footnotePr><w:numRestart w:val="eachSect"/></w:footnotePr></w:sectPr>'
    body = f"<w:p>{_mark('footnote', 2)}</w:p><w:p><w:pPr>{restart}</w:pPr>{_mark('footnote', 3)}</w:p>"
    body += f"<w:p>{_mark('footnote', 4)}</w:p>{restart}"
    data = docx(body, more=_notes(footnote2="a", footnote3="b", footnote4="c"))
    assert written(tmp_path, data, "d.docx").text == "[1]\n\n[2]\n\n[1]\n\n1. a\n2. b\n1. c"


def test_a_note_with_a_mark_of_its_own_does_not_count(tmp_path: Path) -> None:
    own = _mark("footnote", 2, 'w:customMarkFollows="1"') + _run("*")
    body = f"<w:p>{_run('a')}{own}{_run(' b')}{_mark('footnote', 3)}</w:p>"
    data = docx(body, more=_notes(footnote2="* own", footnote3="counted"))
    assert written(tmp_path, data, "d.docx").text == "a* b[1]\n\n* own\n1. counted"


_PICTURE = '<w:r><w:drawing><wp:docPr descr="{}"/><pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"/></w:drawing></w:r>'
_OLD_PICTURE = '<w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:imagedata/></v:shape></w:pict></w:r>'


def test_pictures_are_counted(tmp_path: Path) -> None:
    both = f"<mc:AlternateContent><mc:Choice>{_PICTURE.format('')}</mc:Choice><mc:Fallback>{_OLD_PICTURE}</mc:Fallback>"
    body = f"<w:p>{_run('x')}{_PICTURE.format('A brig')}{_OLD_PICTURE}{both}</mc:AlternateContent></w:p>"
    document = written(tmp_path, docx(body), "d.docx")
    assert document.text == "x[A brig]"
    assert document.warnings == (f"{tmp_path / 'd.docx'}: not read: 3 pictures",)


def test_the_picture_of_an_embedded_object_is_not_counted(tmp_path: Path) -> None:
    shown = _OLD_PICTURE.replace("w:pict>", "w:object>").replace(
        "</w:object>", '<o:OLEObject xmlns:o="urn:schemas-microsoft-com:office:office" ProgID="Excel.Sheet"/></w:object>'
    )
    document = written(tmp_path, docx(f"<w:p>{_run('x')}{shown}</w:p>"), "d.docx")
    assert document.warnings == (f"{tmp_path / 'd.docx'}: not read: 1 embedded object",)


def test_a_document_of_pictures_says_how_to_read_them(tmp_path: Path) -> None:
    error = refused(tmp_path, docx(f"<w:p>{_PICTURE.format('')}</w:p>"), "d.docx")
    assert error.message.endswith("has no text, only 1 picture")
    assert "by OCR" in error.hint


def test_text_boxes_and_content_controls_are_read(tmp_path: Path) -> None:
    box = f'<w:p><w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox><w:txbxContent>{w_paragraph("boxed")}'
    box += "</w:txbxContent></v:textbox></v:shape></w:pict></w:r></w:p>"
    control = f"<w:sdt><w:sdtContent>{w_paragraph('controlled')}</w:sdtContent></w:sdt>"
    assert written(tmp_path, docx(box + control), "d.docx").text == "boxed\n\ncontrolled"


_FINE = docx(w_paragraph("text " * 500))
_BOMB = '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (zipped({"[Content_Types].xml": "<Types/>", "word/styles.xml": "<x/>"}), "no word/document.xml"),
        (zipped({"[Content_Types].xml": "x", "word/document.xml": "x"}), "XML is broken"),
        (docx("<w:p>", more={}), "XML is broken"),
        (docx("", more={"word/document.xml": _BOMB + f"<w:document {_W}><w:body>&b;</w:body></w:document>"}), "entities"),
        (docx("", more={"word/styles.xml": (_BOMB + f"<w:styles {_W}/>").encode("utf-16")}), "entities"),
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


@pytest.mark.parametrize(
    "name", ["w:sdt><w:sdtContent", "w:p", "w:p><w:r><w:txbxContent", "w:tbl><w:tr><w:tc", "mc:AlternateContent"]
)
def test_absurd_nesting(tmp_path: Path, name: str) -> None:
    closing = "".join(f"</{tag}>" for tag in reversed(name.split("><")))
    data = docx(f"<{name}>" * 50_000 + w_paragraph("deep") + closing * 50_000)
    assert "deep" in written(tmp_path, data, "d.docx").text


def test_a_long_document_is_read(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number} has its own words." for number in range(100_000)]
    document = written(tmp_path, docx("".join(map(w_paragraph, paragraphs))), "d.docx")
    assert document.text.split("\n\n") == paragraphs


def test_paths_out_of_the_zip_reach_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_text("<secret/>")
    more = {"../../evil.xml": "<x/>", "/etc/evil.xml": "<x/>", f"{tmp_path}/written.xml": "<x/>"}
    assert written(tmp_path, docx(w_paragraph("text"), more=more), "d.docx").text == "text"  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.docx", "secret.xml"]


def test_damaged_styles_are_said_once(tmp_path: Path) -> None:
    error = refused(tmp_path, docx(w_paragraph("text"), more={"word/styles.xml": ""}), "d.docx")
    assert error.message.count("is damaged") == 1
    assert "FbragError" not in error.message


def test_furigana_leave_the_word_that_they_stand_beside(tmp_path: Path) -> None:
    ruby = "<w:ruby><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby>"
    body = f"<w:p><w:r><w:t>私は</w:t></w:r><w:r>{ruby}</w:r><w:r><w:t>に住む</w:t></w:r></w:p>"
    assert written(tmp_path, docx(body), "d.docx").text == "私は東京に住む"


# -- numbers -----------------------------------------------------------------------------------------------------------------


def _level(depth: int, form: str, text: str, more: str = "") -> str:
    return f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'


def _numbering(levels: str, numbers: str = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>') -> dict[str, bytes | str]:
    abstract = f'<w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
    return {"word/numbering.xml": f"<w:numbering {_W}>{abstract}{numbers}</w:numbering>"}


def _item(text: str, depth: int = 0, number: str = "1", style: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    properties = f'{named}<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>'
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_lists_have_the_numbers_that_a_reader_sees(tmp_path: Path) -> None:
    levels = _level(0, "upperLetter", "%1.") + _level(1, "lowerRoman", "(%2)") + _level(2, "bullet", "\uf0b7")
    body = _item("one") + _item("in", 1) + _item("in", 1) + _item("dot", 2) + w_paragraph("Between.")
    body += _item("two") + _item("in", 1)
    document = written(tmp_path, docx(body, more=_numbering(levels)), "d.docx")
    assert document.text == "A. one\n  (i) in\n  (ii) in\n    - dot\n\nBetween.\n\nB. two\n  (i) in"


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("decimalZero", "%1", "01"),
        ("ordinal", "%1 part", "1st part"),
        ("russianLower", "%1)", "а)"),
        ("chineseCounting", "第%1条", "第一条"),
        ("upperRoman", "§ %1", "§ I"),
        ("unknownOfTomorrow", "%1)", "1)"),
    ],
)
def test_forms_of_numbers(tmp_path: Path, form: str, text: str, expected: str) -> None:
    assert written(tmp_path, docx(_item("x"), more=_numbering(_level(0, form, text))), "d.docx").text == f"{expected} x"


def test_clauses_are_cited_by_their_numbers(tmp_path: Path) -> None:
    """Headings numbered by their styles, clauses below them, as in contracts."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/><w:basedOn w:val="Heading{depth + 1}"/>'
        f'<w:pPr><w:outlineLvl w:val="{depth}"/>'
        f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
        for depth, name in enumerate(("Part", "Clause"))
    )
    levels = _level(0, "decimal", "%1.", '<w:pStyle w:val="Part"/>') + _level(1, "decimal", "%1.%2", '<w:pStyle w:val="Clause"/>')
    levels += _level(2, "lowerLetter", "(%3)")
    body = w_paragraph("Term", "Part") + w_paragraph("Rent", "Part") + w_paragraph("Amount", "Clause")
    body += w_paragraph("Termination", "Clause") + _item("by the tenant", 2) + _item("by the landlord", 2)
    document = written(tmp_path, docx(body, styles, _numbering(levels)), "d.docx")
    assert [section.title for section in document.sections] == ["1. Term", "2. Rent", "2.1 Amount", "2.2 Termination"]
    assert document.text.endswith("2.2 Termination\n\n    (a) by the tenant\n    (b) by the landlord")


def test_restarts_and_overrides(tmp_path: Path) -> None:
    levels = _level(0, "decimal", "%1.") + _level(1, "decimal", "%1.%2", '<w:lvlRestart w:val="0"/>')
    plain, again = (f'<w:num w:numId="{n}"><w:abstractNumId w:val="0"/>' for n in (1, 2))
    override = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
    same = '<w:num w:numId="3"><w:abstractNumId w:val="0"/></w:num>'
    more = _numbering(levels, f"{plain}</w:num>{again}{override}</w:num>{same}")
    items = [
        ("a", 0, "1"),
        ("b", 1, "1"),
        ("c", 0, "1"),
        ("d", 1, "1"),
        ("e", 0, "2"),
        ("f", 0, "2"),
        ("g", 0, "3"),
        ("h", 0, "0"),
    ]
    text = written(tmp_path, docx("".join(_item(*each) for each in items), more=more), "d.docx").text
    assert text == "1. a\n1.1 b\n2. c\n2.2 d\n7. e\n8. f\n9. g\n\nh"


def test_legal_numbers_are_digits(tmp_path: Path) -> None:
    levels = _level(0, "upperRoman", "%1.") + _level(1, "decimal", "%1.%2", "<w:isLgl/>")
    assert written(tmp_path, docx(_item("a") + _item("b", 1), more=_numbering(levels)), "d.docx").text == "I. a\n1.1 b"


def test_numbers_without_end_stay_short(tmp_path: Path) -> None:
    for form in ("lowerLetter", "upperRoman", "decimal", "chineseCounting"):
        levels = _level(0, form, "%1" * 10_000).replace('w:start w:val="1"', 'w:start w:val="999999999"')
        assert len(written(tmp_path, docx(_item("x"), more=_numbering(levels)), "d.docx").text) < 100


# -- equations, drawings, margins, comments -----------------------------------------------------------------------------------


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _math(content: str) -> str:
    return f"<m:oMath>{content}</m:oMath>"


def _m(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def _raised(base: str, above: str) -> str:
    return f"<m:sSup><m:e>{_m(base)}</m:e><m:sup>{_m(above)}</m:sup></m:sSup>"


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        (_m("θ=") + f"<m:func><m:fName>{_raised('sin', '-1')}</m:fName><m:e>{_m('2.2×')}{_raised('10', '-4')}</m:e></m:func>",
         "θ=sin^-1 2.2×10^-4"),
        (f"<m:f><m:num>{_m('a+b')}</m:num><m:den>{_m('2')}</m:den></m:f>", "(a+b)/2"),
        (f"<m:sSubSup><m:e>{_m('x')}</m:e><m:sub>{_m('i')}</m:sub><m:sup>{_m('n+1')}</m:sup></m:sSubSup>", "x_i^(n+1)"),
        (f'<m:rad><m:radPr><m:degHide m:val="1"/></m:radPr><m:deg/><m:e>{_m("x")}</m:e></m:rad>', "√x"),
        (f"<m:rad><m:deg>{_m('3')}</m:deg><m:e>{_m('x+1')}</m:e></m:rad>", "∛(x+1)"),
        (f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{_m("i=1")}</m:sub>'
         f"<m:sup>{_m('n')}</m:sup><m:e>{_m('i')}</m:e></m:nary>",
         "∑_(i=1)^n i"),
        (f'<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr><m:e><m:m>'
         f"<m:mr><m:e>{_m('a')}</m:e><m:e>{_m('b')}</m:e></m:mr>"
         f"<m:mr><m:e>{_m('c')}</m:e><m:e>{_m('d')}</m:e></m:mr></m:m></m:e></m:d>", "[a, b; c, d]"),
    ],
)  # fmt: skip
def test_equations_stay_in_their_sentences(tmp_path: Path, equation: str, text: str) -> None:
    body = f"<w:p>{_run('We have ')}{_math(equation)}{_run(' here.')}</w:p>"
    assert written(tmp_path, docx(body), "d.docx").text == f"We have {text} here."


def test_an_equation_keeps_its_distance_from_the_next_word(tmp_path: Path) -> None:
    assert written(tmp_path, docx(f"<w:p>{_math(_m('a=0 '))}{_run('so')}</w:p>"), "d.docx").text == "a=0 so"


def test_an_equation_whose_form_was_changed_is_whole(tmp_path: Path) -> None:
    changed = "<w:rPr><w:rPrChange><w:rPr><w:b/></w:rPr></w:rPrChange></w:rPr>"
    above = f"<m:num><m:r>{changed}<m:t>a</m:t></m:r></m:num>"
    fraction = f"<m:f>{above}<m:den>{_m('2')}</m:den></m:f>"
    body = f"<w:p>{_math(fraction)}</w:p>"
    assert written(tmp_path, docx(body), "d.docx").text == "a/2"


def test_deleted_parts_of_an_equation_are_not_read(tmp_path: Path) -> None:
    body = f"<w:p>{_math(_m('a=1') + '<w:del>' + _m('2') + '</w:del>')}</w:p>"
    assert written(tmp_path, docx(body), "d.docx").text == "a=1"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (_math(f"<w:p>{_math(_m('x'))}</w:p>"), "x"),
        (f"<w:tbl><w:tr><w:tc><w:sectPr/>{w_paragraph('x')}</w:tc></w:tr></w:tbl>", "x"),
        ("<w:tbl><w:tr><w:p><w:pPr><w:sectPr/></w:pPr></w:p><w:footnote/></w:tr></w:tbl>", ""),
    ],
)
def test_elements_where_no_document_has_them_lose_no_text(tmp_path: Path, body: str, text: str) -> None:
    document = written(tmp_path, docx(body + w_paragraph("after")), "d.docx")
    assert document.text == f"{text}\n\nafter".strip()


def test_an_equation_without_end_is_bounded(tmp_path: Path) -> None:
    deep = "<m:f><m:num>" * 20_000 + _m("x") + "</m:num></m:f>" * 20_000
    assert len(written(tmp_path, docx(f"<w:p>{_math(deep)}</w:p>"), "d.docx").text) < 1000
    wide = f'<m:d><m:dPr><m:sepChr m:val="{"-" * 10_000}"/></m:dPr>{"<m:e/>" * 1000}</m:d>'
    assert len(written(tmp_path, docx(f"<w:p>{_math(wide)}</w:p>"), "d.docx").text) < 100_000


_CHART = 'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def _points(kind: str, *values: str) -> str:
    points = "".join(f'<c:pt idx="{number}"><c:v>{value}</c:v></c:pt>' for number, value in enumerate(values))
    return f"<c:{kind}><c:strRef><c:f>A1</c:f><c:strCache>{points}</c:strCache></c:strRef></c:{kind}>"


def test_charts_and_diagrams_are_read_at_their_place(tmp_path: Path) -> None:
    series = f"<c:ser>{_points('tx', 'Wood')}{_points('cat', '2025', '2026')}{_points('val', '4.2999999999999998', '7')}</c:ser>"
    series += f"<c:ser>{_points('tx', 'Coal')}{_points('cat', '2025', '2026')}{_points('val', '1', '')}</c:ser>"
    title = "<c:title><c:tx><c:rich><a:p><a:r><a:t>Fuel</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    chart = f"<c:chartSpace {_CHART}><c:chart>{title}<c:plotArea>{series}</c:plotArea></c:chart></c:chartSpace>"
    diagram = f"<x {_CHART}><a:p><a:r><a:t>Plan</a:t></a:r></a:p><a:p><a:r><a:t>Build</a:t></a:r></a:p></x>"
    drawing = '<w:p>{}<w:r><w:drawing><wp:docPr descr="A picture"/>{}</w:drawing></w:r></w:p>'.format
    body = drawing(_run("See "), '<c:chart r:id="rchart"/>') + drawing("", '<dgm:relIds r:dm="rdiagramData"/>')
    body += w_paragraph("After.")
    more: dict[str, bytes | str] = {"word/charts/chart1.xml": chart, "word/diagrams/data1.xml": diagram}
    document = written(tmp_path, docx(body, more=more), "d.docx")
    table = "Chart: Fuel\n\tWood\tCoal\n2025\t4.3\t1\n2026\t7"
    assert document.text == f"See [A picture]\n\n{table}\n\n[A picture]\n\nPlan\nBuild\n\nAfter."
    document = written(tmp_path, docx(body, more=more | {"word/charts/chart1.xml": "<x/>"}), "d.docx")
    assert "not read: 1 chart" in document.warnings[0]


def test_a_category_of_many_levels_is_cut(tmp_path: Path) -> None:
    levels = '<c:pt idx="0"><c:v>one level of many</c:v></c:pt>' * 2_000
    chart = f"<c:chartSpace {_CHART}><c:ser><c:cat>{levels}</c:cat></c:ser></c:chartSpace>"
    body = '<w:p><w:r><w:drawing><c:chart r:id="rchart"/></w:drawing></w:r></w:p>'
    assert len(written(tmp_path, docx(body, more={"word/charts/chart1.xml": chart}), "d.docx").text) < 400


def test_the_title_of_a_chart_keeps_its_spaces(tmp_path: Path) -> None:
    runs = ("<a:r><a:t>Sales </a:t></a:r><a:r><a:t>of 2024</a:t></a:r>", "<a:r><a:t>in Europe</a:t></a:r>")
    title = "".join(f"<a:p>{each}</a:p>" for each in runs)
    chart = f"<c:chartSpace {_CHART}><c:title>{title}</c:title></c:chartSpace>"
    body = '<w:p><w:r><w:drawing><c:chart r:id="rchart"/></w:drawing></w:r></w:p>'
    text = written(tmp_path, docx(body, more={"word/charts/chart1.xml": chart}), "d.docx").text
    assert text == "Chart: Sales of 2024 in Europe"


def test_a_text_box_is_read_once(tmp_path: Path) -> None:
    box = f"<w:txbxContent>{w_paragraph('boxed')}</w:txbxContent>"
    both = f"<mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>"
    old = f"<mc:AlternateContent><mc:Choice><w:x/></mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>"
    for content in (both, old):
        body = f"<w:p>{_run('before')}<w:r>{content}</w:r>{_run(' after')}</w:p>"
        assert written(tmp_path, docx(body), "d.docx").text == "before after\n\nboxed"


def _margin(kind: str, content: str) -> str:
    return f"<w:{kind} {_W}><w:p>{content}</w:p></w:{kind}>"


def test_headers_and_footers_are_read_once(tmp_path: Path) -> None:
    def section(*names: str) -> str:
        return "".join(f'<w:{name[:-1]}Reference w:type="default" r:id="r{name}"/>' for name in names)

    page = '<w:fldSimple w:instr=" PAGE "><w:r><w:t>1</w:t></w:r></w:fldSimple>'
    of = '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>NUMPAGES</w:instrText><w:fldChar w:fldCharType="separate"/>'
    of += '<w:t>9</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    more: dict[str, bytes | str] = {
        "word/header1.xml": _margin("hdr", _run("Confidential, version 3")),
        "word/header2.xml": _margin("hdr", _run("Confidential, version 3")),
        "word/footer1.xml": _margin("ftr", f"{_run('Form 12 | Page ')}{page}{_run(' of ')}{of}"),
    }
    ends = f"<w:p><w:pPr><w:sectPr>{section('header1', 'footer1')}</w:sectPr></w:pPr>{_run('One.')}</w:p>"
    body = f"{ends}{w_paragraph('Two.')}<w:sectPr>{section('header2', 'footer1')}</w:sectPr>"
    text = written(tmp_path, docx(body, more=more), "d.docx").text
    assert text == "Header: Confidential, version 3\n\nOne.\n\nTwo.\n\nFooter: Form 12"
    more["word/footer1.xml"] = _margin("ftr", f"{_run('Page ')}{page}")
    assert "Footer" not in written(tmp_path, docx(body, more=more), "d.docx").text


def test_comments_are_read_on_demand_with_the_text_that_they_are_on(tmp_path: Path) -> None:
    body = f'<w:p>{_run("We pay ")}<w:commentRangeStart w:id="5"/>{_run("the price")}<w:commentRangeEnd w:id="5"/></w:p>'
    comment = f'<w:comment w:id="5" w:author="Ann Lee">{w_paragraph("too high")}</w:comment>'
    data = docx(body, more={"word/comments.xml": f"<w:comments {_W}>{comment}</w:comments>"})
    document = written(tmp_path, data, "d.docx")
    assert document.text == "We pay the price"
    assert "1 comment (--markup reads them)" in document.warnings[0]
    document = load(str(tmp_path / "d.docx"), markup=True)
    assert document.text == "We pay the price\n\nComments\n\nComment by Ann Lee on “the price”: too high\n"


def test_thousands_of_comments_on_a_long_text_take_no_longer_than_the_text(tmp_path: Path) -> None:
    marks = ["".join(f'<w:comment{kind} w:id="{number}"/>' for number in range(2000)) for kind in ("RangeStart", "RangeEnd")]
    data = docx(f"<w:p>{marks[0]}{_run('word ' * 200_000)}{marks[1]}</w:p>")
    begin = time.process_time()
    written(tmp_path, data, "d.docx")
    assert time.process_time() - begin < 10  # seconds; 30 when each comment copied the text


def test_hidden_text_is_left_out_and_told(tmp_path: Path) -> None:
    style = '<w:style w:type="character" w:styleId="H"><w:rPr><w:vanish/></w:rPr></w:style>'
    secret, styled, shown = "<w:vanish/>", '<w:rStyle w:val="H"/>', '<w:vanish w:val="0"/>'
    runs = [("shown ", ""), ("secret", secret), (" secret", styled), ("too", shown), ("secret", secret)]
    document = written(tmp_path, docx(f"<w:p>{''.join(_run(*each) for each in runs)}</w:p>", style), "d.docx")
    assert document.text == "shown too"
    assert "not read: 2 hidden passages" in document.warnings[0]


def test_a_drop_cap_belongs_to_its_word(tmp_path: Path) -> None:
    body = f'<w:p><w:pPr><w:framePr w:dropCap="drop"/></w:pPr>{_run("D")}</w:p>{w_paragraph("rop cap")}'
    assert written(tmp_path, docx(body), "d.docx").text == "Drop cap"


def test_paragraphs_whose_mark_is_deleted_are_one(tmp_path: Path) -> None:
    body = f"<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr>{_run('One')}</w:p>{w_paragraph('two.')}{w_paragraph('Three.')}"
    assert written(tmp_path, docx(body), "d.docx").text == "One two.\n\nThree."


def test_embedded_documents_are_told(tmp_path: Path) -> None:
    document = written(tmp_path, docx(w_paragraph("x") + '<w:altChunk r:id="page"/><w:altChunk r:id="mail"/>'), "d.docx")
    assert document.text == "x"
    assert "not read: 2 embedded documents" in document.warnings[0]


def test_check_boxes_of_forms(tmp_path: Path) -> None:
    field = '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox>{}</w:checkBox></w:ffData></w:fldChar></w:r>'.format
    name = '<w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    yes, no = field('<w:default w:val="0"/><w:checked/>') + name, field('<w:default w:val="0"/>') + name
    body = f"<w:p>{yes}{_run(' married ')}{no}{_run(' single')}</w:p>"
    assert written(tmp_path, docx(body), "d.docx").text == "☒ married ☐ single"


def test_drop_down_choices_of_forms_are_told(tmp_path: Path) -> None:
    choice = '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList/></w:ffData></w:fldChar></w:r>'
    document = written(tmp_path, docx(f"<w:p>{_run('Color: ')}{choice}</w:p>"), "d.docx")
    assert "not read: 1 drop-down choice" in document.warnings[0]


def test_symbols_and_raised_numbers(tmp_path: Path) -> None:
    raised = '<w:vertAlign w:val="superscript"/>'
    runs = _run("10", "<w:b/>") + _run("1", raised) + _run("2", raised)
    body = f'<w:p><w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>{runs}</w:p>'
    assert written(tmp_path, docx(body), "d.docx").text == "α10^12"


def test_boxes_and_columns_without_end_are_bounded(tmp_path: Path) -> None:
    deep = "<w:p><w:r><w:t>x</w:t><w:txbxContent>" * 5000 + "</w:txbxContent></w:r></w:p>" * 5000
    assert written(tmp_path, docx(deep), "d.docx").text.split("\n\n") == ["x"] * 5000
    cell = f'<w:tc><w:tcPr><w:gridSpan w:val="999999"/></w:tcPr>{w_paragraph("x")}</w:tc>'
    document = written(tmp_path, docx(f"<w:tbl><w:tr>{cell * 1000}</w:tr></w:tbl>"), "d.docx")
    assert document.text.count("x") == 1000
    assert document.text.count("\t") < 1100


def test_notes_and_fields_without_end_are_bounded(tmp_path: Path) -> None:
    marks = "".join(_mark("footnote", number) for number in range(20_000))
    starts = '<w:numStart w:val="1"/>' * 20_000
    settings = f"<w:settings {_W}><w:footnotePr>{starts}</w:footnotePr></w:settings>"
    text = written(tmp_path, docx(f"<w:p>{marks}</w:p>", more={"word/settings.xml": settings}), "d.docx").text
    assert text.startswith("[1][2]")
    deep = _fields("{") * 20_000 + "<w:r><w:t>never shown</w:t></w:r>" * 20_000
    assert written(tmp_path, docx(f"<w:p>{deep}</w:p>{w_paragraph('after')}" * 2), "d.docx").text == "after\n\nafter"
