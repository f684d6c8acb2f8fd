"""EPUB: the order of the spine, the chapters of the table of contents, and books that are damaged, protected or hostile."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from time import process_time
from zipfile import ZipFile

import pytest

from fbrag_cli.documents.load import load
from fbrag_cli.documents.readers import epub as reader
from tests.documents.making import epub, refused, written, xhtml, zipped

_NCX = (
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Part</text></navLabel>'
    '<content src="a.xhtml"/><navPoint><navLabel><text>Chapter</text></navLabel><content src="b.xhtml#two"/></navPoint>'
    "</navPoint></navMap></ncx>"
)


def test_pages_are_read_in_the_order_of_the_spine(tmp_path: Path) -> None:
    document = written(tmp_path, epub({"z.xhtml": "<p>third</p>", "a.xhtml": "<p>first</p>"}, ["a.xhtml", "z.xhtml"]), "b.epub")
    assert document.text == "first\n\nthird"
    assert document.media_type == "application/epub+zip"


def test_chapters_are_those_of_the_table_of_contents(tmp_path: Path) -> None:
    toc = (
        '<ol><li><a href="one.xhtml">One</a><ol><li><a href="one.xhtml#mid">One and a half</a></li></ol></li>'
        '<li><a href="two.xhtml">Two &amp; more</a></li><li><a href="gone.xhtml">Gone</a></li></ol>'
    )
    pages = {"one.xhtml": '<p class="h">I</p><p>x</p><p id="mid">middle</p>', "two.xhtml": "<p>II</p>"}
    document = written(tmp_path, epub(pages, toc=toc), "b.epub")
    found = [(section.title, section.level, document.text[section.start :].split("\n")[0]) for section in document.sections]
    assert found == [("One", 1, "I"), ("One and a half", 2, "middle"), ("Two & more", 1, "II")]


def test_chapters_of_an_older_book(tmp_path: Path) -> None:
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>'
        '<spine toc="t"><itemref idref="a"/><itemref idref="b"/></spine></package>'
    )
    more = {"OEBPS/book.opf": package, "OEBPS/toc.ncx": '<!DOCTYPE ncx PUBLIC "x" "http://127.0.0.1:9/x.dtd">' + _NCX}
    book = epub({"a.xhtml": "<h1>heading</h1>", "b.xhtml": "<p>one</p><p id='two'>two</p>"}, more=more)  # type: ignore[arg-type]
    document = written(tmp_path, book, "b.epub")
    assert [(section.title, section.level) for section in document.sections] == [("Part", 1), ("Chapter", 2)]
    assert document.text[document.sections[1].start :] == "two"


def test_without_a_table_of_contents_headings_are_the_chapters(tmp_path: Path) -> None:
    document = written(tmp_path, epub({"a.xhtml": "<p>x</p><h2>Head</h2>"}, toc="<ol></ol>"), "b.epub")
    assert [section.title for section in document.sections] == ["Head"]


def test_headings_that_the_table_of_contents_does_not_name_are_sections_within_its_chapters(tmp_path: Path) -> None:
    toc = '<ol><li><a href="one.xhtml">Chapter 1: The Sea</a></li><li><a href="two.xhtml">Chapter 2</a></li></ol>'
    pages = {
        "one.xhtml": "<h1>Chapter 1</h1><h2>The sea</h2><p>x</p><h2>Storms</h2><p>storm</p><h3>Lulls</h3><p>lull</p>",
        "two.xhtml": "<h1>Chapter 2</h1><p>y</p><h1>Appendix</h1><p>z</p>",
    }
    document = written(tmp_path, epub(pages, toc=toc), "b.epub")
    found = [(section.title, section.level, document.text[section.start :].split("\n")[0]) for section in document.sections]
    assert found == [
        ("Chapter 1: The Sea", 1, "Chapter 1"), ("Storms", 2, "Storms"), ("Lulls", 3, "Lulls"),
        ("Chapter 2", 1, "Chapter 2"), ("Appendix", 1, "Appendix"),
    ]  # fmt: skip


def test_what_a_book_says_of_itself_stands_before_its_pages(tmp_path: Path) -> None:
    about = (
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Harbour</dc:title><dc:creator>Ann Lee</dc:creator>'
        "<dc:creator>Bo Dahl</dc:creator><dc:publisher>Quay Press</dc:publisher>"
        "<dc:description>&lt;p&gt;Storms &amp;amp; lulls.&lt;/p&gt;</dc:description></metadata><manifest>"
    )
    book = epub({"a.xhtml": "<h1>One</h1><p>text</p>"})
    with ZipFile(BytesIO(book)) as opened:
        package = opened.read("OEBPS/book.opf").decode().replace("<manifest>", about)
    document = written(tmp_path, epub({"a.xhtml": "<h1>One</h1><p>text</p>"}, more={"OEBPS/book.opf": package}), "b.epub")
    lines = ["Title: The Harbour", "Author: Ann Lee, Bo Dahl", "Publisher: Quay Press", "Description: Storms & lulls.", ""]
    assert document.text.split("\n") == [*lines, "One", "", "text"]
    assert document.text[document.sections[0].start :].startswith("One")
    pictures = epub({"a.xhtml": "<img src='a.jpg'/>"}, more={"OEBPS/book.opf": package})
    assert refused(tmp_path, pictures, "p.epub").code == "doc_empty"


def test_self_closed_tags_of_xhtml(tmp_path: Path) -> None:
    page = (
        xhtml("")
        .replace("<title></title>", "<title/><script src='x.js'/>")
        .replace("<body>", "<body><a id='x'/><p>text</p><p/>end")
    )
    document = written(tmp_path, epub({"a.xhtml": ""}, more={"OEBPS/a.xhtml": page}), "b.epub")
    assert document.text == "text\n\nend"


def test_missing_pages_are_warned_of(tmp_path: Path) -> None:
    book = epub({"a.xhtml": "<p>here</p>", "b.xhtml": ""}, more={})
    document = written(tmp_path, book.replace(b"OEBPS/b.xhtml", b"OEBPS/x.xhtml"), "b.epub")
    assert document.text == "here"
    assert "1 of its 2 files are missing, as OEBPS/b.xhtml" in document.warnings[0]


def test_protected_books_are_refused_and_obfuscated_fonts_are_not(tmp_path: Path) -> None:
    def book(uri: str) -> bytes:
        reference = f'<e:CipherReference xmlns:e="http://www.w3.org/2001/04/xmlenc#" URI="{uri}"/>'
        return epub({"a.xhtml": "<p>text</p>"}, more={"META-INF/encryption.xml": f"<encryption>{reference}</encryption>"})

    error = refused(tmp_path, book("OEBPS/a.xhtml"), "b.epub")
    assert (error.code, "DRM" in error.message) == ("doc_unreadable", True)
    assert written(tmp_path, book("OEBPS/font.otf"), "b.epub").text == "text"


@pytest.mark.parametrize(
    ("book", "says"),
    [
        (epub({"a.xhtml": "<p>x</p>"}, []), "no spine"),
        (epub({"a.xhtml": ""}, more={"OEBPS/book.opf": "<package/>"}), "no spine"),
        (epub({"a.xhtml": ""}, more={"OEBPS/book.opf": "not XML"}), "XML is broken"),
        (epub({"a.xhtml": ""}, more={"META-INF/container.xml": '<!DOCTYPE c [<!ENTITY a "b">]><container/>'}), "entities"),
        (zipped({"mimetype": "application/epub+zip"}, stored_first=True), "no package document"),
        (zipped({"META-INF/container.xml": '<container><rootfile full-path="../../../etc/passwd"/></container>'}), "etc/passwd"),
    ],
)
def test_damaged_books_are_refused(tmp_path: Path, book: bytes, says: str) -> None:
    error = refused(tmp_path, book, "b.epub")
    assert error.code == "doc_unreadable"
    assert says in error.message


def test_a_header_that_belittles_its_part(tmp_path: Path) -> None:
    book = epub({"a.xhtml": "<p>" + "x" * 1_000_000})
    size = len(xhtml("<p>" + "x" * 1_000_000)).to_bytes(4, "little")
    assert refused(tmp_path, book.replace(size, (100).to_bytes(4, "little")), "b.epub").code == "doc_unreadable"


def test_a_guess_at_the_encoding_of_a_page_is_said(tmp_path: Path) -> None:
    page = "<html><body><p>Вчера вечером мы долго гуляли по городу.</p></body></html>".encode("cp1251")
    document = written(tmp_path, epub({"a.xhtml": ""}, more={"OEBPS/a.xhtml": page}), "b.epub")
    assert document.text.startswith("Вчера")
    assert "OEBPS/a.xhtml is not UTF-8; read as cp1251" in document.warnings[0]


def test_a_bomb_of_its_real_size_takes_little_memory(tmp_path: Path) -> None:
    book = zipped({"mimetype": "application/epub+zip", "book.opf": b"<package>" + b" " * 300_000_000}, stored_first=True)
    assert len(book) < 400_000
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (600_000_000, 600_000_000))\n"
        "from fbrag_cli.documents.load import load; from fbrag_cli.errors import FbragError\n"
        "try: load(sys.argv[1])\nexcept FbragError as error: print(error.message)"
    )
    (tmp_path / "b.epub").write_bytes(book)
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path / "b.epub")], capture_output=True, text=True, check=True)
    assert "unpacks to more than 64 MB" in run.stdout


def test_a_page_that_the_spine_names_again_and_again_is_read_once(tmp_path: Path) -> None:
    book = epub({"a.xhtml": "<p>one</p>", "b.xhtml": "<p>two</p>"}, ["a.xhtml", "b.xhtml"] + ["a.xhtml"] * 100_000)
    began = process_time()
    assert written(tmp_path, book, "b.epub").text == "one\n\ntwo"
    assert process_time() - began < 5


def test_a_spine_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_PAGES", 2)
    document = written(tmp_path, epub({f"{n}.xhtml": f"<p>{n}</p>" for n in range(5)}), "b.epub")
    assert document.text == "0\n\n1"
    assert "of its 5 files only the first 2 are read" in document.warnings[0]


def test_of_encodings_that_are_as_common_the_first_counts(tmp_path: Path) -> None:
    texts = {"cp1251": "Вчера", "koi8-r": "Вчера", "cp1253": "Χθες", "euc-jp": "昨日の夜", "big5": "昨天晚上"}
    pages: dict[str, bytes | str] = {
        f"OEBPS/{name}": f'<?xml version="1.0" encoding="{name}"?><html><body><p>{text}</p></body></html>'.encode(name)
        for name, text in texts.items()
    }
    assert written(tmp_path, epub(dict.fromkeys(texts, ""), more=pages), "b.epub").encoding == "cp1251"


def test_struck_out_text_is_left_out_and_told(tmp_path: Path) -> None:
    pages = {
        "a.xhtml": "<p>He paid <s>ten</s> nine.</p>",
        "b.xhtml": '<p style="text-decoration-line:line-through">No.</p><p>Yes.</p>',
    }
    document = written(tmp_path, epub(pages), "b.epub")
    assert document.text == "He paid nine.\n\nYes."
    assert document.warnings == (f"{tmp_path / 'b.epub'}: not read: 2 struck-out passages (--markup reads them)",)
    assert load(str(tmp_path / "b.epub"), markup=True).text == "He paid ~~ten~~ nine.\n\n~~No.~~\n\nYes."


@pytest.mark.parametrize(
    ("title", "page", "found"),
    [
        ("Part I: The Harbor", "<p>x</p><h2>I</h2><p>y</p><h2>Harbor</h2>", ["Part I: The Harbor", "I", "Harbor"]),
        ("Part I: The Harbor", "<h1>PART I.</h1><h2>The harbor</h2><p>x</p><h2>The</h2>", ["Part I: The Harbor", "The"]),
        ("The Harbor", "<p>Chapter one of many</p><h1>The HARBOR</h1><p>x</p>", ["The Harbor"]),
        ("One", "<h1>Chapter the first</h1><p>x</p><h2>On</h2>", ["One", "On"]),
        ("1", "<p>x</p><h2>1</h2><p>x</p><h2>2</h2>", ["1", "2"]),
    ],
)
def test_a_heading_repeats_its_chapter_only_in_the_same_words(tmp_path: Path, title: str, page: str, found: list[str]) -> None:
    document = written(tmp_path, epub({"a.xhtml": page}, toc=f'<ol><li><a href="a.xhtml">{title}</a></li></ol>'), "b.epub")
    assert [section.title for section in document.sections] == found


def test_what_a_chapter_hides_is_left_out_and_told(tmp_path: Path) -> None:
    style = "<style>/*<![CDATA[*/ .gone { display: none } /*]]>*/</style>"
    pages = {
        "a.xhtml": f"{style}<p>one</p><p class='gone'>secret</p>",
        "b.xhtml": "<p class='gone'>two</p><p hidden=''>secret</p>",
    }
    document = written(tmp_path, epub(pages), "b.epub")
    assert document.text == "one\n\ntwo"
    assert document.warnings == (f"{tmp_path / 'b.epub'}: not read: 2 hidden passages (--markup reads them)",)
    assert load(str(tmp_path / "b.epub"), markup=True).text == "one\n\nsecret\n\ntwo\n\nsecret"
