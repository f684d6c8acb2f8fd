"""Rich text: code pages, Unicode escapes, tables, notes, links; files made to break a reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from fbrag_cli.errors import FbragError
from tests.documents.making import refused, written


def text_of(tmp_path: Path, body: str, head: str = "\\ansi\\ansicpg1252") -> str:
    return written(tmp_path, ("{\\rtf1" + head + body + "}").encode("cp1252"), "d.rtf").text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("\\pard one\\par two\\line three\\par", "one\n\ntwo\nthree"),
        ("\\pard a \\{b\\} c:\\\\par\\par d", "a {b} c:\\par\n\nd"),
        ("\\pard \\u8220?q\\u8221? \\u-10179?\\u-8704? caf\\'e9 \\emdash  \\lquote x\\rquote", "“q” 😀 café — ‘x’"),
        ("\\trowd\\intbl a\\cell b\\cell\\row\\trowd\\intbl c\\par\\cell d\\cell\\row\\pard end", "a\tb\nc\td\n\nend"),
        ("\\pard claim{\\*\\footnote the note} end", "claim[1] end\n\n1. the note"),
        ('\\pard {\\field{\\*\\fldinst{HYPERLINK "http://x.org"}}{\\fldrslt{the link}}} end', "the link end"),
        ("{\\info{\\title t}}{\\stylesheet{\\s1 Normal;}}{\\*\\generator g}{\\pict\\pngblip 89504e47}\\pard text", "text"),
    ],
)
def test_text(tmp_path: Path, body: str, text: str) -> None:
    assert text_of(tmp_path, body) == text


def test_code_pages(tmp_path: Path) -> None:
    cyrillic = "".join(f"\\'{byte:02x}" for byte in "Вчера".encode("cp1251"))
    japanese = "".join(f"\\'{byte:02x}" for byte in "昨日".encode("cp932"))
    assert text_of(tmp_path, f"\\pard {cyrillic}", "\\ansi\\ansicpg1251") == "Вчера"
    fonts = "{\\fonttbl{\\f0\\fcharset0 Times;}{\\f1\\fnil\\fcharset204 Arial;}{\\f2\\fcharset128{\\*\\falt x}MS Mincho;}}"
    assert text_of(tmp_path, f"{fonts}\\pard\\f1 {cyrillic} \\f2 {japanese} \\f0 caf\\'e9") == "Вчера 昨日 café"


@pytest.mark.parametrize(("page", "encoding"), [("1251", "cp1251"), ("932", "cp932"), ("99999", "cp1252")])
def test_raw_bytes_are_in_the_code_page_of_the_document(tmp_path: Path, page: str, encoding: str) -> None:
    text = {"cp1251": "Вчера вечером", "cp932": "昨日ソ表", "cp1252": "café"}[encoding]
    data = f"{{\\rtf1\\ansi\\ansicpg{page} \\pard ".encode() + text.encode(encoding) + b"}"
    assert written(tmp_path, data, "d.rtf").text == text


def test_bytes_that_the_code_page_does_not_have_are_a_warning(tmp_path: Path) -> None:
    document = written(tmp_path, b"{\\rtf1\\ansi\\ansicpg932 text \\'81\\'01 end}", "d.rtf")
    assert document.text.endswith("end")
    assert "code page" in document.warnings[0]


@pytest.mark.parametrize(
    "body",
    [
        "{" * 200_000 + "deep" + "}" * 200_000,
        "}" * 1000 + "{",
        "\\u99999999999999 \\u5000000000 x",
        "\\pict\\bin99999999999 x",
        "{\\pict\\bin x}",
        "{\\field{\\*\\fldinst{" * 50_000,
        '{\\field{\\*\\fldinst{HYPERLINK "x"' + ' HYPERLINK "x"' * 50_000,
        "{\\fonttbl" + "\\f1" * 100_000 + "}text",
        "{\\fonttbl" + "\\f1\\fcharset0 a" * 50_000 + "}text",
        "\\ansicpg99999 \\'e9 text",
        "\\'",
        "",
    ],
)
def test_hostile_files_end_in_a_text_or_an_error(tmp_path: Path, body: str) -> None:
    try:
        assert text_of(tmp_path, body) is not None
    except FbragError as error:
        assert error.code in ("doc_unreadable", "doc_empty")  # noqa: PT017


# -- what was lost -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("\\pard before \\*\\unknown after", "before after"),  # StarOffice writes it in the middle of a group
        ("{\\*\\unknown not shown {\\b deeper}}\\pard shown", "shown"),
        ("\\pard one {\\pict\\bin x}two", "one two"),
        ("\\pard one {\\pict\\bin5 a}b{c}two", "one two"),
        ("\\pard one {\\pict\\pngblip 8950\\}4e47}two", "one two"),
        ("{\\fonttbl{\\f1\\fcharset2 Symbol;}{\\f2\\fcharset2 Wingdings;}}\\pard\\f1\\'61\\'a3\\f2\\'fc", "α≤✓"),
        ("{\\fonttbl{\\f1\\fcharset2 Symbol;}}\\pard{\\listtext\\f1\\'b7\\tab}one\\par{\\listtext\\f1\\u-3913 ?\\tab}two\\par",
         "- one\n- two"),
        ("\\pard{\\listtext 4.2\\tab}Rent\\par{\\pntext 4.3\\tab}Term\\par\\pard Text", "4.2 Rent\n4.3 Term\n\nText"),
        ("\\pard 10{\\super 6} and CO{\\sub 2}", "10^6 and CO2"),
        ("\\pard kept {\\deleted gone}{\\b on}", "kept on"),
        ("\\pard see {\\shp{\\*\\shpinst{\\sp{\\sn a}{\\sv 1}}{\\shptxt\\pard boxed\\par}}}after\\par", "see after\n\nboxed"),
        ("\\trowd\\cellx1 a\\cell b\\cell\\row\\pard end", "a\tb\n\nend"),
        ("\\pard We have {\\mmath{\\*\\moMath{\\mr y=}{\\mf{\\mfPr{\\mtype bar}}{\\mnum{\\mr\\i a+b}}{\\mden{\\mr 2}}}}} here",
         "We have y=(a+b)/2 here"),
        ("\\pard \\uc2\\u8364 EU\\uc1  rest", "€ rest"),
        ("{\\upr{\\pard ansi}{\\*\\ud{\\pard unicode}}} text", "unicode text"),
    ],
)  # fmt: skip
def test_text_of_other_programs(tmp_path: Path, body: str, text: str) -> None:
    assert text_of(tmp_path, body) == text


def test_headings_are_sections(tmp_path: Path) -> None:
    body = "\\pard\\outlinelevel0 One\\par\\pard text\\par\\pard\\outlinelevel1{\\listtext 1.1\\tab}Two\\par\\pard text"
    document = written(tmp_path, "{\\rtf1 " + body + "}", "d.rtf")
    assert [(section.title, section.level) for section in document.sections] == [("One", 1), ("1.1 Two", 2)]


def test_headers_and_footers_are_read_once(tmp_path: Path) -> None:
    header = "{\\header\\pard Confidential, version 3\\par}"
    footer = "{\\footer\\pard Form 12 - Page {\\field{\\*\\fldinst PAGE }{\\fldrslt 7}} of \\chpgn\\par}"
    text = text_of(tmp_path, f"{header}{footer}\\pard One.\\sect{header}\\pard Two.\\par")
    assert text == "Header: Confidential, version 3\n\nOne.\n\nTwo.\n\nFooter: Form 12"
    assert text_of(tmp_path, "{\\header\\pard The whole record.\\par}") == "Header: The whole record."


def test_comments_are_read_on_demand_with_the_text_that_they_are_on(tmp_path: Path) -> None:
    body = "\\pard We pay {\\*\\atrfstart 1}the price{\\*\\atrfend 1}{\\*\\atnid AL}{\\*\\atnauthor Ann Lee}\\chatn"
    body += "{\\*\\annotation{\\*\\atnref 1}\\pard too high\\par} now."
    document = written(tmp_path, "{\\rtf1 " + body + "}", "d.rtf")
    assert document.text == "We pay the price now."
    assert "1 comment (--markup reads them)" in document.warnings[0]
    text = load(str(tmp_path / "d.rtf"), markup=True).text
    assert text == "We pay the price now.\n\nComments\n\nComment by Ann Lee on “the price”: too high\n"


def test_a_comment_is_no_part_of_the_text_that_another_one_is_on(tmp_path: Path) -> None:
    start, end = "{{\\*\\atrfstart {}}}".format, "{{\\*\\atrfend {}}}".format
    comment = "{{\\*\\annotation {}}}".format
    body = start(1) + "all\\line of " + start(2) + "the price" + end(2) + comment("too high") + end(1) + comment("long")
    written(tmp_path, "{\\rtf1\\pard " + body + ".}", "d.rtf")
    text = load(str(tmp_path / "d.rtf"), markup=True).text
    assert text.endswith("Comment on “the price”: too high\n\nComment on “all of the price”: long\n")


def test_hidden_text_is_left_out_and_told(tmp_path: Path) -> None:
    document = written(tmp_path, "{\\rtf1\\pard shown {\\v secret}\\v also\\v0 too\\par\\v secret\\plain .}", "d.rtf")
    assert document.text == "shown too\n\n."
    assert "not read: 2 hidden passages" in document.warnings[0]


def test_embedded_objects_are_told(tmp_path: Path) -> None:
    body = "\\pard see {\\object{\\*\\objclass Excel.Sheet.8}{\\*\\objdata 0105}{\\result{\\pict 00}}}end"
    document = written(tmp_path, "{\\rtf1 " + body + "}", "d.rtf")
    assert document.text == "see end"
    assert "not read: 1 embedded object" in document.warnings[0]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("{\\pict\\pngblip 8950}", "only 1 picture"),
        ("\\v secret", "but hidden passages"),
        ("{\\*\\annotation x}", "but comments"),
    ],
)
def test_a_document_without_text_says_what_it_has(tmp_path: Path, body: str, says: str) -> None:
    assert refused(tmp_path, "{\\rtf1 " + body + "}", "d.rtf").message.endswith(says)


def test_struck_out_text_and_tracked_deletions(tmp_path: Path) -> None:
    body = r"The fee is {\strike 120} 150 euros. \striked1 Old.\striked0  New. {\deleted 58}{\revised 60}\par "
    body += r"\strike All this\plain  but that\par {\strike Void.}\par"
    document = written(tmp_path, "{\\rtf1 " + body + "}", "d.rtf")
    assert document.text == "The fee is 150 euros. New. 60\n\nbut that"
    assert document.warnings == (f"{tmp_path / 'd.rtf'}: not read: 5 struck-out passages (--markup reads them)",)
    text = load(str(tmp_path / "d.rtf"), markup=True).text
    assert text == "The fee is ~~120~~ 150 euros. ~~Old.~~ New. ~~58~~60\n\n~~All this~~ but that\n\n~~Void.~~"


def test_lowered_digits_are_apart_from_those_before(tmp_path: Path) -> None:
    body = r"{\rtf1 2011{\sub 15ya} CO{\sub 2} 1011\sub 2\nosupersub .\par}"
    assert written(tmp_path, body, "d.rtf").text == "2011_15ya CO2 1011_2."


def test_footnotes_and_endnotes_are_counted_by_themselves(tmp_path: Path) -> None:
    note = r"{{\super\chftn}}{{\footnote{} {{\super\chftn}} {}}}".format
    body = rf"{{\rtf1\pard a{note('', 'foot')} b{note(chr(92) + 'ftnalt', 'end')} c{note('', 'more')}\par}}"
    assert written(tmp_path, body, "d.rtf").text == "a[1] b[i] c[2]\n\n1. foot\ni. end\n2. more"
    assert "b[1]" in written(tmp_path, body.replace("rtf1", r"rtf1\aftnnar"), "d.rtf").text


def test_pictures_are_counted(tmp_path: Path) -> None:
    picture = r"{\*\shppict{\pict\pngblip 8950}}{\nonshppict{\pict\wmetafile8 00}}"
    document = written(tmp_path, rf"{{\rtf1\pard x {picture}{picture}\par}}", "d.rtf")
    assert document.warnings == (f"{tmp_path / 'd.rtf'}: not read: 2 pictures",)
