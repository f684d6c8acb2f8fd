"""A batch in one process: jobs become rows, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from fbrag_cli.batch import row
from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.resume import Earlier
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Listener
from fbrag_cli.query import Query
from fbrag_cli.session.questions import answer_all, how_many_pay
from fbrag_cli.session.session import Session
from fbrag_cli.session.settings import DocumentSettings

if TYPE_CHECKING:
    from fbrag_cli.query import Collection
    from fbrag_cli.trace import Trace

#: Errors that every other question would meet, too.
ENDING = frozenset(
    "usage config out_of_memory disk_full timeout gpu_unavailable model_missing model_corrupt llama_unavailable offline "
    "download_failed".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """The settings that all questions of a batch share.

    reading: which files are read, and how. chunk_words: number of words of a chunk. at_once: number of questions that run at
    once; None for as many as pay. models: names and identities of the models, by role (`Session.identities`).
    """

    method: Method
    retriever: str
    reading: DocumentSettings
    chunk_words: int = 300
    at_once: int | None = None
    password: str | None = None
    models: Mapping[str, object]

    def described(self) -> dict[str, object]:
        """Return the settings on which an answer depends, as a row holds them."""
        method, reading = self.method, self.reading
        return {
            "method": method.name,
            **method.described(),
            "instructions": method.instructions,
            "answer_anyway": method.answer_anyway,
            "prompts": method.templates.name if method.templates else None,
            "retriever": self.retriever,
            "chunk_words": self.chunk_words,
            **{name: getattr(reading, name) for name in ("pages", "encoding", "lang")},
            **({"comments": True} if reading.comments else {}),
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
    """Yield the row of each job, in order. Jobs on the same documents that follow each other share what is read.

    before: rows of an earlier run. A document that cannot be read, and a question that fails, make a row with an error. Raises
    FbragError for what every question would meet (`ENDING`), `usage` for a document that has changed since the earlier rows were
    made, and the error of the listener's cancellation.
    """
    described, opened = settings.described(), deque[tuple[Job, FbragError | None]]()

    def queries() -> Iterator[Query]:
        last: tuple[str, ...] | None = None
        collection: Collection | FbragError
        for job in jobs:
            if job.documents != last:
                last, collection = job.documents, _collected(job, session, settings, stdin)
                if before and not isinstance(collection, FbragError):
                    before.check_read(job, [document.sha256 for document in collection.corpus.documents])
            if isinstance(collection, FbragError):
                opened.append((job, collection))
                continue
            opened.append((job, None))
            yield Query(job.question.text, collection, settings.method, retriever=settings.retriever)

    def unread() -> Iterator[dict[str, Any]]:
        while opened and (error := opened[0][1]):
            yield row.failed(opened.popleft()[0], error, described)

    at_once = settings.at_once or how_many_pay(session, settings.method)
    for found in answer_all(session, queries(), listener=listener, at_once=at_once):
        yield from unread()
        session.forget()  # no later row asks the same, and a run may have a million
        yield _row(opened.popleft()[0], found, described)
    yield from unread()


def _row(job: Job, found: Trace | FbragError, settings: dict[str, object]) -> dict[str, Any]:
    if not isinstance(found, FbragError):
        return row.answered(job, found, settings)
    if found.code in ENDING:
        raise found
    return row.failed(job, found, settings)


def _collected(job: Job, session: Session, settings: BatchSettings, stdin: BinaryIO | None) -> Collection | FbragError:
    try:
        return session.collect(job.documents, settings.reading, settings.chunk_words, password=settings.password, stdin=stdin)
    except FbragError as error:
        if error.code in ENDING and error.document is None:
            raise
        return error
