"""`fbrag.row/1`: a row of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fbrag_cli.batch.jobs import Job
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import versions
from fbrag_cli.render.answer import Answer, answer_of
from fbrag_cli.render.as_json import certainty, citations, sources
from fbrag_cli.render.passages import place
from fbrag_cli.text.printable import one_line
from fbrag_cli.trace import Trace

SCHEMA = "fbrag.row/1"

#: Of a source, what a row holds.
_OF_A_SOURCE = ("document", "page", "last_page", "section", "start_line", "end_line", "start_char", "end_char")
_NO_QUESTION = ("read", "load")  # stages that many rows share


def answered(job: Job, trace: Trace, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the row of an answered question. Its seconds leave out reading the document and loading models."""
    found, shown = trace.status == "answered", answer_of(trace)
    documents = trace.corpus.documents
    return {
        **_head(job),
        "status": trace.status,
        "answer": trace.answer if found else None,
        "unsupported_answer": None if found else trace.answer,
        **_evidence(shown),
        **certainty(trace),
        "absent": list(trace.absent),
        "sources": [
            {"id": source["id"], **{name: source[name] for name in _OF_A_SOURCE}, "score": source["relative"]}
            for source in sources(trace, shown)
        ],
        "citations": citations(shown),
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
        **dict.fromkeys(("answer", "unsupported_answer", "place", "quote", "unsure", "support", "agreement", "confidence")),
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


def _evidence(answer: Answer) -> dict[str, str | None]:
    """Return the sentences that show the answer, the best one for each of its own, and where they stand; None without any."""
    cited = dict.fromkeys(claim.sources[0] for claim in answer.claims if claim.sources)
    sentences = [sentence for number in cited if (sentence := answer.sources[number - 1].sentence)]
    return {
        "place": "; ".join(map(place, sentences)) or None,
        "quote": " … ".join(one_line(sentence.text) for sentence in sentences) or None,
    }
