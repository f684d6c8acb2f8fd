"""A PDF is read in a child process, whatever happens to that."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.pdf import reader
from fbrag_cli.documents.pdf.page_ranges import parse_ranges
from fbrag_cli.documents.pdf.pages import Opened, PageReader, ReadPage
from fbrag_cli.documents.pdf.reader import read_pdf
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing import collect as collect_module
from fbrag_cli.indexing.collect import collect
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.indexing.files import find_files
from fbrag_cli.progress import Event, Listener
from fbrag_cli.storage.cache import NOWHERE, Cache
from fbrag_cli.workers import is_worker
from tests.documents.test_pdf import pdf as made

N_PAGES = 12
PAGES = [b"" if number == 7 else b"words of page %d\nand a sec-" % number for number in range(1, N_PAGES + 1)]
SOURCE = Source("-", "stdin", made(*PAGES))


def read(source: Source = SOURCE, ranges: str | None = None, password: str | None = None, **heard: object) -> Extracted:
    chosen = None if ranges is None else parse_ranges(ranges, source.path)
    return read_pdf(source, ranges=chosen, password=password, listener=Listener(**heard))  # type: ignore[arg-type]


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


class BadPages(PageReader):
    """Stands in for a reader that pages kill, or hold."""

    def __call__(self, job: int) -> Opened | ReadPage | None:
        if job in (3, 4):
            os.abort()
        if job == 9:
            time.sleep(600)
        return super().__call__(job)


class BadFile(PageReader):
    def __call__(self, job: int) -> Opened | ReadPage | None:
        os.abort()


_read_file = collect_module._read_file


def dies_in_a_child(settings: ReadSettings, cache: Cache, job: str | Source, listener: Listener | None = None) -> Any:
    if is_worker() and str(job).endswith(".pdf"):
        os.abort()
    return _read_file(settings, cache, job, listener)


def test_nothing_of_a_pdf_is_parsed_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    import pypdf
    import pypdfium2

    monkeypatch.setattr(pypdf, "PdfReader", None)
    monkeypatch.setattr(pypdfium2, "PdfDocument", None)
    before = children()
    assert "words of page 1\n" in read().content.text
    assert children() == before


def test_a_page_that_ends_or_holds_its_process_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PageReader", BadPages)
    monkeypatch.setattr(reader, "_PAGE_SECONDS", 2.0)
    document = read()
    assert [page.number for page in document.content.pages] == [1, 2, 5, 6, 8, 10, 11, 12]
    assert document.skipped_pages == (3, 4, 7, 9)
    assert any("pages 3-4,9 could not be read" in warning and "SIGABRT" in warning for warning in document.warnings)
    assert [page.number for page in read(ranges="2-4").content.pages] == [2, 3]  # the third and fourth that were chosen


def test_a_file_that_ends_each_process_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PageReader", BadFile)
    with pytest.raises(FbragError, match=r"damaged or not a PDF .*SIGABRT") as caught:
        read()
    assert caught.value.code == "doc_unreadable"


def test_a_page_that_ends_the_process_of_its_file_in_a_folder_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a folder are read in a process each; one that a page has ended is read again, page by page."""
    (tmp_path / "bad.pdf").write_bytes(made(*PAGES))
    (tmp_path / "good.txt").write_text("A bell of nine tons.")
    monkeypatch.setattr(collect_module, "_read_file", dies_in_a_child)
    monkeypatch.setattr(reader, "PageReader", BadPages)
    monkeypatch.setattr(reader, "_PAGE_SECONDS", 2.0)
    found = collect(find_files([str(tmp_path)]).files, ReadSettings(), NOWHERE)
    assert found.warnings == ()
    text = found.corpus.documents[0].text
    assert "of page 2\n" in text
    assert "of page 5\n" in text
    assert "of page 3\n" not in text


def test_an_error_amid_the_work_ends_the_child() -> None:
    def stop(event: Event) -> None:
        if event.done > 3:
            raise KeyboardInterrupt

    before = children()
    with pytest.raises(KeyboardInterrupt) as caught:  # whose traceback keeps all that the reading held
        read(progress=stop)
    assert children() <= before
    assert caught.tb


def test_a_stop_ends_the_child_within_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PageReader", BadPages)  # whose ninth page takes its time
    stop, before = Cancellation(), children()

    def halt(event: Event) -> None:
        if event.done == 8:
            stop.after(0.5, LookupError("the client has gone"))

    began = time.monotonic()
    with pytest.raises(LookupError, match="the client has gone"):
        read(progress=halt, cancellation=stop)
    assert time.monotonic() - began < 8
    assert children() <= before
