"""What is kept of files and folders, and what happens when it is damaged, gone or out of date."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.indexing import collect as collect_module
from fbrag_cli.indexing.collect import collect, collect_one
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.indexing.walk import find_files
from fbrag_cli.progress import Listener
from fbrag_cli.query import Collection
from fbrag_cli.storage.cache import NOWHERE, Cache
from fbrag_cli.workers import Failure
from tests.documents.making import docx, w_paragraph

QUESTION = "Who keeps the lighthouse?"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("The lighthouse is kept by Agnes Moor.")
    (folder / "b.txt").write_text("The mill is kept by Tom Reed.")
    (folder / "c.txt").write_text("Bread is baked on Thursdays.")
    (folder / "d.txt").write_text("Nobody knows who built the bridge.")
    return folder


def collected(folder: Path, cache: Cache) -> Collection:
    return collect(find_files([str(folder)]).files, ReadSettings(), cache)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the files had been made a while ago."""
    monkeypatch.setattr("fbrag_cli.indexing.collect._SETTLED_SECONDS", -60)


def entries(cache: Cache, kind: str) -> list[Path]:
    return sorted((cache.root / kind).iterdir())


def seen(collection: Collection) -> tuple[list[str], list[float]]:
    """The texts of the chunks, and their scores. Taken before an entry is harmed: nothing of ours cuts a file that is mapped."""
    scores = collection.retriever.scores(QUESTION).tolist()
    assert any(scores)
    return [chunk.text for chunk in collection.corpus.chunks], scores


@pytest.mark.usefixtures("settled")
def test_a_folder_that_has_not_changed_is_not_opened(folder: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = collected(folder, cache)
    assert first.cached == ()
    assert first.warnings == ()
    monkeypatch.setattr("fbrag_cli.indexing.collect.run_jobs", None)
    again = collected(folder, cache)
    assert again.cached == ("text", "index")
    assert seen(first) == seen(again)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("kind", ["documents", "corpora", "listings"])
@pytest.mark.parametrize("harm", ["cut", "emptied", "removed"])
def test_what_is_damaged_in_the_cache_is_made_again(folder: Path, cache: Cache, kind: str, harm: str) -> None:
    first = seen(collected(folder, cache))
    for entry in entries(cache, kind):
        if harm == "removed":
            entry.unlink()
        else:
            entry.write_bytes(entry.read_bytes()[: -9 if harm == "cut" else 0])
    again = collected(folder, cache)
    assert seen(again) == first


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("kind", ["documents", "corpora", "listings"])
def test_an_entry_whose_bits_have_changed_is_made_again(folder: Path, cache: Cache, kind: str) -> None:
    first = seen(collected(folder, cache))
    whole = {entry: entry.read_bytes() for entry in entries(cache, kind)}
    for entry, data in whole.items():
        changed = bytearray(data)
        changed[data.index(b'"meta": {"') + 10] ^= 1
        entry.write_bytes(changed)
    if kind == "documents":
        cache.clear("corpora")
    assert seen(collected(folder, cache)) == first
    assert {entry: entry.read_bytes() for entry in entries(cache, kind)} == whole


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("password", [None, "x"])
def test_a_damaged_text_of_a_folder_is_read_again_at_once(folder: Path, cache: Cache, password: str | None) -> None:
    """The index of an unchanged folder opens no text: that it is damaged shows when the answer needs it."""
    settings = ReadSettings(password=password)
    files = find_files([str(folder)]).files
    first = seen(collect(files, settings, cache))
    for entry in entries(cache, "documents"):
        entry.write_bytes(entry.read_bytes().replace(b"kept by", b"sold by").replace(b"baked", b"eaten"))
    again = collect(files, settings, cache)
    assert again.cached == ("text", "index")
    assert seen(again) == first
    again = collect(files, settings, cache)
    for entry in entries(cache, "documents"):
        entry.unlink()
    (folder / "c.txt").write_text("Bread is baked on Fridays.")
    with pytest.raises(FbragError, match=r"c\.txt has changed") as raised:
        seen(again)
    assert (raised.value.code, raised.value.document) == ("doc_unreadable", str(folder / "c.txt"))


def test_two_documents_swapped_in_the_cache_are_read_again(folder: Path, cache: Cache) -> None:
    paths = [str(folder / name) for name in ("a.txt", "b.txt")]
    first = [collect_one(path, ReadSettings(), cache, None, Listener()).corpus.documents[0].text for path in paths]
    one, two = entries(cache, "documents")
    held = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(held)
    again = [collect_one(path, ReadSettings(), cache, None, Listener()) for path in paths]
    assert [each.corpus.documents[0].text for each in again] == first
    assert [each.cached for each in again] == [(), ()]


def test_a_change_within_the_same_second_and_size_is_noticed(folder: Path, cache: Cache) -> None:
    collected(folder, cache)
    (folder / "a.txt").write_text("The lighthouse is kept by Berta Lund.")
    assert "Berta Lund" in collected(folder, cache).corpus.chunks[0].text


def test_only_the_changed_file_is_read_again(folder: Path, cache: Cache) -> None:
    collected(folder, cache)
    before = entries(cache, "documents")
    (folder / "a.txt").write_text("The lighthouse is kept by Berta Lund.")
    collected(folder, cache)
    assert len(set(entries(cache, "documents")) - set(before)) == 1


def test_a_file_that_takes_more_time_than_the_shell_allows_is_named(
    folder: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = FbragError("timeout", "a document took more than the 2 s of CPU time that this shell allows", "ulimit -t")

    def run_jobs(*jobs: Any, **limits: Any) -> Iterator[tuple[int, Failure]]:
        yield 0, Failure("timeout", "it took more than the 2 s of CPU time that this shell allows", limit)

    monkeypatch.setattr(collect_module, "run_jobs", run_jobs)
    with pytest.raises(FbragError, match="cannot be read: it took more than the 2 s of CPU time") as caught:
        collected(folder, cache)
    assert (caught.value.code, caught.value.hint, caught.value.document) == ("timeout", "ulimit -t", str(folder / "a.txt"))


@pytest.mark.usefixtures("settled")
def test_a_failure_that_may_pass_is_tried_again(folder: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "e.docx").write_bytes(docx(w_paragraph("The mill stands still.")))
    dying = folder.parent / "sitecustomize.py"
    dying.write_text("import os, lxml.etree; lxml.etree.XMLParser = lambda **named: os._exit(9)\n")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    (warning,) = collected(folder, cache).warnings
    assert "e.docx cannot be read: the process that read it ended (status 9)" in warning
    dying.unlink()
    assert collected(folder, cache).warnings == ()


@pytest.mark.usefixtures("settled")
def test_a_file_that_is_no_text_does_not_slow_the_folder(folder: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "e.txt").write_bytes(bytes(range(256)) * 100)
    first = collected(folder, cache)
    assert "e.txt is not text" in first.warnings[0]
    monkeypatch.setattr("fbrag_cli.indexing.collect.run_jobs", None)
    again = collected(folder, cache)
    assert (again.cached, again.warnings) == (("text", "index"), first.warnings)


def test_a_warning_names_the_file_by_the_name_that_it_has_now(tmp_path: Path, cache: Cache) -> None:
    (tmp_path / "a").write_bytes("Das Fräulein grüßt die Gäste am Höhenweg über Lützelflüh.".encode("cp1252"))
    (first,) = collect_one(str(tmp_path / "a"), ReadSettings(), cache, None, Listener()).corpus.documents
    os.rename(tmp_path / "a", tmp_path / "other")
    moved = collect_one(str(tmp_path / "other"), ReadSettings(), cache, None, Listener())
    assert moved.cached == ("text", "index")
    (warning,) = moved.corpus.documents[0].warnings
    assert warning == first.warnings[0].replace(str(tmp_path / "a"), str(tmp_path / "other"), 1)


# -- a file alone ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def word(tmp_path: Path) -> Path:
    path = tmp_path / "a.docx"
    path.write_bytes(docx(w_paragraph("The mill stands still.")))
    return path


def _reads_as(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what reads a Word document in child processes."""
    hook = f"import lxml.etree, os, signal, time\nlxml.etree.XMLParser = lambda **named: {code}\n"
    (tmp_path / "sitecustomize.py").write_text(hook)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sum(range(10**15))", "it took more than 2 s of CPU time"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed (SIGKILL, probably because memory ran out)"),
        ("os.abort()", "killed (SIGABRT, probably because memory ran out or"),
        ("os._exit(9)", "ended (status 9)"),
    ],
)
def test_a_file_alone_has_the_limits_of_a_folders(
    word: Path, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, says: str
) -> None:
    monkeypatch.setattr(collect_module, "FILE_SECONDS", 2)
    _reads_as(code, tmp_path, monkeypatch)
    with pytest.raises(FbragError) as caught:
        collect_one(str(word), ReadSettings(), cache, None, Listener())
    assert (caught.value.code, caught.value.exit_code, caught.value.document) == ("doc_unreadable", 3, str(word))
    assert caught.value.message.startswith(f"{word} cannot be read: ")
    assert says in caught.value.message


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_a_file_gets_at_most_half_of_the_memory_that_is_free(
    word: Path, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1_200_000_000))
    _reads_as("bytearray(700_000_000)", tmp_path, monkeypatch)
    with pytest.raises(FbragError, match="it needs too much memory"):
        collect_one(str(word), ReadSettings(), cache, None, Listener())


@pytest.mark.parametrize(("free", "code"), [(0, "disk_full"), (1 << 30, "doc_unreadable")])
def test_a_child_that_dies_on_a_full_disk_is_no_bad_file(
    word: Path, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, code: str
) -> None:
    assert cache.usable
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    _reads_as("os.kill(os.getpid(), signal.SIGBUS)", tmp_path, monkeypatch)
    with pytest.raises(FbragError) as caught:
        collect_one(str(word), ReadSettings(), cache, None, Listener())
    assert caught.value.code == code


def test_a_short_text_alone_is_read_without_a_child_and_a_long_one_with(
    folder: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = collect_module.run_jobs
    monkeypatch.setattr(collect_module, "run_jobs", None)
    path = str(folder / "a.txt")
    alone = seen(collect_one(path, ReadSettings(), NOWHERE, None, Listener()))
    calls: list[str] = []

    def noted(*arguments: object, **options: object) -> object:
        calls.append("child")
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(collect_module, "run_jobs", noted)
    monkeypatch.setattr(collect_module, "LONG_TEXT", 10)
    for store in (NOWHERE, cache):
        assert seen(collect_one(path, ReadSettings(), store, None, Listener())) == alone
    assert calls == ["child"] * 2
    assert collect_one(path, ReadSettings(), cache, None, Listener()).cached == ("text", "index")
    stdin = collect_one("-", ReadSettings(), NOWHERE, io.BytesIO((folder / "a.txt").read_bytes()), Listener())
    assert seen(stdin) == alone
    assert stdin.corpus.documents[0].name == "stdin"
    assert calls == ["child"] * 3


def test_a_folder_that_is_not_cached_gives_the_same_collection(folder: Path, cache: Cache) -> None:
    kept, passing = collected(folder, cache), collected(folder, NOWHERE)
    assert seen(passing) == seen(kept)
    assert passing.cached == ()
    assert [document.text for document in passing.corpus.documents] == [document.text for document in kept.corpus.documents]


def test_a_full_disk_is_an_error(folder: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    collected(folder, cache)
    cache.clear("corpora")

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fbrag_cli.indexing.folder_index.arrays.create", full)
    with pytest.raises(FbragError) as caught:
        collected(folder, cache)
    assert caught.value.code == "disk_full"
    assert entries(cache, "corpora") == []


def test_the_language_given_is_taken(tmp_path: Path, cache: Cache) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"plain English words, and more of them")
    for language, expected in ((None, "en"), ("de", "de")):
        read = collect_one(str(path), ReadSettings(language=language), cache, None, Listener())
        assert read.corpus.documents[0].language == expected
