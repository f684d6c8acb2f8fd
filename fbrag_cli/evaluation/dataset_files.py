"""Reads rows from dataset files: JSON Lines or one JSON array, plain or gzipped. Knows nothing of what a row means."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import IO

from fbrag_cli.errors import FbragError

MAX_ROW = 32_000_000  # bytes of a row or of a document; ∞Bench's longest has 5 million

_MAX_ARRAY = 64_000_000  # bytes of a file that is one JSON array, which is read as a whole
_GZIP = b"\x1f\x8b"
_FORM = "a row is an object with `input`, `answers` (∞Bench: `answer`) and `context` or `context_file`"
_KINDS = "name .jsonl, .jsonl.gz or .json files, or a folder of them"


def unreadable(path: Path, place: str, what: str) -> FbragError:
    """Return an error for a place in a file. place: "line 3" of JSON Lines, "row 3" of an array. what: the fault."""
    return FbragError("doc_unreadable", f"{path}, {place}: {what}", _FORM, document=str(path))


def dataset_files(paths: Iterable[Path]) -> list[Path]:
    """Return each file once; for a folder its datasets, by name. Raises FbragError (doc_not_found, doc_unreadable)."""
    files: dict[Path, Path] = {}
    for path in paths:
        files |= {resolved: file for resolved, file in _datasets(path).items() if resolved not in files}
    return list(files.values())


def _datasets(path: Path) -> dict[Path, Path]:
    """Return a file, or the datasets of a folder, by their resolved paths."""
    try:
        if not path.exists():
            raise FbragError("doc_not_found", f"there is no {path}", _KINDS, document=str(path))
        found = sorted(filter(_is_dataset, path.iterdir())) if path.is_dir() else [path]
        if not found:
            raise FbragError("doc_not_found", f"no dataset in {path}", _KINDS, document=str(path))
        first: dict[Path, Path] = {}
        for file in found:
            first.setdefault(file.resolve(), file)
        return first
    except OSError as error:
        raise _failed(path, error) from None


def _failed(path: Path, error: Exception) -> FbragError:
    """Return the error for a file or folder that cannot be read. error: raised by the system or by the decompression."""
    why = getattr(error, "strerror", None) or error
    return FbragError("doc_unreadable", f"{path} cannot be read: {why}", _KINDS, document=str(path))


def _is_dataset(path: Path) -> bool:
    """Return whether a file in a folder is a dataset. A .json file may be a configuration; with an array it is a dataset."""
    name = path.name.removesuffix(".gz")
    if name.startswith(".") or not name.endswith((".jsonl", ".json")) or not path.is_file():
        return False
    return name.endswith(".jsonl") or _starts_array(path)


def _open(path: Path) -> IO[bytes]:
    if not path.is_file():  # reading a pipe would wait
        raise FbragError("doc_unreadable", f"{path} is no file", _KINDS, document=str(path))
    with path.open("rb") as file:
        start = file.read(2)
    return gzip.open(path) if start == _GZIP else path.open("rb")  # type: ignore[return-value]


def _starts_array(path: Path) -> bool:
    return read_start(path, 4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def read_start(path: Path, size: int) -> bytes:
    """Return the first `size` bytes of a file, or all if it has less; unpacked if it is gzipped. Raises FbragError."""
    try:
        with _open(path) as file:
            return file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise _failed(path, error) from None


def drawn_rows(path: Path, limit: int | None, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (place, JSON text) of `limit` rows of the file, or of all, in their order.

    The rows of a smaller limit are among those of a larger one. Raises FbragError (doc_unreadable, doc_empty).
    """
    rows: Callable[[Path], Iterator[tuple[str, str | bytes]]] = _array if _starts_array(path) else _lines
    chosen = None
    if limit is not None:
        order = list(range(sum(1 for _ in rows(path))))
        Random(seed).shuffle(order)
        chosen = set(order[:limit])
    n_rows = 0
    for i, (place, row) in enumerate(rows(path)):
        n_rows += 1
        if chosen is None or i in chosen:
            yield place, row if isinstance(row, str) else _decoded(row, path, place)
    if not n_rows:
        raise FbragError("doc_empty", f"{path} has no rows", _FORM, document=str(path))


def _lines(path: Path) -> Iterator[tuple[str, str | bytes]]:
    try:
        with _open(path) as file:
            line = 0
            while row := file.readline(MAX_ROW + 1):
                line += 1
                if len(row) > MAX_ROW:
                    raise unreadable(path, f"line {line}", f"longer than {MAX_ROW // 1_000_000} MB")
                if not row.isspace():
                    yield f"line {line}", row
    except (OSError, EOFError, zlib.error) as error:
        raise _failed(path, error) from None


def _array(path: Path) -> Iterator[tuple[str, str | bytes]]:
    data = read_start(path, _MAX_ARRAY + 1)
    if len(data) > _MAX_ARRAY:
        raise unreadable(path, "line 1", f"an array of more than {_MAX_ARRAY // 1_000_000} MB; write it as JSON Lines")
    text = _decoded(data, path, "line 1")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise unreadable(path, f"line {error.lineno}", f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise unreadable(path, "line 1", f"not JSON: {error}") from None
    for n, row in enumerate(rows, 1):
        yield f"row {n}", json.dumps(row)


def _decoded(data: bytes, path: Path, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(path, place, f"not UTF-8: {error.reason}") from None
