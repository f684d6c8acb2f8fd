"""A large PDF read in several processes gives what it gives in one, whatever happens to these processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.children import Failure, run_jobs
from fbrag_cli.documents.document import Extracted
from fbrag_cli.documents.pdf import reader
from fbrag_cli.documents.pdf.page_ranges import parse_ranges
from fbrag_cli.documents.pdf.pages import PageReader, ReadPage
from fbrag_cli.documents.pdf.reader import Share, read_pdf
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.progress import Event, Listener
from tests.documents.test_pdf import encrypted
from tests.documents.test_pdf import pdf as made

N_PAGES = 40
PAGES = [b"" if number == 7 else b"words of page %d\nand a sec-" % number for number in range(1, N_PAGES + 1)]
TWO = partial(run_jobs, processes=2, seconds=60.0)


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_TRIAL", 0)
    monkeypatch.setattr(reader, "_WORTH_SHARING", 0)
    monkeypatch.setattr(reader, "_MAX_BATCH", 8)


@dataclass
class RecordedShare:
    """A `Share` that notes what it is asked for."""

    share: Any
    batches: list[list[int]]

    def __call__(self, reader: PageReader, batches: Sequence[Sequence[int]]) -> Iterator[tuple[int, Any]]:
        self.batches += map(list, batches)
        return self.share(reader, batches)


def read(source: Source, share: Share | None = None, ranges: str | None = None, password: str | None = None) -> Extracted:
    chosen = None if ranges is None else parse_ranges(ranges, source.path)
    return read_pdf(source, ranges=chosen, password=password, listener=Listener(), share=share)


def on_disk(tmp_path: Path, data: bytes) -> Source:
    (tmp_path / "large.pdf").write_bytes(data)
    return read_source(str(tmp_path / "large.pdf"))


def test_the_result_is_the_same_and_most_pages_are_shared(tmp_path: Path) -> None:
    source = on_disk(tmp_path, made(*PAGES))
    share = RecordedShare(TWO, [])
    assert read(source, share) == read(source)
    assert [number for batch in share.batches for number in batch] == list(range(2, N_PAGES + 1))
    assert max(map(len, share.batches)) <= 8
    assert read(source, share, ranges="3-30") == read(source, ranges="3-30")


def test_stdin_and_passwords_reach_the_children(tmp_path: Path) -> None:
    piped = Source("-", "stdin", made(*PAGES))
    assert read(piped, TWO) == read(piped)
    locked = on_disk(tmp_path, encrypted(made(*PAGES), "geheim", "owner", "AES-256"))
    assert read(locked, TWO, password="geheim") == read(locked, password="geheim")


def test_a_file_travels_as_its_path(tmp_path: Path) -> None:
    import pickle

    data = made(*PAGES)
    assert len(pickle.dumps(PageReader(data, str(tmp_path / "large.pdf"), None))) < 1000 < len(data)


@pytest.mark.parametrize("gone", [False, True], ids=["other content", "deleted"])
def test_a_file_that_changes_under_the_children_is_not_mixed_in(tmp_path: Path, gone: bool) -> None:
    source = on_disk(tmp_path, made(*PAGES))
    if gone:
        os.remove(source.path)
    else:
        Path(source.path).write_bytes(made(*[b"other words"] * N_PAGES))
    document = read(source, TWO)
    assert document == read(source)


def test_progress_comes_in_pages(tmp_path: Path) -> None:
    heard: list[Event] = []
    read_pdf(on_disk(tmp_path, made(*PAGES)), ranges=None, password=None, listener=Listener(progress=heard.append), share=TWO)
    assert (heard[0].kind, heard[-1].kind) == ("start", "done")
    done = [event.done for event in heard if event.kind == "progress"]
    assert done == sorted(set(done))
    assert done[-1] == N_PAGES
    assert len(done) > 4
    assert {(event.stage, event.total) for event in heard} == {("read", N_PAGES)}


class _DyingReader:
    """Stands in for a reader that a page kills."""

    def __init__(self, reader: PageReader, deadly: int) -> None:
        self._reader, self._deadly = reader, deadly

    def __call__(self, numbers: Sequence[int]) -> list[ReadPage]:
        if self._deadly in numbers:
            os.abort()
        return self._reader(numbers)


def test_a_page_that_kills_its_process_costs_itself_only(tmp_path: Path) -> None:
    source = on_disk(tmp_path, made(*PAGES))
    document = read(source, lambda reader, batches: TWO(_DyingReader(reader, 20), batches))  # type: ignore[arg-type,return-value]
    assert document.skipped_pages == (7, 20)
    assert any("page 20 could not be read" in warning and "SIGABRT" in warning for warning in document.warnings)
    assert len(document.content.pages) == N_PAGES - 2


@pytest.mark.parametrize("lost", [False, True], ids=["slow pages", "lost processes"])
def test_the_time_of_all_pages_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    monkeypatch.setattr(reader, "_MAX_SECONDS", 35.0)
    monkeypatch.setattr(reader, "_MAX_SECONDS_PER_MB", 0.0)
    monkeypatch.setattr(reader, "_MAX_BATCH", 1)
    ended: list[int] = []

    def share(reader: PageReader, batches: Sequence[Sequence[int]]) -> Iterator[tuple[int, Any]]:
        try:
            for index, batch in enumerate(batches):
                slow = [replace(page, seconds=10.0) for page in reader(batch)]
                yield index, Failure("timeout", "it took more than 60 s") if lost else slow
        finally:
            ended.append(len(batches))

    document = read(on_disk(tmp_path, made(*PAGES)), share)
    assert ended == [N_PAGES - 1]
    n_read = 1 if lost else 5
    assert [page.number for page in document.content.pages] == list(range(1, n_read + 1))
    reasons = "it took more than 60 s, its pages take more than 35 s" if lost else "its pages take more than 35 s"
    assert f"could not be read ({reasons})" in document.warnings[0]


def test_an_error_amid_the_work_ends_the_children(tmp_path: Path) -> None:
    import psutil

    def stop(event: Event) -> None:
        if event.done > 10:
            raise KeyboardInterrupt

    before = {child.pid for child in psutil.Process().children(recursive=True)}
    source = on_disk(tmp_path, made(*PAGES))
    with pytest.raises(KeyboardInterrupt) as caught:  # whose traceback keeps all that the reading held
        read_pdf(source, ranges=None, password=None, listener=Listener(progress=stop), share=TWO)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert caught.tb


def test_small_pdfs_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    share = RecordedShare(TWO, [])
    read(on_disk(tmp_path, made(*PAGES)), share)
    assert share.batches == []
