"""Entries without a name: whole, separate, few files, none of which can be found; memory where there is no room for files."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from fbrag_cli.storage import arrays
from fbrag_cli.storage.temporary import TemporaryEntries

META = {"name": "Größe"}
LAYOUT = {"spans": (np.int32, (4, 3)), "empty": (np.float32, (0, 3)), "text": (np.uint8, (5,))}


def _packed(key: str, text: bytes) -> bytes:
    return b"".join(arrays.packed(f"documents/{key}", META, {"text": np.frombuffer(text, np.uint8)}))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _fill(entries: TemporaryEntries, n: int) -> dict[str, bytes]:
    texts = {f"{number:08x}": bytes([number % 256]) * (1 + 7919 * number % 40_000) for number in range(n)}
    for key, text in texts.items():
        entries.add("documents", key, _packed(key, text))
    return texts


def _is_whole(entries: TemporaryEntries, texts: dict[str, bytes]) -> bool:
    found = {key: entries.load("documents", key) for key in texts}
    return all(each is not None and each[0] == META and each[1]["text"].tobytes() == texts[key] for key, each in found.items())


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files")
def test_many_entries_lie_in_few_files_without_a_name(temporary: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    entries = TemporaryEntries()
    texts = _fill(entries, 500)  # 10 MB
    assert os.listdir(temporary) == []
    files = [os.readlink(f"/proc/self/fd/{number}") for number in set(os.listdir("/proc/self/fd")) - before - {"."}]
    assert 0 < len([file for file in files if str(temporary) in file]) < 10
    assert _is_whole(entries, texts)
    with entries.create("corpora", "aaaaaaaa", META, LAYOUT) as held:
        assert not held["spans"].any()
        held["spans"][:], held["text"][:] = 7, 5
    assert _is_whole(entries, texts)
    found = entries.load("corpora", "aaaaaaaa")
    assert found is not None
    assert (found[1]["spans"] == 7).all()
    assert found[1]["spans"].ctypes.data % 64 == 0
    assert entries.load("corpora", "00000001") is None
    assert ("documents", "00000001") in entries
    assert ("corpora", "00000001") not in entries


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.ENOENT])
def test_without_room_they_lie_in_memory(temporary: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise OSError(error, os.strerror(error))

    if error == errno.ENOSPC:
        monkeypatch.setattr(os, "posix_fallocate", fail, raising=False)
    else:
        monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    entries = TemporaryEntries()
    assert _is_whole(entries, _fill(entries, 50))


def test_an_entry_that_another_one_overwrites_is_noticed(temporary: Path) -> None:
    entries = TemporaryEntries()
    entries.add("documents", "aaaaaaaa", _packed("bbbbbbbb", b"text"))
    with pytest.raises(ValueError, match="another entry"):
        entries.load("documents", "aaaaaaaa")
