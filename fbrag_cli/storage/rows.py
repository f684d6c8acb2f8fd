"""The row file of a long run: each row is appended whole, so that a run that was killed goes on where it was.

A file is JSON lines: an object a line, whose first key is `schema`. One process writes it at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import is_full, locked, not_writable, whole_file
from fbrag_cli.text.printable import dumps, one_line

Row = Mapping[str, Any]

#: What to do where an output holds rows of something else.
HINT_OTHER_FILE = "choose another -o FILE, or add --restart"
_NOT_OURS = "choose another -o FILE"
_OURS = (b'{"schema":"fbrag.', b'{"schema": "fbrag.')  # what --restart may replace
_FLUSH_EVERY = 1.0  # seconds between two flushes to the disk (fsync)


def parsed(data: bytes, schema: str) -> list[dict[str, Any]]:
    """Return the rows in JSON lines. What a kill left of a last row is left out.

    Raises ValueError, which names the line, for one that is no row of this schema.
    """
    rows: list[dict[str, Any]] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if rows and number == len(lines):
                break
            raise ValueError(f"line {number}: not JSON") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number}: not an object")
        if row.get("schema") != schema:
            raise ValueError(f"line {number}: schema is {one_line(str(row.get('schema')), 40)}, not {schema}")
        rows.append(row)
    return rows


class RowFile:
    """An open row file. rows: those that it held when it was opened."""

    def __init__(self, path: Path, schema: str) -> None:
        self._path, self._schema = path, schema
        self._file, self._flushed = self._open(), monotonic()
        self._is_replaced = False  # whether the first row takes the place of what the file holds
        self.rows: list[dict[str, Any]] = []

    def write(self, row: Row) -> None:
        """Append a row, whole or not at all. Raises FbragError `disk_full` or `output`."""
        if self._is_replaced:
            self._replace(_encoded(row))
            self._is_replaced = False
        else:
            self._append(_encoded(row))
        if monotonic() - self._flushed > _FLUSH_EVERY:
            self._flush()

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Rewrite the file with those of `rows` that are wanted. Raises FbragError as `write`."""
        kept = [row for row in self.rows if wanted(row)]
        if len(kept) < len(self.rows):
            self._replace(b"".join(map(_encoded, kept)))
            self.rows = kept

    def close(self) -> None:
        self._flush()
        os.close(self._file)

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)

    def _read(self, *, restart: bool) -> None:
        """Take in the rows, and cut off what a kill left of the last one. Raises FbragError `usage` for another kind of file.

        restart: take in no row, and leave the file as it is until the first new row.
        """
        data = b"".join(iter(lambda: os.read(self._file, 1 << 20), b""))
        end = data.rfind(b"\n") + 1
        is_ours = data.startswith(_OURS)
        try:
            rows = parsed(data[:end], self._schema)
            start = f'{{"schema":"{self._schema}"'.encode()
            if not (rows or data[end:].startswith(start) or start.startswith(data[end:])):
                raise ValueError("its last line is cut off")
        except ValueError as error:
            if not (restart and is_ours):
                what = f"{self._path} holds no rows of this kind: {error}"
                raise FbragError("usage", what, HINT_OTHER_FILE if is_ours else _NOT_OURS) from None
        else:
            if not restart:
                self.rows = rows
                os.ftruncate(self._file, end)
                return
        self._is_replaced = bool(data)

    def _replace(self, data: bytes) -> None:
        """Put `data` in the place of the file's content, whole or not at all. Raises FbragError as `write`."""
        os.close(self._file)  # Windows replaces no open file
        try:
            with whole_file(self._path) as temporary:
                temporary.write_bytes(data)
        except OSError as error:
            raise self._failed(error) from None
        finally:
            self._file = self._open()

    def _append(self, data: bytes) -> None:
        start = os.fstat(self._file).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(self._file, start)
            if isinstance(error, OSError):
                raise self._failed(error) from None
            raise

    def _flush(self) -> None:
        with suppress(OSError):  # some file systems cannot do this
            os.fsync(self._file)
        self._flushed = monotonic()

    def _failed(self, error: OSError) -> FbragError:
        code = "disk_full" if is_full(error) else "output"
        return not_writable(self._path, error, code, "free some space, then start it again: the rows so far stay")


@contextmanager
def open_rows(path: Path, schema: str, *, restart: bool = False) -> Iterator[RowFile]:
    """Open a row file for appending, and lock it until the block ends. What a kill left of the last row is cut off.

    restart: begin with no rows; those that are there are dropped when the first new one is written. Raises FbragError: `output`
    where it is no regular file, cannot be read or written, or another process writes it; `usage` where it holds something else,
    which stays as it is.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise FbragError("output", f"{path} is no regular file, as rows need it", "choose another -o FILE")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
            rows = RowFile(path, schema)
            stack.callback(rows.close)
            rows._read(restart=restart)
        except BlockingIOError:
            what = f"{path} is being written by another run"
            raise FbragError("output", what, "wait for its end, or choose another -o FILE") from None
        except OSError as error:
            raise not_writable(path, error, "output", "choose another -o FILE") from None
        yield rows


def _encoded(row: Row) -> bytes:
    return dumps(row).encode() + b"\n"
