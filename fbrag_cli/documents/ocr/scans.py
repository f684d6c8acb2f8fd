"""Read pages by OCR: in child processes, one page a job, each page once. What was read is kept, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from fbrag_cli.documents.formats import PDF, find_format
from fbrag_cli.documents.ocr import engine
from fbrag_cli.documents.ocr.page import OcrPage
from fbrag_cli.documents.ocr.pictures import PICTURE_SIDE, open_picture, upright
from fbrag_cli.documents.pdf.pages import PageReader
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.limits import allowed_cores, free_memory, memory_of_a_child
from fbrag_cli.progress import Event, Listener
from fbrag_cli.storage.cache import Cache, entry_key
from fbrag_cli.workers import Failure, run_jobs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from pypdfium2 import PdfDocument

#: Pages of a file that OCR has read, by their numbers, or why one was not read.
ScannedPages = Mapping[int, "OcrPage | Failure"]

#: Reads these pages of a file by OCR.
ReadScans = Callable[[Source, Sequence[int]], ScannedPages]

_PAGE_SECONDS = 60.0  # of CPU time
_MEMORY = 1_000_000_000  # bytes that a process is reckoned to take; 0.73 GB were measured
_PAGES_AT_ONCE = 100  # then the child processes end: the engine's memory grows with the sizes of pictures
_DPI = 200
_SIDE = 2400  # pixels of the longer side
_FORM = 1  # to be increased when what is read changes within a version


class Ocr(NamedTuple):
    """How scanned pages of a file are read. all_scans: whether those are read again that have the text of a scanner. language:
    of the file (ISO 639-1), if it is known."""

    read: ReadScans
    all_scans: bool = False
    language: str | None = None


class ScansWantedError(Exception):
    """Pages of a file are to be read by OCR, which the process that reads the file does not do. pages: their numbers."""

    def __init__(self, pages: tuple[int, ...]) -> None:
        super().__init__(pages)
        self.pages = pages


class Scans(NamedTuple):
    """Pages of a file that are to be read. file: its path, or the file itself."""

    file: str | Source
    numbers: Sequence[int]


def read_scans(
    files: Sequence[Scans], cache: Cache, password: str | None, listener: Listener, *, refresh: bool = False
) -> list[ScannedPages]:
    """Return the pages of each file. Those in the cache are not read again, unless `refresh`; each that is read goes into it.

    listener: receives the stage "ocr", in pages, and can stop the reading. Raises the error of a cancellation.
    """
    found: list[dict[int, OcrPage | Failure]] = []
    digests: list[str] = []
    for file, numbers in files:
        pages: dict[int, OcrPage | Failure] = {}
        digest = ""
        try:
            digest = sha256((read_source(file) if isinstance(file, str) else file).data).hexdigest()
        except FbragError as error:  # it is gone
            pages = dict.fromkeys(numbers, Failure("error", error.message, error))
        for number in numbers if digest and not refresh else ():
            if (page := read_page(digest, number, cache)) is not None:
                pages[number] = page
        found.append(pages)
        digests.append(digest)
    jobs = [(at, number) for at, scans in enumerate(files) for number in scans.numbers if number not in found[at]]
    listener.report(Event("ocr", "start", total=len(jobs)))
    for done, ((at, number), outcome) in enumerate(_outcomes([scans.file for scans in files], jobs, password, listener), 1):
        found[at][number] = outcome
        if isinstance(outcome, OcrPage):
            cache.write_json("scans", _key(digests[at], number), outcome.as_json())
        listener.report(Event("ocr", "progress", done, len(jobs), "pages"))
    listener.report(Event("ocr", "done", len(jobs), len(jobs)))
    return [*found]


def read_page(digest: str, number: int, cache: Cache) -> OcrPage | None:
    """Return a page from the cache; None if it is not there. digest: SHA-256 of its file (hex)."""
    return cache.read_json("scans", _key(digest, number), OcrPage.from_json)


def _key(digest: str, number: int) -> str:
    return entry_key(_FORM, digest, number, _DPI, _SIDE, engine.version())


def _outcomes(
    files: Sequence[str | Source], jobs: Sequence[tuple[int, int]], password: str | None, listener: Listener
) -> Iterator[tuple[tuple[int, int], OcrPage | Failure]]:
    reader, memory = partial(_read, files, password), memory_of_a_child()
    n_processes = max(1, min(allowed_cores(), free_memory() // _MEMORY))
    for start in range(0, len(jobs), _PAGES_AT_ONCE):
        part = jobs[start : start + _PAGES_AT_ONCE]
        outcomes = run_jobs(
            reader, part, processes=n_processes, seconds=_PAGE_SECONDS, memory=memory, cancellation=listener.cancellation
        )
        yield from ((part[index], outcome) for index, outcome in outcomes)


# -- in a child process -------------------------------------------------------------------------------------------------------


def _read(files: Sequence[str | Source], password: str | None, job: tuple[int, int]) -> OcrPage:
    """Read a page. job: position of its file among `files`, and its number."""
    at, number = job
    picture, width, height = _picture(*_opened(files[at], password), number)
    lines, turn = engine.read_lines(picture)
    points = width / picture.shape[1]
    return OcrPage.of([line._replace(corners=tuple(points * at for at in line.corners)) for line in lines], width, height, turn)


@lru_cache(maxsize=1)
def _opened(file: str | Source, password: str | None) -> tuple[PdfDocument | Image, bool]:
    """Return an opened file, and whether it is a PDF."""
    source = read_source(file) if isinstance(file, str) else file
    if find_format(source)[0] is PDF:
        return PageReader(source, None, password).document, True
    return open_picture(source), False


def _picture(document: Any, is_pdf: bool, number: int) -> tuple[NDArray[np.uint8], float, float]:
    """Return a page as a picture, shape (height, width, 3), blue first; and its width and height in points."""
    if is_pdf:
        with closing(document[number - 1]) as page:
            width, height = page.get_size()
            scale = min(_DPI / 72, _SIDE / max(width, height))
            return page.render(scale=scale).to_numpy()[:, :, :3], width, height
    import numpy as np  # only a child that reads scans loads it

    picture = upright(document, number)
    picture.thumbnail((_SIDE, _SIDE))
    points = PICTURE_SIDE / max(picture.size)
    return np.asarray(picture)[:, :, ::-1], picture.width * points, picture.height * points
