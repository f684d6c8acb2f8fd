"""`PageReader`: opens a PDF and reads its pages as lines with their heights, in reading order, in a child process."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from ctypes import byref, c_double
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from itertools import islice
from math import cos, nan
from typing import TYPE_CHECKING

from fbrag_cli.documents.decoding.encoding import without_surrogates
from fbrag_cli.documents.pdf.annotations import Annotations, file_name, read_annotations
from fbrag_cli.documents.pdf.page_ranges import PageRange, numbers_within
from fbrag_cli.documents.pdf.page_text import SOFT_HYPHEN, PageLines
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from pypdf import PdfReader
    from pypdfium2 import PdfDocument, PdfPage

_LONGEST_REASON = 120  # characters
_MAX_EMBEDDED = 1_000
_UPRIGHT = 0.9995  # cosine of the angle of a letter
_BLEED = 12.0  # points
_FEWEST = 0.25  # share of a page's letters that lie on the page, if its box can be trusted
_MAX_CHARACTERS = 5_000_000

_MARK = "\ufffe"  # PDFium writes it for the hyphen of a word that is broken at a line's end, and for a glyph without a letter
_LINE = re.compile(rf"[^\r\n{_MARK}]*[^\s{_MARK}]{_MARK}?")


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page. lines: of its text, or else of its form; empty if it has neither. below: lines of its form that follow its text.

    failure: why it could not be read, as "PdfiumError: …"; otherwise "". comments, files: as in `Annotations`.
    """

    number: int
    lines: PageLines = PageLines()
    below: tuple[str, ...] = ()
    failure: str = ""
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

    PDFium reads the text; pypdf, which takes longer to load, reads forms, comments and embedded files where there are any.
    """

    def __init__(self, source: Source, ranges: tuple[PageRange, ...] | None, password: str | None) -> None:
        """ranges: the chosen pages; None for all."""
        self._source, self._ranges, self._password = source, ranges, password

    def __call__(self, job: int) -> Opened | ReadPage | None:
        """Return the document, or a page; None for a page after the last. Raises FbragError, as `read_pdf` does."""
        if job == 0:
            return self._opened()
        return self._read(self._numbers[job - 1]) if job <= len(self._numbers) else None

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
                lines, annotated = _lines(page), _is_annotated(page)
        except Exception as error:
            return ReadPage(number, failure=reason(error))
        found = Annotations()
        if annotated:
            with suppress(Exception):
                found = read_annotations(self._pypdf.pages[number - 1], number)
        below = found.lines
        if not lines.lines:
            lines, below = PageLines(below, (nan,) * len(below)), ()
        return ReadPage(number, lines, below, comments=found.comments, files=found.files)


class PageTooLargeError(Exception):
    """A page has too much text."""


def _lines(page: PdfPage) -> PageLines:
    """Return the lines of a page, without blank ones. Raises PageTooLargeError, and PdfiumError for a damaged page."""
    from pypdfium2 import raw

    left, lower, right, upper = map(float, page.get_bbox())
    with closing(page.get_textpage()) as letters:
        if letters.count_chars() > _MAX_CHARACTERS:
            raise PageTooLargeError(f"it has more than {_MAX_CHARACTERS:,} characters")

        def index(position: int) -> int:
            return int(raw.FPDFText_GetCharIndexFromTextIndex(letters, position))

        def place(position: int) -> tuple[float, float]:
            x, y = c_double(nan), c_double(nan)
            raw.FPDFText_GetCharOrigin(letters, index(position), byref(x), byref(y))
            return x.value, y.value

        def on_page(position: int) -> bool:
            x, y = place(position)
            return bool(left - _BLEED < x < right + _BLEED and lower - _BLEED < y < upper + _BLEED)

        def height(position: int) -> float:
            upright = cos(raw.FPDFText_GetCharAngle(letters, index(position))) > _UPRIGHT
            return place(position)[1] - lower if upright else nan

        def mark(found: re.Match[str]) -> str:
            return _MARK if raw.FPDFText_IsHyphen(letters, index(found.start())) == 1 else "\ufffd"

        # PDFium counts positions in units of UTF-16.
        units = letters.get_text_range(errors="surrogatepass").encode("utf-16-le", "surrogatepass")
        whole = re.sub(_MARK, mark, "".join(map(chr, memoryview(units).cast("H"))))
        text = whole if all(on_page(end) for begin_end in _ends(whole) for end in begin_end) else _inside(whole, on_page)
        heights = tuple(height(begin) for begin, _ in _ends(text))
    lines = (without_surrogates(line[0].strip().replace(_MARK, "-")) for line in _LINE.finditer(text))
    # `rejoin_words` uses a soft hyphen at the end of a line.
    clean = tuple(line[:-1].replace(SOFT_HYPHEN, "") + line[-1:] for line in lines)
    return PageLines(clean, heights, upper - lower, cut=text != whole)


def _ends(text: str) -> list[tuple[int, int]]:
    """Return the positions of the first and the last letter of each line."""
    return [(line.end() - len(line[0].lstrip()), line.end() - 1) for line in _LINE.finditer(text)]


def _inside(text: str, on_page: Callable[[int], bool]) -> str:
    """Return the text with spaces for letters outside of the page: one that was cut from a spread may hold the text of both.

    If hardly any letter lies on the page, its box is not trusted, and the text stays as it is.
    """
    places = [position for position, letter in enumerate(text) if not letter.isspace()]
    outside = {position for position in places if not on_page(position)}
    if len(places) - len(outside) < _FEWEST * len(places):
        return text
    return "".join(" " if position in outside else letter for position, letter in enumerate(text))


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
    what = f"{source.name} is damaged or not a PDF ({why})"
    hint = f"get a new copy, or try: qpdf {source.shell_path} repaired.pdf"
    return FbragError("doc_unreadable", what, hint, document=source.path)
