"""Jobs: documents with questions, from files of questions (text, CSV, JSON Lines) or of jobs (CSV, JSON Lines)."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, BinaryIO, Literal

from fbrag_cli.documents.decoding.encoding import Decoded, decode
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.query import question_fault
from fbrag_cli.text.printable import one_line

Key = tuple[str, str]  # of a row: document and id

_FORMS: dict[str, Literal["csv", "jsonl"]] = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class Job:
    """A question about one or more documents, which becomes one row.

    documents: paths as the user typed them, searched together; empty while reading a file of questions. id: unique among the jobs
    on the same documents; by default the question's number. answers: gold answers.
    """

    documents: tuple[str, ...]
    id: str
    question: str
    answers: tuple[str, ...] = ()

    @property
    def document(self) -> str:
        """The documents as one string, for the row."""
        return ", ".join(self.documents)

    @property
    def key(self) -> Key:
        return self.document, self.id


def read_questions(path: str, stdin: BinaryIO | None = None, progress: Progress = silent) -> list[Job]:
    """Return the questions in a file, or stdin ("-"): text with one question per line and # comments; CSV with a column
    `question`, or JSON Lines with that key. `id` and `answers` are also read.

    Raises FbragError `usage`, with the line, for an invalid question, a duplicate id, or a file without questions. Raises the
    errors of `read_source` and `decode`.
    """
    return _read(path, stdin, progress, with_documents=False)


def read_jobs(path: str, stdin: BinaryIO | None = None, progress: Progress = silent) -> list[Job]:
    """Return the jobs in a file, or stdin ("-"): CSV or JSON Lines with `document` and `question`, and optionally `id` and
    `answers`. Relative paths start at the current folder. Raises the same errors as `read_questions`."""
    return _read(path, stdin, progress, with_documents=True)


def every(documents: Sequence[tuple[str, ...]], questions: Sequence[Job]) -> list[Job]:
    """Return a job for every question on every document, document by document."""
    return [replace(question, documents=each) for each in documents for question in questions]


def by_document(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs grouped by document, in the order in which the documents first occur."""
    groups: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.documents, []).append(job)
    return [job for group in groups.values() for job in group]


def shard(jobs: Sequence[Job], asked: str) -> list[Job]:
    """Return every N-th job from the I-th on. asked: "I/N". Raises FbragError `usage`."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", asked)
    number, n_shards = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= n_shards:
        raise FbragError("usage", f"--shard {asked}: expected I/N", "for four machines: 1/4, 2/4, 3/4 and 4/4")
    return list(jobs[number - 1 :: n_shards])


# -- files -------------------------------------------------------------------------------------------------------------------


def _read(path: str, stdin: BinaryIO | None, progress: Progress, *, with_documents: bool) -> list[Job]:
    """Read jobs. with_documents: whether each line names a document, which plain text cannot."""
    try:
        source = read_source(path, stdin)
    except FbragError as error:
        if not os.path.exists(path) or os.path.isfile(path):
            raise
        option = "--pairs" if with_documents else "-Q"
        raise FbragError(error.code, error.message, f"name a file, or read stdin: {option} -", document=path) from None
    decoded = decode(Source(path, source.name, source.data)) if source.data else Decoded("", "utf-8")
    for warning in decoded.warnings:
        progress(Event("read", "warning", text=warning))
    text, lines = decoded.text, dict[Key, int]()
    jobs: list[Job] = []
    try:
        form = _FORMS.get(PurePath(path).suffix.lower()) or _form_of(text, with_documents)
        read = _of_json if form == "jsonl" else _of_csv if form == "csv" or with_documents else _of_text
        for line, record in list(read(text)):
            job = _job(line, record, str(len(jobs) + 1), with_documents)
            if (before := lines.setdefault(job.key, line)) != line:
                hint = "give each row a unique id (default: its number)"
                raise _Wrong(line, f"id {one_line(job.id, 40)} is also on line {before}", hint)
            jobs.append(job)
    except _Wrong as error:
        raise FbragError("usage", f"{source.name}, line {error.line}: {error.reason}", error.hint) from None
    if not jobs:
        raise FbragError("usage", f"no questions in {source.name}", 'write one per line, or use CSV with a "question" column')
    return jobs


def _form_of(text: str, is_jobs: bool) -> Literal["csv", "jsonl", "text"]:
    """Return the format of a file whose suffix does not show it. Raises _Wrong for a single JSON array."""
    if re.match(r'\s*\[\s*[{"]', text):
        raise _Wrong(1, "expected one JSON object per line, not an array")
    first = text.lstrip().partition("\n")[0]
    if first.startswith("{"):
        return "jsonl"
    return "csv" if is_jobs or "question" in _columns(first)[0] else "text"


class _Wrong(Exception):
    def __init__(self, line: int, reason: str, hint: str = "fbrag batch --help") -> None:
        super().__init__(reason)
        self.line, self.reason, self.hint = line, reason, hint


def _of_text(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if (line := line.strip()) and not line.startswith("#"):
            yield number, {"question": line}


def _of_json(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _Wrong(number, f"invalid JSON: {error}") from None
        if not isinstance(record, dict):
            raise _Wrong(number, "not an object")
        yield number, record


def _of_csv(text: str) -> Iterator[tuple[int, Any]]:
    columns, delimiter = _columns(text.partition("\n")[0])
    if "question" not in columns:
        raise _Wrong(1, f'no "question" column (columns: {one_line(", ".join(columns), 80) or "none"})')
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    end = 0
    try:
        for values in reader:
            line, end = end + 1, reader.line_num
            if line == 1 or not any(value.strip() for value in values):
                continue
            if len(values) > len(columns):
                raise _Wrong(line, f"{len(values)} values for {len(columns)} columns")
            yield line, dict(zip(columns, map(str.strip, values), strict=False))
    except csv.Error as error:
        raise _Wrong(reader.line_num, str(error)) from None


def _columns(line: str) -> tuple[list[str], str]:
    """Return the lower-cased column names and the delimiter. There are no names if csv cannot parse the line."""
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        names = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # longer than 131,072 characters
        names = []
    return [name.strip().lower() for name in names], delimiter


def _job(line: int, record: dict[str, Any], number: str, with_documents: bool) -> Job:
    text, id, document = record.get("question"), record.get("id"), record.get("document", "")
    if not isinstance(text, str) or not text.strip():
        raise _Wrong(line, "missing question")
    if fault := question_fault(text):
        raise _Wrong(line, fault)
    if isinstance(id, bool) or not isinstance(id, str | int | float | None) or not isinstance(document, str | None):
        raise _Wrong(line, "id and document must be text")
    if with_documents and not document:
        raise _Wrong(line, "missing document")
    named = "" if id is None else str(id).strip()
    documents = (document,) if with_documents and document else ()
    return Job(documents, named or number, text.strip(), _answers(line, record.get("answers")))


def _answers(line: int, value: object) -> tuple[str, ...]:
    """Return the gold answers in a list, in a text that is a JSON list, or in a single answer."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            pass  # an answer that begins with a bracket
    listed = value if isinstance(value, list) else [] if value in (None, "") else [value]
    if not all(isinstance(each, str | int | float) for each in listed):
        raise _Wrong(line, "answers must be text, or a list of texts")
    return tuple(map(str, listed))
