"""Reads files of questions as `Example`s: rows of LongBench, of ∞Bench, and ours with evidence and shared documents."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import IO, Any

from fbrag_cli.errors import FbragError

MAX_ROW = 32_000_000  # bytes of a row or of a document; ∞Bench's longest has 5 million
_MAX_ARRAY = 64_000_000  # bytes of a file that is one JSON array, which is read as a whole
_GZIP = b"\x1f\x8b"
_FORM = "a row is an object with `input`, `answers` (∞Bench: `answer`) and `context` or `context_file`"
_KINDS = "name .jsonl, .jsonl.gz or .json files, or a folder of them"
_LETTERS = "ABCD"  # of choices, for which ∞Bench has a scorer
_CHOICE = "longbook_choice_eng"
_CHINESE = ("_zh", "_chn", "dureader", "lsht", "vcsum")  # how the benchmarks' Chinese datasets end


@dataclass(frozen=True, slots=True)
class Example:
    """One question of a dataset. `dataset` and `id` together are unique among the examples that are loaded together.

    answers: the gold answers, each of which counts; none where the document has no answer. With choices they are two: the text
    of the right choice and its letter, as in ∞Bench. answerable: whether the document has an answer. context(): returns the
    document's text. document: equal for examples that share their document. evidence: gold spans, verbatim in the context.
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


def load_examples(paths: Iterable[Path], limit: int | None = None, seed: int = 0) -> list[Example]:
    """Read the examples of JSON Lines files, JSON arrays (either may be gzipped) and folders of them, in their order.

    limit: rows of each file, drawn with `seed`; the rows of a smaller limit are among those of a larger one. Rows that are not
    drawn are not checked. Raises FbragError (doc_not_found, doc_unreadable, doc_empty) with the file and the line.
    """
    contexts = _Contexts()
    examples: list[Example] = []
    taken: dict[tuple[str, str], str] = {}
    for path in dataset_files(paths):
        for place, text in drawn_rows(path, limit, seed):
            try:
                example = _example(_object(text), path, contexts)
                if first := taken.get((example.dataset, example.id)):
                    raise _BadRow(f"the id {example.id!r} of {example.dataset} is taken by {first}")
            except _BadRow as bad:
                raise _unreadable(path, place, str(bad)) from None
            taken[example.dataset, example.id] = f"{path}, {place}"
            examples.append(example)
    return examples


class _BadRow(ValueError):
    """A row that cannot be used. The message is the reason; `load_examples` adds the file and the line."""


# -- documents ---------------------------------------------------------------------------------------------------------------


class _Contexts:
    """Stores each document once, compressed. ∞Bench repeats a book of a megabyte for each question."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._of_file: dict[Path, str] = {}
        self.text = lru_cache(maxsize=1)(self._text)  # neighbouring rows often share a document

    def add(self, text: str) -> str:
        """Store a document, and return its key. Raises _BadRow if there is no text."""
        if not text or text.isspace():
            raise _BadRow("no text (`context` or `context_file`)")
        data = text.encode("utf-8", "surrogatepass")
        key = sha256(data).hexdigest()
        if key not in self._packed:
            self._packed[key] = zlib.compress(data, 1)
        return key

    def add_file(self, name: str, folder: Path) -> str:
        """Store the document in a file of the dataset's folder, and return its key. Raises _BadRow, OSError."""
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise _BadRow(f"its context_file {name} leads out of the dataset's folder")
        if path not in self._of_file:
            if not path.is_file():
                raise _BadRow(f"there is no context_file {folder / name}")
            data = read_start(path, MAX_ROW + 1)
            if len(data) > MAX_ROW:
                raise _BadRow(f"its context_file {name} is longer than {MAX_ROW // 1_000_000} MB")
            try:
                self._of_file[path] = self.add(data.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise _BadRow(f"its context_file {name} is not UTF-8: {error.reason}") from None
        return self._of_file[path]

    def _text(self, key: str) -> str:
        return zlib.decompress(self._packed[key]).decode("utf-8", "surrogatepass")


# -- rows --------------------------------------------------------------------------------------------------------------------


def _object(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _BadRow(f"not JSON: {error}") from None
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
        raise _BadRow("no question (`input`)")
    document = _document(row, path.parent, contexts)
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
    )
    if example.evidence:
        text = contexts.text(document)
        for span in example.evidence:
            if not span.strip() or span not in text:
                raise _BadRow(f"its evidence {span[:40]!r} is not in the context")
    return example


def _document(row: dict[str, Any], folder: Path, contexts: _Contexts) -> str:
    text = _string(row, "context")
    if not text and (name := _string(row, "context_file")):
        try:
            return contexts.add_file(name, folder)
        except _BadRow:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # no file can have this name
            raise _BadRow(f"its context_file {name[:40]!r} cannot be read: {getattr(error, 'strerror', error)}") from None
    return contexts.add(text)


def _answerable(row: dict[str, Any]) -> bool | None:
    """Return MuSiQue's `answerable`; None where the row leaves it to its answers. Answers of an unanswerable row do not count."""
    value = row.get("answerable")
    if value is not None and not isinstance(value, bool):
        raise _BadRow("`answerable` is neither true nor false")
    return value


def _answers(row: dict[str, Any]) -> tuple[str, ...]:
    """Return LongBench's list `answers`, or ∞Bench's `answer`, which is a list or one string."""
    name = "answers" if "answers" in row else "answer"
    if row.get(name) is None:
        raise _BadRow("no `answers`")
    return _strings(row, name)


def _choice(answers: Sequence[str], choices: Sequence[str]) -> tuple[str, ...]:
    """Return (text, letter) of the right choice, as ∞Bench's `get_answer` (src/eval_utils.py) does; a row may give either one."""
    if len(choices) > len(_LETTERS):
        raise _BadRow(f"{len(choices)} options: only A to D can be scored")
    if len(answers) == 2 and answers[1] in _LETTERS[: len(choices)]:
        return tuple(answers)
    if len(answers) != 1:
        raise _BadRow("a choice has one answer")
    if answers[0] in choices:
        return answers[0], _LETTERS[choices.index(answers[0])]
    if len(answers[0]) == 1 and answers[0] in _LETTERS[: len(choices)]:
        return choices[_LETTERS.index(answers[0])], answers[0]
    raise _BadRow(f"its answer {answers[0][:40]!r} is none of the options")


def _id(row: dict[str, Any]) -> str:
    for name in ("_id", "id"):
        if (value := row.get(name)) is not None:
            if isinstance(value, bool) or not isinstance(value, (str, int)):
                raise _BadRow(f"`{name}` is neither a string nor a whole number")
            return str(value)
    return ""


def _string(row: dict[str, Any], *names: str) -> str:
    """Return the first of these fields that the row has; empty if it has none."""
    for name in names:
        if (value := row.get(name)) is not None:
            if not isinstance(value, str):
                raise _BadRow(f"`{name}` is not a string")
            return value
    return ""


def _strings(row: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return a field that is a list of strings or numbers, or one of them; empty if it is missing."""
    value = row.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, (str, int, float)) and not isinstance(each, bool) for each in values):
        raise _BadRow(f"`{name}` is not a list of strings")
    return tuple(map(str, values))


# -- files: JSON Lines or one JSON array, plain or gzipped -------------------------------------------------------------------


def _unreadable(path: Path, place: str, what: str) -> FbragError:
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
    return name.endswith(".jsonl") or _is_array(path)


def _open(path: Path) -> IO[bytes]:
    if not path.is_file():  # reading a pipe would wait
        raise FbragError("doc_unreadable", f"{path} is no file", _KINDS, document=str(path))
    with path.open("rb") as file:
        start = file.read(2)
    return gzip.open(path) if start == _GZIP else path.open("rb")  # type: ignore[return-value]


def _is_array(path: Path) -> bool:
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
    rows: Callable[[Path], Iterator[tuple[str, str | bytes]]] = _array if _is_array(path) else _lines
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
                    raise _unreadable(path, f"line {line}", f"longer than {MAX_ROW // 1_000_000} MB")
                if not row.isspace():
                    yield f"line {line}", row
    except (OSError, EOFError, zlib.error) as error:
        raise _failed(path, error) from None


def _array(path: Path) -> Iterator[tuple[str, str | bytes]]:
    data = read_start(path, _MAX_ARRAY + 1)
    if len(data) > _MAX_ARRAY:
        raise _unreadable(path, "line 1", f"an array of more than {_MAX_ARRAY // 1_000_000} MB; write it as JSON Lines")
    text = _decoded(data, path, "line 1")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise _unreadable(path, f"line {error.lineno}", f"not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, "line 1", f"not JSON: {error}") from None
    for n, row in enumerate(rows, 1):
        yield f"row {n}", json.dumps(row)


def _decoded(data: bytes, path: Path, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, place, f"not UTF-8: {error.reason}") from None
