"""`PageReader`: opens a PDF and reads its pages as lines with their heights, in reading order, in a child process."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from itertools import groupby, islice
from math import nan
from time import process_time
from typing import TYPE_CHECKING

from fbrag_cli.documents.decoding.encoding import without_surrogates
from fbrag_cli.documents.pdf.annotations import Annotations, file_name, read_annotations
from fbrag_cli.documents.pdf.ink import ENOUGH_LETTERS, are_at_edge, has_ink, is_covered
from fbrag_cli.documents.pdf.page_ranges import PageRange, numbers_within
from fbrag_cli.documents.pdf.page_text import PageLines
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from pypdf import PdfReader
    from pypdfium2 import PdfDocument, PdfPage

    from fbrag_cli.documents.ocr.page import OcrPage

_LONGEST_REASON = 120  # characters
_LONGEST_LABEL = 20
_MAX_EMBEDDED = 1_000
_MAX_UNPLACED = 100_000  # characters of a page that have no places
_ONE_BY_ONE = re.compile(r"(?<=^\S)\n(?=\S$)", re.MULTILINE)  # line ends between the signs of vertical writing
_BLEED = 12.0  # points
_FEWEST = 0.25  # share of a page's letters that lie on the page, if its box can be trusted


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page. lines: of its text; empty if it has none. below: lines of its form, which follow its text. is_scan: whether it
    shows more than its text, or (`all_scans`) its text may be that of a scanner. is_stamped: whether its text is at the edge of a
    picture that covers it. ocr: what OCR has read, instead of its text.

    failure: why it could not be read, as "PdfiumError: …"; otherwise "". cut: whether a limit is why. seconds: CPU time that it
    took. label: its printed number; "" if it is the same. comments, files: as in `Annotations`.
    """

    number: int
    lines: PageLines = PageLines()
    below: tuple[str, ...] = ()
    is_scan: bool = False
    is_stamped: bool = False
    ocr: OcrPage | None = None
    failure: str = ""
    cut: bool = False
    seconds: float = 0.0
    label: str = ""
    comments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """A PDF with at least one page.

    files: names of the files inside it that are no part of its pages. portfolio: whether they are its content, and its pages only
    a cover. encrypted: whether one of them is the document, encrypted, around which its pages are wrapped.
    """

    n_pages: int
    files: tuple[str, ...] = ()
    portfolio: bool = False
    encrypted: bool = False


class PageReader:
    """A PDF, which a child process opens for its first job. `reader(0)` opens it, `reader(i)` reads the i-th of the chosen pages.

    PDFium reads the text; pypdf, which takes longer to load, reads forms, comments and embedded files if there are any.
    """

    def __init__(
        self,
        source: Source,
        ranges: tuple[PageRange, ...] | None,
        password: str | None,
        *,
        markup: bool = False,
        all_scans: bool = False,
    ) -> None:
        """ranges: the chosen pages; None for all. markup: whether hidden text is read. all_scans: whether pages that a picture
        covers are scans even if they have text."""
        self._source, self._ranges, self._password = source, ranges, password
        self._markup, self._all_scans = markup, all_scans
        self._clock = 0.0  # CPU time of this process after the job before: a child that replaces another also takes time to start

    def __call__(self, job: int) -> Opened | ReadPage | None:
        """Return the document, or a page; None for a page after the last. Raises FbragError, as `read_pdf` does."""
        if job > len(self._numbers):
            return None
        reply = self._read(self._numbers[job - 1]) if job else self._opened()
        before, self._clock = self._clock, process_time()
        return replace(reply, seconds=self._clock - before) if isinstance(reply, ReadPage) else reply

    @property
    def document(self) -> PdfDocument:
        """The document, opened by its first use. Raises FbragError, as a call does."""
        return self._pdf

    @cached_property
    def _pdf(self) -> PdfDocument:
        # A PDF with an owner password only opens with the empty user password, as in every viewer.
        if (document := self._open("")) is not None:
            return document
        path, name = self._source.path, self._source.name
        if self._password is None:
            hint = f'fbrag ask --password-file pw.txt {self._source.shell_path} "…"'
            raise FbragError("pdf_encrypted", f"{name} is encrypted and needs a password", hint, document=path)
        if (document := self._open(self._password)) is not None:
            return document
        hint = "check what --password-file names: the password is its content, without a line end"
        raise FbragError("pdf_bad_password", f"the password does not open {name}", hint, document=path)

    def _open(self, password: str) -> PdfDocument | None:
        """Return the document; None if it needs another password. Raises FbragError for a damaged one, and one without pages."""
        from pypdfium2 import PdfDocument, PdfiumError, raw

        try:
            return PdfDocument(self._source.data, password=password)
        except PdfiumError as error:
            if error.err_code == raw.FPDF_ERR_PASSWORD:
                return None
            raise damaged(self._source, reason(error)) from None

    @cached_property
    def _numbers(self) -> list[int]:
        return numbers_within(self._ranges, len(self._pdf), self._source)

    @cached_property
    def _pypdf(self) -> PdfReader:
        from pypdf import PdfReader

        logging.getLogger("pypdf").setLevel(logging.CRITICAL + 1)
        warnings.simplefilter("ignore")
        reader = PdfReader(BytesIO(self._source.data))
        if reader.is_encrypted and not reader.decrypt(""):
            reader.decrypt(self._password or "")
        return reader

    def _opened(self) -> Opened:
        from pypdfium2 import raw

        n_pages = len(self._pdf)
        if not raw.FPDFDoc_GetAttachmentCount(self._pdf):
            return Opened(n_pages)
        names: list[str] = []
        encrypted = portfolio = False
        with suppress(Exception):  # pypdf raises all kinds of exceptions on damaged objects
            for file in islice(self._pypdf.attachment_list, _MAX_EMBEDDED):
                names.append(file_name(file.pdf_object))
                encrypted = encrypted or file.pdf_object.get("/AFRelationship") == "/EncryptedPayload"
            portfolio = "/Collection" in self._pypdf.root_object
        return Opened(n_pages, tuple(names), portfolio, encrypted)

    def _read(self, number: int) -> ReadPage:
        try:
            with closing(self._pdf[number - 1]) as page:
                lines, is_scan, is_stamped = _lines(page, markup=self._markup)
                annotated, is_scan = _is_annotated(page), is_scan or (self._all_scans and is_covered(page))
                if not lines.cut and not any(map(str.isalnum, "".join(lines.lines))):
                    lines = self._unplaced(page, number) or lines
        except MemoryError as error:
            return ReadPage(number, failure=str(error) or "it needs too much memory", cut=True)
        except Exception as error:
            return ReadPage(number, failure=reason(error))
        noted = Annotations()
        if annotated:
            with suppress(Exception):
                noted = read_annotations(self._pypdf.pages[number - 1], number)
        label = self._label(number)
        return ReadPage(number, lines, noted.lines, is_scan, is_stamped, label=label, comments=noted.comments, files=noted.files)

    def _unplaced(self, page: PdfPage, number: int) -> PageLines | None:
        """Return the lines of a page that PDFium has no letters of: their font is not embedded. Their places are unknown."""
        from fbrag_cli.documents.pdf.hidden_text import HiddenText

        if not self._markup and not HiddenText(page).is_plain:
            return None
        extracted = ""
        with suppress(Exception):
            extracted = self._pypdf.pages[number - 1].extract_text()
        text = _ONE_BY_ONE.sub("", without_surrogates(extracted[:_MAX_UNPLACED]))
        lines = tuple(line.strip() for line in text.splitlines() if line.strip())
        return PageLines(lines, (nan,) * len(lines), page.get_height()) if lines else None

    def _label(self, number: int) -> str:
        """Return the printed number of a page; "" if it is the same."""
        label = one_line(self._pdf.get_page_label(number - 1), _LONGEST_LABEL).strip()
        return "" if label == str(number) else label


def _lines(page: PdfPage, *, markup: bool) -> tuple[PageLines, bool, bool]:
    """Return the lines of a page, without blank ones, and `is_scan` and `is_stamped`, as of `ReadPage`. markup: whether hidden
    text is read.

    Raises MemoryError for too much text, and PdfiumError for a damaged page.
    """
    # Loads PDFium, which only the child does.
    from fbrag_cli.documents.pdf.hidden_text import HiddenText
    from fbrag_cli.documents.pdf.letters import Letters, letter_ends

    is_scan = is_stamped = False
    left, lower, right, upper = map(float, page.get_bbox())
    with closing(page.get_textpage()) as textpage:
        letters = Letters(textpage)
        whole = letters.text

        def on_page(position: int) -> bool:
            x, y = letters.origin(position)
            return bool(left - _BLEED < x < right + _BLEED and lower - _BLEED < y < upper + _BLEED)

        text = whole if all(on_page(end) for begin_end in letter_ends(whole) for end in begin_end) else _inside(whole, on_page)
        hidden = set() if markup else HiddenText(page).among(letters, text)
        shown, n_hidden = text, 0
        if hidden:
            shown = _without(text, hidden.__contains__)
            is_out = (at in hidden for at, letter in enumerate(text) if not letter.isspace())
            n_hidden = sum(key for key, _ in groupby(is_out))
        lines = letters.lines(shown, lower)
        if sum(map(str.isalnum, shown)) < ENOUGH_LETTERS:
            boxes = [letters.box(at) for at, letter in enumerate(shown) if not letter.isspace()]
            is_scan = has_ink(page, boxes)
            is_stamped = is_scan and are_at_edge(page, boxes) and is_covered(page)
    return replace(lines, height=upper - lower, cut=text != whole, n_hidden=n_hidden), is_scan, is_stamped


def _inside(text: str, on_page: Callable[[int], bool]) -> str:
    """Return the text with spaces for letters outside of the page: one that was cut from a spread may hold the text of both.

    If hardly any letter lies on the page, its box is not trusted, and the text stays as it is.
    """
    inside = _without(text, lambda position: not on_page(position))
    n_letters = len("".join(text.split()))
    return text if len("".join(inside.split())) < _FEWEST * n_letters else inside


def _without(text: str, is_out: Callable[[int], bool]) -> str:
    """Return the text with spaces for some of its letters."""
    return "".join(" " if not letter.isspace() and is_out(position) else letter for position, letter in enumerate(text))


def _is_annotated(page: PdfPage) -> bool:
    """Return whether anything but links lies on a page."""
    from pypdfium2 import raw

    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
        if kind != raw.FPDF_ANNOT_LINK:
            return True
    return False


def reason(error: BaseException) -> str:
    """Return the name and message of an exception in one line."""
    return one_line(f"{type(error).__name__}: {error}".rstrip(": "), _LONGEST_REASON)


def damaged(source: Source, why: str) -> FbragError:
    """Return the error of a PDF that cannot be read. why: a clause."""
    message = f"{source.name} is damaged or not a PDF ({why})"
    hint = f"get a new copy, or try: qpdf {source.shell_path} repaired.pdf"
    return FbragError("doc_unreadable", message, hint, document=source.path)
