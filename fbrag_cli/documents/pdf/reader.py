"""Read a PDF as text with the span of each page. Any exception of pypdf on a damaged or hostile file becomes one error."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import PurePath
from shlex import quote
from time import perf_counter
from typing import Protocol

from fbrag_cli.documents.document import Content, Extracted, PageSpan
from fbrag_cli.documents.pdf.garbled import is_garbled
from fbrag_cli.documents.pdf.margins import without_running_lines
from fbrag_cli.documents.pdf.page_ranges import PageRange, format_ranges, numbers_within
from fbrag_cli.documents.pdf.page_text import rejoin_words
from fbrag_cli.documents.pdf.pages import EmbeddedFiles, PageReader, ReadPage, pypdf_silenced, reason
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.installation import pip_install
from fbrag_cli.progress import Event, Listener
from fbrag_cli.text.printable import counted_names, one_line

# The first pages are read here to measure the pace. If the rest would take long, other processes are started.
_TRIAL = 0.3  # seconds
_WORTH_SHARING = 1.5  # seconds
_BATCH = 0.5  # seconds: long enough to outweigh opening the file again, short enough that the last batch ends soon
_MAX_BATCH = 64  # pages

# Seconds of processor time for the pages of one document: a file of 13 kB can name the same heavy page a thousand times. Books of
# thousands of pages take a fraction of the second figure.
_MAX_SECONDS = 30.0
_MAX_SECONDS_PER_MB = 100.0
_LOST_SECONDS = 10.0  # counted for a batch without a result


class Lost(Protocol):
    """A batch without a result: its process was too slow, or died."""

    @property
    def reason(self) -> str: ...


#: Reads batches of page numbers in other processes. Yields (position of the batch, its pages), the first done first.
Share = Callable[[PageReader, Sequence[Sequence[int]]], Iterator[tuple[int, "list[ReadPage] | Lost"]]]


def read_pdf(
    source: Source,
    *,
    ranges: Sequence[PageRange] | None,
    password: str | None,
    listener: Listener,
    share: Share | None = None,
) -> Extracted:
    """Read the pages in `ranges` (None: all). share: reads the pages of a large PDF in several processes.

    listener: receives the pages that were read. Its cancellation stops the reading, also within a page that takes long.

    Raises FbragError: pdf_encrypted, pdf_bad_password, doc_empty (no pages), pdf_no_text, doc_unreadable (damaged), usage
    (`ranges` outside the document). Raises the error of a cancellation.
    """
    reader = PageReader(source.data, None if source.path == "-" else source.path, password, listener.cancellation)
    with pypdf_silenced():
        n_pages = _open(source, reader, password)
        if n_pages == 0:
            raise FbragError("doc_empty", f"{source.name} has no pages", "name a file that has text", document=source.path)
        numbers = numbers_within(ranges, n_pages, source.path, source.name)
        embedded = reader.embedded()
        if embedded.encrypted:
            what = f"{source.name} is a cover: its document lies inside it, encrypted ({one_line(embedded.names[0], 100)})"
            hint = "open it in the program that protected it, and save a copy without protection"
            raise FbragError("pdf_encrypted", what, hint, document=source.path)
        pages = _read_all(source, reader, numbers, share, listener)
    if not any(page.body.lines or page.annotations.comments for page in pages):
        raise _no_text(source, pages, n_pages)
    return _joined(source, pages, embedded)


def _open(source: Source, reader: PageReader, password: str | None) -> int:
    """Open the PDF and return its number of pages."""
    with _damage_reported(source):
        if reader.open():
            return len(reader)
    if password is None:
        hint = f'fbrag ask --password-file pw.txt {source.shell_path} "…"'
        raise FbragError("pdf_encrypted", f"{source.name} is encrypted and needs a password", hint, document=source.path)
    hint = "check what --password-file names: the password is its content, without a line end"
    raise FbragError("pdf_bad_password", f"the password does not open {source.name}", hint, document=source.path)


def _read_all(
    source: Source, reader: PageReader, numbers: Sequence[int], share: Share | None, listener: Listener
) -> list[ReadPage]:
    """Return the pages with these numbers, in order. The pages that are left at the limit of time are failures."""
    pages: dict[int, ReadPage] = {}
    limit = left = _MAX_SECONDS + _MAX_SECONDS_PER_MB * len(source.data) / 1e6
    listener.progress(Event("read", "start", total=len(numbers)))
    with closing(_read(source, reader, numbers, share)) as batches:  # a stop and the limit end the other processes here
        for batch in batches:
            pages.update((page.number, page) for page in batch)
            listener.cancellation.raise_if_requested()
            listener.progress(Event("read", "progress", len(pages), len(numbers)))
            left -= sum(page.seconds for page in batch)
            if left < 0:
                break
    listener.progress(Event("read", "done", len(numbers), len(numbers)))
    late = f"its pages take more than {limit:.0f} s"
    return [pages.get(number) or ReadPage(number, failure=late) for number in numbers]


def _read(
    source: Source, reader: PageReader, numbers: Sequence[int], share: Share | None
) -> Generator[list[ReadPage], None, None]:
    """Yield the pages with these numbers, in batches, the first done first."""
    began = perf_counter()
    for done, number in enumerate(numbers):
        if share is not None and done and (seconds := perf_counter() - began) > _TRIAL:
            pace = seconds / done
            if pace * (len(numbers) - done) > _WORTH_SHARING:
                yield from _shared(source, reader, numbers[done:], min(max(round(_BATCH / pace), 1), _MAX_BATCH), share)
                return
        yield _here(source, reader, [number])


def _here(source: Source, reader: PageReader, numbers: Sequence[int]) -> list[ReadPage]:
    with _damage_reported(source):
        return reader(numbers)


def _shared(source: Source, reader: PageReader, numbers: Sequence[int], size: int, share: Share) -> Iterator[list[ReadPage]]:
    """Yield the pages in batches of `size`.

    The pages of a lost batch are failures at first. Then they are read one by one, so that only the bad ones are lost.
    """
    batches = [numbers[start : start + size] for start in range(0, len(numbers), size)]
    alone: list[Sequence[int]] = []
    for index, outcome in share(reader, batches):
        if isinstance(outcome, list):
            yield outcome or _here(source, reader, batches[index])  # the file has changed: only this process has its old content
        else:
            alone += [[number] for number in batches[index]]
            seconds = _LOST_SECONDS / len(batches[index])
            yield [ReadPage(number, failure=outcome.reason, seconds=seconds) for number in batches[index]]
    for index, outcome in share(reader, alone) if alone else ():
        if isinstance(outcome, list):
            yield outcome or _here(source, reader, alone[index])
        else:
            yield [ReadPage(alone[index][0], failure=outcome.reason, seconds=_LOST_SECONDS)]


def _joined(source: Source, pages: Sequence[ReadPage], embedded: EmbeddedFiles) -> Extracted:
    written = [page for page in pages if page.body.lines]
    parts = without_running_lines([page.number for page in written], [page.body for page in written])
    bodies = rejoin_words(["\n".join(part.body) for part in parts], _apart(pages))
    texts = [
        "\n".join((*part.above, body, *part.below, *page.below)) for page, part, body in zip(written, parts, bodies, strict=True)
    ]
    spans: list[PageSpan] = []
    start = 0
    for page, text in zip(written, texts, strict=True):
        spans.append(PageSpan(page.number, start, start + len(text)))
        start += len(text) + 1
    text = "\n".join(texts)
    skipped = tuple(page.number for page in pages if not page.body.lines)
    failures = {page.number: page.failure for page in pages if page.failure}
    garbled = [page.number for page, text in zip(written, texts, strict=True) if is_garbled(text)]
    return Extracted(
        Content(text, tuple(spans)),
        "application/pdf",
        skipped_pages=skipped,
        warnings=tuple(_warnings(source, embedded, garbled, skipped, failures)),
        left_out=tuple(_left_out(embedded, pages)),
        comments=tuple(comment for page in pages for comment in page.annotations.comments),
    )


def _left_out(embedded: EmbeddedFiles, pages: Sequence[ReadPage]) -> Iterator[str]:
    if cut := [page.number for page in pages if page.lines.cut]:
        yield f"text outside of {_pages(cut)}"
    names = dict.fromkeys((*embedded.names, *(name for page in pages for name in page.annotations.files)))
    if names:
        yield counted_names(names, "embedded file")


def _apart(pages: Sequence[ReadPage]) -> set[int]:
    """Return the indices of pages (with text) that do not continue the one before: pages between them are missing."""
    apart: set[int] = set()
    index = 0
    expected = 0
    for page in pages:
        if page.body.lines:
            apart |= {index} if page.number != expected else set()
            index += 1
        if page.body.lines or (page.number == expected and not page.failure):
            expected = page.number + 1
    return apart


def _warnings(
    source: Source, embedded: EmbeddedFiles, garbled: Sequence[int], skipped: Sequence[int], failures: Mapping[int, str]
) -> Iterator[str]:
    if embedded.portfolio:
        yield f"{source.name} is a portfolio: its documents lie inside it, and only its cover is read; save them in a PDF viewer"
    if failures:
        names = ", ".join(sorted({failure.partition(":")[0] for failure in failures.values()}))
        yield f"{source.name}: damaged, {_pages(list(failures))} could not be read ({names})"
    if blank := [number for number in skipped if number not in failures]:
        yield f"{source.name}: no text on {_pages(blank)}; if they are scans, ocrmypdf gives them text"
    if garbled:
        yield f"{source.name}: much of {_pages(garbled)} is garbled (a font has no table of letters); ocrmypdf --force-ocr"


def _no_text(source: Source, pages: Sequence[ReadPage], n_pages: int) -> FbragError:
    if failures := [page.failure for page in pages if page.failure]:
        if all(failure.startswith(("PageTooLargeError", "its pages take")) for failure in failures):
            what = f"{source.name} takes too long to read (a page of it: {failures[0].partition(': ')[2]})"
            hint = "name pages that are lighter (--pages 3-9), or print it to a new PDF"
            return FbragError("doc_unreadable", what, hint, document=source.path)
        return _damaged(source, failures[0])
    where = f"{_pages([page.number for page in pages])} of {n_pages}"
    if len(pages) == n_pages:
        where = f"any of its {n_pages} pages" if n_pages > 1 else "its only page"
    hint = "ocrmypdf IN.pdf OUT.pdf"
    if source.path != "-":
        hint = f"ocrmypdf {source.shell_path} {quote(PurePath(source.path).stem + '-ocr.pdf')}"
    return FbragError("pdf_no_text", f"{source.name} has no text on {where} (scanned images)", hint, document=source.path)


def _pages(numbers: Sequence[int]) -> str:
    return f"page{'s' if len(numbers) > 1 else ''} {format_ranges(numbers)}"


@contextmanager
def _damage_reported(source: Source) -> Iterator[None]:
    """Turn any exception of pypdf into doc_unreadable. Hostile files provoke RecursionError, MemoryError and many others."""
    try:
        yield
    except Exception as error:
        from pypdf.errors import DependencyError

        if isinstance(error, DependencyError):
            what = f"{source.name} needs a Python package that is not installed ({error})"
            raise FbragError("library_missing", what, pip_install("'pypdf[crypto]'"), document=source.path) from error
        raise _damaged(source, reason(error)) from error


def _damaged(source: Source, why: str) -> FbragError:
    what = f"{source.name} is damaged or not a PDF ({why})"
    hint = f"get a new copy, or try: qpdf {source.shell_path} repaired.pdf"
    return FbragError("doc_unreadable", what, hint, document=source.path)
