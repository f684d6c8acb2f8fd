"""Scans and pictures, read by OCR. The pages are drawn by PDFium here; what is read of them is compared with what they say."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fbrag_cli.documents.document import Document
from fbrag_cli.documents.ocr import scans as scans_module
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.collect import collect, collect_bytes, collect_one
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.indexing.walk import find_files
from fbrag_cli.progress import Event, Listener
from fbrag_cli.query import Collection
from fbrag_cli.storage.cache import NOWHERE, Cache
from tests.conftest import needs
from tests.documents.scans import Sheet, font_of_pictures, lines, outlines, pdf_of_sheets, picture_of, scan_of
from tests.documents.test_pdf import encrypted, page_texts, stream

needs("rapidocr")
needs("onnxruntime")
Image = needs("PIL.Image")

TYPED = (
    "The parish council met in the school on Monday evening.",
    "It heard the report of the treasurer on the church clock.",
    "The clock has stood still since the storm of November.",
)
SCANNED = ("The sexton wound the church clock on Friday.", "He was paid nine shillings for the work.")
STAMP = "Received 7 April, number 4411"
LEFT = (
    *("The old bell was cast at Aldbourne", "in the reign of Queen Anne, and it", "weighs nine hundredweight. It hung"),
    *("in the tower until the winter frost", "cracked it from the lip to the crown,", "and nobody has rung it since then."),
)
RIGHT = (
    *("The new bell came from the foundry", "at Loughborough by the railway, and", "was hung on Easter Monday. The cost"),
    *("was shared by the farmers of the hill", "and the fishermen of the harbor, who", "gave a day of their catch each month."),
)
ROWS = (
    ("Year", "Wheat", "Barley", "Oats"),
    ("1871", "310", "205", "118"),
    ("1872", "296", "230", "97"),
    ("1873", "341", "188", "126"),
)
OUTLINED = "The anchor was forged at Ironhythe."
UNNAMED = "The lamp was bought in Bristol."
BEHIND = "The verger keeps the keys of the tower."
WRONG = ("Tbe verqer keeps tbe keys of tbe tovver in a box at borne,", "wbere nobody but bis wife bas ever seen tbern.")


def table() -> bytes:
    return b"\n".join(lines(*column, x=72 + 130 * at) for at, column in enumerate(zip(*ROWS, strict=True)))


def garbling() -> bytes:
    """The object of a font that draws letters, and says that they are others."""
    pairs = "\n".join(f"<{ord(letter):02X}> <{'0436' if ord(letter) % 2 else '3042'}>" for letter in map(chr, range(33, 127)))
    cmap = f"1 begincodespacerange <00> <FF> endcodespacerange 94 beginbfchar\n{pairs}\nendbfchar"
    return stream(cmap.encode())


def mixed() -> bytes:
    font, codes = font_of_pictures(UNNAMED)
    n = 4 + len(font)
    hidden = b"3 Tr\n" + lines(*WRONG)
    sheets = (
        Sheet(lines(*TYPED)),
        scan_of(lines(*SCANNED)),
        Sheet(lines(STAMP, y=20, size=9), picture_of(lines(*SCANNED))),
        Sheet(),
        scan_of(lines(*SCANNED), 1),
        scan_of(lines(*SCANNED), 3),
        scan_of(lines(*SCANNED), 2),
        scan_of(lines(*LEFT, size=12, leading=15) + b"\n" + lines(*RIGHT, x=330, size=12, leading=15)),
        scan_of(table()),
        Sheet(outlines(OUTLINED, 72, 700)),
        Sheet(b"BT /T3 14 Tf 72 700 Td <%b> Tj ET" % codes, fonts=b"/T3 4 0 R"),
        Sheet(lines(*TYPED, *SCANNED, font="G"), fonts=b"/G %d 0 R" % (n + 1)),
        Sheet(hidden, picture_of(lines(BEHIND))),
    )
    garbled = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode %d 0 R>>" % n
    return pdf_of_sheets(*sheets, more=[*font, garbling(), garbled])


class Counts:
    """Counts the pages that OCR reads."""

    def __init__(self) -> None:
        self.totals: list[int] = []

    def __call__(self, event: Event) -> None:
        if (event.stage, event.kind) == ("ocr", "start"):
            self.totals.append(int(event.total))


class Read(NamedTuple):
    path: Path
    cache: Cache
    n_pages: int
    document: Document

    def again(self, **settings: Any) -> tuple[Document, int]:
        """Read the file with other settings. Return it, and how many pages were read by OCR that were not in the cache."""
        heard = Counts()
        found = collect_one(str(self.path), ReadSettings(**settings), self.cache, None, Listener(progress=heard))
        return found.corpus.documents[0], sum(heard.totals)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """A PDF with pages of all kinds, read once."""
    folder, heard = tmp_path_factory.mktemp("mixed"), Counts()
    (folder / "mixed.pdf").write_bytes(mixed())
    cache = Cache(folder / "cache")
    found = collect_one(str(folder / "mixed.pdf"), ReadSettings(), cache, None, Listener(progress=heard))
    return Read(folder / "mixed.pdf", cache, sum(heard.totals), found.corpus.documents[0])


# Which pages


def test_pages_that_show_more_than_their_text_are_read_and_no_others(read: Read) -> None:
    assert read.document.ocr_pages == (2, 3, 5, 6, 7, 8, 9, 10, 11, 12)
    assert read.n_pages == 10
    assert read.document.skipped_pages == (4,)
    (warning,) = read.document.warnings
    assert warning == f"{read.path}: 10 pages were read by OCR (2-3,5-12)"


def test_text_is_kept_and_a_scan_is_read(read: Read) -> None:
    pages = page_texts(read.document)
    assert pages[1] == "\n".join(TYPED)
    assert pages[2] == "\n".join(SCANNED)


def test_a_stamp_at_the_edge_of_a_scan_is_not_taken_for_its_text(read: Read) -> None:
    said = page_texts(read.document)[3]
    assert said.startswith("\n".join(SCANNED))
    assert STAMP in said


@pytest.mark.parametrize("page", [5, 6, 7], ids=["on its left side", "on its right side", "upside down"])
def test_a_page_is_turned(read: Read, page: int) -> None:
    assert page_texts(read.document)[page] == "\n".join(SCANNED)


def test_columns_are_read_one_after_the_other(read: Read) -> None:
    assert page_texts(read.document)[8] == "\n".join((*LEFT, *RIGHT))


def test_a_table_has_tabs_between_its_cells(read: Read) -> None:
    assert page_texts(read.document)[9] == "\n".join("\t".join(row) for row in ROWS)


def test_letters_without_a_text_are_read(read: Read) -> None:
    pages = page_texts(read.document)
    assert (pages[10], pages[11]) == (OUTLINED, UNNAMED)


def test_a_garbled_page_is_replaced(read: Read) -> None:
    assert page_texts(read.document)[12] == "\n".join((*TYPED, *SCANNED))


def test_the_text_that_a_scanner_has_added_is_read_again_if_it_is_wished(read: Read) -> None:
    assert page_texts(read.document)[13] == "\n".join(WRONG)
    document, n_read = read.again(ocr="all")
    assert page_texts(document)[13] == BEHIND
    assert n_read == 1
    assert document.ocr_pages == (*read.document.ocr_pages, 13)
    assert {number: text for number, text in page_texts(document).items() if number < 13} == {
        number: text for number, text in page_texts(read.document).items() if number < 13
    }


def test_no_page_is_read_if_it_is_not_wished(read: Read) -> None:
    document, n_read = read.again(ocr="off")
    assert (n_read, document.ocr_pages) == (0, ())
    scanned, garbled = document.warnings
    assert scanned.endswith("pages 2-3,5-10 are scanned and not read; to read by OCR: --ocr auto")
    assert garbled.endswith("much of pages 11-12 is garbled (a font has no table of letters); to read by OCR: --ocr auto")


def test_chosen_pages_come_from_the_cache_and_blank_ones_stay_blank(read: Read) -> None:
    document, n_read = read.again(pages="2-4")
    assert (n_read, document.ocr_pages, document.skipped_pages) == (0, (2, 3), (4,))
    assert page_texts(document)[2] == page_texts(read.document)[2]


def test_the_same_file_gives_the_same_text_without_a_cache(read: Read) -> None:
    settings = ReadSettings(pages="5,8")
    found = collect_bytes("mixed.pdf", read.path.read_bytes(), settings, Listener())
    pages = page_texts(read.document)
    assert page_texts(found.corpus.documents[0]) == {number: pages[number] for number in (5, 8)}


def test_letters_that_the_engine_does_not_know_are_not_guessed(read: Read) -> None:
    document, n_read = read.again(language="ru")
    assert n_read == 0
    assert document.warnings[0].endswith("are scanned and not read; OCR does not read Cyrillic letters")
    with pytest.raises(FbragError, match="no text on page 2 of 13") as caught:
        read.again(language="ru", pages="2")
    assert (caught.value.code, caught.value.hint) == ("pdf_no_text", "OCR does not read Cyrillic letters")


# Limits, stops, the network


def test_what_a_limit_cuts_is_said_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "a.pdf", Cache(tmp_path / "cache")
    scan = scan_of(lines(*SCANNED))
    path.write_bytes(pdf_of_sheets(Sheet(lines(*TYPED)), scan, Sheet(lines(STAMP, y=20, size=9), scan.picture)))
    monkeypatch.setattr(scans_module, "_PAGE_SECONDS", 0.05)  # less than it takes to load the engine
    (cut,) = collect_one(str(path), ReadSettings(), cache, None, Listener()).corpus.documents
    assert (list(page_texts(cut)), page_texts(cut)[3], cut.cut) == ([1, 3], STAMP, True)
    why = "it took more than 0.05 s of CPU time"
    assert cut.warnings == (f"{path}: page 2 was not read: {why}", f"{path}: page 3 was read without OCR: {why}")
    assert cache.size() == {}
    monkeypatch.undo()
    (whole,) = collect_one(str(path), ReadSettings(), cache, None, Listener()).corpus.documents
    assert (page_texts(whole)[2], page_texts(whole)[3]) == ("\n".join(SCANNED), "\n".join((*SCANNED, STAMP)))


def test_what_was_read_before_a_stop_is_not_read_again(tmp_path: Path) -> None:
    path, cache, heard = tmp_path / "a.pdf", Cache(tmp_path / "cache"), Counts()
    path.write_bytes(pdf_of_sheets(*(scan_of(lines(f"This is sheet number {number}.")) for number in (1, 2, 3))))

    def stop(event: Event) -> None:
        if (event.stage, event.kind, event.done) == ("ocr", "progress", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_one(str(path), ReadSettings(), cache, None, Listener(progress=stop))
    assert {kind: n for kind, (n, _) in cache.size().items()} == {"scans": 1}
    (document,) = collect_one(str(path), ReadSettings(), cache, None, Listener(progress=heard)).corpus.documents
    assert heard.totals == [2]
    assert document.text.split("\n") == [f"This is sheet number {number}." for number in (1, 2, 3)]


def test_the_engine_opens_no_socket_and_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    """ONNX Runtime would report its use, from a thread of its own."""
    Image.fromarray(picture_of(lines(*SCANNED))).save(tmp_path / "a.png")
    program = f"""
import socket
def refused(*arguments, **options): raise AssertionError("a socket")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
import numpy as np
from PIL import Image
from psutil import Process
from fbrag_cli.documents.ocr.engine import read_lines
print(*(line.text for line in read_lines(np.asarray(Image.open({str(tmp_path / "a.png")!r}).convert("RGB")))[0]), sep="\\n")
print(Process().net_connections())
"""
    home = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    command, environment = [sys.executable, "-c", program], {**os.environ, **home}
    run = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)
    assert (run.stdout.splitlines(), run.stderr) == ([*SCANNED, "[]"], "")
    assert not (tmp_path / "home").exists()


def test_a_password_opens_a_scan(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(encrypted(pdf_of_sheets(scan_of(lines(*SCANNED))), "geheim", "owner", "AES-256"))
    found = collect_one(str(path), ReadSettings(password="geheim"), NOWHERE, None, Listener())
    assert found.corpus.documents[0].text == "\n".join(SCANNED)
    with pytest.raises(FbragError) as caught:
        collect_one(str(path), ReadSettings(password="falsch"), NOWHERE, None, Listener())
    assert caught.value.code == "pdf_bad_password"


# Pictures


def saved(picture: Any, kind: str, **options: Any) -> bytes:
    made = io.BytesIO()
    picture.save(made, kind, **options)
    return made.getvalue()


def note(text: str) -> Any:
    """A picture of one line."""
    return Image.fromarray(picture_of(lines(text))[100:260])


def turned(text: str) -> bytes:
    """A photograph that lies on its side, with the note of its camera."""
    picture = note(text).rotate(90, expand=True)
    about = Image.Exif()
    about[0x0112] = 6  # to be turned clockwise
    return saved(picture, "JPEG", exif=about, quality=90)


def transparent(text: str) -> bytes:
    """Black letters on nothing, whose color is black too."""
    letters = 255 - np.asarray(note(text))
    return saved(Image.fromarray(np.dstack([np.zeros_like(letters)] * 3 + [letters])), "PNG")


PICTURES: dict[str, Callable[[str], bytes]] = {
    "a.png": lambda text: saved(note(text), "PNG"),
    "b.jpg": turned,
    "c.tiff": lambda text: saved(note(text), "TIFF", save_all=True, append_images=[note(f"Again: {text}")]),
    "d.webp": lambda text: saved(note(text), "WEBP", lossless=True),
    "e.bmp": lambda text: saved(note(text), "BMP"),
    "f.png": transparent,
    "g.png": lambda text: saved(Image.fromarray(np.asarray(note(text)).astype(np.uint16) * 257), "PNG"),
}


def says(name: str) -> str:
    return f"The picture {name[0].upper()} shows the harbor of Dunlathe."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for name, make in PICTURES.items():
        (folder / name).write_bytes(make(says(name)))
    (folder / "blank.png").write_bytes(saved(Image.new("L", (400, 300), 255), "PNG"))
    (folder / "cut.png").write_bytes(saved(note("Cut"), "PNG")[:300])
    (folder / "text.txt").write_text("A bell of nine tons.")
    return folder


@pytest.fixture(scope="module")
def pictures(folder: Path) -> tuple[Collection, Counts]:
    """The folder, read with its pictures."""
    heard = Counts()
    found = collect(
        find_files([str(folder)], pictures=True).files, ReadSettings(ocr="all"), NOWHERE, listener=Listener(progress=heard)
    )
    return found, heard


def test_pictures_of_a_folder_are_read_in_one_pool(pictures: tuple[Collection, Counts], folder: Path) -> None:
    found, heard = pictures
    texts = {Path(each.path).name: each.text for each in found.corpus.documents}
    both = f"{says('c')}\nAgain: {says('c')}"
    assert texts == {name: says(name) for name in PICTURES} | {"c.tiff": both, "text.txt": "A bell of nine tons."}
    assert heard.totals == [len(PICTURES) + 1 + 2]  # a TIFF of two frames; a blank picture, and one that is cut


def test_the_frames_of_a_tiff_are_pages(pictures: tuple[Collection, Counts]) -> None:
    document = next(each for each in pictures[0].corpus.documents if each.path.endswith(".tiff"))
    assert (document.media_type, document.ocr_pages) == ("image/tiff", (1, 2))
    assert page_texts(document)[2] == f"Again: {says('c')}"


def test_a_picture_without_text_and_one_that_is_cut_are_left_out(pictures: tuple[Collection, Counts], folder: Path) -> None:
    blank, cut = pictures[0].warnings
    assert blank == f"left out: {folder}/blank.png has no text"
    assert cut.startswith(f"left out: {folder}/cut.png was not read: ")


def test_pictures_of_a_folder_are_counted_unless_they_are_named(folder: Path) -> None:
    found = find_files([str(folder)])
    assert [Path(each.path).name for each in found.files] == ["text.txt"]
    (warning,) = found.warnings
    assert warning == "9 files were not read: 5 .png, 1 .bmp, 1 .jpg, 1 .tiff, 1 .webp (--include '*' reads every type)"
    assert len(find_files([str(folder)], include=["*.png"]).files) == 5


def test_a_file_that_claims_to_be_huge_is_refused(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    with pytest.raises(FbragError, match="60,000 x 60,000 pixels, more than 100 million") as caught:
        collect_bytes("huge.png", data, ReadSettings(), Listener())
    assert caught.value.code == "doc_unreadable"


def test_a_text_that_is_called_a_picture_is_read_as_text() -> None:
    (document,) = collect_bytes("a.png", b"A bell of nine tons.", ReadSettings(), Listener()).corpus.documents
    assert (document.text, document.warnings) == ("A bell of nine tons.", ("a.png is not a PNG picture: read as plain text",))
