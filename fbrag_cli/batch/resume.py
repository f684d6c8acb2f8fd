"""Finds the rows that an earlier run has finished. Refuses an output that was made with other settings or documents."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fbrag_cli.batch.jobs import Job, Key
from fbrag_cli.documents.source import read_source
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import versions
from fbrag_cli.storage.rows import ANOTHER, Row
from fbrag_cli.text.printable import one_line


@dataclass(frozen=True, slots=True)
class Earlier:
    """The rows of an earlier run, which the file `name` holds.

    statuses, questions: status and question of each row. documents: for each document the SHA-256 (hex) of the files that it was
    read from.
    """

    name: str
    statuses: Mapping[Key, str]
    questions: Mapping[Key, str]
    documents: Mapping[str, Sequence[str]]

    def check_jobs(self, jobs: Iterable[Job]) -> None:
        """Raise FbragError `usage` for a question or a file that has changed since rows were made of it."""
        first: dict[str, Job] = {}
        for job in jobs:
            before, now = self.questions.get(job.key), job.question.text
            if before not in (None, now):
                what = f"question {_said(job.question.id)} was {_said(before)}, is {_said(now)}"
                raise FbragError("usage", f"{self.name} holds rows of other questions: {what}", ANOTHER)
            first.setdefault(job.document, job)
        for job in first.values():
            if job.document in self.documents and all(map(os.path.isfile, job.documents)):
                try:
                    digests = [hashlib.sha256(read_source(path).data).hexdigest() for path in job.documents]
                except FbragError:  # an error of its rows
                    continue
                self.check_read(job, digests)

    def check_read(self, job: Job, sha256: Sequence[str]) -> None:
        """Raise FbragError `usage` where the job's documents were other files. sha256: digest of each file that was read now."""
        before = self.documents.get(job.document)
        if before is not None and list(before) != list(sha256):
            what = f"{_said(job.document)} has changed since {self.name} got rows of it"
            raise FbragError("usage", what, ANOTHER)


def earlier(rows: Iterable[Row], settings: Mapping[str, object], name: str) -> Earlier:
    """Return what the rows of an earlier run hold. settings: those of this run. name: name of the file, for the error.

    Raises FbragError `usage`, which names the difference, for rows of other settings, models or versions.
    """
    expected: dict[str, object] = {**json.loads(json.dumps(settings)), "versions": versions()}
    statuses, questions, documents, seen = dict[Key, str](), dict[Key, str](), dict[str, Sequence[str]](), set[str]()
    try:
        for row in rows:
            now = {**row["settings"], "versions": row["versions"]}
            if (written := json.dumps(now)) not in seen:
                _compare(now, expected, name)
                seen.add(written)
            document, id, status, question = _texts([row[each] for each in ("document", "id", "status", "question")])
            statuses[document, id], questions[document, id] = status, question
            if row["sha256"]:
                documents[document] = _texts(row["sha256"])
    except (KeyError, TypeError, AttributeError, ValueError):
        raise FbragError("usage", f"{name} holds rows that lack a part", ANOTHER) from None
    return Earlier(name, statuses, questions, documents)


def _texts(value: object) -> list[str]:
    """Return a list of texts as it is. Raises TypeError for another value."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError(value)
    return value


def _compare(before: Mapping[str, object], now: Mapping[str, object], name: str) -> None:
    other = [each for each in dict.fromkeys((*before, *now)) if before.get(each) != now.get(each)]
    if other:
        difference = "; ".join(_changed(each, before, now) for each in other[:3])
        raise FbragError("usage", f"{name} holds rows of other settings: {difference}", ANOTHER)


def _changed(name: str, before: Mapping[str, object], now: Mapping[str, object]) -> str:
    if name not in now:
        return f"{name} ({_said(before[name])}) is gone"
    return f"{name} was {_said(before[name])}, is {_said(now[name])}" if name in before else f"{name} is new"


def _said(value: object) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value), 60)
