"""OpenDocument: headings, lists, tables, notes and spaces; what was deleted is out; damaged, encrypted and hostile files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.making import odf, odt, refused, written, zipped

_P = "<text:p>{}</text:p>".format


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (_P("one <text:span>two</text:span>\n three<text:s text:c='3'/>four<text:tab/>five"), "one two three four five"),
        (_P("one<text:line-break/>two"), "one\ntwo"),
        (_P("a<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>b</text:p></text:note-body></text:note>c"),
         "a[1]c\n\n1. b"),
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


def test_spaces_without_end_are_not_written_out(tmp_path: Path) -> None:
    assert written(tmp_path, odt(_P("a" + '<text:s text:c="999999999"/>' * 1000 + "b")), "d.odt").text == "a b"


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


# -- numbers -----------------------------------------------------------------------------------------------------------------


def _level(level: int, form: str, more: str = "", kind: str = "list-level-style-number") -> str:
    return f'<text:{kind} text:level="{level}" style:num-format="{form}" {more}/>'


_SUFFIX = 'style:num-suffix="."'
_LIST = f"""<text:list-style style:name="L">{_level(1, "1", _SUFFIX)}{_level(2, "a", 'style:num-prefix="(" style:num-suffix=")"')}
{_level(3, "1", 'text:display-levels="3"')}</text:list-style>"""


def _items(*items: str, more: str = "") -> str:
    inner = "".join(f"<text:list-item>{item}</text:list-item>" for item in items)
    return f'<text:list text:style-name="L" {more}>{inner}</text:list>'


def test_lists_have_the_numbers_that_a_reader_sees(tmp_path: Path) -> None:
    nested = _items(_P("in"), _P("in") + _items(_P("deep")))
    body = _items(_P("one") + nested, _P("two") + _P("more of two"))
    document = written(tmp_path, odt(body, styles=_LIST), "d.odt")
    assert document.text == "1. one\n  (a) in\n  (b) in\n    1.b.1 deep\n2. two\nmore of two"


def test_a_list_goes_on_after_a_paragraph_where_it_says_so(tmp_path: Path) -> None:
    go_on, named = 'text:continue-numbering="true"', 'text:continue-list="x"'
    body = _items(_P("a"), more='xml:id="x"') + _P("between") + _items(_P("b"), more=go_on) + _P("between") + _items(_P("c"))
    body += _P("between") + _items(_P("d"), more=named) + _P("between")
    body += _items(f"{_P('e')}</text:list-item><text:list-item text:start-value='9'>{_P('f')}")
    text = written(tmp_path, odt(body, styles=_LIST), "d.odt").text
    assert [line for line in text.split("\n") if line not in ("", "between")] == ["1. a", "2. b", "1. c", "3. d", "1. e", "9. f"]


def test_headings_have_their_numbers(tmp_path: Path) -> None:
    kind = "outline-level-style"
    outline = f"""<text:outline-style style:name="Outline">{_level(1, "I", _SUFFIX, kind)}
    {_level(2, "1", 'text:display-levels="2"', kind)}</text:outline-style>"""
    outline += '<style:style style:name="None" style:family="paragraph" style:list-style-name=""/>'
    body = "<text:h>Term</text:h><text:h>Rent</text:h><text:h text:outline-level='2'>Amount</text:h>"
    body += "<text:h text:outline-level='2'>Termination</text:h><text:h text:style-name='None'>Annex</text:h>"
    body += "<text:h text:is-list-header='true'>Signatures</text:h>"
    document = written(tmp_path, odt(body, styles=outline), "d.odt")
    titles = ["I. Term", "II. Rent", "II.1 Amount", "II.2 Termination", "Annex", "Signatures"]
    assert [section.title for section in document.sections] == titles


# -- formulas, charts, margins, comments -------------------------------------------------------------------------------------

_MATH = """<math:math><math:semantics><math:mrow><math:mi>E</math:mi><math:mo>=</math:mo><math:mfrac><math:mrow>
<math:mi>a</math:mi><math:mo>+</math:mo><math:mi>b</math:mi></math:mrow><math:mn>2</math:mn></math:mfrac><math:msup><math:mi>c</math:mi><math:mn>2</math:mn>
</math:msup></math:mrow><math:annotation math:encoding="StarMath 5.0">E = ...</math:annotation></math:semantics></math:math>"""
_FRAME = '<draw:frame><draw:object xlink:href="./Object 1"/><svg:desc>formula</svg:desc></draw:frame>'


def test_formulas_stay_in_their_sentences(tmp_path: Path) -> None:
    data = odt(_P(f"We have {_FRAME} here."), {"Object 1/content.xml": odf(_MATH, "document-content")})
    assert written(tmp_path, data, "d.odt").text == "We have E=(a+b)/2c^2 here."
    flat = odf(f"<office:body><office:text>{_P(f'Also {_MATH}.')}</office:text></office:body>", "document").replace(
        "<office:document", '<office:document office:mimetype="application/vnd.oasis.opendocument.text"', 1
    )
    assert written(tmp_path, flat, "d.fodt").text == "Also E=(a+b)/2c^2."


def test_charts_are_read_and_other_objects_told(tmp_path: Path) -> None:
    def row(*cells: str) -> str:
        return (
            f"<table:table-row>{''.join(f'<table:table-cell>{_P(cell)}</table:table-cell>' for cell in cells)}</table:table-row>"
        )

    table = f"<table:table>{row('', 'Wood')}{row('2025', '4')}</table:table>"
    chart = f"<chart:chart><chart:title>{_P('Fuel')}</chart:title>{table}</chart:chart>"
    data = odt(_P(f"See {_FRAME}") + _P("After."), {"Object 1/content.xml": odf(chart, "document-content")})
    assert written(tmp_path, data, "d.odt").text == "See\n\nFuel\n\n\tWood\n2025\t4\n\nAfter."
    document = written(tmp_path, odt(_P(f"See {_FRAME}")), "d.odt")
    assert document.text == "See [formula]"
    assert "not read: 1 embedded object" in document.warnings[0]


def test_title_and_description_of_a_picture_are_read(tmp_path: Path) -> None:
    both = "<draw:frame><draw:image/><svg:title>The quay</svg:title><svg:desc>A brig at noon</svg:desc></draw:frame>"
    assert written(tmp_path, odt(_P(f"See {both} here.")), "d.odt").text == "See [The quay] [A brig at noon] here."


def test_what_describes_a_shape_is_read_also_after_a_formula(tmp_path: Path) -> None:
    shape = "<draw:custom-shape><svg:desc>An arrow to the quay</svg:desc></draw:custom-shape>"
    data = odt(_P(f"Of {_FRAME} and {shape}."), {"Object 1/content.xml": odf(_MATH, "document-content")})
    assert written(tmp_path, data, "d.odt").text == "Of E=(a+b)/2c^2 and [An arrow to the quay]."


def test_pictures_are_counted_but_not_those_of_objects(tmp_path: Path) -> None:
    picture = '<draw:frame><draw:image xlink:href="Pictures/1.png"/></draw:frame>'
    shown = f"<draw:frame><draw:object-ole/>{picture[12:]}"
    document = written(tmp_path, odt(_P(f"x{picture}{picture}{shown}")), "d.odt")
    assert document.warnings == (f"{tmp_path / 'd.odt'}: not read: 2 pictures, 1 embedded object",)


def test_a_text_box_does_not_tear_its_paragraph(tmp_path: Path) -> None:
    items = f"<text:list><text:list-item>{_P('one')}</text:list-item></text:list>"
    box = f"<draw:frame><draw:text-box>{_P('boxed')}{items}</draw:text-box></draw:frame>"
    body = f"<text:list><text:list-item>{_P(f'before {box}after')}</text:list-item></text:list>"
    assert written(tmp_path, odt(body), "d.odt").text == "- before after\n\nboxed\n\n- one"


def test_headers_and_footers_are_read_once(tmp_path: Path) -> None:
    page = "<text:page-number>7</text:page-number>"
    margins = (
        f"<style:header>{_P('Confidential, version 3')}</style:header><style:footer>{_P(f'Form 12 - Page {page}')}</style:footer>"
    )
    pages = f'<style:master-page style:name="Standard">{margins}</style:master-page>'
    pages += f'<style:master-page style:name="Other"><style:header>{_P("Annex A")}</style:header></style:master-page>'
    pages += f'<style:master-page style:name="Unused"><style:header>{_P("Unused")}</style:header></style:master-page>'
    style = '<style:style style:name="P1" style:family="paragraph" style:master-page-name="Other"/>'
    text = written(tmp_path, odt(_P("One.") + _P("Two."), styles=style, pages=pages), "d.odt").text
    assert text == "Header: Confidential, version 3\n\nHeader: Annex A\n\nOne.\n\nTwo.\n\nFooter: Form 12"


def test_comments_are_read_on_demand_with_the_text_that_they_are_on(tmp_path: Path) -> None:
    comment = f"<dc:creator>Ann Lee</dc:creator><dc:date>2026-01-01</dc:date>{_P('too high')}"
    body = f'We pay <office:annotation office:name="a">{comment}</office:annotation>the price'
    body += '<office:annotation-end office:name="a"/>.'
    document = written(tmp_path, odt(_P(body)), "d.odt")
    assert document.text == "We pay the price."
    assert "1 comment (--markup reads them)" in document.warnings[0]
    text = load(str(tmp_path / "d.odt"), markup=True).text
    assert text == "We pay the price.\n\nComments\n\nComment by Ann Lee on “the price”: too high\n"


def test_a_comment_is_no_part_of_the_text_that_another_one_is_on(tmp_path: Path) -> None:
    comment = f'<office:annotation office:name="{{0}}">{_P("{1}")}</office:annotation>'.format
    end = '<office:annotation-end office:name="{}"/>'.format
    body = f"{comment('a', 'long')}all<text:line-break/>of {comment('b', 'too high')}the price{end('b')}{end('a')}."
    written(tmp_path, odt(_P(body)), "d.odt")
    text = load(str(tmp_path / "d.odt"), markup=True).text
    assert text.endswith("Comment on “all of the price”: long\n\nComment on “the price”: too high\n")


@pytest.mark.parametrize("body", ["<math:math>{}</math:math>", "<style:header>{}</style:header>"])
def test_elements_where_no_document_has_them_lose_no_text(tmp_path: Path, body: str) -> None:
    inner = body.format(_P("a<math:math/>"))
    assert written(tmp_path, odt(inner + _P("after")), "d.odt").text == "after"


def test_hidden_text_is_left_out_and_told(tmp_path: Path) -> None:
    hidden = '<style:text-properties text:display="none"/>'
    styles = "".join(
        f'<style:style style:name="{name}" style:family="{family}">{hidden}</style:style>'
        for name, family in (("P9", "paragraph"), ("T9", "text"))
    )
    body = _P('shown <text:span text:style-name="T9">secret</text:span>too') + '<text:p text:style-name="P9">secret</text:p>'
    body += f'<text:section text:display="none">{_P("secret")}</text:section><text:p text:style-name="P9"/>'
    body += _P('secret <text:hidden-paragraph text:is-hidden="true"/>secret')
    document = written(tmp_path, odt(body, styles=styles), "d.odt")
    assert document.text == "shown too"
    assert "not read: 4 hidden passages" in document.warnings[0]


def test_a_note_in_a_heading_is_not_within_it(tmp_path: Path) -> None:
    note = f"<text:note><text:note-citation>1</text:note-citation><text:note-body>{_P('b')}</text:note-body></text:note>"
    document = written(tmp_path, odt(f"<text:h>Title{note}</text:h>{_P('Text.')}"), "d.odt")
    assert document.text == "Title[1]\n\nText.\n\n1. b"


_STRIKES = "".join(
    f'<style:style style:name="{name}" style:family="{family}" {more}><style:text-properties {properties}/></style:style>'
    for name, family, more, properties in (
        ("T1", "text", "", 'style:text-line-through-style="solid"'),
        ("T2", "text", 'style:parent-style-name="T1"', ""),
        ("T3", "text", "", 'style:text-line-through-style="none"'),
        ("P1", "paragraph", "", 'style:text-line-through-type="double"'),
        ("Up", "text", "", 'style:text-position="super 58%"'),
        ("Down", "text", "", 'style:text-position="-33% 58%"'),
    )
)
_CHANGES = """<text:tracked-changes><text:changed-region text:id="c1"><text:deletion>
<office:change-info><dc:creator>Ann</dc:creator></office:change-info><text:p>two</text:p></text:deletion></text:changed-region>
<text:changed-region xml:id="c2" text:id="c2">
<text:deletion><text:p>Old</text:p><text:p>rules</text:p></text:deletion></text:changed-region><text:changed-region text:id="c3">
<text:insertion><office:change-info><dc:creator>Bo</dc:creator></office:change-info></text:insertion></text:changed-region>
</text:tracked-changes>"""


def test_struck_out_text_and_tracked_deletions(tmp_path: Path) -> None:
    def span(style: str, text: str) -> str:
        return f'<text:span text:style-name="{style}">{text}</text:span>'

    body = f"""{_CHANGES}<text:p>Bring <text:change text:change-id="c1"/> one guest, {span("T1", f"not ten {span('T3', 'paid')}")}
{span("T2", "or free")}.</text:p><text:change text:change-id="c2"/>
<text:p text:style-name="P1">Void {span("T3", "but")} this</text:p>"""
    document = written(tmp_path, odt(body, styles=_STRIKES), "d.odt")
    assert document.text == "Bring one guest, paid .\n\nbut"
    assert document.warnings == (f"{tmp_path / 'd.odt'}: not read: 5 struck-out passages (--markup reads them)",)
    text = load(str(tmp_path / "d.odt"), markup=True).text
    assert text == "Bring ~~two~~ one guest, ~~not ten~~ paid ~~or free~~.\n\n~~Old rules~~\n\n~~Void~~ but ~~this~~"


def test_raised_and_lowered_digits_are_apart_from_those_before(tmp_path: Path) -> None:
    up, down = ('<text:span text:style-name="{}">{}</text:span>'.format(*each) for each in (("Up", "6"), ("Down", "2")))
    body = f"<text:p>10{up} CO{down} 1011{down}</text:p>"
    assert written(tmp_path, odt(body, styles=_STRIKES), "d.odt").text == "10^6 CO2 1011_2"


@pytest.mark.parametrize("inside", ["text:p", "text:deletion", "text:changed-region", "text:tracked-changes", "text:change"])
def test_changes_within_changes(tmp_path: Path, inside: str) -> None:
    for outside in ("text:deletion", "text:p", "text:span"):
        nested = f"<{outside}><{inside}>x</{inside}>y</{outside}>"
        body = f"<text:tracked-changes>{nested}</text:tracked-changes><text:p>kept</text:p>"
        assert written(tmp_path, odt(body), "d.odt").text == "kept"
