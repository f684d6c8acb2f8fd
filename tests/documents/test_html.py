"""HTML: what a browser shows, and only that; its encodings; pages that are broken or made to break a reader."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.making import refused, written


def text_of(tmp_path: Path, body: str) -> str:
    return written(tmp_path, f"<!DOCTYPE html><html><head></head><body>{body}</body></html>", "page.html").text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>one\n   two\tthree</p>", "one two three"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<div>one<div>two</div>three</div>", "one\n\ntwo\n\nthree"),
        ("one<br>two<br><br><br>three", "one\ntwo\n\nthree"),
        ("<p>in<b>line</b> <i>tags</i> part no words</p>", "inline tags part no words"),
        ("<p>fish &amp; chips &lt;3 caf&eacute; &#8364; &#x1F600; &nbsp;end</p>", "fish & chips <3 café € 😀 end"),
        ("<p>hy&shy;phen\u00adated</p>", "hyphenated"),
        ("<pre>def f():\n    return  1\n</pre>", "def f():\n    return  1"),
        ("<ul><li>one<li>two<ul><li>deep</ul></ul>", "- one\n- two\n  - deep"),
        ("<ol start=3><li>one</li><li>two</li></ol>", "3. one\n4. two"),
        ("<ol type=a><li>one<li>two<ol type=I><li>deep</ol></ol>", "a. one\nb. two\n  I. deep"),
        ("<ol type=A start=27><li>one<li value=3>two<li>three</ol>", "AA. one\nC. two\nD. three"),
        ('<ol style="list-style-type: lower-roman"><li>one<li>two</ol>', "i. one\nii. two"),
        ("<ol reversed><li>one<li>two<li>three</ol>", "3. one\n2. two\n1. three"),
        ("<ol reversed start=10><li>one<li>two</ol>", "10. one\n9. two"),
        ("<ol reversed><li>one<li value=7>two<li>three</ol>", "3. one\n7. two\n6. three"),
        ("<table><tr><td><ol reversed type=i><li>one<li>two</ol></table>", "ii. one i. two"),
        ("<ol type=i start=999999999><li>one<li value=-5>two</ol>", "999999999. one\n-5. two"),
        ("<ul><li>a</li></ul><ul><li>b</li></ul>", "- a\n\n- b"),
        ("<table><tr><th>Name<th>Age<tr><td><p>Ann</p><td>5</table>", "Name\tAge\nAnn\t5"),
        ("<table><tr><td>a<td><td>c</table>", "a\t\tc"),
        ("<table><td>a<table><tr><td>b</table></table>", "a\n\nb"),
        ("<dl><dt>term<dd>meaning</dl>", "term\n\nmeaning"),
        ("<p>see<sup>1</sup> and 10<sup>6</sup> and <sup>2</sup>H and x<sup>[3]</sup></p>", "see^1 and 10^6 and 2H and x[3]"),
        (
            "<p>2011<sub>15ya</sub>, 1011<sub>2</sub>, but CO<sub>2</sub>, H<sub>2</sub>O, x<sub>1</sub></p>",
            "2011_15ya, 1011_2, but CO2, H2O, x1",
        ),
        ("<p>He said <q>no</q>.</p>", "He said “no”."),
        ('<p><img alt="A cat"> and <img alt=""><img src=x.png>, <img alt="I">t is</p>', "[A cat] and , It is"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>字", "漢字"),
        ("<script>var x</script><style>p{}</style><noscript>turn on</noscript><template>t</template>text", "text"),
        ('<nav>Home</nav><p hidden>h</p><p style="display: none">n</p><select><option>o</select>text', "text"),
        ("<p>a < b & c <3 <unknown>tag</unknown>", "a < b & c <3 tag"),
        ("<p>one<!-- a comment -->two<?php echo 1 ?></p>", "onetwo"),
    ],
)
def test_text_is_what_a_browser_shows(tmp_path: Path, body: str, text: str) -> None:
    assert text_of(tmp_path, body) == text


def test_a_page_laid_out_by_a_table_keeps_its_paragraphs(tmp_path: Path) -> None:
    long = "many words of running text " * 20
    text = text_of(tmp_path, f"<table><tr><td>menu<td><h1>Title</h1><p>{long}</p><p>{long}</p></table>")
    assert text == f"menu\n\nTitle\n\n{long.strip()}\n\n{long.strip()}"


def test_headings_are_sections(tmp_path: Path) -> None:
    document = written(tmp_path, "<html><h1>A <em>book</em></h1><p>x</p><h3>Part<br>one</h3><p>y</p><h2></h2>", "page.html")
    assert [(section.title, section.level) for section in document.sections] == [("A book", 1), ("Part one", 3)]
    assert all(document.text.startswith(section.title, section.start) for section in document.sections)


def test_the_title_stands_for_a_missing_main_heading(tmp_path: Path) -> None:
    page = "<html><head><title>On\n cats</title></head><body>{}<p>text</p></body></html>"
    assert written(tmp_path, page.format(""), "a.html").text == "On cats\n\ntext"
    assert written(tmp_path, page.format("<h1>Cats</h1>"), "a.html").text == "Cats\n\ntext"


@pytest.mark.parametrize(
    "start", ["<!doctype html>", "<HTML lang=en>", "\ufeff<html>", "  \n<!-- x --><?xml version='1.0'?><html>"]
)
@pytest.mark.parametrize("name", ["page", "page.txt", "page.bin"])
def test_html_is_known_by_content(tmp_path: Path, start: str, name: str) -> None:
    document = written(tmp_path, f"{start}<body><p>text", name)
    is_text = name.endswith(".txt") and start.startswith(" ")  # which shows how a page begins
    assert document.media_type == ("text/plain" if is_text else "text/html")
    assert is_text or document.text == "text"


@pytest.mark.parametrize("name", ["page.php", "page.md", "page.js"])
def test_source_that_begins_like_html_stays_as_it_is(tmp_path: Path, name: str) -> None:
    source = "<!DOCTYPE html><p><?php echo 1 ?>"
    assert written(tmp_path, source, name).text == source


_SENTENCES = {
    "windows-1251": "Вчера мы гуляли",
    "koi8-r": "Вчера мы гуляли",
    "iso-8859-1": "“Café” naïf",  # as browsers read it: windows-1252
    "gb2312": "昨天晚上",
    "big5": "昨天晚上",
    "shift_jis": "昨日の夜",
    "euc-jp": "昨日の夜",
    "euc-kr": "어제 저녁",
    "utf-8": "Zoë 昨天",
}


@pytest.mark.parametrize("charset", _SENTENCES)
@pytest.mark.parametrize("declaration", ['<meta charset="{}">', '<META http-equiv=Content-Type content="text/html; charset={}">'])
def test_the_declared_encoding_is_believed_and_nothing_said(tmp_path: Path, charset: str, declaration: str) -> None:
    codec = {"iso-8859-1": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949"}.get(charset, charset)
    page = f"<html><head>{declaration.format(charset)}</head><body><p>{_SENTENCES[charset]}</p></body></html>"
    document = written(tmp_path, page.encode(codec), "page.html")
    assert document.text == _SENTENCES[charset]
    assert document.warnings == ()


def test_a_byte_order_mark_beats_the_declaration(tmp_path: Path) -> None:
    page = "<html><meta charset=koi8-r><p>Вчера</p></html>"
    for data in (codecs.BOM_UTF8 + page.encode(), page.encode("utf-16"), codecs.BOM_UTF16_BE + page.encode("utf-16-be")):
        assert written(tmp_path, data, "page.html").text == "Вчера"


@pytest.mark.parametrize("charset", ["unicode_escape", "raw-unicode-escape", "charmap", "idna", "punycode", "undefined"])
def test_codecs_of_python_are_no_declaration(tmp_path: Path, charset: str) -> None:
    page = f"<html><meta charset={charset}><p>un café très fort \\u0041</p>".encode("cp1252")
    document = written(tmp_path, page, "page.html")
    assert document.text == "un café très fort \\u0041"
    assert "a guess" in document.warnings[0]


@pytest.mark.parametrize("charset", ["iso-8859-1", "klingon", "hex", "utf-16", "utf-8", "\x00"])
def test_utf8_under_a_wrong_declaration_is_utf8(tmp_path: Path, charset: str) -> None:
    document = written(tmp_path, f"<html><meta charset={charset}><p>Zoë — “so”</p>", "page.html")
    assert document.text == "Zoë — “so”"


def test_encoding_given_beats_the_declaration(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes("<html><meta charset=windows-1251><p>Вчера</p>".encode("koi8-r"))
    assert load(str(tmp_path / "page.html"), encoding="koi8-r").text == "Вчера"


def test_absurd_nesting(tmp_path: Path) -> None:
    for tag in ("div", "b", "blockquote", "ul><li", "table><tr><td", "h1", "span"):
        opening, closing = f"<{tag}>" * 100_000, "".join(f"</{name}>" for name in reversed(tag.split("><"))) * 100_000
        assert text_of(tmp_path, f"{opening}deep{closing}<p>after").replace(" ", "").replace("-", "").split() == ["deep", "after"]


def test_text_without_a_tag_is_not_cut(tmp_path: Path) -> None:
    text = text_of(tmp_path, "<p>" + "word " * 3_000_000 + "</p><p>end</p>")
    assert text.count("word") == 3_000_000
    assert text.endswith("end")


def test_entities_of_its_own_are_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    page = f'<?xml version="1.0"?><!DOCTYPE html [<!ENTITY e0 "lol">{bomb}<!ENTITY f SYSTEM "file://{tmp_path}/secret.txt">]>'
    text = written(tmp_path, page + "<html><body><p>a &e9; b &f; c</p></body></html>", "page.xhtml").text
    assert len(text) < 2000
    assert "secret" not in text.replace("secret.txt", "")
    assert "a &e9; b &f; c" in text


@pytest.mark.parametrize("body", ["", "<script>x</script>", "<p> &nbsp; </p>", "<!-- only a comment -->"])
def test_a_page_without_text(tmp_path: Path, body: str) -> None:
    assert refused(tmp_path, f"<html><body>{body}</body></html>", "page.html").code == "doc_empty"


def test_broken_pages_are_read(tmp_path: Path) -> None:
    for page in (
        "<html><p>text",
        "<html><p>text</b></i></table></html>",
        "<html><p>text<a href='",
        "<html><p>text<",
        "<html>text<!--",
    ):
        assert written(tmp_path, page, "page.html").text.startswith("text")


@pytest.mark.parametrize(
    ("charset", "text", "stray", "encoding"),
    [
        ("euc-jp", "昨日の夜、私たちは長い間町を歩き", b"\xad\xa1", "euc_jp"),
        ("windows-1251", "Вчера вечером мы долго гуляли", b"\x98", "cp1251"),
        ("gbk", "昨天晚上我们在城里走了很久", b"\xff", "gb18030"),
    ],
)
@pytest.mark.parametrize("times", [1, 100])
def test_a_byte_that_the_declared_encoding_lacks_is_the_only_one_lost(
    tmp_path: Path, charset: str, text: str, stray: bytes, encoding: str, times: int
) -> None:
    body = (text * times).encode(encoding) + b" " + stray + b" " + text.encode(encoding)
    document = written(tmp_path, f"<html><meta charset={charset}><p>".encode() + body, "page.html")
    lost = "\ufffd" * len(stray)
    assert document.text == f"{text * times} {lost} {text}"
    (warning,) = document.warnings
    assert f"{encoding} with {len(stray)} broken sequence" in warning


def test_a_wrong_declaration_that_fits_badly_is_not_believed(tmp_path: Path) -> None:
    text = "昨日の夜、私たちは長い間町を歩き、本について話しました。その後、雨が降り始めました。" * 5
    for wrong, encoding in (("iso-8859-1", "cp932"), ("euc-jp", "cp932"), ("shift_jis", "euc_jp")):
        page = f"<html><meta charset={wrong}><p>".encode() + text.encode(encoding)
        assert written(tmp_path, page, "page.html").text == text


def test_a_page_that_says_utf8_keeps_it_where_an_editor_pasted_other_bytes(tmp_path: Path) -> None:
    head = '<meta charset="UTF-8"><meta name="title" content="naturgrün, fachmännisch, schön">'.encode("latin-1")
    page = head + "<p>Die Natur schätzen wir, für die Lebensqualität, seit der Gründung vor fünf Jahren.".encode()
    document = written(tmp_path, page, "p.html")
    assert document.text.startswith("Die Natur schätzen wir, für die Lebensqualität")
    assert "utf-8 with 3 broken sequences" in document.warnings[0]


def test_utf8_with_a_bad_byte_is_utf8_whatever_is_declared(tmp_path: Path) -> None:
    page = "<html><meta charset=iso-8859-1><p>It’s “so” — déjà vu, “café” ".encode() + b"\xff"
    assert written(tmp_path, page, "page.html").text == "It’s “so” — déjà vu, “café” \ufffd"


def test_a_long_page_alone_is_read_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fbrag_cli.indexing import collect
    from fbrag_cli.indexing.entry import ReadSettings
    from fbrag_cli.progress import Listener
    from fbrag_cli.storage.cache import NOWHERE

    calls: list[str] = []
    real = collect.run_jobs
    monkeypatch.setattr(collect, "run_jobs", lambda *arguments, **options: calls.append("child") or real(*arguments, **options))
    for size, expected in ((1_000, []), (200_000, ["child"])):
        (tmp_path / "page.html").write_text("<html><p>" + "word " * (size // 5))
        assert (
            collect.collect_one(str(tmp_path / "page.html"), ReadSettings(), NOWHERE, None, Listener()).corpus.n_words
            == size // 5
        )
        assert calls == expected


_FEES = """<h1>Fees</h1><p>The yearly fee is <del>120 euros</del> <ins>150 euros</ins>. The key costs <s>5</s> 8 euros,
9<strike> or 10 </strike>in May.</p>
<table><tr><td>Oar<td>30<tr style="text-decoration: line-through"><td>Vest<td>41<tr><td>Net<td>22</table>
<h2><s>Old rules</s></h2><p style="COLOR: red; text-decoration : underline LINE-THROUGH">No dogs.<br>No <img alt="cat">.</p>
<h2>New rules</h2><p>Dogs <s style="text-decoration: none">on a lead</s>.</p>"""


def test_struck_out_text_is_left_out_and_told(tmp_path: Path) -> None:
    document = written(tmp_path, f"<!doctype html>{_FEES}", "page.html")
    assert document.text == (
        "Fees\n\nThe yearly fee is 150 euros. The key costs 8 euros, 9 in May.\n\nOar\t30\nNet\t22\n\n"
        "New rules\n\nDogs on a lead."
    )
    assert [section.title for section in document.sections] == ["Fees", "New rules"]
    assert document.warnings == (f"{tmp_path / 'page.html'}: not read: 5 struck-out passages (--markup reads them)",)


def test_struck_out_text_is_read_in_place_on_demand(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<!doctype html>{_FEES}")
    document = load(str(tmp_path / "page.html"), markup=True)
    assert document.text == (
        "Fees\n\nThe yearly fee is ~~120 euros~~ 150 euros. The key costs ~~5~~ 8 euros, 9 ~~or 10~~ in May.\n\n"
        "Oar\t30\n~~Vest~~\t~~41~~\nNet\t22\n\n~~Old rules~~\n\n~~No dogs.~~\n~~No [cat].~~\n\nNew rules\n\nDogs on a lead."
    )
    assert document.warnings == ()


def test_a_page_of_struck_out_text_alone_says_so(tmp_path: Path) -> None:
    error = refused(tmp_path, "<!doctype html><p><s>Void.</s></p>", "page.html")
    assert error.message.endswith("has no text but struck-out passages")
    assert error.hint == "add --markup, which reads them"
