"""The row file of a long run: each row is appended whole, so that a run that was killed goes on where it was.

A file is JSON lines or CSV. One process writes it at a time. `eval` and `batch` share this module.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import accumulate, compress, pairwise
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from fbrag_cli.errors import FbragError
from fbrag_cli.storage.files import is_full, not_writable, whole_file
from fbrag_cli.text.printable import one_line

Row = Mapping[str, Any]

#: What to do where an output holds rows of something else.
ANOTHER = "choose another -o FILE, or add --restart"
_NOT_OURS = "choose another -o FILE"
_OURS = re.compile(rb'(\xef\xbb\xbf)?(\{"schema": ?"fbrag\.|id,document,question,)')  # what --restart may replace
_BLANK = b" \t\r\n\0"  # what stands for rows that a power failure took: a file may have grown, and its blocks be zeros
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*%?")
_FLUSH_EVERY = 1.0  # seconds between two flushes to the disk (fsync)
_REPLACES_OPEN_FILES = os.name != "nt"
_LOCKED = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_LONGEST_FIELD = 2**31 - 1  # characters; the csv module takes no more on Windows, and without this 131,072
_BEYOND = 1 << 60  # a place that no file reaches: Windows locks bytes, and others shall be able to read those of rows


class Form(Protocol):
    """How rows are written.

    head: stands before the first row. encode: returns the bytes of a row. begin: returns the byte of a file where its first row
    begins, None for a head that is blank or was cut off. split: returns the rows of a file's bytes without its head, each with
    the byte where it ends; a row that was cut off, and blank bytes, are left out at the end.
    Raises ValueError, with the reason, for other bytes.
    """

    @property
    def head(self) -> bytes: ...
    def begin(self, data: bytes) -> int | None: ...
    def encode(self, row: Row) -> bytes: ...
    def split(self, data: bytes) -> list[tuple[dict[str, Any], int]]: ...


class JsonLines:
    """A JSON object a line, whose first key is `schema`. dumps: returns a row in one line."""

    head = b""

    def __init__(self, schema: str, dumps: Callable[[Any], str]) -> None:
        self._schema, self._dumps = schema, dumps
        self._begins = f'{{"schema":"{schema}"'.encode()

    def encode(self, row: Row) -> bytes:
        return self._dumps(row).encode() + b"\n"

    def begin(self, data: bytes) -> int | None:
        return 0

    def split(self, data: bytes) -> list[tuple[dict[str, Any], int]]:
        rows: list[tuple[dict[str, Any], int]] = []
        start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1 or len(data)
            line = data[start:end]
            if b"\0" in line:  # a block that a power failure took: what follows was written in the same second
                if not (rows or self._is_ours(line, data[start:])):
                    raise ValueError("it is no text")
                break
            row = _parsed(line)
            if self._is_row(row):
                rows.append((row, end))
            elif row is not None or not self._is_cut_off(line):
                number = data.count(b"\n", 0, start) + 1
                raise ValueError(f"line {number}: {self._fault(row)}")
            start = end
        return rows

    def _is_row(self, row: Any) -> bool:
        return isinstance(row, dict) and row.get("schema") == self._schema

    def _is_ours(self, line: bytes, data: bytes) -> bool:
        """Return whether zeros in a file's first line stand where rows were: it begins as a row, a row follows, or nothing."""
        whole = line.replace(b" ", b"").startswith(self._begins)
        return whole or _is_blank_after(self._begins, data) or any(map(self._is_row, map(_parsed, data.splitlines(True))))

    def _fault(self, row: Any) -> str:
        if isinstance(row, dict):
            return f"schema is {one_line(str(row.get('schema')), 40)}, not {self._schema}"
        return "not JSON" if row is None else "not an object"

    def _is_cut_off(self, line: bytes) -> bool:
        """Return whether a line is blank or the beginning of a row."""
        said = line.strip(_BLANK)[: 2 * len(self._begins)].replace(b" ", b"")[: len(self._begins)]
        return said == self._begins[: len(said)]


def _parsed(line: bytes) -> Any:
    """Return the value of a line of JSON; None for one that is none, or that was cut off."""
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None


def _is_blank_after(begins: bytes, data: bytes) -> bool:
    """Return whether data is a part of the beginning of a row, and blanks."""
    return begins.startswith(data.rstrip(_BLANK).replace(b" ", b""))


class Csv:
    """Records as RFC 4180 has them, below a line with the names of the columns. Lines end as on Unix; cells are `inert` texts.

    marked: whether a new file begins with a byte order mark, without which Excel takes UTF-8 for the encoding of the country.
    """

    def __init__(self, columns: Sequence[str], *, marked: bool = False) -> None:
        self._columns = list(columns)
        self.head = (BOM_UTF8 if marked else b"") + self._record(self._columns)

    def encode(self, row: Row) -> bytes:
        return self._record([row[name] for name in self._columns])

    def begin(self, data: bytes) -> int | None:
        """As of `Form`. A spreadsheet may have saved the file: with other line ends, and with or without the mark."""
        end = data.find(b"\n") + 1
        names: list[str] = []
        with suppress(csv.Error):  # of UTF-16, or of a line without end
            names = next(csv.reader([data[:end].decode("utf-8-sig", "replace").rstrip("\r\n")]), [])
        if end and names == self._columns:
            return end
        if any(head.startswith(data.rstrip(_BLANK)) for head in (self.head, self.head.removeprefix(BOM_UTF8))):
            return None
        first = self._columns[0]
        if names[:1] != [first]:
            is_parted = data.removeprefix(BOM_UTF8).startswith(f"{first};".encode())
            raise ValueError(
                "its columns are parted by ;" if is_parted else f"its first line is not {','.join(self._columns[:3])},…"
            )
        lacking = [name for name in self._columns if name not in names]
        raise ValueError(f"it lacks the columns {', '.join(lacking)}" if lacking else "it has other columns")

    def split(self, data: bytes) -> list[tuple[dict[str, Any], int]]:
        before = csv.field_size_limit(_LONGEST_FIELD)
        try:
            return self._split(data)
        finally:
            csv.field_size_limit(before)  # it holds for the whole process

    def _split(self, data: bytes) -> list[tuple[dict[str, Any], int]]:
        rows, start = [], 0
        for end in _ends(data):
            record = data[start:end]
            if b"\0" in record:
                break
            try:
                fields = next(csv.reader(io.StringIO(record.decode("utf-8", "replace"), newline="")), [])
            except csv.Error as error:
                raise ValueError(str(error)) from None
            if len(fields) != len(self._columns):
                number = data.count(b"\n", 0, start) + 2
                raise ValueError(f"line {number} has {len(fields)} of the columns {', '.join(self._columns)}")
            rows.append((dict(zip(self._columns, fields, strict=True)), end))
            start = end
        return rows

    def _record(self, values: Sequence[object]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text).writerow([inert(as_text(value)) if isinstance(value, str) else value for value in values])
        return text.getvalue().removesuffix("\r\n").encode() + b"\n"  # with "\n" alone it would not quote a "\r"


def as_text(value: str) -> str:
    """Return a text as a file of text can hold it: NUL as U+FFFD, and the bytes of a file's name that are no UTF-8 as \\udc.."""
    return value.replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode()


def inert(value: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula: behind ' where it begins as one and is no number."""
    return f"'{value}" if _FORMULA.match(value) and not _NUMBER.fullmatch(value) else value


def _ends(data: bytes) -> Iterator[int]:
    """Yield the byte after each record of CSV: a line end outside quotes."""
    end = quotes = 0
    while found := data.find(b"\n", end) + 1:
        quotes += data.count(b'"', end, found)
        end = found
        if quotes % 2 == 0:
            yield end


class RowFile:
    """An open row file. rows: those that it held when it was opened."""

    def __init__(self, path: Path, form: Form) -> None:
        self._path, self._form = path, form
        self._file, self._end, self._flushed = -1, 0, monotonic()
        self._first, self._ends = 0, list[int]()  # the bytes where `rows` begin, and where each ends
        self._is_replaced = False  # whether the first row takes the place of what the file holds
        self.rows: list[dict[str, Any]] = []

    def write(self, row: Row) -> None:
        """Append a row, whole or not at all. Raises FbragError `disk_full` or `output`."""
        data = self._form.encode(row)
        if self._is_replaced:
            self._write_anew(self._form.head + data)
        else:
            self._append(data)
        if monotonic() - self._flushed > _FLUSH_EVERY:
            self.flush()

    def flush(self) -> None:
        """Flush the rows to the disk (fsync)."""
        with suppress(OSError):  # some file systems cannot do this
            os.fsync(self._file)
        self._flushed = monotonic()

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Rewrite the file with those of `rows` that are wanted. Raises FbragError as `write`."""
        kept = [wanted(row) for row in self.rows]
        if all(kept):
            return
        os.lseek(self._file, 0, os.SEEK_SET)
        data = _whole(self._file)
        parts = [data[start:end] for start, end in pairwise([self._first, *self._ends])]
        self._write_anew(b"".join([data[: self._first], *compress(parts, kept)]))
        self.rows = [*compress(self.rows, kept)]
        self._ends = [*accumulate(map(len, compress(parts, kept)), initial=self._first)][1:]

    def begin_anew(self) -> None:
        """Drop the rows that a restart has left until now. Raises FbragError as `write`."""
        if self._is_replaced:
            self._write_anew(self._form.head)

    def _write_anew(self, data: bytes) -> None:
        """Put `data` in the place of the file's content, whole or not at all. Raises FbragError as `write`."""
        try:
            (self._replace if _REPLACES_OPEN_FILES else self._overwrite)(data)
        except OSError as error:
            raise self._failed(error) from None
        self._end, self._is_replaced = len(data), False

    def _replace(self, data: bytes) -> None:
        with whole_file(self._path) as temporary:
            temporary.write_bytes(data)
        before = self._file
        self._open()  # locks the new file before the old one is let go
        os.close(before)

    def _overwrite(self, data: bytes) -> None:
        """Write the file anew where it lies. A copy beside it outlasts a crash meanwhile."""
        copy = self._path.with_name(f".{self._path.name}.{os.urandom(4).hex()}.part")
        with copy.open("xb") as file:
            file.write(data)
        self._end = 0
        self._append(data)
        os.ftruncate(self._file, self._end)
        copy.unlink()

    def close(self) -> None:
        self.flush()
        os.close(self._file)

    def _open(self) -> None:
        """Open the file and lock it. Raises OSError, and FbragError `output` where another process writes it."""
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            try:
                _lock(file)
                if not os.path.exists(self._path) or os.path.samestat(os.fstat(file), os.stat(self._path)):
                    self._file = file
                    return
                os.close(file)  # `keep` of another process has put a new file in its place
            except OSError as error:
                os.close(file)
                if error.errno not in _LOCKED:
                    raise
                what = f"{self._path} is being written by another run"
                raise FbragError("output", what, "wait for its end, or choose another -o FILE") from None

    def _read(self, *, restart: bool) -> None:
        """Take in the rows, and cut off what a kill left of the last one. Raises FbragError `usage` for another kind of file.

        restart: take in no row, and leave the file as it is until the first new row.
        """
        os.lseek(self._file, 0, os.SEEK_SET)
        data = _whole(self._file)
        is_ours = _OURS.match(data) is not None
        try:
            begin = self._form.begin(data)
            found = [] if begin is None else self._form.split(data[begin:])
        except ValueError as error:
            if not (restart and is_ours):
                what = f"{self._path} holds no rows of this kind: {error}"
                raise FbragError("usage", what, ANOTHER if is_ours else _NOT_OURS) from None
            begin, found = None, []
        if restart and data.strip(_BLANK):
            self._is_replaced = True
            return
        self.rows, self._ends = [row for row, _ in found], [(begin or 0) + end for _, end in found]
        self._first = begin or 0
        self._end = self._ends[-1] if found else self._first
        os.ftruncate(self._file, self._end)
        if begin is None:
            self._append(self._form.head)
            self._first = self._end

    def _append(self, data: bytes) -> None:
        start = self._end
        try:
            os.lseek(self._file, start, os.SEEK_SET)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(self._file, start)
            if isinstance(error, OSError):
                raise self._failed(error) from None
            raise
        self._end = start + len(data)

    def _failed(self, error: OSError) -> FbragError:
        code = "disk_full" if is_full(error) else "output"
        return not_writable(self._path, error, code, "free some space, then start it again: the rows so far stay")


@contextmanager
def open_rows(path: Path, form: Form, *, restart: bool = False) -> Iterator[RowFile]:
    """Open a row file for appending, and lock it until the block ends. What a kill left of the last row is cut off.

    restart: begin with no rows; those that are there are dropped when the first new one is written. Raises FbragError: `output`
    where it is no regular file, cannot be read or written, or another process writes it; `usage` where it holds something else,
    which stays as it is.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise FbragError("output", f"{path} is no regular file, as rows need it", "choose another -o FILE")
    rows = RowFile(path, form)
    with ExitStack() as stack:
        try:
            rows._open()
            stack.callback(rows.close)
            rows._read(restart=restart)
        except OSError as error:
            raise not_writable(path, error, "output", "choose another -o FILE") from None
        yield rows


def _whole(file: int) -> bytes:
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _lock(file: int) -> None:
    """Lock a file for this process; the system lets go of it when the process ends. Raises OSError where another one has it."""
    if os.name == "nt":
        import msvcrt

        os.lseek(file, _BEYOND, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED:
            raise  # other errors: a file system without locks
