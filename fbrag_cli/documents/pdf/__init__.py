"""A PDF becomes text with the span of each page. Whatever pypdf throws at a damaged or hostile file ends here, as one error."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import PurePath
from shlex import quote
from time import perf_counter
from typing import Protocol

from fbrag_cli.documents.document import Content, Extracted, PageSpan
from fbrag_cli.documents.pdf.margins import without_running_lines
from fbrag_cli.documents.pdf.page_ranges import PageRange, format_ranges, numbers_within
from fbrag_cli.documents.pdf.page_text import rejoin_words
from fbrag_cli.documents.pdf.pages import PageReader, ReadPage, pypdf_silenced, reason
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Progress

_GARBLED = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")
_MAX_GARBLED = 0.1  # of the characters that are not white space

# Pages are read here first, to learn their pace; what would take long after that is worth the start of other processes.
_TRIAL = 0.3  # seconds
_WORTH_SHARING = 1.5  # seconds
_BATCH = 0.5  # seconds: opening the file again counts little, and the last batch is not waited for long
_MAX_BATCH = 64  # pages


class Lost(Protocol):
    """What stands for a batch without a result: its process was too slow, or died."""

    @property
    def reason(self) -> str: ...


#: Does batches of page numbers with a reader in other processes: (position of the batch, pages), in order of completion.
Share = Callable[[PageReader, Sequence[Sequence[int]]], Iterator[tuple[int, "list[ReadPage] | Lost"]]]


def read_pdf(
    source: Source,
    *,
    ranges: Sequence[PageRange] | None,
    password: str | None,
    progress: Progress,
    share: Share | None = None,
) -> Extracted:
    """The text of the pages in `ranges` (None: all). share: reads the pages of a large PDF in several processes.

    Raises FbragError: pdf_encrypted, pdf_bad_password, doc_empty (no pages), pdf_no_text, doc_unreadable (damaged), usage
    (`ranges` outside the document).
    """
    reader = PageReader(source.data, None if source.path == "-" else source.path, password)
    with pypdf_silenced():
        n_pages = _open(source, reader, password)
        if n_pages == 0:
            raise FbragError("doc_empty", f"{source.name} has no pages", "name a file that has text", document=source.path)
        numbers = numbers_within(ranges, n_pages, source.path, source.name)
        pages: dict[int, ReadPage] = {}
        progress(Event("read", "start", total=len(numbers)))
        with closing(_read(source, reader, numbers, share)) as batches:  # with Ctrl-C, other processes end here
            for batch in batches:
                pages.update((page.number, page) for page in batch)
                progress(Event("read", "progress", len(pages), len(numbers)))
        progress(Event("read", "done", len(numbers), len(numbers)))
    in_order = [pages[number] for number in numbers]
    if not any(page.lines.lines for page in in_order):
        raise _no_text(source, in_order, n_pages)
    return _joined(source, in_order)


def _open(source: Source, reader: PageReader, password: str | None) -> int:
    """How many pages there are."""
    with _damage_reported(source):
        if reader.open():
            return len(reader)
    if password is None:
        hint = f'fbrag ask --password-file pw.txt {source.shell_path} "…"'
        raise FbragError("pdf_encrypted", f"{source.name} is encrypted and needs a password", hint, document=source.path)
    hint = "check what --password-file names: the password is its content, without a line end"
    raise FbragError("pdf_bad_password", f"the password does not open {source.name}", hint, document=source.path)


def _read(
    source: Source, reader: PageReader, numbers: Sequence[int], share: Share | None
) -> Generator[list[ReadPage], None, None]:
    """The pages with these numbers, in batches as they become ready."""
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
    """Batches of `size` pages; where one is lost, its pages are tried one by one, to lose no more than has to be lost."""
    batches = [numbers[start : start + size] for start in range(0, len(numbers), size)]
    alone: list[Sequence[int]] = []
    for index, outcome in share(reader, batches):
        if isinstance(outcome, list):
            yield outcome or _here(source, reader, batches[index])  # the file has changed since: only this process has it
        else:
            alone += [[number] for number in batches[index]]
    for index, outcome in share(reader, alone) if alone else ():
        if isinstance(outcome, list):
            yield outcome or _here(source, reader, alone[index])
        else:
            yield [ReadPage(alone[index][0], failure=outcome.reason)]


def _joined(source: Source, pages: Sequence[ReadPage]) -> Extracted:
    written = [page for page in pages if page.lines.lines]
    parts = without_running_lines([page.number for page in written], [page.lines for page in written])
    bodies = rejoin_words(["\n".join(part.body) for part in parts], _apart(pages))
    texts = ["\n".join((*part.above, body, *part.below)) for part, body in zip(parts, bodies, strict=True)]
    spans: list[PageSpan] = []
    start = 0
    for page, text in zip(written, texts, strict=True):
        spans.append(PageSpan(page.number, start, start + len(text)))
        start += len(text) + 1
    text = "\n".join(texts)
    skipped = tuple(page.number for page in pages if not page.lines.lines)
    failures = {page.number: page.failure for page in pages if page.failure}
    warnings = tuple(_warnings(source, text, skipped, failures))
    return Extracted(Content(text, tuple(spans)), "application/pdf", None, skipped, warnings)


def _apart(pages: Sequence[ReadPage]) -> set[int]:
    """Which of the pages with text, by index, do not go on from the one before: pages between were not asked for, or not read."""
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


def _warnings(source: Source, text: str, skipped: Sequence[int], failures: Mapping[int, str]) -> Iterator[str]:
    if failures:
        names = ", ".join(sorted({failure.partition(":")[0] for failure in failures.values()}))
        yield f"{source.name}: damaged, {_pages(list(failures))} could not be read ({names})"
    if blank := [number for number in skipped if number not in failures]:
        yield f"{source.name}: no text on {_pages(blank)}; if they are scans, ocrmypdf gives them text"
    if len(_GARBLED.findall(text)) > _MAX_GARBLED * len("".join(text.split())):
        yield f"{source.name}: much of its text is garbled (fonts that do not tell their letters); ocrmypdf --force-ocr"


def _no_text(source: Source, pages: Sequence[ReadPage], n_pages: int) -> FbragError:
    if failures := [page.failure for page in pages if page.failure]:
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
    """Any exception of pypdf becomes doc_unreadable: hostile files aim at RecursionError, MemoryError and worse-kept ones."""
    try:
        yield
    except Exception as error:
        from pypdf.errors import DependencyError

        if isinstance(error, DependencyError):
            what = f"{source.name} needs a Python package that is not installed ({error})"
            raise FbragError("doc_unreadable", what, "pip install 'pypdf[crypto]'", document=source.path) from error
        raise _damaged(source, reason(error)) from error


def _damaged(source: Source, why: str) -> FbragError:
    what = f"{source.name} is damaged or not a PDF ({why})"
    hint = f"get it again from where it came, or try: qpdf {source.shell_path} repaired.pdf"
    return FbragError("doc_unreadable", what, hint, document=source.path)
