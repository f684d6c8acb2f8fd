"""Files that are written whole or not at all, and the SHA-256 of a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from fbrag_cli.storage.files import blocks_of, sha256_of, whole_file

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX systems")


def write(path: Path, text: str) -> None:
    with whole_file(path) as temporary:
        temporary.write_text(text)


def write_half(path: Path, failure: type[BaseException]) -> None:
    with whole_file(path) as temporary:
        temporary.write_text("half")
        raise failure


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, OSError])
def test_a_file_changes_only_when_all_of_it_is_written(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "file"
    for before in (None, "old"):
        with pytest.raises(failure):
            write_half(path, failure)
        assert (path.read_text() if path.exists() else None) == before
        assert os.listdir(tmp_path) == ([path.name] if before else [])
        write(path, "old")
    write(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == [path.name]


@POSIX
def test_permissions_are_those_of_the_old_file_or_of_the_user(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "new", "")
        for bits in (0o600, 0o444, 0o666):
            path = tmp_path / f"{bits:o}"
            path.touch()
            path.chmod(bits)
            with whole_file(path) as temporary:
                assert mode(temporary) == 0o600  # nobody else reads it meanwhile
            assert mode(path) == bits
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o640


@POSIX
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "file"
    link.symlink_to(target)
    write(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "file"):
        with pytest.raises(OSError, match=r"folder|No such"), whole_file(path):
            pytest.fail("it cannot be written")


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, (1 << 20) + 1])
def test_sha256_of_a_file(tmp_path: Path, size: int) -> None:
    path, data = tmp_path / "file", bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    path.write_bytes(data)
    told: list[int] = []
    assert sha256_of(path, told.append) == hashlib.sha256(data).hexdigest()
    assert (told or [0])[-1] == size
    assert b"".join(blocks_of(path, size // 2)) == data[: size // 2]
