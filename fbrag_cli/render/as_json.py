"""Renders a `Trace` as JSON: `fbrag.answer/1`, `fbrag.explanation/1`, and the events of an answer, `fbrag.event/1`.

Within a version, keys are only added.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.documents.lines import lines_of, page_label, pages_of, section_of
from fbrag_cli.generation.build import versions
from fbrag_cli.methods.registry import METHODS
from fbrag_cli.progress import LABELS, Event
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.render.answer import Answer, Source, answer_of
from fbrag_cli.render.passages import duplicates, near_copies, read_of
from fbrag_cli.render.tables import chunk_table, own_tables, records
from fbrag_cli.retrieval.ranking import ranks
from fbrag_cli.text.printable import one_line
from fbrag_cli.trace import Scores, Stage, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scored = NDArray[np.float32]

#: Places of sentences on pages, by the ranks of their sources, as of `session.pictures.sentence_boxes`.
Boxes = Mapping[int, list[dict[str, Any]]]

#: Of every event but the last, which has the answer's.
EVENT = "fbrag.event/1"

_BEST_MATCHES = 5  # chunks that the event of a sample names
_OF_A_SENTENCE = ("page", "last_page", "page_label", "ocr", "section", "start_line", "end_line", "start_char", "end_char")


def answer(trace: Trace, *, memory_mb: float, typed: str | None = None, boxes: Boxes | None = None) -> dict[str, Any]:
    """Return `fbrag.answer/1`. memory_mb: the peak of this process. typed: a follow-up question as it was typed. boxes: as for
    `sources`.

    question: as it was typed. resolved_question: the whole question that a follow-up was asked as; null if it was asked as typed.
    from_document: whether text of the document was read for the answer; if not, it is from the model's own knowledge.
    unsupported_terms: words, names and numbers of the answer that no source has. missing_terms: words of the question that no
    chunk has.
    """
    is_answered, shown = trace.status == "answered", answer_of(trace)
    return {
        "schema": "fbrag.answer/1",
        "question": trace.question if typed is None else typed,
        "resolved_question": None if typed in (None, trace.question) else trace.question,
        "status": trace.status,
        "answer": trace.answer if is_answered else None,
        "unsupported_answer": None if is_answered else trace.answer,
        "from_document": trace.from_document,
        "missing_terms": list(trace.missing_terms),
        "citations": citations(shown),
        "unsupported_terms": list(shown.unsupported_terms),
        "matching_passages": matching_passages(shown),
        **certainty(trace, shown),
        "truncated": trace.truncated,
        "sources": sources(trace, shown, boxes),
        **_shared(trace, memory_mb),
        "warnings": warnings(trace, shown),
    }


def explanation(
    trace: Trace, *, memory_mb: float, found: Collection[int] | None = None, boxes: Boxes | None = None
) -> dict[str, Any]:
    """Return `fbrag.explanation/1`: every chunk with its scores, ranks and place, in document order.

    read: (start, end) of each part of a chunk that the large model reads, in characters of the document; empty if none is.
    found: the positions of the chunks that hold the text of --find; without one None, and no chunk has `contains_text`. sentence:
    of a selected chunk, the one nearest to the question; boxes: as for `sources`.
    """
    scores = trace.scores
    combined, backward, forward = map(ranks, (scores.combined, scores.backward, scores.forward))
    selected, retrieved, held = set(trace.selected), set(trace.retrieved), set(found or ())
    duplicate_of, read = {copy: position + 1 for copy, position in trace.selection.duplicate_of.items()}, read_of(trace)
    own = _beside(trace)
    nearest = {source.passage.position: _sentence(source, boxes) for source in reversed(answer_of(trace).sources)}
    return {
        "schema": "fbrag.explanation/1",
        "question": trace.question,
        "chunks": [
            {
                **place_of(chunk),
                **_scores(trace, chunk.position),
                "rank": combined[chunk.position],
                "backward_rank": backward[chunk.position],
                "forward_rank": forward[chunk.position] if trace.samples else None,
                "retrieved": chunk.position in retrieved,
                "selected": chunk.position in selected,
                "read": [[part.start, part.end] for part in read.get(chunk.position, ())],
                "duplicate_of": duplicate_of.get(chunk.position),
                "terms": _terms(trace, chunk) if chunk.position in selected else [],
                "sentence": nearest.get(chunk.position),
                **own.get(chunk.position, {}),
                **({} if found is None else {"contains_text": chunk.position in held}),
            }
            for chunk in trace.corpus.chunks
        ],
        **_shared(trace, memory_mb),
    }


def _terms(trace: Trace, chunk: Passage) -> list[dict[str, Any]]:
    """Return which words of the question meet which of a chunk, and what each adds to its score; none without bm25."""
    met = trace.query.collection.retriever.matches(trace.query.text, chunk) if trace.retriever == DEFAULT_RETRIEVER else ()
    return [{"question": asked, "chunk": held, "score": _rounded(score)} for asked, held, score in met]


def citations(answer: Answer) -> list[dict[str, Any]]:
    """Return each sentence of the answer, (start, end) in characters of it, with the `id` of each source that shows it."""
    return [{"start": each.start, "end": each.end, "sources": list(each.sources)} for each in answer.claims]


def matching_passages(answer: Answer) -> dict[str, Any] | None:
    """Return how many passages match the question, and how many of them were read; None if no more match than were read, or if it
    cannot be determined."""
    unread = answer.unread
    return None if unread is None or unread.found is None else {"read": unread.read, "found": unread.found}


def warnings(trace: Trace, answer: Answer | None = None) -> list[str]:
    """Return the warnings of a question and of its documents. answer: if its question asks for the whole document, one of them
    says how much of it was read."""
    of_documents = (warning for document in trace.corpus.documents for warning in document.warnings)
    return [*trace.warnings, *([answer.unread.whole] if answer and answer.unread and answer.unread.whole else []), *of_documents]


def sources(trace: Trace, answer: Answer, boxes: Boxes | None = None) -> list[dict[str, Any]]:
    """Return what the large model reads of the selected chunks: each whole, or a source for each part of it.

    id: its number in citations, as of `Source`, in whose order the sources are; null before the answer. rank: among the
    sources, best first. duplicates: the places of the same text in other chunks. near_copies: those of nearly the same text.
    sentence: the text and the place of the sentence that shows the answer best, and its boxes; null if there is none. highlights:
    (start, end) of words, in characters of the document. boxes: of the sentences, by ranks; those of other sentences are null.
    """
    own = _beside(trace)
    return [
        {
            "id": source.number,
            "rank": source.rank,
            **place_of(source.passage),
            **_scores(trace, source.passage.position),
            **own.get(source.passage.position, {}),
            "duplicates": [place_of(copy) for copy in duplicates(trace, source.passage)],
            "near_copies": [place_of(copy) for copy in near_copies(trace, source.passage)],
            "text": source.passage.text,
            "sentence": _sentence(source, boxes),
            "highlights": [list(span) for span in source.marks],
        }
        for source in answer.sources
    ]


def _sentence(source: Source, boxes: Boxes | None) -> dict[str, Any] | None:
    """Return the sentence of a source that shows an answer: its text on one line, its place, and its boxes on its pages."""
    if source.sentence is None:
        return None
    placed, found = place_of(source.sentence), (boxes or {}).get(source.rank)
    return {"text": one_line(source.sentence.text), **{name: placed[name] for name in _OF_A_SENTENCE}, "boxes": found}


def _shared(trace: Trace, memory_mb: float) -> dict[str, Any]:
    return {
        "samples": [asdict(sample) for sample in trace.samples],
        "documents": [
            {
                "path": document.path,
                "sha256": document.sha256,
                "encoding": document.encoding,
                "language": document.language or None,
                "chars": document.n_chars,
                "words": trace.corpus.words_of(i),
                "chunks": len(trace.corpus.chunks_of(i)),
                "skipped_pages": list(document.skipped_pages),
                "ocr_pages": list(document.ocr_pages),
            }
            for i, document in enumerate(trace.corpus.documents)
        ],
        **method_notes(trace),
        **dict.fromkeys(name for method in METHODS for name in method.table_keys),
        **{table.name: [{"chunk": at + 1, **row} for at, row in records(table)] for table in own_tables(trace)},
        "method": settings(trace),
        "models": {role: asdict(info) for role, info in trace.models.items()},
        "stages": [_stage(stage) for stage in trace.stages],
        "cached": list(trace.cached),
        "memory": {"ram_peak_mb": round(memory_mb)},
        "warnings": warnings(trace),
        "seed": trace.method.seed,
        "versions": versions(),
    }


def method_notes(trace: Trace) -> dict[str, str | None]:
    """Return the notes of the method, by key; None for the keys of other methods."""
    return {name: trace.method_notes.get(name) for method in METHODS for name in method.note_keys}


def _beside(trace: Trace) -> dict[int, dict[str, Any]]:
    """Return what the method says of single chunks, by their positions."""
    table = chunk_table(trace)
    return dict(records(table)) if table else {}


def certainty(trace: Trace, answer: Answer) -> dict[str, Any]:
    """Return how sure the answer is: whether it is marked, whether no sentence that was read holds it (both null if there is no
    answer), and the numbers of its verdict."""
    numbers = ("support", "agreement", "answer_probability", "confidence")
    marks = {"low_confidence": answer.low_confidence, "uncited": answer.uncited}
    shown = marks if trace.status == "answered" else dict.fromkeys(marks)
    return {**shown, **{name: _rounded(getattr(trace.verdict, name)) for name in numbers}}


def settings(trace: Trace) -> dict[str, Any]:
    """Return the method's name and settings, the retriever and the length of the chunks."""
    name, words = trace.method.name, trace.corpus.chunk_words
    return {"name": name, **asdict(trace.method), "retriever": trace.retriever, "chunk_words": words}


def place_of(chunk: Passage) -> dict[str, Any]:
    """Return where a chunk stands: its document and number, pages, headings, lines, and characters of the document."""
    first, last = lines_of(chunk.document, chunk.start, chunk.end)
    pages = pages_of(chunk.document, chunk.start, chunk.end)
    section, last_section = (section_of(chunk.document, at, chunk.end) for at in (chunk.start, chunk.end - 1))
    return {
        "document": chunk.document.name,
        "chunk": chunk.position + 1,
        "page": pages[0] if pages else None,
        "last_page": pages[1] if pages else None,
        "page_label": page_label(chunk.document, pages) if pages else None,
        "ocr": chunk.by_ocr,
        "section": section.title if section else None,
        "last_section": last_section.title if last_section else None,
        "start_line": first,
        "end_line": last,
        "start_char": chunk.start,
        "end_char": chunk.end,
    }


def _scores(trace: Trace, position: int) -> dict[str, Any]:
    scores = trace.scores
    raised_by = int(scores.best_sample[position]) if scores.forward[position] else None
    return {
        "backward_score": _rounded(scores.backward[position]),
        "forward_score": _rounded(scores.forward[position]) if trace.samples else None,
        "score": _rounded(scores.combined[position]),
        "relative_score": None if scores.relative is None else _rounded(scores.relative[position]),
        "best_sample": raised_by,
    }


def _stage(stage: Stage) -> dict[str, Any]:
    record: dict[str, Any] = {"name": stage.name, "seconds": _rounded(stage.seconds)}
    if stage.prompt_tokens:
        record |= {
            "prompt_tokens": stage.prompt_tokens,
            "cached_tokens": stage.cached_tokens,
            "generated_tokens": stage.generated_tokens,
            "reasoning_tokens": stage.reasoning_tokens,
        }
    if stage.first_token_seconds is not None:
        record["first_token_seconds"] = _rounded(stage.first_token_seconds)
    return record


class Events:
    """The events of one answer, in the order in which a server sends them: resolved_question, keyword_matches, progress, sample,
    selected, tokens, checked, done. JSON lines have selected, token and done. begun: whether a piece of the answer was made."""

    def __init__(self) -> None:
        self.begun = False

    def resolved_question(self, question: str) -> dict[str, Any]:
        """Return the event with the question that a typed one means."""
        return {"schema": EVENT, "event": "resolved_question", "question": question}

    def keyword_matches(self, corpus: Corpus, positions: Sequence[int], scores: Scored) -> dict[str, Any]:
        """Return the event with the chunks nearest to the question by its words alone, best first. scores: (n_chunks,)."""
        chunks = [{**place_of(corpus.chunks[each]), "backward_score": _rounded(scores[each])} for each in positions]
        return {"schema": EVENT, "event": "keyword_matches", "chunks": chunks}

    def progress(self, event: Event, left: float | None) -> dict[str, Any]:
        """Return the event for progress: what runs, and how much it has read or written. left: seconds until the answer is
        complete."""
        return {
            "schema": EVENT,
            "event": "progress",
            "stage": event.stage,
            "label": LABELS.get(event.stage, event.stage),
            "done": event.done,
            "total": event.total or None,
            "writes": event.kind == "written",
            "eta_seconds": None if left is None else round(left, 1),
        }

    def samples(self, trace: Trace) -> list[dict[str, Any]]:
        """Return an event for each sample, with the chunks that it scored higher than the others did, best first."""
        return [
            {
                "schema": EVENT,
                "event": "sample",
                "index": sample.index,
                "rationale": sample.rationale,
                "answer": sample.answer,
                "best_matches": [
                    {"chunk": position + 1, "score": _rounded(trace.scores.forward[position])}
                    for position in best_matches(trace.scores, sample.index)[:_BEST_MATCHES]
                ],
            }
            for sample in trace.samples
        ]

    def selected(self, trace: Trace) -> dict[str, Any]:
        """Return the event with the sources, once they are selected."""
        return {"schema": EVENT, "event": "selected", "sources": sources(trace, answer_of(trace))}

    def token(self, event: Event) -> dict[str, Any] | None:
        """Return the event for a piece of the answer; None for white space before its first word."""
        text = event.text if self.begun else event.text.lstrip()
        self.begun = self.begun or bool(text)
        return {"schema": EVENT, "event": "token", "text": text} if text else None

    def checked(self, trace: Trace) -> dict[str, Any]:
        """Return the event with the verdict on the answer, and which source shows which sentence of it."""
        shown = answer_of(trace)
        about = {"status": trace.status, **certainty(trace, shown), "citations": citations(shown)}
        return {"schema": EVENT, "event": "checked", **about}

    def done(self, trace: Trace, memory_mb: float, typed: str | None = None, boxes: Boxes | None = None) -> dict[str, Any]:
        """Return the last event: the JSON of the answer, as `answer`."""
        return {"event": "done", **answer(trace, memory_mb=memory_mb, typed=typed, boxes=boxes)}


def best_matches(scores: Scores, sample: int) -> list[int]:
    """Return the positions of the chunks that a sample scored higher than the others did, best first."""
    found = [int(each) for each in (scores.best_sample == sample).nonzero()[0] if scores.forward[each]]
    return sorted(found, key=lambda position: -scores.forward[position])


def _rounded(value: Any) -> float | None:
    return None if value is None else round(float(value), 4)
