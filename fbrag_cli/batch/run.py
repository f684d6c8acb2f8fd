"""A batch in one process: turns jobs into rows, in order, and checks the rows of an earlier run."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from fbrag_cli.batch.jobs import Job, Key
from fbrag_cli.batch.row import answered, failed
from fbrag_cli.documents.source import read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import releases, versions
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Listener
from fbrag_cli.query import Query
from fbrag_cli.session.questions import answer_all, how_many_pay
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import DocumentSettings
from fbrag_cli.storage.files import on_disk
from fbrag_cli.storage.rows import HINT_OTHER_FILE, Row
from fbrag_cli.text.printable import one_line

if TYPE_CHECKING:
    from fbrag_cli.query import Collection

#: Errors that all other questions would also have, so that the run ends.
ENDING = frozenset(
    "usage config out_of_memory disk_full timeout gpu_unavailable model_missing model_corrupt llama_unavailable offline "
    "download_failed".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """The settings that all questions of a batch share.

    reading: which files to read, and how. chunk_words: words per chunk. at_once: number of questions to run at once; None for the
    fastest. models: names and identities of the models, by role (`Session.identities`).
    """

    method: Method
    retriever: str
    reading: DocumentSettings
    chunk_words: int = 300
    at_once: int | None = None
    password: str | None = None
    models: Mapping[str, object]

    def described(self) -> dict[str, object]:
        """Return the settings on which an answer depends, for a row."""
        method, reading = self.method, self.reading
        return {
            "method": method.name,
            **method.described(),
            "instructions": method.instructions,
            "allow_unsupported": method.allow_unsupported,
            "retriever": self.retriever,
            "chunk_words": self.chunk_words,
            **{name: getattr(reading, name) for name in ("pages", "encoding", "lang")},
            **({"markup": True} if reading.markup else {}),
            **({"ocr": reading.ocr} if reading.ocr != "auto" else {}),
            **self.models,
        }


def rows(
    jobs: Sequence[Job],
    session: Session,
    settings: BatchSettings,
    listener: Listener,
    *,
    before: Earlier | None = None,
    stdin: BinaryIO | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the row of each job, in order. Consecutive jobs on the same documents share their collection.

    before: rows of an earlier run. A failed question makes a failed row; an unreadable document makes one for all its questions.
    Raises FbragError if all questions would fail (`ENDING`), `usage` if a document has changed since the earlier rows were
    written, and the error of the listener's cancellation.
    """
    described, taken = settings.described(), deque[Job]()

    def queries() -> Iterator[Query | FbragError]:
        last: tuple[str, ...] | None = None
        collection: Collection | FbragError
        for job in jobs:
            if job.documents != last:
                last, collection = job.documents, _collected(job, session, settings, stdin)
                if isinstance(collection, FbragError):
                    taken.append(job.unreadable)
                    yield collection
                elif before:
                    before.check_read(job, [document.sha256 for document in collection.corpus.documents])
            if not isinstance(collection, FbragError):
                taken.append(job)
                yield Query(job.question, collection, settings.method, retriever=settings.retriever)

    at_once = settings.at_once or how_many_pay(session, settings.method)
    for outcome in answer_all(session, queries(), listener=listener, at_once=at_once):
        session.forget()  # no later row needs them, and a run may have a million
        job = taken.popleft()
        if isinstance(outcome, FbragError) and outcome.code in ENDING and outcome.document is None:
            raise outcome
        yield failed(job, outcome, described) if isinstance(outcome, FbragError) else answered(job, outcome, described)


def _collected(job: Job, session: Session, settings: BatchSettings, stdin: BinaryIO | None) -> Collection | FbragError:
    try:
        return session.collect(job.documents, settings.reading, settings.chunk_words, password=settings.password, stdin=stdin)
    except FbragError as error:
        if error.code in ENDING and error.document is None:
            raise
        return error


# -- an earlier run --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Earlier:
    """The rows of an earlier run in the file `name`.

    statuses, questions: status and question of each row. documents: for each document, the SHA-256 (hex) of its files.
    """

    name: str
    statuses: Mapping[Key, str]
    questions: Mapping[Key, str]
    documents: Mapping[str, Sequence[str]]

    def has(self, job: Job) -> bool:
        """Return whether a row answers the job, or says that its documents cannot be read."""
        return not self.statuses.keys().isdisjoint((job.key, job.unreadable.key))

    def check_jobs(self, jobs: Iterable[Job]) -> None:
        """Raise FbragError `usage` if a question or a file has changed since its rows were written."""
        first: dict[str, Job] = {}
        for job in jobs:
            before, now = self.questions.get(job.key), job.asked
            if before not in (None, now):
                what = f"question {_said(job.id)} was {_said(before)}, now {_said(now)}"
                raise FbragError("usage", f"{self.name} was written with other questions: {what}", HINT_OTHER_FILE)
            first.setdefault(job.document, job)
        for job in first.values():
            if job.document in self.documents and all(map(os.path.isfile, map(on_disk, job.documents))):
                try:
                    digests = [hashlib.sha256(read_source(path).data).hexdigest() for path in job.documents]
                except FbragError:  # reported in its rows
                    continue
                self.check_read(job, digests)

    def check_read(self, job: Job, sha256: Sequence[str]) -> None:
        """Raise FbragError `usage` if the job's documents were other files. sha256: digest of each file as read now."""
        before = self.documents.get(job.document)
        if before is not None and list(before) != list(sha256):
            what = f"{_said(job.document)} has changed since {self.name} was written"
            raise FbragError("usage", what, HINT_OTHER_FILE)


def earlier(rows: Iterable[Row], settings: Mapping[str, object], name: str) -> Earlier:
    """Return the content of an earlier run's rows. settings: those of this run. name: name of the file, for the error.

    Raises FbragError `usage`, with the differences, for rows written with other settings, models or versions.
    """
    expected: dict[str, object] = {**json.loads(json.dumps(settings)), "versions": releases(versions())}
    statuses, questions, documents, seen = dict[Key, str](), dict[Key, str](), dict[str, Sequence[str]](), set[str]()
    try:
        for row in rows:
            now = {**row["settings"], "versions": releases(row["versions"])}
            if (written := json.dumps(now)) not in seen:
                _compare(now, expected, name)
                seen.add(written)
            document, id, status, question = _texts([row["document"], row["id"] or "", row["status"], row["question"] or ""])
            statuses[document, id] = status
            questions[document, id] = Job((), id, question, (), row.get("type", ""), row.get("name", "")).asked
            if row["sha256"]:
                documents[document] = _texts(row["sha256"])
    except (KeyError, TypeError, AttributeError, ValueError):
        raise FbragError("usage", f"{name} is damaged: some rows are incomplete", HINT_OTHER_FILE) from None
    return Earlier(name, statuses, questions, documents)


def _texts(value: object) -> list[str]:
    """Return a list of texts unchanged. Raises TypeError for any other value."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError(value)
    return value


def _compare(before: Mapping[str, object], now: Mapping[str, object], name: str) -> None:
    """Raise FbragError `usage`, with the first differences, if the settings differ."""
    changes = []
    for setting in dict.fromkeys((*before, *now)):
        if setting not in now:
            changes.append(f"{setting} (was {_said(before[setting])}) is no longer set")
        elif setting not in before:
            changes.append(f"{setting} is new")
        elif before[setting] != now[setting]:
            changes.append(f"{setting} {_said(before[setting])}, now {_said(now[setting])}")
    if changes:
        raise FbragError("usage", f"{name} was written with other settings ({'; '.join(changes[:3])})", HINT_OTHER_FILE)


def _said(value: object) -> str:
    if value is None:
        return "not given"
    return one_line(value if isinstance(value, str) else json.dumps(value), 60)
