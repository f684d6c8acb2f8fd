"""A PDF is read in a child process, whatever happens to that."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
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
from fbrag_cli.indexing.collect import collect, collect_one
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.indexing.walk import find_files
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
        while job == 9:
            pass
        return super().__call__(job)


class StoppedPages(PageReader):
    def __call__(self, job: int) -> Opened | ReadPage | None:
        if job == 3:
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().__call__(job)


class BadFile(PageReader):
    def __call__(self, job: int) -> Opened | ReadPage | None:
        os.abort()


_read_file = collect_module._read_file


def dies_in_a_child(settings: ReadSettings, cache: Cache, job: Any, listener: Listener | None = None) -> Any:
    if is_worker() and str(job.file).endswith(".pdf"):
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
    assert any("pages 3-4 were not read: the process" in warning and "SIGABRT" in warning for warning in document.warnings)
    assert any(warning.endswith("page 9 was not read: it took more than 2 s of CPU time") for warning in document.warnings)
    assert not any("damaged" in warning for warning in document.warnings if "SIGABRT" not in warning)
    assert document.cut
    assert [page.number for page in read(ranges="2-4").content.pages] == [2, 3]  # the third and fourth that were chosen


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="signals")
def test_a_process_that_is_stopped_for_longer_than_a_document_may_take_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PageReader", StoppedPages)
    monkeypatch.setattr(reader, "_PAGE_SECONDS", 2.0)
    monkeypatch.setattr(reader, "_MAX_SECONDS", 2.0)
    monkeypatch.setattr(reader, "_MAX_SECONDS_PER_MB", 0.0)

    def go_on() -> None:
        while not (stopped := [each for each in psutil.Process().children() if each.status() == psutil.STATUS_STOPPED]):
            time.sleep(0.01)
        time.sleep(2.5)
        stopped[0].resume()

    threading.Thread(target=go_on).start()
    document = read()
    assert len(document.content.pages) == N_PAGES - 1
    assert not document.cut
    assert document.warnings == ()


@pytest.fixture
def one_page_of_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Documents whose first page takes all the time that they have."""
    with monkeypatch.context() as patch:
        patch.setattr(reader, "_MAX_SECONDS", 0.0)
        patch.setattr(reader, "_MAX_SECONDS_PER_MB", 0.0)
        yield patch


def test_what_a_limit_cuts_of_a_document_is_said_and_not_cached(tmp_path: Path, one_page_of_time: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "a.pdf", Cache(tmp_path / "cache")
    path.write_bytes(SOURCE.data)
    (cut,) = collect_one(str(path), ReadSettings(), cache, None, Listener()).corpus.documents
    assert [page.number for page in cut.pages] == [1]
    (warning,) = cut.warnings
    assert warning.endswith("pages 2-12 were not read: the document takes more than 0 s of CPU time; --pages 2-12 reads the rest")
    assert not list((tmp_path / "cache").rglob("documents/*"))
    one_page_of_time.undo()
    whole = collect_one(str(path), ReadSettings(), cache, None, Listener())
    assert len(whole.corpus.documents[0].pages) == N_PAGES - 1
    assert whole.cached == ()
    assert collect_one(str(path), ReadSettings(), cache, None, Listener()).cached == ("text", "index")


@pytest.mark.parametrize("root", [True, False], ids=["cached", "not cached"])
def test_what_a_limit_cuts_of_a_folder_is_not_cached(tmp_path: Path, one_page_of_time: pytest.MonkeyPatch, root: bool) -> None:
    folder, cache = tmp_path / "folder", Cache(tmp_path / "cache") if root else NOWHERE
    folder.mkdir()
    (folder / "a.pdf").write_bytes(SOURCE.data)
    (folder / "b.txt").write_text("A bell of nine tons.")
    for each in folder.iterdir():
        os.utime(each, (1e9, 1e9))
    one_page_of_time.setattr(collect_module, "_read_file", dies_in_a_child)  # then it is read in this process, with its limits

    def texts() -> list[str]:
        return [each.text for each in collect(find_files([str(folder)]).files, ReadSettings(), cache).corpus.documents]

    assert texts() == ["words of page 1\nand a sec-", "A bell of nine tons."]
    assert not list((tmp_path / "cache").rglob("corpora/*"))
    one_page_of_time.undo()
    assert "page 12" in texts()[0]
    assert bool(list((tmp_path / "cache").rglob("corpora/*"))) == root
    one_page_of_time.setattr(reader, "_MAX_SECONDS", 0.0)
    assert "page 12" in texts()[0]


def test_a_refresh_reads_documents_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a mend of a reader: the file is the same, what is read of it is not."""
    (tmp_path / "a.txt").write_text("A bell of nine tons.")
    (tmp_path / "b.txt").write_text("A gong.")
    cache, again = Cache(tmp_path / ".cache"), ReadSettings(refresh=True)
    for ask in (
        lambda settings: collect_one(str(tmp_path / "a.txt"), settings, cache, None, Listener()),
        lambda settings: collect(find_files([str(tmp_path)]).files, settings, cache),
    ):
        ask(ReadSettings())
        assert ask(ReadSettings()).cached == ("text", "index")
        assert ask(again).cached == ()
        assert ask(ReadSettings()).cached == ("text", "index")


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
        assert event.done <= 8
        if event.done == 8:
            stop.after(0.5, LookupError("the client has gone"))

    with pytest.raises(LookupError, match="the client has gone"):
        read(progress=halt, cancellation=stop)
    assert children() <= before
