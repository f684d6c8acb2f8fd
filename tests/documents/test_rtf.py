"""Rich text: code pages, Unicode escapes, tables, notes, links; files made to break a reader."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        ("\\trowd\\intbl a\\cell b\\cell\\row\\trowd\\intbl c\\par\\cell d\\cell\\row\\pard end", "a\tb\nc\td\nend"),
        ("\\pard claim{\\*\\footnote the note} end", "claim\tthe note end"),
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


def test_an_empty_document(tmp_path: Path) -> None:
    assert refused(tmp_path, b"{\\rtf1\\ansi\\par}", "d.rtf").code == "doc_empty"
