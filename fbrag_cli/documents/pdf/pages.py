"""`PageReader`: reads pages of a PDF as lines, in this process or, pickled, in a child process, which opens the file again."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from itertools import islice
from math import nan
from time import thread_time
from typing import TYPE_CHECKING, Any

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.pdf.annotations import Annotations, file_name, read_annotations
from fbrag_cli.documents.pdf.fonts import FontCache
from fbrag_cli.documents.pdf.page_lines import PageTooLargeError, page_lines
from fbrag_cli.documents.pdf.page_text import PageLines
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from pypdf import PdfReader

_LONGEST_REASON = 120  # characters
_MAX_EMBEDDED = 1_000


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page. lines: empty if it has no text. failure: why it could not be read, as "LimitReachedError: …"; otherwise "".

    seconds: processor time that it took. annotations: what lies on it beside its text.
    """

    number: int
    lines: PageLines = PageLines()
    failure: str = ""
    seconds: float = 0.0
    annotations: Annotations = Annotations()

    @property
    def body(self) -> PageLines:
        """Return the lines of its text, or else those of its form."""
        own = self.annotations.lines
        return self.lines if self.lines.lines else PageLines(own, (nan,) * len(own))

    @property
    def below(self) -> tuple[str, ...]:
        """Return the lines of its form that follow its text."""
        return self.annotations.lines if self.lines.lines else ()


@dataclass(frozen=True, slots=True)
class EmbeddedFiles:
    """The files inside a PDF. portfolio: whether they are its content, and its pages only a cover. encrypted: whether one of them
    is the document, encrypted, around which its pages are wrapped."""

    names: tuple[str, ...] = ()
    portfolio: bool = False
    encrypted: bool = False


class ChangedFileError(Exception):
    """Raised when the file is no longer the one that was opened first."""


class PageReader:
    """A PDF; `reader(numbers)` reads the pages with these numbers (from 1). Of a file, only path and digest are pickled."""

    def __init__(self, data: bytes, path: str | None, password: str | None, cancellation: Cancellation | None = None) -> None:
        """data: bytes of the PDF. path: path of its file; None for stdin. cancellation: makes the page that is being read here a
        failure."""
        self._data, self._path, self._password = data, path, password
        self._cancellation = cancellation or Cancellation()
        self._digest = ""
        self._pdf: PdfReader | None = None
        self._fonts: FontCache | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._digest = self._digest or sha256(self._data).hexdigest()
        return {
            **self.__dict__,
            "_pdf": None,
            "_fonts": None,
            "_cancellation": Cancellation(),
            "_data": self._data if self._path is None else b"",
        }

    def open(self) -> bool:
        """Open the PDF. Return False if it needs another password. Raises all that pypdf raises for a damaged file."""
        from pypdf import PasswordType, PdfReader

        if not self._data and self._path is not None and self._digest:
            with open(self._path, "rb") as file:
                data = file.read()
            if sha256(data).hexdigest() != self._digest:
                raise ChangedFileError(self._path)
            self._data = data
        pdf = PdfReader(BytesIO(self._data))
        # A PDF with an owner password only opens with the empty user password, as in every viewer.
        for password in ("", self._password):
            if not pdf.is_encrypted or (password is not None and pdf.decrypt(password) != PasswordType.NOT_DECRYPTED):
                self._pdf, self._fonts = pdf, FontCache()
                return True
        return False

    def __len__(self) -> int:
        """Return the number of pages. Raises all that pypdf raises for a damaged file."""
        assert self._pdf
        return len(self._pdf.pages)

    def embedded(self) -> EmbeddedFiles:
        """Return the files inside the PDF that are no part of its pages. What is damaged is left out."""
        assert self._pdf
        names: list[str] = []
        encrypted = False
        try:
            for file in islice(self._pdf.attachment_list, _MAX_EMBEDDED):
                names.append(file_name(file.pdf_object))
                encrypted = encrypted or file.pdf_object.get("/AFRelationship") == "/EncryptedPayload"
            portfolio = "/Collection" in self._pdf.root_object
        except Exception:  # pypdf raises all kinds of exceptions on damaged objects
            portfolio = False
        return EmbeddedFiles(tuple(names), portfolio=portfolio, encrypted=encrypted)

    def __call__(self, numbers: Sequence[int]) -> list[ReadPage]:
        """Return these pages in order; an empty list if the file has changed. Raises MemoryError, DependencyError."""
        with pypdf_silenced():
            try:
                if self._pdf is None and not self.open():
                    return []
            except (ChangedFileError, OSError):
                return []
            assert self._fonts
            with self._fonts.used():
                return [self._read(number) for number in numbers]

    def _read(self, number: int) -> ReadPage:
        from pypdf.errors import DependencyError

        assert self._pdf
        began = thread_time()
        try:
            page = self._pdf.pages[number - 1]
            lines = page_lines(page, self._cancellation)
            annotations = read_annotations(page, number, self._cancellation)
            return ReadPage(number, lines, seconds=thread_time() - began, annotations=annotations)
        except (DependencyError, MemoryError):  # the next page would fail in the same way
            raise
        except (Exception, PageTooLargeError) as error:
            return ReadPage(number, failure=reason(error), seconds=thread_time() - began)


def reason(error: BaseException) -> str:
    """Return the name and message of an exception in one line."""
    while isinstance(error.__cause__, Exception):  # pypdf wraps a RecursionError
        error = error.__cause__
    return one_line(f"{type(error).__name__}: {error}".rstrip(": "), _LONGEST_REASON)


@contextmanager
def pypdf_silenced() -> Iterator[None]:
    """Silence the log and deprecation warnings of pypdf, which would reach stderr. Our own warnings have what matters."""
    log = logging.getLogger("pypdf")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
