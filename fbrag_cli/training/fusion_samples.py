"""Forward samples for training questions, which the model draws as FB-RAG does: two chunks read, three samples of 48 tokens.

The samples of a question are a row of a file, made once for a model, and kept: all else takes minutes, this hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from time import perf_counter
from typing import Any

from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.indexing.collect import Collection, collect_text
from fbrag_cli.methods.fb_rag import FBRag
from fbrag_cli.progress import Listener
from fbrag_cli.session.session import Choice, Session
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.languages import detect
from fbrag_cli.training.documents import WORDS, LongQuestion

SCHEMA = "fbrag.sample/1"
#: FB-RAG with its defaults on a CPU.
METHOD = FBRag()

Key = tuple[str, str]  # data set, question


def samples(questions: Iterable[LongQuestion], session: Session, choice: Choice, listener: Listener) -> Iterator[dict[str, Any]]:
    """Yield the row of each question, in order, with the seconds that it took."""
    quiet = Listener(cancellation=listener.cancellation)
    for question in questions:
        started = perf_counter()
        trace = session.retrieve(question.text, collected(question.document().text), METHOD, choice, quiet)
        yield {
            "schema": SCHEMA,
            "kind": "samples",
            "dataset": question.dataset,
            "question": question.id,
            "dev": question.dev,
            "samples": [[sample.seed, sample.finish, sample.text] for sample in trace.samples],
            "seconds": round(perf_counter() - started, 2),
        }


@lru_cache(maxsize=1)
def collected(text: str) -> Collection:
    """Return the chunks of a training document."""
    return collect_text(Document.of("d", "d", Extracted(Content(text), "text/plain"), language=detect(text)), METHOD.chunk_words)


def head(model: str, retriever: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return the row that begins a file of samples: what all of them depend on. data: SHA-256 of each file by name."""
    settings = {"method": METHOD.described(), "retriever": retriever, "document_words": WORDS}
    return {"schema": SCHEMA, "kind": "run", "model": model, "data": dict(data), **settings}


def key_of(row: Row) -> Key:
    """Return the key of the question whose samples a row holds."""
    return row["dataset"], row["question"]
