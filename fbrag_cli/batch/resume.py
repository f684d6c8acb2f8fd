"""What an earlier run of a batch has done: the rows of its output, if they come from the same settings and documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fbrag_cli.batch.jobs import Job, Key
from fbrag_cli.errors import FbragError
from fbrag_cli.render.as_json import versions
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.printable import one_line

_ANOTHER = "choose another -o FILE, or add --restart"


@dataclass(frozen=True, slots=True)
class Done:
    """The rows that are there. statuses: of each. documents: the SHA-256 (hex) of what they were answered from, by document."""

    statuses: Mapping[Key, str]
    documents: Mapping[str, Sequence[str]]


def done(rows: Iterable[Row], settings: Mapping[str, object], name: str) -> Done:
    """Return what the rows of an earlier run hold. settings: of this run. name: of the file, for the error.

    Raises FbragError `usage`, with the difference named, where they come from other settings, models or versions.
    """
    expected: dict[str, object] = {**json.loads(json.dumps(settings)), "versions": versions()}
    statuses, documents, seen = dict[Key, str](), dict[str, Sequence[str]](), set[str]()
    try:
        for row in rows:
            told, sha256 = _settings(row), row["sha256"]
            if told not in seen:
                _compare(json.loads(told), expected, name)
                seen.add(told)
            statuses[row["document"], row["id"]] = row["status"]
            if sha256:
                documents[row["document"]] = sha256.split() if isinstance(sha256, str) else sha256
    except (KeyError, TypeError, AttributeError, ValueError):
        raise FbragError("usage", f"{name} holds rows that lack a part", _ANOTHER) from None
    return Done(statuses, documents)


def check_documents(before: Done, jobs: Iterable[Job], name: str) -> None:
    """Raise FbragError `usage` for a file that has changed since rows were made from it."""
    for job in {job.document: job for job in jobs if job.document in before.documents}.values():
        if not all(map(os.path.isfile, job.documents)):
            continue  # a folder, stdin, or a file that is gone, which is an error of its row
        try:
            changed = [sha256_of(Path(path)) for path in job.documents] != list(before.documents[job.document])
        except OSError:
            continue
        if changed:
            raise FbragError("usage", f"{job.document} has changed since {name} got rows of it", _ANOTHER)


def _settings(row: Row) -> str:
    """Return the settings of a row in one text: a column of CSV is one."""
    settings = row["settings"]
    return settings if isinstance(settings, str) else json.dumps({**settings, "versions": row["versions"]})


def _compare(before: Mapping[str, object], now: Mapping[str, object], name: str) -> None:
    other = [each for each in dict.fromkeys((*before, *now)) if before.get(each) != now.get(each)]
    if other:
        told = "; ".join(f"{each} was {_said(before.get(each))}, is {_said(now.get(each))}" for each in other[:3])
        raise FbragError("usage", f"{name} holds rows of other settings: {told}", _ANOTHER)


def _said(value: object) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value), 60)
