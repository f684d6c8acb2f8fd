"""A batch in one process: jobs become rows, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from fbrag_cli.batch import row
from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.resume import Done
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.method import Method
from fbrag_cli.progress import Listener
from fbrag_cli.session.session import Choice, Session
from fbrag_cli.session.settings import DocumentSettings
from fbrag_cli.session.together import answer_all

if TYPE_CHECKING:
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.trace import Trace

#: Errors that every other question would meet, too.
ENDING = frozenset(
    "usage config out_of_memory disk_full timeout gpu_unavailable model_missing model_corrupt offline download_failed".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How all questions of a batch are asked. at_once: questions that run at once, None for as many as pay."""

    method: Method
    choice: Choice
    reading: DocumentSettings
    chunk_words: int = 300
    at_once: int | None = None
    password: str | None = None
    models: Mapping[str, object]

    def described(self) -> dict[str, object]:
        """Return the settings on which an answer depends, as a row has them."""
        method, reading = self.method, self.reading
        return {
            "method": method.name,
            **method.described(),
            "instructions": method.instructions,
            "answer_anyway": method.answer_anyway,
            "prompts": method.templates.name if method.templates else None,
            "retriever": self.choice.retriever,
            "chunk_words": self.chunk_words,
            **{name: getattr(reading, name) for name in ("pages", "encoding", "lang")},
            **self.models,
        }


def rows(
    jobs: Sequence[Job],
    session: Session,
    asking: Asking,
    listener: Listener,
    *,
    before: Done | None = None,
    stdin: BinaryIO | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the row of each job, in order. Jobs on the same documents that follow each other share what is read.

    before: the rows of an earlier run. A document that cannot be read, and a question that fails, is a row with an error. Raises
    FbragError for what every question would meet (`ENDING`), `usage` where a document was another for the earlier rows, and the
    error of the listener's cancellation.
    """
    settings, opened = asking.described(), deque[tuple[Job, FbragError | None]]()

    def tasks() -> Iterator[tuple[str, Collection]]:
        last: tuple[str, ...] | None = None
        collection: Collection | FbragError
        for job in jobs:
            if job.documents != last:
                last, collection = job.documents, _collected(job, session, asking, stdin)
                if before and not isinstance(collection, FbragError):
                    before.check_read(job, [document.sha256 for document in collection.corpus.documents])
            if isinstance(collection, FbragError):
                opened.append((job, collection))
                continue
            opened.append((job, None))
            yield job.question.text, collection

    def unread() -> Iterator[dict[str, Any]]:
        while opened and (error := opened[0][1]):
            yield row.failed(opened.popleft()[0], error, settings)

    for found in answer_all(session, tasks(), asking.method, asking.choice, listener=listener, at_once=asking.at_once):
        yield from unread()
        session.forget()  # no later row asks the same, and a run may have a million
        yield _row(opened.popleft()[0], found, settings)
    yield from unread()


def _row(job: Job, found: Trace | FbragError, settings: dict[str, object]) -> dict[str, Any]:
    if not isinstance(found, FbragError):
        return row.answered(job, found, settings)
    if found.code in ENDING:
        raise found
    return row.failed(job, found, settings)


def _collected(job: Job, session: Session, asking: Asking, stdin: BinaryIO | None) -> Collection | FbragError:
    try:
        return session.collect(job.documents, asking.reading, asking.chunk_words, password=asking.password, stdin=stdin)
    except FbragError as error:
        if error.code in ENDING and error.document is None:
            raise
        return error
