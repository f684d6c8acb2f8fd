"""Jobs: documents with questions, from files of questions (text, CSV, JSON Lines) or of jobs (CSV, JSON Lines)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, BinaryIO, Literal

from fbrag_cli.batch.values import checked_type
from fbrag_cli.documents.decoding.encoding import Decoded, decode
from fbrag_cli.documents.source import Source, read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.query import question_fault
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.records import BadRecordError, answers_in, columns_of, is_array, of_csv, of_json

Key = tuple[str, str]  # of a row: document and id

_FORMS: dict[str, Literal["csv", "json"]] = {
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A question about one or more documents, which becomes one row.

    documents: paths as the user typed them, searched together; empty while reading a file of questions. id: unique among the jobs
    on the same documents; by default the question's number. answers: gold answers. type: of the answer's value
    (`values.checked_type`), "" for none. name: of the column with that value.
    """

    documents: tuple[str, ...]
    id: str
    question: str
    answers: tuple[str, ...] = ()
    type: str = ""
    name: str = ""

    @property
    def document(self) -> str:
        """The documents as one string, for the row."""
        return ", ".join(self.documents)

    @property
    def key(self) -> Key:
        return self.document, self.id

    @property
    def asked(self) -> str:
        """The question with what becomes of its answer, for comparison with an earlier run."""
        return f"{self.question} ({self.name}: {self.type})" if self.type else self.question

    @property
    def unreadable(self) -> Job:
        """The job whose row says that the documents cannot be read, for all of their questions."""
        return Job(self.documents, "", "")


def read_questions(path: str, stdin: BinaryIO | None = None, progress: Progress = silent) -> list[Job]:
    """Return the questions in a file, or stdin ("-"): text with one question per line and # comments; CSV with a column
    `question`; JSON Lines or an array, of objects with that key. `id`, `answers`, `name` and `type` are also read.

    Raises FbragError `usage`, with the line, for an invalid question, a duplicate id, or a file without questions. Raises the
    errors of `read_source` and `decode`.
    """
    return _read(path, stdin, progress, with_documents=False)


def read_jobs(path: str, stdin: BinaryIO | None = None, progress: Progress = silent) -> list[Job]:
    """Return the jobs in a file, or stdin ("-"): CSV or JSON with `document` and `question`, and optionally `id`, `answers`,
    `name` and `type`. Relative paths start at the current folder. Raises the same errors as `read_questions`."""
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
    try:
        decoded = decode(Source(path, source.name, source.data)) if source.data else Decoded("", "utf-8")
    except FbragError as error:
        raise FbragError("usage", error.message, "questions are in text, CSV or JSON") from None
    for warning in decoded.warnings:
        progress(Event("read", "warning", text=warning))
    text, places, asked = decoded.text, dict[Key, str](), dict[str, str]()
    jobs: list[Job] = []
    try:
        form = _FORMS.get(PurePath(path).suffix.lower()) or _form_of(text, with_documents)
        read = of_json if form == "json" else of_csv if form == "csv" or with_documents else _of_text
        for place, record in list(read(text)):
            job = _job(place, record, str(len(jobs) + 1), with_documents)
            if job.type and asked.setdefault(job.name, job.question) != job.question:
                raise BadRecordError(place, f"name {one_line(job.name, 40)} is already of another question")
            if (before := places.setdefault(job.key, place)) != place:
                raise BadRecordError(place, f"id {one_line(job.id, 40)} is also on {before}; give each row its own")
            jobs.append(job)
    except BadRecordError as error:
        raise FbragError("usage", f"{source.name}, {error.place}: {error}", "fbrag batch --help") from None
    if not jobs:
        raise FbragError("usage", f"no questions in {source.name}", 'write one per line, or use CSV with a "question" column')
    return jobs


def _form_of(text: str, is_jobs: bool) -> Literal["csv", "json", "text"]:
    """Return the format of a file whose suffix does not show it."""
    first = text.lstrip().partition("\n")[0]
    if first.startswith("{") or is_array(text):
        return "json"
    return "csv" if is_jobs or "question" in columns_of(first)[0] else "text"


def _of_text(text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if (line := line.strip()) and not line.startswith("#"):
            yield f"line {number}", line


def _job(place: str, record: Any, number: str, with_documents: bool) -> Job:
    record = {"question": record} if isinstance(record, str) else record
    if not isinstance(record, dict):
        raise BadRecordError(place, "not an object")
    text, id, document = record.get("question"), record.get("id"), record.get("document", "")
    if not isinstance(text, str) or not text.strip():
        raise BadRecordError(place, "missing question")
    if fault := question_fault(text):
        raise BadRecordError(place, fault)
    if isinstance(id, bool) or not isinstance(id, str | int | float | None) or not isinstance(document, str | None):
        raise BadRecordError(place, "id and document must be text")
    if with_documents and not document:
        raise BadRecordError(place, "missing document")
    named = "" if id is None else str(id).strip()
    documents = (document,) if with_documents and document else ()
    type, name = record.get("type") or "", record.get("name") or ""
    if not isinstance(type, str) or not isinstance(name, str):
        raise BadRecordError(place, "name and type must be text")
    try:
        type = checked_type(type) if type.strip() else ""
    except ValueError as error:
        raise BadRecordError(place, str(error)) from None
    name = (name.strip() or text.strip()) if type else ""
    return Job(documents, named or number, text.strip(), _answers(place, record.get("answers")), type, name)


def _answers(place: str, value: object) -> tuple[str, ...]:
    """Return the gold answers in a list, in a text that is a JSON list, or in a single answer."""
    value = answers_in(value) if isinstance(value, str) else value
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, str | int | float) for each in listed):
        raise BadRecordError(place, "answers must be text, or a list of texts")
    return tuple(map(str, listed))
