"""The row file: whatever a kill, a full disk or a second run does to it, it ends as if nothing had happened."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.rows import open_rows

SCHEMA = "fbrag.row/1"
ROWS = [
    {"schema": SCHEMA, "id": "1", "answer": 'She said "no",\nand went.'},
    {"schema": SCHEMA, "id": "2", "answer": "Zoë — 川"},
    {"schema": SCHEMA, "id": "3", "answer": ""},
    {"schema": SCHEMA, "id": "4", "answer": "a\rb"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> bytes:
    """Write those of the rows that the file lacks, as a run that goes on does. Return the file's bytes."""
    with open_rows(path, SCHEMA) as file:
        done = {row["id"] for row in file.rows}
        for row in rows:
            if row["id"] not in done:
                file.write(row)
    return path.read_bytes()


def test_a_file_that_is_cut_anywhere_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", ROWS)
    for end in range(len(whole) + 1):
        path = tmp_path / "cut"
        path.write_bytes(whole[:end])
        assert write(path, ROWS) == whole, end


def test_another_file_stays_as_it_is(tmp_path: Path) -> None:
    others = [b"Dear diary,\ntoday\n", b'{"id":"1"}\n{"a"', b"id,answer,more\n1,2,3\n", b'{"schema":"fbrag.eval/1","id":"1"}\n']
    for data in others:
        path = tmp_path / "other"
        path.write_bytes(data)
        with pytest.raises(FbragError, match="is not a file of such rows") as raised, open_rows(path, SCHEMA):
            pass
        assert raised.value.code == "usage"
        assert path.read_bytes() == data


def test_a_second_run_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with open_rows(path, SCHEMA) as file:
        file.write(ROWS[0])
        with pytest.raises(FbragError, match="another fbrag is writing to"), open_rows(path, SCHEMA, restart=True):
            pass
        file.keep(lambda row: row["id"] != "1")
        with pytest.raises(FbragError, match="another fbrag is writing to"), open_rows(path, SCHEMA):
            pass
        file.write(ROWS[1])
    with open_rows(path, SCHEMA) as file:
        assert [row["id"] for row in file.rows] == ["1", "2"]


def test_rows_that_are_not_kept_leave_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    write(path, ROWS)
    with open_rows(path, SCHEMA) as file:
        file.keep(lambda row: row["id"] != "2")
        assert [row["id"] for row in file.rows] == ["1", "3", "4"]
        file.write(ROWS[1])
    with open_rows(path, SCHEMA) as file:
        assert [row["id"] for row in file.rows] == ["1", "3", "4", "2"]
    assert sorted(os.listdir(tmp_path)) == ["rows"]


@pytest.mark.skipif(os.name == "nt", reason="devices and pipes of POSIX systems")
def test_a_device_a_pipe_or_a_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path(os.devnull), tmp_path / "pipe", tmp_path):
        with pytest.raises(FbragError, match="is not a regular file") as raised, open_rows(path, SCHEMA):
            pass
        assert raised.value.code == "output"


def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails, as no test can make one."""

    def fail(file: int, n: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    whole = write(tmp_path / "rows", ROWS)
    monkeypatch.setattr("fbrag_cli.storage.rows.os.read", fail)
    with pytest.raises(FbragError, match="Input/output error") as raised, open_rows(tmp_path / "rows", SCHEMA):
        pass
    assert raised.value.code == "output"
    monkeypatch.undo()
    assert write(tmp_path / "rows", ROWS) == whole  # the file is whole, and not locked


def test_a_full_disk_leaves_no_half_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes half of a row and then no more."""
    path, real, room = tmp_path / "rows", os.write, 0

    def write_some(file: int, data: Any) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n = real(file, bytes(data)[:room])
        room -= n
        return n

    whole = write(tmp_path / "whole", ROWS)
    with open_rows(path, SCHEMA) as file:
        file.write(ROWS[0])
        before = path.read_bytes()
        room = 5
        monkeypatch.setattr("fbrag_cli.storage.rows.os.write", write_some)
        with pytest.raises(FbragError) as raised:
            file.write(ROWS[1])
        assert raised.value.code == "disk_full"
        assert path.read_bytes() == before
        monkeypatch.undo()
    assert write(path, ROWS) == whole


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of file sizes")
def test_a_limit_of_the_system_leaves_no_half_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    script = f"""
import resource, signal
from pathlib import Path
from fbrag_cli.storage.rows import open_rows
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
with open_rows(Path({str(path)!r}), {SCHEMA!r}) as file:
    for i in range(9):
        file.write({{"schema": {SCHEMA!r}, "id": str(i), "answer": "x" * 20}})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "cannot be written: File too large" in done.stderr
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["0"]


#: Files that people have, none of them rows: a workbook, a model, texts in UTF-16 with and without a mark, zeros before a text.
OTHERS = [
    b"PK\x03\x04\x14\0\x06\0[Content_Types].xml\n",
    b"GGUF\x03\0\0\0" + bytes(4096) + b"\ntensors\n",
    "Dear diary,\nnothing.\n".encode("utf-16"),
    '{"a": 1}\n'.encode("utf-16-le"),
    "Dear diary,\nnothing.\n".encode("utf-16-be"),
    bytes(9) + b"\nDear diary,\n",
    b"SQLite format 3\0" + bytes(3_000_000),
]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("other", OTHERS, ids=["xlsx", "gguf", "utf-16", "utf-16-le", "utf-16-be", "zeros", "long"])
def test_a_file_with_zeros_that_holds_no_rows_stays_as_it_is(other: bytes, restart: bool, tmp_path: Path) -> None:
    """The zeros that a power failure leaves stand among rows."""
    path = tmp_path / "other"
    path.write_bytes(other)
    with pytest.raises(FbragError, match="is not a file of such rows") as raised, open_rows(path, SCHEMA, restart=restart):
        pass
    assert (raised.value.code, raised.value.hint) == ("usage", "use another -o FILE")
    assert path.read_bytes() == other


def test_rows_stay_until_a_restarted_run_has_its_first(tmp_path: Path) -> None:
    before = write(tmp_path / "rows", ROWS)
    with open_rows(tmp_path / "rows", SCHEMA, restart=True) as file:
        assert file.rows == []
    assert (tmp_path / "rows").read_bytes() == before
    with open_rows(tmp_path / "rows", SCHEMA, restart=True) as file:
        file.write(ROWS[1])
        file.write(ROWS[0])
    with open_rows(tmp_path / "rows", SCHEMA) as file:
        assert [row["id"] for row in file.rows] == ["2", "1"]


def test_rows_of_another_kind_are_dropped_by_a_restart_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b'{"schema":"fbrag.row/0","id":"1"}\n')
    with pytest.raises(FbragError, match=r"schema is fbrag\.row/0") as raised, open_rows(path, SCHEMA):
        pass
    assert "--restart" in str(raised.value.hint)
    with open_rows(path, SCHEMA, restart=True) as file:
        file.write(ROWS[0])
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == ROWS[:1]
