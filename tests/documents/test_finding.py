"""Content before suffix: files under wrong names, zips that are none of ours, random bytes under every name."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fbrag_cli.documents.format_detection import OLE, root_names, workbook_head
from fbrag_cli.documents.formats import FORMATS, PLAIN, find_format
from fbrag_cli.documents.load import load
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from tests.documents.making import docx, epub, odt, pptx, refused, rtf, shape, w_paragraph, written, x_row, xlsx, zipped

_END, _FREE = 0xFFFFFFFE, 0xFFFFFFFF

_BOOKS = {
    "an EPUB book": epub({"a.xhtml": "<p>text</p>"}),
    "a Word document": docx(w_paragraph("text")),
    "an OpenDocument text": odt("<text:p>text</text:p>"),
    "a rich text document": rtf(["text"]),
}


@pytest.mark.parametrize("kind", _BOOKS)
@pytest.mark.parametrize("suffix", [".txt", ".pdf", ".html", ".md", ".docx", ".epub", ".odt", ".rtf"])
def test_a_wrong_suffix_is_said_and_does_no_harm(tmp_path: Path, kind: str, suffix: str) -> None:
    document = written(tmp_path, _BOOKS[kind], f"file{suffix}")
    assert document.text == "text"
    right = next(format_ for format_ in FORMATS if format_.kind == kind)
    assert document.media_type == right.media_type
    if suffix in right.suffixes:
        assert document.warnings == ()
    else:
        assert document.warnings[0].endswith(f"read as {kind}")


@pytest.mark.parametrize("suffix", [".docx", ".epub", ".odt", ".rtf", ".pdf"])
def test_text_under_the_name_of_a_book(tmp_path: Path, suffix: str) -> None:
    document = written(tmp_path, "only text", f"file{suffix}")
    assert (document.text, document.media_type) == ("only text", "text/plain")
    assert document.warnings[0].endswith("read as plain text")
    assert written(tmp_path, "<html><p>hi", f"file{suffix}").warnings[0].endswith("read as an HTML page")


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        (zipped({"[Content_Types].xml": "x", "xl/workbook.bin": "x"}), "Excel workbook in binary form", "libreoffice"),
        (zipped({"mimetype": "application/vnd.oasis.opendocument.graphics"}, stored_first=True), "drawing", "libreoffice"),
        (zipped({"a.epub": _BOOKS["an EPUB book"], "b.docx": _BOOKS["a Word document"]}), "zip archive", "unpack"),
        (zipped({"a": "x" * 99, "mimetype": "application/vnd.oasis.opendocument.presentation"}), "presentation", "libreoffice"),
        (zipped({"Index/Document.iwa": "x", "Metadata/Properties.plist": "x"}), "iWork document", "export it as PDF"),
        (zipped({"mimetype": "application/vnd.sun.xml.writer", "content.xml": "x"}), "OpenOffice 1", "libreoffice"),
        (zipped({"META-INF/container.xml": "x", "designmap.xml": "x"}), "a zip archive", "unpack"),
        (b"PK\x05\x06" + bytes(18), "empty zip", "unpack"),
        (b"PK\x03\x04" * 1000, "zip archive", "unpack"),
    ],
)
@pytest.mark.parametrize("name", ["a.docx", "a.epub", "a.odt", "a.txt", "a"])
def test_other_zips_are_refused_whatever_their_name(tmp_path: Path, data: bytes, says: str, hint: str, name: str) -> None:
    error = refused(tmp_path, data, name)
    assert error.code == "unsupported_format"
    assert says in error.message
    assert hint in str(error.hint)


def _compound(*names: str) -> bytes:
    """A compound file with empty streams at its root, as Outlook and old Office write it."""
    header = OLE + bytes(16) + struct.pack("<HHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, _END, 0, _END, 0, 0)
    table = struct.pack("<II", 0xFFFFFFFD, _END).ljust(512, b"\xff")
    entries = b""
    for at, title in enumerate(("Root Entry", *names)):
        following = at + 1 if 0 < at < len(names) else _FREE
        kind, child = (2, _FREE) if at else (5, 1)
        entries += title.encode("utf-16-le").ljust(64, b"\0")
        entries += struct.pack("<HBBIII", 2 * len(title) + 2, kind, 1, _FREE, following, child) + bytes(48)
    return header.ljust(512, b"\xff") + table + entries.ljust(512, b"\0")


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        (_compound("__nameid_version1.0", "__properties_version1.0"), "a mail of Outlook (msg)", ".eml"),
        (_compound("EncryptionInfo", "EncryptedPackage"), "with a password", "without a password"),
        (_compound("VisioDocument"), "an old Office document", "libreoffice"),
        (b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00", "AVIF", "magick"),
        (b"GIF89a\x01\x00\x01\x00", "an image (GIF)", "magick"),
        (b"\x00\x00\x00\x0cjP  \r\n\x87\n\x00", "an image (JPEG 2000)", "magick"),
        (b"\x00\x00\x00\x1cftypisom\x00\x00\x00\x00", "audio or video", "transcript"),
        (b'<?xml version="1.0"?>\n<FictionBook xmlns="x"><body><p>a</p></body></FictionBook>', "FictionBook", "ebook-convert"),
    ],
)
def test_documents_of_other_programs_are_refused_by_their_name(tmp_path: Path, data: bytes, says: str, hint: str) -> None:
    error = refused(tmp_path, data, "a")
    assert error.code == "unsupported_format"
    assert says in error.message
    assert hint in str(error.hint)


def test_a_document_that_was_packed_again_is_read(tmp_path: Path) -> None:
    """Then "mimetype" is not the first entry any more, or is missing, and only the manifest says what it is."""
    parts = {name: data for name, data in _parts(odt("<text:p>text</text:p>")).items() if name != "mimetype"}
    kind = "application/vnd.oasis.opendocument.text"
    for more in (
        {"mimetype": kind},
        {"META-INF/manifest.xml": f'<m:manifest><m:file-entry m:media-type="{kind}" m:full-path="/"/></m:manifest>'},
    ):
        document = written(tmp_path, zipped({**parts, **more}), "a.odt")
        assert (document.text, document.media_type) == ("text", kind)


def _parts(package: bytes) -> dict[str, bytes | str]:
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.kind)
def test_nothing_and_white_space_are_empty_in_every_format(tmp_path: Path, format_: object) -> None:
    assert isinstance(format_, type(PLAIN))
    for data in (b"", b" \n\n "):
        assert refused(tmp_path, data, f"a{format_.suffixes[0]}").code == "doc_empty"


_STARTS = [
    b"",
    b"PK\x03\x04",
    b"{\\rtf1 ",
    b"<html>",
    b"WEBVTT\n\n",
    b"1\n00:00:01,000 --> 00:00:02,000\n",
    b"From: a\nReceived: b\n",
    b"%PDF-1.4\n",
]


@pytest.mark.parametrize("suffix", [".txt", ".docx", ".epub", ".odt", ".rtf", ".html", ".eml", ".srt", ".md", ".rst"])
def test_no_bytes_end_in_anything_but_a_text_or_an_error_for_people(tmp_path: Path, suffix: str) -> None:
    @given(start=st.sampled_from(_STARTS), data=st.binary(max_size=200))
    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def check(start: bytes, data: bytes) -> None:
        with suppress(FbragError):
            written(tmp_path, start + data, f"a{suffix}").text.encode()  # no lone surrogates

    check()


@pytest.mark.parametrize("kind", _BOOKS)
def test_damage_anywhere_ends_in_a_text_or_an_error_for_people(tmp_path: Path, kind: str) -> None:
    whole = _BOOKS[kind]

    @given(position=st.integers(0, len(whole) - 1), byte=st.integers(0, 255), cut=st.booleans())
    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def check(position: int, byte: int, cut: bool) -> None:
        data = whole[:position] if cut else whole[:position] + bytes([byte]) + whole[position + 1 :]
        with suppress(FbragError):
            written(tmp_path, data, "a")

    check()


def test_overlapping_names_in_a_broken_zip_take_little_memory() -> None:
    data = (b"PK\x03\x04" + bytes(22) + b"\xff\xff" + bytes(2)) * 2000
    tracemalloc.start()
    try:
        assert find_format(Source("a.docx", "a.docx", data))[0] is PLAIN
        assert tracemalloc.get_traced_memory()[1] < 5_000_000  # bytes
    finally:
        tracemalloc.stop()


def test_the_beginning_of_a_short_stream_is_found_in_the_stream_of_the_root() -> None:
    """As that of a workbook with a password and no cells."""
    whole = bytearray(_compound("Workbook") + b"\xff" * 512 + b"begin".ljust(512, b"."))
    whole[512 + 4 : 512 + 8] = struct.pack("<I", _END)  # the directory is one sector; the root's stream is sector 3
    root, book = 1024, 1024 + 128
    whole[root + 116 : root + 128] = struct.pack("<IQ", 3, 64)
    whole[60:68] = struct.pack("<II", 2, 1)  # the table of the short streams is sector 2
    whole[1536:1540] = struct.pack("<I", _END)
    whole[book + 116 : book + 128] = struct.pack("<IQ", 0, 40)
    assert workbook_head(bytes(whole)) == b"begin".ljust(40, b".")


def test_a_directory_beyond_the_end_of_its_file_is_not_followed_in_circles() -> None:
    whole = bytearray(_compound("Workbook"))
    whole[48:52] = struct.pack("<I", 100)  # the directory begins in sector 100, ...
    whole[512 + 400 : 512 + 404] = struct.pack("<I", 100)  # ... which follows itself
    assert root_names(bytes(whole)) == frozenset()


def test_a_compound_file_that_claims_a_table_without_end_is_not_believed() -> None:
    """Its chain of tables follows itself: a reader that believes the header would go round for hours."""
    whole = bytearray(_compound("Workbook") + b"\xff" * 508 + struct.pack("<I", 2))
    struct.pack_into("<I", whole, 44, 1 << 30)  # sectors of the table
    struct.pack_into("<II", whole, 68, 2, ((1 << 30) - 109 + 126) // 127)  # the chain begins in sector 2
    begin = process_time()
    assert root_names(bytes(whole)) == frozenset()
    assert process_time() - begin < 1  # seconds


def test_a_tree_of_entries_that_share_their_branches_is_walked_once() -> None:
    whole = bytearray(_compound(*(f"entry {number}" for number in range(40))).ljust(13 * 512, b"\0"))
    struct.pack_into("<11I", whole, 512 + 4, *range(2, 12), _END)  # the directory has 11 sectors
    for at in range(1, 40):
        struct.pack_into("<II", whole, 1024 + 128 * at + 68, at + 1, at + 1)  # both siblings of an entry are the next one
    begin = process_time()
    assert len(root_names(bytes(whole))) in (0, 40)
    assert process_time() - begin < 5  # seconds; it would be 2^40 steps


@given(position=st.integers(0, 1535), data=st.binary(min_size=1, max_size=8))
@settings(max_examples=200)
def test_a_damaged_compound_file_ends_in_no_exception(position: int, data: bytes) -> None:
    whole = _compound("EncryptionInfo", "Workbook")
    damaged = whole[:position] + data + whole[position + len(data) :]
    for each in (damaged, damaged[:position]):
        assert isinstance(root_names(each), frozenset)
        assert isinstance(workbook_head(each), bytes)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", docx(w_paragraph("x"))),
        ("a.xlsx", xlsx({"S": x_row("x")})),
        ("a.odt", odt("<text:p>x</text:p>")),
        ("a.pptx", pptx([shape("x")])),
        ("a.epub", epub({"a.xhtml": "<p>x</p>"})),
    ],
)
def test_the_directory_of_a_package_is_read_once(name: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[zipfile.ZipFile] = []
    of_zipfile = zipfile.ZipFile._RealGetContents  # type: ignore[attr-defined]
    monkeypatch.setattr(zipfile.ZipFile, "_RealGetContents", lambda self: (read.append(self), of_zipfile(self)))
    source = Source(name, name, data)
    assert "x" in load(name, source=source, found=find_format(source)).text
    assert len(read) == 1


def test_a_file_whose_zip_was_opened_goes_to_another_process() -> None:
    source = Source("a.docx", "a.docx", docx(w_paragraph("x")))
    assert find_format(source)[0].kind == "a Word document"
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes.md", "Write a header as\n%PDF-1.7\nand objects up to endobj.\n"),
        ("writer.py", 'HEADER = b"%PDF-1.7"\nEND = b"endobj"\n'),
        ("notes.txt", "The file begins with %PDF-1.4, each object ends with endobj.\n"),
        ("notes", "The file begins with %PDF-1.4, each object ends with endobj.\n"),
        ("backup.log", "From: node 4\nReceived: 17 blocks\nDate: 3 May\nall is well\n"),
        ("backup.log", "From: node 4\nReceived: 17 blocks\n\nall is well\n"),
        ("page.txt", "\n<html>\n<body>is how a page begins.\n"),
        ("page.txt", "<!-- how a page begins -->\n<html>\n"),
    ],
)
def test_text_that_mentions_another_format_is_text(tmp_path: Path, name: str, text: str) -> None:
    document = written(tmp_path, text, name)
    assert document.warnings == ()
    if not name.endswith(".md"):
        assert document.text == text


@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("a.txt", b"<!DOCTYPE html><p>text", "text/html"),
        ("a.txt", b"\xef\xbb\xbf<html><p>text", "text/html"),
        ("a", b"\n\n<!-- x --><html><p>text", "text/html"),
        ("a.txt", b"Date: Mon, 4 May 2026\nFrom: a@b\nMessage-ID: <1>\n\ntext", "message/rfc822"),
        ("a", b"Received: by x\n\tfor y\nFrom: a@b\nDate: today\n\ntext", "message/rfc822"),
    ],
)
def test_what_is_of_a_format_is_read_as_it_whatever_its_suffix(tmp_path: Path, name: str, data: bytes, media_type: str) -> None:
    assert written(tmp_path, data, name).media_type == media_type
