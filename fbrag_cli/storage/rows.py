"""The row file of a long run. Each row is appended atomically, so that a killed run can resume.

A file is in JSON Lines: one object per line, whose first key is `schema`. Only one process writes it at a time.
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

#: The hint if an output has rows of another run.
HINT_OTHER_FILE = "use another -o FILE, or --restart to overwrite it"
_NOT_OURS = "use another -o FILE"
_OURS = (b'{"schema":"fbrag.', b'{"schema": "fbrag.')  # files that --restart may overwrite
_FLUSH_EVERY = 1.0  # seconds between two flushes to the disk (fsync)


def parsed(data: bytes, schema: str) -> list[dict[str, Any]]:
    """Return the rows in JSON Lines. An incomplete last row, left by a killed run, is dropped.

    Raises ValueError, with the line number, for a line that is not a row of this schema.
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
    """An open row file. rows: the rows in it when it was opened."""

    def __init__(self, path: Path, schema: str) -> None:
        self._path, self._schema = path, schema
        self._file, self._flushed = self._open(), monotonic()
        self._is_replaced = False  # whether the first row replaces the content of the file
        self.rows: list[dict[str, Any]] = []

    def write(self, row: Row) -> None:
        """Append a row atomically. Raises FbragError `disk_full` or `output`."""
        if self._is_replaced:
            self._replace(_encoded(row))
            self._is_replaced = False
        else:
            self._append(_encoded(row))
        if monotonic() - self._flushed > _FLUSH_EVERY:
            self._flush()

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Rewrite the file with only the wanted rows. Raises the same errors as `write`."""
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
        """Read the rows, and cut off an incomplete last one. Raises FbragError `usage` for another kind of file.

        restart: read no rows, and keep the file unchanged until the first new row.
        """
        data = b"".join(iter(lambda: os.read(self._file, 1 << 20), b""))
        end = data.rfind(b"\n") + 1
        is_ours = data.startswith(_OURS)
        try:
            rows = parsed(data[:end], self._schema)
            start = f'{{"schema":"{self._schema}"'.encode()
            if not (rows or data[end:].startswith(start) or start.startswith(data[end:])):
                raise ValueError("the last line is incomplete")
        except ValueError as error:
            if not (restart and is_ours):
                what = f"{self._path} is not a file of such rows: {error}"
                raise FbragError("usage", what, HINT_OTHER_FILE if is_ours else _NOT_OURS) from None
        else:
            if not restart:
                self.rows = rows
                os.ftruncate(self._file, end)
                return
        self._is_replaced = bool(data)

    def _replace(self, data: bytes) -> None:
        """Replace the file's content with `data` atomically. Raises the same errors as `write`."""
        os.close(self._file)  # Windows does not replace open files
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
        return not_writable(self._path, error, code, "free some space, then run it again to resume")


@contextmanager
def open_rows(path: Path, schema: str, *, restart: bool = False) -> Iterator[RowFile]:
    """Context manager: open a row file for appending, and lock it until the block ends. An incomplete last row is cut off.

    restart: start without rows; existing ones are dropped when the first new one is written. Raises FbragError: `output` if it is
    not a regular file, cannot be read or written, or is locked by another process; `usage` if it has other content, which is not
    changed.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise FbragError("output", f"{path} is not a regular file", "use another -o FILE")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
            rows = RowFile(path, schema)
            stack.callback(rows.close)
            rows._read(restart=restart)
        except BlockingIOError:
            what = f"another fbrag is writing to {path}"
            raise FbragError("output", what, "wait for it, or use another -o FILE") from None
        except OSError as error:
            raise not_writable(path, error, "output", "use another -o FILE") from None
        yield rows


def _encoded(row: Row) -> bytes:
    return dumps(row).encode() + b"\n"
