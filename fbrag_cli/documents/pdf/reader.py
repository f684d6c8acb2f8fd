"""Read a PDF as text with the span of each page.

Whatever reads PDFs may hang, crash or exhaust the memory. So a child process does it, and hands each page over as it is read. If
the child ends, only the page that it was reading is lost: another child continues with the next.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from math import nan
from typing import Any, cast

from fbrag_cli.documents.broken_words import rejoin_words
from fbrag_cli.documents.document import HIDDEN, Content, Extracted, PageSpan
from fbrag_cli.documents.ocr.engine import SCRIPTS, how_to_install, is_installed
from fbrag_cli.documents.ocr.page import OcrPage
from fbrag_cli.documents.ocr.scans import Ocr
from fbrag_cli.documents.pdf.columns import with_columns
from fbrag_cli.documents.pdf.footnotes import count_notes, end_of_sentence
from fbrag_cli.documents.pdf.page_ranges import PageRange, format_ranges, numbers_within
from fbrag_cli.documents.pdf.page_text import is_garbled
from fbrag_cli.documents.pdf.pages import Opened, PageReader, ReadPage, damaged
from fbrag_cli.documents.pdf.running_lines import without_running_lines
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.limits import memory_of_a_child
from fbrag_cli.progress import Event, Listener
from fbrag_cli.text.languages import detect, script_of
from fbrag_cli.text.printable import counted_names, one_line, plural
from fbrag_cli.workers import Failure, run_jobs

_PAGE_SECONDS = 10.0  # of CPU time for a page, and for opening the document

# CPU time for the pages of one document: a file of 13 kB can name the same heavy page a thousand times. Books of thousands of
# pages take a fraction of the second figure.
_MAX_SECONDS = 30.0
_MAX_SECONDS_PER_MB = 100.0


def read_pdf(
    source: Source,
    *,
    ranges: tuple[PageRange, ...] | None,
    password: str | None,
    markup: bool = False,
    ocr: Ocr | None = None,
    listener: Listener,
) -> Extracted:
    """Read the pages in `ranges` (None: all). If hidden text is all there is, the content is empty.

    markup: whether hidden text is read. ocr: reads what is scanned; None to leave it out. listener: receives the pages that were
    read. Its cancellation stops the reading, also within a page that takes long.

    Raises FbragError: pdf_encrypted, pdf_bad_password, doc_empty (no pages), pdf_no_text, doc_unreadable (damaged), usage
    (`ranges` outside the document), timeout (a limit cut all pages). Raises the error of a cancellation.
    """
    reader = PageReader(source, ranges, password, markup=markup, all_scans=ocr is not None and ocr.all_scans)
    document, pages = _read(source, reader, ranges, listener)
    unread = why_unread(ocr, pages)
    if ocr is not None and not unread:
        pages = with_scans(source, pages, ocr)
    if not any(page.lines.lines or page.below or page.lines.n_hidden or page.comments for page in pages):
        raise _no_text(source, pages, document.n_pages, unread)
    return joined(source, pages, document, unread)


def _read(
    source: Source, reader: PageReader, ranges: tuple[PageRange, ...] | None, listener: Listener
) -> tuple[Opened, list[ReadPage]]:
    """Return the document and its chosen pages, in order. The pages that are left at the limit of time are failures."""
    pages: list[ReadPage] = []
    limit = _MAX_SECONDS + _MAX_SECONDS_PER_MB * len(source.data) / 1e6
    took = 0.0
    outcomes = run_jobs(
        reader,
        count(),
        processes=1,
        seconds=_PAGE_SECONDS,
        memory=memory_of_a_child(),
        cancellation=listener.cancellation,
    )
    with closing(cast("Generator[tuple[int, Any], None, None]", outcomes)) as replies:  # ends the child
        document = _document(source, next(replies)[1])
        numbers = numbers_within(ranges, document.n_pages, source)
        listener.progress(Event("read", "start", total=len(numbers)))
        for number, (_, reply) in zip(numbers, replies, strict=False):
            pages.append(ReadPage(number, failure=reply.reason, cut=True) if isinstance(reply, Failure) else reply)
            listener.progress(Event("read", "progress", len(pages), len(numbers)))
            took += reply.seconds
            if took > limit:
                break
    left = numbers[len(pages) :]
    late = f"the document takes more than {limit:.0f} s of CPU time; --pages {format_ranges(left)} reads the rest"
    pages += [ReadPage(number, failure=late, cut=True) for number in left]
    listener.progress(Event("read", "done", len(numbers), len(numbers)))
    return document, pages


def _document(source: Source, opened: Opened | Failure) -> Opened:
    """Return the document. Raises FbragError if it could not be opened, or holds its own text as an encrypted file."""
    if isinstance(opened, Failure):
        raise opened.error or (_cut if opened.kind == "timeout" else damaged)(source, opened.reason)
    if opened.encrypted:
        message = f"{source.name} is a cover: its document lies inside it, encrypted ({one_line(opened.files[0], 100)})"
        hint = "open it in the program that protected it, and save a copy without protection"
        raise FbragError("pdf_encrypted", message, hint, document=source.path)
    return opened


def why_unread(ocr: Ocr | None, pages: Sequence[ReadPage]) -> str:
    """Return why scanned pages are not read, and what reads them, as a clause; "" if OCR reads them."""
    if ocr is None:
        return f"to read by OCR: {'--ocr auto' if is_installed() else how_to_install()}"
    script = script_of(ocr.language or detect("\n".join(line for page in pages for line in page.lines.lines)))
    return f"OCR does not read {script} letters" if script and script not in SCRIPTS else ""


def with_scans(source: Source, pages: Sequence[ReadPage], ocr: Ocr) -> list[ReadPage]:
    """Return the pages with the lines that OCR reads on those that are scanned, or whose text is garbled."""
    garbled = {page.number for page in pages if is_garbled("\n".join(page.lines.lines))}
    scanned = [page.number for page in pages if page.is_scan or page.number in garbled]
    found = ocr.read(source, scanned) if scanned else {}
    return [_with_scan(page, found.get(page.number), page.number in garbled or ocr.all_scans) for page in pages]


def _with_scan(page: ReadPage, read: OcrPage | Failure | None, is_better: bool) -> ReadPage:
    """Return a page with what OCR has read on it. is_better: whether that is better than the page's text, even if it is less."""
    if isinstance(read, Failure):
        return replace(page, failure=read.reason, cut=True)
    n_letters = sum(map(str.isalnum, "".join(page.lines.lines)))
    if read is None or not read.n_letters or (read.n_letters <= n_letters and not is_better):
        return replace(page, is_scan=False) if read is not None else page  # nothing more is on it
    return replace(page, lines=read.page_lines(), ocr=read)


def joined(
    source: Source, pages: Sequence[ReadPage], document: Opened, unread: str = "", media_type: str = "application/pdf"
) -> Extracted:
    """Return the text of pages that were read. unread: as of `why_unread`."""
    pages = [_with_form(page) for page in pages]
    written = [page for page in pages if page.lines.lines]
    text, spans = _joined_text(written, _apart(pages))
    skipped = tuple(page.number for page in pages if not page.lines.lines)
    # Where OCR reads scans, it has read garbled pages too.
    garbled = sorted({span.number for span in spans if is_garbled(text[span.start : span.end])}) if unread else []
    return Extracted(
        Content(text, spans, scanned={page.number: page.ocr.scanned_lines for page in pages if page.ocr}),
        media_type,
        skipped_pages=skipped,
        ocr_pages=tuple(page.number for page in pages if page.ocr),
        warnings=tuple(_warnings(source, document, garbled, pages, unread)),
        left_out=tuple(_left_out(document, pages)),
        comments=tuple(comment for page in pages for comment in page.comments),
        markup={HIDDEN: sum(page.lines.n_hidden for page in pages)},
        cut=any(page.cut for page in pages),
    )


def _with_form(page: ReadPage) -> ReadPage:
    """Return a page with the lines of its form as its text, if it has no other."""
    if page.lines.lines or not page.below:
        return page
    return replace(page, lines=replace(page.lines, lines=page.below, heights=(nan,) * len(page.below)), below=())


def _joined_text(pages: Sequence[ReadPage], apart: set[int]) -> tuple[str, tuple[PageSpan, ...]]:
    """Return the text of the pages, and where each is. apart: indices of pages that do not continue the page before."""
    # 1. Tables get their columns; running lines go; notes are kept apart from a sentence that they would interrupt.
    lines = with_columns([page.lines for page in pages])
    parts = without_running_lines([page.number for page in pages], lines)
    n_notes = count_notes(lines, parts, apart)
    bodies = ["\n".join(part.body[: len(part.body) - n]) for part, n in zip(parts, n_notes, strict=True)]
    notes = ["\n".join(part.body[len(part.body) - n :]) for part, n in zip(parts, n_notes, strict=True)]
    whole = rejoin_words([*bodies, *notes], apart | {len(bodies) + index for index in range(len(notes))})
    bodies, notes = whole[: len(bodies)], whole[len(bodies) :]

    # 2. Notes follow the end of the sentence, which is on the next page.
    pieces: list[tuple[int, str]] = []
    carried: tuple[int, str] | None = None  # number of the page before, and its end from the notes on
    for page, part, body, note in zip(pages, parts, bodies, notes, strict=True):
        above = part.above
        if carried is not None:
            if end := end_of_sentence(body):
                pieces.append((page.number, "\n".join((*above, body[:end]))))
                above, body = (), body[end:].lstrip()
            pieces.append(carried)
        if note:
            carried = page.number, "\n".join((note, *part.below, *page.below))
            pieces.append((page.number, "\n".join((*above, body))))
        else:
            carried = None
            pieces.append((page.number, "\n".join((*above, body, *part.below, *page.below))))
    labels = {page.number: page.label for page in pages}
    spans: list[PageSpan] = []
    start = 0
    for number, text in pieces:
        spans.append(PageSpan(number, start, start + len(text), labels[number]))
        start += len(text) + 1
    return "\n".join(text for _, text in pieces), tuple(spans)


def _left_out(document: Opened, pages: Sequence[ReadPage]) -> Iterator[str]:
    if cut := [page.number for page in pages if page.lines.cut]:
        yield f"text outside of {_pages(cut)}"
    names = dict.fromkeys((*document.files, *(name for page in pages for name in page.files)))
    if names:
        yield counted_names(names, "embedded file")
    if n_dropped := sum(page.ocr.n_dropped for page in pages if page.ocr):
        yield f"{plural(n_dropped, 'line')} that OCR cannot make out"


def _apart(pages: Sequence[ReadPage]) -> set[int]:
    """Return the indices of pages (with text) that do not continue the one before: pages between them are missing."""
    apart: set[int] = set()
    index = 0
    expected = 0
    for page in pages:
        if page.lines.lines:
            apart |= {index} if page.number != expected else set()
            index += 1
        if page.lines.lines or (page.number == expected and not page.failure):
            expected = page.number + 1
    return apart


def _warnings(source: Source, document: Opened, garbled: Sequence[int], pages: Sequence[ReadPage], unread: str) -> Iterator[str]:
    if document.portfolio:
        yield f"{source.name} is a portfolio: its documents lie inside it, and only its cover is read; save them in a PDF viewer"
    for why, has_text in dict.fromkeys((page.failure, bool(page.lines.lines)) for page in pages if page.cut):
        cut = [page.number for page in pages if page.failure == why and bool(page.lines.lines) == has_text]
        how = "read without OCR" if has_text else "not read"
        yield f"{source.name}: {_pages(cut)} {'were' if len(cut) > 1 else 'was'} {how}: {why}"
    if broken := {page.number: page.failure.partition(":")[0] for page in pages if page.failure and not page.cut}:
        yield f"{source.name}: damaged, {_pages(list(broken))} could not be read ({', '.join(sorted({*broken.values()}))})"
    if by_ocr := [page.number for page in pages if page.ocr]:
        poor = [page.number for page in pages if page.ocr and page.ocr.is_poor]
        were = "were" if len(by_ocr) > 1 else "was"
        named = f": {plural(len(by_ocr), 'page')} {were} read by OCR ({format_ranges(by_ocr)})"
        poorly = f", {len(poor)} of them poorly ({format_ranges(poor)})" if len(by_ocr) > 1 else ", poorly"
        yield f"{source.name}{named if document.n_pages > 1 else ' was read by OCR'}{poorly if poor else ''}"
    if not unread:
        return
    if scans := [page.number for page in pages if page.is_scan and (page.is_stamped or not page.lines.lines)]:
        yield f"{source.name}: {_pages(scans)} {'are' if len(scans) > 1 else 'is'} scanned and not read; {unread}"
    if garbled:
        yield f"{source.name}: much of {_pages(garbled)} is garbled (a font has no table of letters); {unread}"


def _no_text(source: Source, pages: Sequence[ReadPage], n_pages: int, unread: str) -> FbragError:
    if broken := [page.failure for page in pages if page.failure and not page.cut]:
        return damaged(source, broken[0])
    if cut := [page.failure for page in pages if page.cut]:
        return _cut(source, cut[0])
    where = f"{_pages([page.number for page in pages])} of {n_pages}"
    if len(pages) == n_pages:
        where = f"any of its {n_pages} pages" if n_pages > 1 else "its only page"
    if unread and any(page.is_scan for page in pages):
        return FbragError("pdf_no_text", f"{source.name} has no text on {where} (scanned images)", unread, document=source.path)
    why = "nothing is drawn there" if unread else "OCR finds none either"
    what = f"{source.name} has no text on {where} ({why})"
    return FbragError("pdf_no_text", what, "name a file that has text", document=source.path)


def _cut(source: Source, why: str) -> FbragError:
    """Return the error of a PDF of which a limit leaves nothing. why: a clause."""
    hint = "name pages that are lighter (--pages 3-9), or print it to a new PDF"
    return FbragError("timeout", f"{source.name} was not read: {why}", hint, document=source.path)


def _pages(numbers: Sequence[int]) -> str:
    return f"page{'s' if len(numbers) > 1 else ''} {format_ranges(numbers)}"
