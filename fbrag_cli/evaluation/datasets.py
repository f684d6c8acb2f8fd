"""Reads files of questions as `Example`s: rows of LongBench, of ∞Bench, and ours with evidence and shared documents."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from fbrag_cli.evaluation.dataset_files import MAX_ROW, dataset_files, drawn_rows, read_start, unreadable

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
                raise unreadable(path, place, str(bad)) from None
            taken[example.dataset, example.id] = f"{path}, {place}"
            examples.append(example)
    return examples


class _BadRow(ValueError):
    """A row that cannot be used. The message is the reason; `load_examples` adds the file and the line."""


# 1. Documents


class _Contexts:
    """Stores each document once, compressed. ∞Bench repeats a book of a megabyte for each question."""

    def __init__(self) -> None:
        self._packed: dict[str, _Packed] = {}
        self._of_file: dict[Path, str] = {}
        self._last = ("", "")

    def add(self, text: str) -> str:
        """Store a document, and return its key. Raises _BadRow if there is no text."""
        if not text or text.isspace():
            raise _BadRow("no text (`context` or `context_file`)")
        data = text.encode("utf-8", "surrogatepass")
        key = sha256(data).hexdigest()
        if key not in self._packed:
            self._packed[key] = _Packed(zlib.compress(data, 1))
        self._last = key, text
        return key

    def text(self, key: str) -> str:
        """Return the text of a document. The last one stays unpacked, because neighbouring rows often share it."""
        if self._last[0] != key:
            self._last = key, self._packed[key]()
        return self._last[1]

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

    def __getitem__(self, key: str) -> _Packed:
        return self._packed[key]


@dataclass(frozen=True, slots=True)
class _Packed:
    data: bytes

    def __call__(self) -> str:
        return zlib.decompress(self.data).decode("utf-8", "surrogatepass")


# 2. Rows


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
        context=contexts[document],
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
