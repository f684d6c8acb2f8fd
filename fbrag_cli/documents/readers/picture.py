"""Read a picture as text by OCR. The frames of a TIFF are its pages."""

from __future__ import annotations

from functools import partial

from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.ocr.pictures import count_frames
from fbrag_cli.documents.ocr.scans import Ocr
from fbrag_cli.documents.pdf.page_ranges import PageRange, numbers_within
from fbrag_cli.documents.pdf.pages import Opened, ReadPage
from fbrag_cli.documents.pdf.reader import joined, why_unread, with_scans
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.limits import memory_of_a_child
from fbrag_cli.progress import Listener
from fbrag_cli.workers import Failure, run_jobs

_OPEN_SECONDS = 10.0  # of CPU time


def read_picture(
    source: Source, *, ranges: tuple[PageRange, ...] | None, ocr: Ocr | None, media_type: str, listener: Listener
) -> Extracted:
    """Read the frames in `ranges` (None: all). The content is empty if there is no text on them.

    Raises FbragError: library_missing without OCR, doc_unreadable (damaged, or too large), usage (`ranges` outside of it). Raises
    the error of a cancellation.
    """
    if ocr is None:
        what = f"{source.name} is a picture, which only OCR reads"
        raise FbragError("library_missing", what, why_unread(ocr, ()), document=source.path)
    count = partial(count_frames, source)
    ((_, n_frames),) = run_jobs(count, [0], seconds=_OPEN_SECONDS, memory=memory_of_a_child(), cancellation=listener.cancellation)
    if isinstance(n_frames, Failure):
        raise n_frames.error or source.damaged("a picture", n_frames.reason)
    numbers = numbers_within(ranges, n_frames, source)
    if unread := why_unread(ocr, ()):
        what = f"{source.name} was not read: {unread}"
        raise FbragError("pdf_no_text", what, "name a file that has text", document=source.path)
    pages = with_scans(source, [ReadPage(number, is_scan=True) for number in numbers], ocr)
    if all(page.failure for page in pages):
        what = f"{source.name} was not read: {pages[0].failure}"
        hint = f"make it smaller: magick {source.shell_path} -resize 2400x2400 copy.png"
        raise FbragError("doc_unreadable", what, hint, document=source.path)
    return joined(source, pages, Opened(n_frames), media_type=media_type)
