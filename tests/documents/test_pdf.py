"""PDFs, made here byte by byte or by pypdf's writer, and a real one of 234 pages."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import pypdf
import pytest

from fbrag_cli.documents.broken_words import rejoin_words
from fbrag_cli.documents.document import Document
from fbrag_cli.documents.lines import pages_of
from fbrag_cli.documents.load import load
from fbrag_cli.documents.ocr.engine import how_to_install
from fbrag_cli.documents.pdf.page_text import is_garbled
from fbrag_cli.documents.source import read_source
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.progress import Event, Listener

ROOT = Path(__file__).parent.parent.parent

# Codes 1 to 3 are drawn as ligatures, as TeX's fonts have them; 4 is a soft hyphen.
FONT = (
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica"
    b"/Encoding<</Type/Encoding/BaseEncoding/WinAnsiEncoding/Differences[1/fi/fl/ffi/sfthyphen]>>>>"
)


CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"


def pdf_of_objects(*objects: bytes) -> bytes:
    """A PDF with these objects, numbered from 1; the first is its catalog."""
    made = b"%PDF-1.7\n"
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(made))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    entries = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    table = b"xref\n0 %d\n0000000000 65535 f \n%b" % (len(objects) + 1, entries)
    return made + table + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(made))


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<</Length %d%b>>\nstream\n%b\nendstream" % (len(content), entries, content)


def pdf_of_contents(*contents: bytes, more: Sequence[bytes] = (), xobjects: bytes = b"") -> bytes:
    """A PDF with one page for each content stream object; objects from 4 + 2 * pages on are `more`."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * index) for index in range(len(contents)))
    objects = [CATALOG, b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(contents), kids), FONT]
    for index, content in enumerate(contents):
        resources = b"<</Font<</F1 3 0 R>>/XObject<<%b>>>>" % xobjects
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources%b/Contents %d 0 R>>"
        objects += [page % (resources, 5 + 2 * index), content]
    return pdf_of_objects(*objects, *more)


def shown(text: bytes) -> bytes:
    """A content stream that draws `text` line by line."""
    lines = b" ".join(b"(%b) Tj T*" % line for line in text.split(b"\n")) if text else b""
    return stream(b"BT /F1 12 Tf 72 720 Td 14 TL %b ET" % lines)


#: A page that shows something, and has no letters.
DRAWN = stream(b"100 100 200 300 re f")


def pdf(*pages: bytes) -> bytes:
    """A PDF with these texts, a page each; b"" is a page without text, as a scan is."""
    return pdf_of_contents(*map(shown, pages))


def written(tmp_path: Path, data: bytes, name: str = "paper.pdf") -> str:
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


def refused(path: str, **options: str) -> FbragError:
    with pytest.raises(FbragError) as caught:
        load(path, **options)  # type: ignore[arg-type]
    error = caught.value
    assert error.document == path
    assert error.hint
    assert path in error.message
    assert "\n" not in error.message + error.hint
    assert error.exit_code == (ExitCode.USAGE if error.code == "usage" else ExitCode.DOCUMENT)
    return error


def page_texts(document: Document) -> dict[int, str]:
    return {page.number: document.text[page.start : page.end] for page in document.pages}


# Pages


def test_pages_are_spans_of_the_text_with_their_true_numbers(tmp_path: Path) -> None:
    document = load(written(tmp_path, pdf(b"first page", b"second page\nof two lines", b"third")))
    assert page_texts(document) == {1: "first page", 2: "second page\nof two lines", 3: "third"}
    assert document.text == "first page\nsecond page\nof two lines\nthird"
    assert document.media_type == "application/pdf"
    assert document.encoding is None
    assert (document.warnings, document.skipped_pages) == ((), ())


def test_blank_pages_are_skipped_and_drawn_ones_are_named(tmp_path: Path, without_ocr: None) -> None:
    pages = [stream(b""), shown(b"two"), DRAWN, stream(b"1 1 1 rg 50 50 200 200 re f"), shown(b"five"), DRAWN, DRAWN]
    document = load(written(tmp_path, pdf_of_contents(*pages)))
    assert page_texts(document) == {2: "two", 5: "five"}
    assert document.skipped_pages == (1, 3, 4, 6, 7)
    (warning,) = document.warnings
    assert warning.partition(": ")[2].startswith("pages 3,6-7 are scanned and not read; to read by OCR: ")
    assert warning.endswith(how_to_install())
    assert load(written(tmp_path, pdf(b"", b"two", b""), "blank.pdf")).warnings == ()
    assert pages_of(document, 0, len(document.text)) == (2, 5)


def test_chosen_pages_keep_their_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, pdf(*(b"page %d" % number for number in range(1, 13))))
    assert list(page_texts(load(path, pages="3-5,12"))) == [3, 4, 5, 12]
    assert page_texts(load(path, pages=" 12 , 3, 3-4")) == {3: "page 3", 4: "page 4", 12: "page 12"}


@pytest.mark.parametrize("pages", ["4", "1-4", "0", "2-99999999", "3,17"])
def test_pages_that_there_are_not(tmp_path: Path, pages: str) -> None:
    error = refused(written(tmp_path, pdf(b"1", b"2", b"3")), pages=pages)
    assert error.code == "usage"
    assert "1-3" in error.message


def test_progress_comes_by_page(tmp_path: Path) -> None:
    heard: list[Event] = []
    load(written(tmp_path, pdf(b"1", b"2", b"3")), pages="2-3", listener=Listener(progress=heard.append))
    assert [(event.stage, event.kind, event.done, event.total) for event in heard] == [
        ("read", "start", 0, 2),
        ("read", "progress", 1, 2),
        ("read", "progress", 2, 2),
        ("read", "done", 2, 2),
    ]


def test_an_error_of_the_listener_is_not_a_damaged_pdf(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if event.kind == "progress":
            raise ZeroDivisionError

    path = written(tmp_path, pdf(b"1"))
    with pytest.raises(ZeroDivisionError):
        load(path, listener=Listener(progress=stop))


# Words


def test_ligatures_and_soft_hyphens_are_undone(tmp_path: Path) -> None:
    document = load(written(tmp_path, pdf(b"\001nal \002ow of o\003ce hy\004phen")))
    assert document.text == "final flow of office hyphen"


def test_words_broken_at_line_ends_are_whole(tmp_path: Path) -> None:
    document = load(written(tmp_path, pdf(b"This is an exam-\nple, and it is a mat\004\nter of fact.")))
    assert document.text == "This is an example,\nand it is a matter\nof fact."


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("an exam-\nple of it", "an example\nof it"),
        ("the end exam-\nple", "the end example"),
        ("a well-\nknown man, well-known", "a well-known\nman, well-known"),
        ("state-of-the-\nart lab", "state-of-the-art\nlab"),
        ("Jean-\nPaul came", "Jean-\nPaul came"),
        ("mid-\nand long-term", "mid-\nand long-term"),
        ("the x-\naxis", "the x-\naxis"),
        ("from 1990-\n1995", "from 1990-\n1995"),
        ("a dash -\nhere", "a dash -\nhere"),
        ("Größen\u00ad\nordnung", "Größenordnung"),
        ("Über\u2010\nraschung!", "Überraschung!"),
        ("(“exam-\nples”) end", "(“examples”)\nend"),
        ("hy-\nphena-\ntion works", "hyphenation\nworks"),
        ("weight\t4\tlong-\nterm\t5\tshort", "weight\t4\tlong-\nterm\t5\tshort"),
    ],
)
def test_rejoining(broken: str, whole: str) -> None:
    assert rejoin_words([broken]) == [whole]


def test_a_compound_stays_one_where_lines_end_at_hyphens_only() -> None:
    # As in the novel's PDF: it never breaks a word, so a hyphen at a line's end belongs to the word.
    pages = ["a good-\nnatured man, good-natured", "an empty-\nheaded girl with an empty head, the headed notes"]
    assert rejoin_words(pages)[1].startswith("an empty-headed\ngirl")


def test_pages_of_nothing_but_broken_words_take_no_quadratic_time() -> None:
    before = process_time()
    for page in ("a-\n" * 50_000, "abc-\nd-\n" * 30_000, "x" * 1_000_000 + "-\ny"):
        rejoin_words([page])
    assert process_time() - before < 10  # 0.5 s measured; minutes if it were quadratic


@pytest.mark.parametrize(
    "text",
    [
        "人々は日々の暮らしで様々なことを考え、我々も色々な人々と出会う。",
        "二〇二〇年、第①章と第Ⅷ章。",
    ],
)
def test_signs_of_repetition_and_numbers_are_no_garbled_text(text: str) -> None:
    assert not is_garbled(text)
    assert is_garbled(text + "".join("жあ" for _ in text))


@pytest.mark.parametrize(
    "line",
    [
        "/G21/G22/G23/G24/G2A/G31 /G44/G45/G46/G50",
        "/g1 /g22 /g3 /g4 /g57",
        "(cid:12)(cid:13)(cid:4) (cid:99)",
        "uni0041uni0042uni00E4 uni0043",
        "/uni0041/uni0042 /uni0043/uni00e9",
    ],
)
def test_names_of_glyphs_are_garbled_text(tmp_path: Path, line: str) -> None:
    garbled = b"\n".join([line.encode().replace(b"(", b"\\(").replace(b")", b"\\)")] * 9)
    document = load(written(tmp_path, pdf(garbled, b"The next meeting is on 7 April.")))
    (warning,) = document.warnings
    assert "much of page 1 is garbled" in warning


@pytest.mark.parametrize(
    "text",
    [
        "The paths are /usr/lib3/x86/v2, /a1/b2/c3 and /v1/users/v2.",
        "A united university of unicorns uses unicode; uni and union.",
        "A page that names (cid:12) once, among many other words that can be read by everyone who reads them.",
    ],
)
def test_paths_and_words_are_no_names_of_glyphs(text: str) -> None:
    assert not is_garbled(text)


def test_text_made_to_be_slow_to_judge() -> None:
    before = process_time()
    for unit in ("/G1", "/AAAAA", "/G1 ", "uni0041", "uni004", "(cid:", "(cid:1)", "/", "uni0041 "):
        is_garbled(unit * 1_000_000)
    assert process_time() - before < 5


# Fonts


def test_fonts_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    other = FONT.replace(b"/fi/fl/ffi", b"/a/b/c")
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 %b>>>>/Contents 5 0 R>>"
    fonts = (b"3 0 R", b"4 0 R", FONT, other, b"3 0 R")
    kids = b" ".join(b"%d 0 R" % number for number in range(6, 6 + len(fonts)))
    tree = b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(fonts), kids)
    data = pdf_of_objects(CATALOG, tree, FONT, other, shown(b"\001"), *(page % font for font in fonts))
    assert load(written(tmp_path, data)).text.split("\n") == ["fi", "a", "fi", "a", "fi"]


# Raised and lowered digits


def with_rise(before: bytes, piece: bytes, after: bytes, rise: int = 4, size: int = 7) -> bytes:
    shift = b"(%b) Tj /F1 %d Tf %d Ts (%b) Tj 0 Ts /F1 11 Tf (%b) Tj ET" % (before, size, rise, piece, after)
    return b"BT /F1 11 Tf 72 700 Td " + shift


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (with_rise(b"The deposit is 250", b"1", b" euros."), "The deposit is 250^1 euros."),
        (with_rise(b"It holds 4 x 10", b"6", b" litres."), "It holds 4 x 10^6 litres."),
        (with_rise(b"It was a fine year.", b"12", b" Later"), "It was a fine year.^12 Later"),
        (with_rise(b"(as he said)", b"3", b""), "(as he said)^3"),
        (with_rise(b"It has 20 m", b"2", b" of floor."), "It has 20 m2 of floor."),
        (with_rise(b"an area of 7 km", b"2", b" of it"), "an area of 7 km2 of it"),
        (with_rise(b"on the 1", b"st", b" of May"), "on the 1st of May"),
        (with_rise(b"for all", b"5", b" of them"), "for all5 of them"),
        (with_rise(b"It is 25", b"0", b" euros.", rise=0), "It is 250 euros."),
        (with_rise(b"It is 25", b"0", b" euros.", rise=4, size=11), "It is 250 euros."),
        (with_rise(b"It is 250 ", b"1", b" euros."), "It is 250 1 euros."),
        (with_rise(b"H", b"2", b"O and CO2", rise=-3), "H2O and CO2"),
        (with_rise(b"written in 2011", b"15", b"ya.", rise=-3), "written in 2011_15ya."),
        (
            b"BT /F1 11 Tf 72 700 Td (in 1962) Tj /F1 7 Tf 40 4 Td (2) Tj /F1 11 Tf 6 -4 Td (and later) Tj ET",
            "in 1962^2 and later",
        ),
        (b"BT /F1 1 Tf 11 0 0 11 72 700 Tm (in 1962) Tj 7 0 0 7 108 704 Tm (2) Tj ET", "in 1962^2"),
    ],
)
def test_a_raised_digit_is_no_part_of_a_number(tmp_path: Path, content: bytes, text: str) -> None:
    document = load(written(tmp_path, pdf_of_contents(stream(content))))
    assert " ".join(document.text.split()) == text


def test_a_line_goes_on_after_a_raised_piece(tmp_path: Path) -> None:
    high = b"BT /F1 11 Tf 72 700 Td (a volume of 10) Tj 68.5 7 Td /F1 7 Tf (6) Tj /F1 11 Tf 7 -7 Td (litres) Tj ET"
    contents = (with_rise(b"It is 250", b"1", b" euros."), with_rise(b"in 1962", b"2,3", b", later"), high)
    document = load(written(tmp_path, pdf_of_contents(*map(stream, contents))))
    assert document.text.split("\n") == ["It is 250^1 euros.", "in 1962^2,3, later", "a volume of 10^6 litres"]


# Passwords


def encrypted(data: bytes, user: str, owner: str, algorithm: str) -> bytes:
    writer = pypdf.PdfWriter()
    writer.append(io.BytesIO(data))
    writer.encrypt(user, owner, algorithm=algorithm)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256"])
def test_password(tmp_path: Path, algorithm: str) -> None:
    path = written(tmp_path, encrypted(pdf(b"secret text"), "geheim", "owner", algorithm), "my file.pdf")
    error = refused(path)
    assert error.code == "pdf_encrypted"
    assert f"--password-file pw.txt '{path}'" in str(error.hint)
    assert refused(path, password="wrong").code == "pdf_bad_password"
    assert refused(path, password="").code == "pdf_bad_password"
    assert load(path, password="geheim").text == "secret text"
    assert load(path, password="owner").text == "secret text"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_an_owner_password_alone_keeps_nobody_from_reading(tmp_path: Path, algorithm: str) -> None:
    path = written(tmp_path, encrypted(pdf(b"text"), "", "owner", algorithm))
    assert load(path).text == "text"
    assert load(path, password="not needed").text == "text"


def test_a_password_for_an_open_pdf_is_not_needed(tmp_path: Path) -> None:
    assert load(written(tmp_path, pdf(b"text")), password="spare").text == "text"


# Damage


def test_stderr_stays_clean_whatever_a_library_thinks_of_the_file(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, b"junk before\n" + pdf(b"text").replace(b"startxref\n", b"startxref\n9"), "offset.pdf"),
        written(tmp_path, pdf_of_contents(shown(b"one"), stream(b"BT /F1 12 Tf (two) Tj /Nope Do ET")), "object.pdf"),
        written(tmp_path, encrypted(pdf(b"text"), "", "o", "RC4-40"), "rc4.pdf"),
    ]
    run = _python(f"from fbrag_cli.documents.load import load\nfor path in {paths!r}: print(load(path).text)")
    assert run.stderr == ""
    assert "text" in run.stdout


def test_no_text_at_all(tmp_path: Path, without_ocr: None) -> None:
    error = refused(written(tmp_path, pdf_of_contents(*[DRAWN] * 14), "a scan.pdf"))
    assert error.code == "pdf_no_text"
    assert error.message.endswith("has no text on any of its 14 pages (scanned images)")
    assert error.hint == f"to read by OCR: {how_to_install()}"
    blank = refused(written(tmp_path, pdf(b"", b""), "blank.pdf"))
    assert blank.code == "pdf_no_text"
    assert blank.message.endswith("has no text on any of its 2 pages (nothing is drawn there)")
    chosen = refused(written(tmp_path, pdf(b"", b"", b"text"), "b.pdf"), pages="1-2")
    assert "pages 1-2 of 3" in chosen.message


def test_no_pages(tmp_path: Path) -> None:
    path = written(tmp_path, pdf_of_objects(CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"))
    assert refused(path).code == "doc_unreadable"


def test_a_page_that_cannot_be_read_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    data = pdf(b"one", b"two", b"three").replace(b"Kids[4 0 R 6 0 R", b"Kids[4 0 R 3 0 R")  # a font
    document = load(written(tmp_path, data))
    assert page_texts(document) == {1: "one", 3: "three"}
    assert document.skipped_pages == (2,)
    (warning,) = document.warnings
    assert "page 2 could not be read (PdfiumError)" in warning


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n",
        b"%PDF-1.4\n" + bytes(range(256)) * 50,
        pdf(b"text" * 1000)[:2000],
        pdf_of_objects(b"1 0 R"),
        pdf_of_objects(CATALOG, b"<</Type/Pages/Kids[2 0 R]/Count 1>>"),
        pdf_of_objects(CATALOG, b"<</Type/Pages/Kids %b%b/Count 1>>" % (b"[" * 100_000, b"]" * 100_000)),
    ],
    ids=["header only", "garbage", "truncated", "root is itself", "page tree is a ring", "too deep"],
)
def test_damaged_and_hostile_files_are_one_error(tmp_path: Path, data: bytes) -> None:
    error = refused(written(tmp_path, data))
    assert error.code == "doc_unreadable"
    assert "Error" in error.message  # the exception's name


def test_binary_data_called_pdf(tmp_path: Path) -> None:
    error = refused(written(tmp_path, bytes(range(256)) * 20))
    assert error.code == "doc_unreadable"
    assert "%PDF-" in error.message


def test_a_pdf_is_known_by_its_content(tmp_path: Path) -> None:
    assert load(written(tmp_path, pdf(b"text"), "download")).media_type == "application/pdf"
    assert load(written(tmp_path, b"\n\n\xef\xbb\xbf" + pdf(b"text"), "junk")).text == "text"
    assert load("-", source=read_source("-", io.BytesIO(pdf(b"piped")))).text == "piped"


# The novel


@pytest.fixture(scope="module")
def novel(shared: Path) -> Document:
    return load(str(shared / "books" / "pride-and-prejudice.pdf"))


def test_the_novel_has_its_pages(novel: Document) -> None:
    assert [page.number for page in novel.pages] == list(range(1, 235))
    assert (novel.skipped_pages, novel.warnings) == ((), ())
    assert novel.pages[0].start == 0
    assert novel.pages[-1].end == len(novel.text)
    for page, following in zip(novel.pages, novel.pages[1:], strict=False):
        assert novel.text[page.end : following.start] == "\n"


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("It is a truth universally acknowledged", 2),
        ('"Do you not want to know who has taken it?" cried his wife impatiently.', 3),
        ("surely. I dare say Mr. Bingley will be very glad to see you", 4),
        ("Darcy was continually giving offense", 11),
    ],
)
def test_words_of_the_novel_are_on_the_page_where_a_reader_finds_them(novel: Document, words: str, page: int) -> None:
    start = novel.text.index(words)
    assert pages_of(novel, start, start + len(words)) == (page, page)


def test_the_novels_compounds_keep_their_hyphens(novel: Document) -> None:
    for compound in ("dining-parlour", "drawing-room", "self-denial", "good-natured", "empty-headed"):
        assert compound.replace("-", "") not in novel.text


def test_the_novel_is_whole_and_in_order(novel: Document, shared: Path) -> None:
    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"[a-z0-9]+", text.lower())
        return set(zip(*(words[start:] for start in range(5)), strict=False))

    expected = runs((shared / "books" / "pride-and-prejudice.txt").read_text(encoding="utf-8"))
    assert len(expected - runs(novel.text)) < 0.002 * len(expected)  # the editions differ in a few words


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
