"""Read a PDF as text with the span of each page.

Whatever reads PDFs may hang, crash or exhaust the memory. So a child process does it, and hands each page over as it is read. If
the child ends, only the page that it was reading is lost: another child continues with the next.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import PurePath
from shlex import quote
from typing import Any, cast

from fbrag_cli.documents.broken_words import rejoin_words
from fbrag_cli.documents.document import HIDDEN, Content, Extracted, PageSpan
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
from fbrag_cli.text.printable import counted_names, one_line
from fbrag_cli.workers import Failure, run_jobs

_PAGE_SECONDS = 10.0  # of CPU time for a page, and for opening the document

# CPU time for the pages of one document: a file of 13 kB can name the same heavy page a thousand times. Books of thousands of
# pages take a fraction of the second figure.
_MAX_SECONDS = 30.0
_MAX_SECONDS_PER_MB = 100.0


def read_pdf(
    source: Source, *, ranges: tuple[PageRange, ...] | None, password: str | None, markup: bool = False, listener: Listener
) -> Extracted:
    """Read the pages in `ranges` (None: all). If hidden text is all there is, the content is empty.

    markup: whether hidden text is read. listener: receives the pages that were read. Its cancellation stops the reading, also
    within a page that takes long.

    Raises FbragError: pdf_encrypted, pdf_bad_password, doc_empty (no pages), pdf_no_text, doc_unreadable (damaged), usage
    (`ranges` outside the document), timeout (a limit cut all pages). Raises the error of a cancellation.
    """
    document, pages = _read(source, PageReader(source, ranges, password, markup=markup), ranges, listener)
    if not any(page.lines.lines or page.lines.n_hidden or page.comments for page in pages):
        raise _no_text(source, pages, document.n_pages)
    return _joined(source, pages, document)


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


def _joined(source: Source, pages: Sequence[ReadPage], document: Opened) -> Extracted:
    written = [page for page in pages if page.lines.lines]
    text, spans = _joined_text(written, _apart(pages))
    skipped = tuple(page.number for page in pages if not page.lines.lines)
    garbled = sorted({span.number for span in spans if is_garbled(text[span.start : span.end])})
    return Extracted(
        Content(text, spans),
        "application/pdf",
        skipped_pages=skipped,
        warnings=tuple(_warnings(source, document, garbled, pages)),
        left_out=tuple(_left_out(document, pages)),
        comments=tuple(comment for page in pages for comment in page.comments),
        markup={HIDDEN: sum(page.lines.n_hidden for page in pages)},
        cut=any(page.cut for page in pages),
    )


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


def _warnings(source: Source, document: Opened, garbled: Sequence[int], pages: Sequence[ReadPage]) -> Iterator[str]:
    if document.portfolio:
        yield f"{source.name} is a portfolio: its documents lie inside it, and only its cover is read; save them in a PDF viewer"
    for why in dict.fromkeys(page.failure for page in pages if page.cut):
        cut = [page.number for page in pages if page.failure == why]
        yield f"{source.name}: {_pages(cut)} {'were' if len(cut) > 1 else 'was'} not read: {why}"
    if broken := {page.number: page.failure.partition(":")[0] for page in pages if page.failure and not page.cut}:
        yield f"{source.name}: damaged, {_pages(list(broken))} could not be read ({', '.join(sorted({*broken.values()}))})"
    if blank := [page.number for page in pages if not (page.lines.lines or page.lines.n_hidden or page.failure)]:
        yield f"{source.name}: no text on {_pages(blank)}; if they are scans, ocrmypdf gives them text"
    if garbled:
        yield f"{source.name}: much of {_pages(garbled)} is garbled (a font has no table of letters); ocrmypdf --force-ocr"


def _no_text(source: Source, pages: Sequence[ReadPage], n_pages: int) -> FbragError:
    if broken := [page.failure for page in pages if page.failure and not page.cut]:
        return damaged(source, broken[0])
    if cut := [page.failure for page in pages if page.cut]:
        return _cut(source, cut[0])
    where = f"{_pages([page.number for page in pages])} of {n_pages}"
    if len(pages) == n_pages:
        where = f"any of its {n_pages} pages" if n_pages > 1 else "its only page"
    hint = "ocrmypdf IN.pdf OUT.pdf"
    if source.path != "-":
        hint = f"ocrmypdf {source.shell_path} {quote(PurePath(source.path).stem + '-ocr.pdf')}"
    return FbragError("pdf_no_text", f"{source.name} has no text on {where} (scanned images)", hint, document=source.path)


def _cut(source: Source, why: str) -> FbragError:
    """Return the error of a PDF of which a limit leaves nothing. why: a clause."""
    hint = "name pages that are lighter (--pages 3-9), or print it to a new PDF"
    return FbragError("timeout", f"{source.name} was not read: {why}", hint, document=source.path)


def _pages(numbers: Sequence[int]) -> str:
    return f"page{'s' if len(numbers) > 1 else ''} {format_ranges(numbers)}"
