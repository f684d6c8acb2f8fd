"""Files of arrays: what is damaged, another entry's or no plain file is noticed, and a full disk is an OSError."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache

ENTRY = "documents/aaaaaaaa"
META = {"name": "Größe", "pages": [1, 2]}
HELD = {
    "spans": np.arange(12, dtype=np.int32).reshape(4, 3),
    "empty": np.zeros((0, 3), np.float32),
    "letters": np.frombuffer(b"lighthouse", np.uint8),
    "column": np.arange(12, dtype=np.int64).reshape(4, 3)[:, 1],
}
LAYOUT = {name: (array.dtype, array.shape) for name, array in HELD.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "entry"
    arrays.save(path, ENTRY, META, HELD)
    return path


def test_what_is_saved_and_what_is_filled_through_a_map_are_one_file(path: Path, tmp_path: Path) -> None:
    meta, held = arrays.load(path, ENTRY)
    assert meta == META
    assert {name: array.dtype for name, array in held.items()} == {name: array.dtype for name, array in HELD.items()}
    assert all(np.array_equal(held[name], array) for name, array in HELD.items())
    with arrays.create(tmp_path / "mapped", ENTRY, META, LAYOUT) as views:
        for name, array in HELD.items():
            views[name][...] = array
    assert (tmp_path / "mapped").read_bytes() == path.read_bytes()


def test_a_flipped_bit_is_noticed_or_without_effect(path: Path) -> None:
    whole = path.read_bytes()
    harmless = 0
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        try:
            meta, held = arrays.load(path, ENTRY)
        except ValueError:
            continue
        harmless += 1
        assert meta == META
        assert all(np.array_equal(held[name], array) for name, array in HELD.items())
    assert harmless < 4 * 64  # the bytes between the arrays


def test_an_entry_under_another_key_is_damaged(path: Path) -> None:
    for other in ("documents/bbbbbbbb", "corpora/aaaaaaaa"):
        with pytest.raises(ValueError, match="another entry"):
            arrays.load(path, other)


@pytest.mark.parametrize(
    "header",
    [
        [],
        None,
        {},
        {"entry": ENTRY, "meta": None, "arrays": {}, "size": 0},
        {"entry": ENTRY, "meta": {}, "arrays": {"text": ["|O", [1], 0]}, "size": 8},
        {"entry": ENTRY, "meta": {}, "arrays": {"text": ["|u1", [10**9], 0]}, "size": 8},
        {"entry": ENTRY, "meta": {}, "arrays": {"text": ["|u1", [8], -8]}, "size": 8},
        {"entry": ENTRY, "meta": {}, "arrays": {"text": []}, "size": 8},
        {"entry": ENTRY, "meta": {}, "arrays": [], "size": "8"},
    ],
)
def test_a_header_that_lies_is_discarded(tmp_path: Path, header: object) -> None:
    cache = Cache(tmp_path / "cache")
    written = json.dumps(header).encode()
    data = arrays._START.pack(arrays._MAGIC, len(written), crc32(written)) + written
    for size in (arrays._start(len(written), 0), arrays._start(len(written), 1), arrays._start(len(written), 1) + 8):
        assert cache.store("documents", "aaaaaaaa", lambda path, size=size: path.write_bytes(data.ljust(size, b"\0")))  # type: ignore[misc]
        assert cache.load("documents", "aaaaaaaa", lambda path: arrays.load(path, ENTRY)) is None
        assert cache.path("documents", "aaaaaaaa") is None


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["pipe", "link", "zero"])
def test_only_a_plain_file_is_read(path: Path, kind: str) -> None:
    other = path.with_name("other")
    if kind == "pipe":
        os.mkfifo(other)
    else:
        other.symlink_to(path if kind == "link" else "/dev/zero")
    with pytest.raises(OSError, match="not a regular file" if kind == "pipe" else "it is a link"):
        arrays.load(other, ENTRY)


def test_a_map_without_room_is_refused_before_it_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="No space left"), arrays.create(tmp_path / "entry", ENTRY, META, LAYOUT):
        pytest.fail("it would be killed here")


@pytest.mark.parametrize("answer", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_reserves_nothing_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int) -> None:
    def unable(*arguments: object) -> None:
        raise OSError(answer, "no")

    monkeypatch.setattr(os, "posix_fallocate", unable, raising=False)
    with arrays.create(tmp_path / "entry", ENTRY, META, LAYOUT) as views:
        views["spans"][...] = 7
    assert (arrays.load(tmp_path / "entry", ENTRY)[1]["spans"] == 7).all()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only the superuser mounts disks")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize(
    "call",
    [
        "arrays.save(path, 'documents/aaaaaaaa', {}, {'text': np.ones(2_000_000, np.uint8)})",
        "with arrays.create(path, 'documents/aaaaaaaa', {}, {'text': (np.uint8, (2_000_000,))}) as held: held['text'][:] = 1",
    ],
)
def test_a_full_disk_does_not_kill_the_process(small_disk: Path, call: str) -> None:
    code = "import sys\nfrom pathlib import Path\nimport numpy as np\nfrom fbrag_cli.storage import arrays\n"
    code += f"path = Path(sys.argv[1])\ntry:\n    {call}\nexcept OSError as error:\n    print(error.errno)"
    done = subprocess.run([sys.executable, "-c", code, small_disk / "entry"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{errno.ENOSPC}\n"), done.stderr
