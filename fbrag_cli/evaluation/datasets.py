"""Reads files of questions into `Example`s: rows of LongBench, ∞Bench, and fbrag's own format with evidence and shared
documents; and tables of a person (CSV) with questions, answers and documents."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import IO, Any

from fbrag_cli.documents.decoding.encoding import decode
from fbrag_cli.documents.source import Source
from fbrag_cli.errors import FbragError
from fbrag_cli.indexing.walk import find_files
from fbrag_cli.query import question_fault
from fbrag_cli.storage.files import on_disk, sha256_of
from fbrag_cli.text.records import BadRecordError, answers_in, columns_of, of_csv, of_json

MAX_ROW = 32_000_000  # bytes of a row or of a document; ∞Bench's longest has 5 million
_MAX_WHOLE = 64_000_000  # bytes of a CSV or a JSON array, which is read as a whole
_GZIP = b"\x1f\x8b"
_FORM = "a row has `question`, `answer` and `document` (a path), or `input`, `answers` and `context`"
_KINDS = "use .csv, .jsonl, .jsonl.gz or .json files, or a folder of them"
_LETTERS = "ABCD"  # of choices, for which ∞Bench has a scorer
_CHOICE = "longbook_choice_eng"
_CHINESE = ("_zh", "_chn", "dureader", "lsht", "vcsum")  # suffixes of the benchmarks' Chinese datasets


@dataclass(frozen=True, slots=True)
class Example:
    """One question of a dataset. `dataset` and `id` together are unique among all loaded examples.

    answers: the gold answers, any of which counts; empty if the document has no answer. With choices there are two: the text of
    the right choice and its letter, as in ∞Bench. answerable: whether the document has an answer. context(): returns the
    document's text. document: equal for examples that share a document. path: of a file or folder that is read as `fbrag ask`
    reads it, "" if the row has the text. evidence: gold spans, verbatim in the context.
    all_classes: the labels of a classification (LongBench).
    """

    id: str
    dataset: str
    question: str
    answers: tuple[str, ...]
    context: Callable[[], str] = field(repr=False, compare=False)
    document: str
    evidence: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    language: str = "en"
    all_classes: tuple[str, ...] = ()
    answerable: bool = True
    path: str = ""


def load_examples(paths: Iterable[Path], limit: int | None = None, seed: int = 0) -> list[Example]:
    """Read the examples in JSON Lines files, JSON arrays (either may be gzipped), CSV files and folders of these, in order.

    limit: number of rows per file, drawn with `seed`; a larger limit includes the rows of a smaller one. Rows that are not drawn
    are not checked. Raises FbragError (doc_not_found, doc_unreadable, doc_empty) with the file and the line.
    """
    contexts = _Contexts()
    examples: list[Example] = []
    taken: dict[tuple[str, str], str] = {}
    for path in dataset_files(paths):
        for place, text in drawn_rows(path, limit, seed):
            try:
                example = _example(_object(text), path, contexts)
                if first := taken.get((example.dataset, example.id)):
                    raise _BadRow(f"duplicate id {example.id!r} in {example.dataset}, also in {first}")
            except _BadRow as bad:
                raise _unreadable(path, place, str(bad)) from None
            taken[example.dataset, example.id] = f"{path}, {place}"
            examples.append(example)
    return examples


class _BadRow(ValueError):
    """Raised for an invalid row. The message is the reason; `load_examples` adds the file and the line."""


# -- documents ---------------------------------------------------------------------------------------------------------------


class _Contexts:
    """Stores each document once, compressed. ∞Bench repeats a book of one megabyte for each question."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._of_file: dict[Path, str] = {}
        self._of_path: dict[str, str] = {}
        self.text = lru_cache(maxsize=1)(self._text)  # adjacent rows often share a document

    def add(self, text: str) -> str:
        """Store a document, and return its key. Raises _BadRow if there is no text."""
        if not text or text.isspace():
            raise _BadRow("missing text (`context` or `context_file`)")
        data = text.encode("utf-8", "surrogatepass")
        key = sha256(data).hexdigest()
        if key not in self._packed:
            self._packed[key] = zlib.compress(data, 1)
        return key

    def add_file(self, name: str, folder: Path) -> str:
        """Store the document in a file of the dataset's folder, and return its key. Raises _BadRow, OSError."""
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise _BadRow(f"context_file {name} is outside the dataset's folder")
        if path not in self._of_file:
            if not path.is_file():
                raise _BadRow(f"context_file not found: {folder / name}")
            data = read_start(path, MAX_ROW + 1)
            if len(data) > MAX_ROW:
                raise _BadRow(f"context_file {name} exceeds {MAX_ROW // 1_000_000} MB")
            try:
                self._of_file[path] = self.add(data.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise _BadRow(f"context_file {name} is not UTF-8: {error.reason}") from None
        return self._of_file[path]

    def add_path(self, path: str) -> str:
        """Return the key of a file or folder, by its name and its content. Raises FbragError for a folder without files, and
        OSError."""
        if path not in self._of_path:
            files = [(each.path, sha256_of(Path(each.path))) for each in find_files([path]).files]
            self._of_path[path] = sha256(json.dumps([path, files]).encode()).hexdigest()
        return self._of_path[path]

    def _text(self, key: str) -> str:
        return zlib.decompress(self._packed[key]).decode("utf-8", "surrogatepass")


# -- rows --------------------------------------------------------------------------------------------------------------------


def _object(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _BadRow(f"invalid JSON: {error}") from None
    if not isinstance(row, dict):
        raise _BadRow("not a JSON object")
    return row


def _example(row: dict[str, Any], path: Path, contexts: _Contexts) -> Example:
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    dataset = _string(row, "dataset") or stem
    if stem == f"{dataset}_e":  # LongBench-E, which has other questions
        dataset = stem
    question = _string(row, "input", "question")  # ∞Bench's first release had `question`
    if not question:
        raise _BadRow("missing question (`input`)")
    if fault := question_fault(question):
        raise _BadRow(fault)
    named = "" if row.get("context") or row.get("context_file") else _path(row, path.parent)
    document = _named(named, contexts) if named else _document(row, path.parent, contexts)
    classes = _strings(row, "all_classes")
    choices = tuple(choice for choice in _strings(row, "options") if choice.strip()) or (classes if dataset == _CHOICE else ())
    answerable = _answerable(row)
    answers = () if answerable is False else _answers(row)
    example = Example(
        id=_id(row) or sha256(json.dumps([dataset, question, answers, document]).encode()).hexdigest()[:16],
        dataset=dataset,
        question=question,
        answers=_choice(answers, choices) if choices and answerable is not False else answers,
        context=partial(contexts.text, document),
        document=document,
        evidence=_strings(row, "evidence"),
        choices=choices,
        language=_string(row, "language") or ("zh" if dataset.endswith(_CHINESE) else "en"),
        all_classes=classes,
        answerable=bool(answers) if answerable is None else answerable,
        path=named,
    )
    if named and example.evidence:
        raise _BadRow("`evidence` needs `context` or `context_file`")
    if example.evidence:
        text = contexts.text(document)
        for span in example.evidence:
            if not span.strip() or span not in text:
                raise _BadRow(f"evidence {span[:40]!r} is not in the context")
    return example


def _path(row: dict[str, Any], folder: Path) -> str:
    """Return the document of a row, from the current folder, or else from that of the file; "" without one. Raises _BadRow."""
    if not (name := _string(row, "document")):
        return ""
    for path in (on_disk(name), on_disk(str(folder / name))):
        if os.path.exists(path):
            return path
    raise _BadRow(f"document not found: {name[:200]}")


def _named(path: str, contexts: _Contexts) -> str:
    try:
        return contexts.add_path(path)
    except FbragError as error:
        raise _BadRow(error.message) from None
    except OSError as error:
        raise _BadRow(f"document {path[:200]} cannot be read: {error.strerror or error}") from None


def _document(row: dict[str, Any], folder: Path, contexts: _Contexts) -> str:
    text = _string(row, "context")
    if not text and (name := _string(row, "context_file")):
        try:
            return contexts.add_file(name, folder)
        except _BadRow:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # an impossible file name
            raise _BadRow(f"context_file {name[:40]!r} cannot be read: {getattr(error, 'strerror', error)}") from None
    return contexts.add(text)


def _answerable(row: dict[str, Any]) -> bool | None:
    """Return MuSiQue's `answerable`; None if the row does not have it. The answers of an unanswerable row do not count."""
    value = row.get("answerable")
    if value is not None and not isinstance(value, bool):
        raise _BadRow("`answerable` must be true or false")
    return value


def _answers(row: dict[str, Any]) -> tuple[str, ...]:
    """Return LongBench's list `answers`, or ∞Bench's `answer`, which is a list or one string."""
    name = "answers" if "answers" in row else "answer"
    if row.get(name) is None:
        raise _BadRow("no `answers`")
    return _strings(row, name)


def _choice(answers: Sequence[str], choices: Sequence[str]) -> tuple[str, ...]:
    """Return (text, letter) of the right choice, like ∞Bench's `get_answer` (src/eval_utils.py); a row may give either one."""
    if len(choices) > len(_LETTERS):
        raise _BadRow(f"{len(choices)} options: only four (A to D) can be scored")
    if len(answers) == 2 and answers[1] in _LETTERS[: len(choices)]:
        return tuple(answers)
    if len(answers) != 1:
        raise _BadRow("a multiple-choice row must have one answer")
    if answers[0] in choices:
        return answers[0], _LETTERS[choices.index(answers[0])]
    if len(answers[0]) == 1 and answers[0] in _LETTERS[: len(choices)]:
        return choices[_LETTERS.index(answers[0])], answers[0]
    raise _BadRow(f"answer {answers[0][:40]!r} is not one of the options")


def _id(row: dict[str, Any]) -> str:
    for name in ("_id", "id"):
        if (value := row.get(name)) is not None:
            if isinstance(value, bool) or not isinstance(value, (str, int)):
                raise _BadRow(f"`{name}` must be a string or a whole number")
            return str(value)
    return ""


def _string(row: dict[str, Any], *names: str) -> str:
    """Return the first of these fields that the row has; "" if it has none."""
    for name in names:
        if (value := row.get(name)) is not None:
            if not isinstance(value, str):
                raise _BadRow(f"`{name}` must be a string")
            return value
    return ""


def _strings(row: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return a field that is a list of strings or numbers, or one of them; empty if it is missing."""
    value = row.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, (str, int, float)) and not isinstance(each, bool) for each in values):
        raise _BadRow(f"`{name}` must be a list of strings")
    return tuple(map(str, values))


# -- files: JSON Lines or one JSON array, plain or gzipped -------------------------------------------------------------------


def _unreadable(path: Path, place: str, what: str) -> FbragError:
    """Return the error for a location in a file. place: "line 3" of JSON Lines, "row 3" of an array. what: the problem."""
    return FbragError("doc_unreadable", f"{path}, {place}: {what}", _FORM, document=str(path))


def dataset_files(paths: Iterable[Path]) -> list[Path]:
    """Return each file once; for a folder, its datasets sorted by name. Raises FbragError (doc_not_found, doc_unreadable)."""
    files: dict[Path, Path] = {}
    for path in paths:
        files |= {resolved: file for resolved, file in _datasets(path).items() if resolved not in files}
    return list(files.values())


def _datasets(path: Path) -> dict[Path, Path]:
    """Return a file, or the datasets in a folder, by resolved path."""
    try:
        if not path.exists():
            raise FbragError("doc_not_found", f"file not found: {path}", _KINDS, document=str(path))
        files = sorted(filter(_is_dataset, path.iterdir())) if path.is_dir() else [path]
        if not files:
            raise FbragError("doc_not_found", f"no dataset in {path}", _KINDS, document=str(path))
        first: dict[Path, Path] = {}
        for file in files:
            first.setdefault(file.resolve(), file)
        return first
    except OSError as error:
        raise _failed(path, error) from None


def _failed(path: Path, error: Exception) -> FbragError:
    """Return the error for an unreadable file or folder. error: from the system or the decompression."""
    why = getattr(error, "strerror", None) or error
    return FbragError("doc_unreadable", f"{path} cannot be read: {why}", _KINDS, document=str(path))


def _is_dataset(path: Path) -> bool:
    """Return whether a file in a folder is a dataset. A .json file is one if it has an array; others may be configurations."""
    name = path.name.removesuffix(".gz")
    if name.startswith(".") or not name.lower().endswith((".csv", ".tsv", ".jsonl", ".json")) or not path.is_file():
        return False
    if _is_table(path):
        head = read_start(path, 4096).partition(b"\n")[0].decode("utf-8-sig", "replace")
        return {"question", "document"} <= {*columns_of(head)[0]}
    return name.endswith(".jsonl") or _is_array(path)


def _open(path: Path) -> IO[bytes]:
    if not path.is_file():  # reading a pipe would block
        raise FbragError("doc_unreadable", f"{path} is not a file", _KINDS, document=str(path))
    with path.open("rb") as file:
        start = file.read(2)
    return gzip.open(path) if start == _GZIP else path.open("rb")  # type: ignore[return-value]


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv")


def _is_array(path: Path) -> bool:
    return read_start(path, 4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def read_start(path: Path, size: int) -> bytes:
    """Return the first `size` bytes of a file, or all if it has fewer; decompressed if it is gzipped. Raises FbragError."""
    try:
        with _open(path) as file:
            return file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise _failed(path, error) from None


def drawn_rows(path: Path, limit: int | None, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (location, JSON text) of `limit` rows of the file, or of all, in order.

    A larger limit includes the rows of a smaller one. Raises FbragError (doc_unreadable, doc_empty).
    """
    rows = _whole if _is_table(path) or _is_array(path) else _lines
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
                    raise _unreadable(path, f"line {line}", f"exceeds {MAX_ROW // 1_000_000} MB")
                if not row.isspace():
                    yield f"line {line}", row
    except (OSError, EOFError, zlib.error) as error:
        raise _failed(path, error) from None


def _whole(path: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield the rows of a CSV or of an array, as JSON. A row of a CSV without an answer says that its document has none."""
    data, is_table = read_start(path, _MAX_WHOLE + 1), _is_table(path)
    if len(data) > _MAX_WHOLE:
        what = f"the {'table' if is_table else 'array'} exceeds {_MAX_WHOLE // 1_000_000} MB; convert it to JSON Lines"
        raise _unreadable(path, "line 1", what)
    try:
        if not is_table:
            yield from ((place, json.dumps(row)) for place, row in of_json(_decoded(data, path, "line 1")))
            return
        for place, row in of_csv(decode(Source(str(path), path.name, data)).text if data else ""):
            if row.keys().isdisjoint(("answer", "answers")):
                raise BadRecordError(place, 'no "answer" column')
            yield place, json.dumps({**row, "answers": answers_in(row.pop("answers", "") or row.pop("answer", ""))})
    except BadRecordError as error:
        raise _unreadable(path, error.place, str(error)) from None


def _decoded(data: bytes, path: Path, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, place, f"not UTF-8: {error.reason}") from None
