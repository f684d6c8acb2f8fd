"""`fbrag.row/1`: a row of a batch, and the same in the columns of CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fbrag_cli.batch.jobs import Job
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import versions
from fbrag_cli.render.as_json import certainty, citations, sources
from fbrag_cli.storage.rows import Csv, Form, JsonLines, as_text
from fbrag_cli.text.printable import dumps, printable
from fbrag_cli.trace import Trace

SCHEMA = "fbrag.row/1"
COLUMNS = tuple(
    "id document question status answer answers sources absent unsure support agreement confidence seconds error sha256 "
    "settings".split()
)

#: Of a source, what a row holds.
_OF_A_SOURCE = ("document", "page", "last_page", "section", "start_line", "end_line", "start_char", "end_char")
_NO_QUESTION = ("read", "load")  # stages that many rows share


def answered(job: Job, trace: Trace, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the row of an answered question. Its seconds leave out reading the document and loading models."""
    found = trace.status == "answered"
    documents = trace.corpus.documents
    return {
        **_head(job),
        "status": trace.status,
        "answer": trace.answer if found else None,
        "unsupported_answer": None if found else trace.answer,
        **certainty(trace),
        "absent": list(trace.absent),
        "sources": [
            {"id": source["id"], **{name: source[name] for name in _OF_A_SOURCE}, "score": source["relative"]}
            for source in sources(trace)
        ],
        "citations": citations(trace),
        "seconds": round(sum(stage.seconds for stage in trace.stages if stage.name not in _NO_QUESTION), 3),
        "warnings": [*trace.warnings, *(warning for document in documents for warning in document.warnings)],
        "error": None,
        **_tail(settings, *(document.sha256 for document in documents)),
    }


def failed(job: Job, error: FbragError, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the row of a question that could not be answered."""
    return {
        **_head(job),
        "status": "error",
        **dict.fromkeys(("answer", "unsupported_answer", "unsure", "support", "agreement", "confidence")),
        "absent": [],
        "sources": [],
        "citations": [],
        "seconds": None,
        "warnings": [],
        "error": {"code": error.code, "message": error.message, "hint": error.hint},
        **_tail(settings),
    }


def _head(job: Job) -> dict[str, Any]:
    question = job.question
    given = {"answers": list(question.answers)} if question.answers else {}
    return {"schema": SCHEMA, "id": question.id, "document": job.document, "question": question.text, **given}


def _tail(settings: Mapping[str, object], *sha256: str) -> dict[str, Any]:
    return {"sha256": list(sha256), "settings": dict(settings), "versions": versions()}


# -- files -------------------------------------------------------------------------------------------------------------------


def form_of(name: str) -> Form:
    """Return how rows are written to a file of this name: CSV, or JSON lines."""
    return _Columns() if name.lower().endswith(".csv") else JsonLines(SCHEMA, dumps)


class _Columns(Csv):
    """Rows in columns: places as "report.pdf p. 12" and "book.txt:3-9", parted by "; ", gold answers and settings as JSON."""

    def __init__(self) -> None:
        super().__init__(COLUMNS)

    def encode(self, row: Mapping[str, Any]) -> bytes:
        if isinstance(row["settings"], str):
            return super().encode(row)  # as it was read
        flat = {
            "answers": dumps(row["answers"]) if "answers" in row else None,
            "question": shown(row["question"]),
            "answer": row["answer"] and shown(row["answer"]),
            "sources": shown("; ".join(map(_place, row["sources"]))),
            "absent": shown(" ".join(row["absent"])),
            "error": shown(row["error"]["message"]) if row["error"] else None,
            "sha256": " ".join(row["sha256"]),
            "settings": dumps({**row["settings"], "versions": row["versions"]}),
        }
        return super().encode({**row, **flat})


def shown(text: str) -> str:
    """Return a text as a cell of CSV shows it, without what a terminal would obey."""
    return printable(as_text(text))


def _place(source: Mapping[str, Any]) -> str:
    if source["page"] is None:
        return f"{source['document']}:{source['start_line']}-{source['end_line']}"
    pages = source["page"], source["last_page"]
    return f"{source['document']} p. {pages[0]}" + (f"-{pages[1]}" if pages[1] != pages[0] else "")
