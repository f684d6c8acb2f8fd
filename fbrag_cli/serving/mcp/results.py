"""What tools return of a trace: records for programs, with the texts of passages cut to a number of characters, and the same as
text for models that read text alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from fbrag_cli.corpus import Passage
from fbrag_cli.errors import FbragError
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.text.words import terms

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Document
    from fbrag_cli.serving.job import Job
    from fbrag_cli.trace import Trace

Record = dict[str, Any]

_PLACE = ("document", "chunk", "page", "last_page", "section", "start_line", "end_line")
_LEAST = 200  # characters of a passage that is cut
_TRIES = 4  # to find how much text there is room for
_ROWS = 10  # chunks that an explanation names, beside those that hold the text
_NAMED = 300  # characters of a sample, or of a proposed answer


def found(trace: Trace, most: int) -> Record:
    """Return the passages of a search that hold a word of the question, best first. most: characters of all their texts."""
    scores = trace.scores.combined  # below 0 for a word that most chunks hold, and 0 for one that half of them hold
    passages = [each for each in _sources(trace, most) if scores[each["chunk"] - 1] or _holds_a_word(trace, each["chunk"] - 1)]
    return {"passages": passages, "absent": list(trace.missing_terms), "warnings": _warnings(trace)}


def _holds_a_word(trace: Trace, position: int) -> bool:
    """Return whether a chunk holds a word of the question."""
    chunk = trace.corpus.chunks[position]
    return not {*terms(trace.question, trace.corpus.languages)}.isdisjoint(terms(chunk.cells_apart, (chunk.document.language,)))


def answered(trace: Trace, most: int) -> Record:
    """Return the answer with its sources, the cited ones first. most: characters of all their texts."""
    is_answer = trace.status == "answered"
    answer = printable(trace.answer or "")
    return {
        "status": trace.status,
        "answer": answer[:most] if is_answer else None,
        "proposed": None if is_answer or not answer else one_line(answer, _NAMED),
        "unsure": trace.verdict.low_confidence,
        "confidence": None if trace.verdict.confidence is None else round(trace.verdict.confidence, 4),
        "absent": list(trace.missing_terms),
        "sources": _sources(trace, most),
        "warnings": _warnings(trace),
    }


def explained(trace: Trace, sought: str | None, most: int) -> Record:
    """Return the scores and the first words of the chunks that hold `sought`, then of the best others. most: characters of all
    these words."""
    from fbrag_cli.render.as_json import explanation
    from fbrag_cli.render.explain_text import holders

    held = None if sought is None else holders(trace, sought)
    rows = sorted(explanation(trace, memory_mb=0, found=held)["chunks"], key=lambda row: row["rank"])
    shown = [row for row in rows if row.get("found")] + [row for row in rows[:_ROWS] if not row.get("found")]
    texts = cut((one_line(trace.corpus.chunks[row["chunk"] - 1].text, _LEAST) for row in shown), most)
    keys = (*_PLACE, "rank", "combined", "backward", "forward", "recalled", "selected", "found")
    return {
        "status": "explained",
        "chunks": [{key: row[key] for key in keys if key in row} | text for row, text in zip(shown, texts, strict=False)],
        "found": None if held is None else len(held),
        "samples": [
            {"rationale": one_line(each.rationale, _NAMED), "answer": one_line(each.answer, _NAMED)} for each in trace.samples
        ],
        "warnings": _warnings(trace),
    }


def running(job: Job, most: int) -> Record:
    """Return how far a job is, and the chunks nearest to its question."""
    from fbrag_cli.render.as_json import place_of

    texts = cut([chunk.text for chunk in job.keyword_matches], most)
    nearest = [_of(place_of(chunk)) | text for chunk, text in zip(job.keyword_matches, texts, strict=False)]
    return {"status": "running", "job": job.id, "stage": job.stage, "nearest": nearest}


def bounded(make: Callable[[int], Record], most: int) -> Record:
    """Return a record of `most` characters of JSON at most. make: returns it with texts of so many characters.

    What of it has no limit of its own, as long names of files, makes lists shorter from their ends.
    """
    room = most
    for _ in range(_TRIES):
        record = make(room)
        if (over := _size(record) - most) <= 0:
            return record
        room = max(_LEAST, room - over)
    for key in ("warnings", "absent", "samples", "chunks", "nearest", "passages", "sources"):
        while record.get(key) and _size(record) > most:
            record[key] = record[key][:-1]
    return record


def _size(record: Record) -> int:
    return len(json.dumps(record, ensure_ascii=False))


def passage(document: Document, start: int, end: int, most: int) -> Record:
    """Return the lines `start` to `end` (from 1) of a document. Raises FbragError `usage` for lines that it does not have."""
    from fbrag_cli.documents.lines import line_index
    from fbrag_cli.render.as_json import place_of

    index = line_index(document)
    if not 1 <= start <= end or start > len(index):
        what = f"lines {start} to {end}: {one_line(document.name)} has {len(index)} lines, counted from 1"
        raise FbragError("usage", what, "name a first and a last line of it")
    first, last = index.span(start)[0], index.span(min(end, len(index)))[1]
    (text,) = cut([document.text[first:last]], most)
    shown = Passage(0, document, first, max(first + 1, min(last, first + len(text["text"]))))
    return {**_of(place_of(shown)), "lines": len(index), **text}


def cut(texts: Iterable[str], most: int) -> Iterator[Record]:
    """Yield each text, the last one cut where `most` characters in all are reached. What is behind it is left out."""
    for text in texts:
        if most < min(len(text), _LEAST):
            return
        yield {"text": printable(text[:most]), "cut": len(text) > most}
        most -= min(len(text), most)


def as_text(record: Record) -> str:
    """Return a record as text."""
    lines = []
    if status := record.get("status"):
        lines += [_said(record, status), ""]
    for kind in ("passages", "sources", "nearest", "chunks"):
        for number, each in enumerate(record.get(kind, ()), 1):
            lines += [f"[{number}] {_place(each)}{_fate(each)}", each["text"] + (" …" if each["cut"] else ""), ""]
    if "passages" in record and not record["passages"]:
        lines.append("No passage holds a word of the question.")
    if "text" in record:
        lines += [_place(record), record["text"] + (" …" if record["cut"] else "")]
    if record.get("found") == 0:
        lines.append("No chunk holds the text that was looked for.")
    if absent := record.get("absent"):
        lines.append(f"In no passage: {', '.join(map(one_line, absent))}")
    lines += [f"warning: {one_line(each)}" for each in record.get("warnings", ())]
    return "\n".join(lines).strip()


def _said(record: Record, status: str) -> str:
    if status == "running":
        return f"Still running ({record['stage']}): ask_result with job {record['job']} waits for the answer. Nearest so far:"
    if status == "explained":
        said = [f"sample {i}: {each['rationale']} Answer: {each['answer']}" for i, each in enumerate(record["samples"], 1)]
        return "\n".join(said)
    if status == "answered":
        return f"Not sure: {record['answer']}" if record["unsure"] else str(record["answer"])
    proposed = f" Proposed, but not shown by the passages: {record['proposed']}" if record["proposed"] else ""
    return f"The document does not say.{proposed}"


def _sources(trace: Trace, most: int) -> list[Record]:
    """Return the passages. Where some show the answer, of the others only the sentence nearest to it has its text."""
    from fbrag_cli.render.answer import answer_of
    from fbrag_cli.render.as_json import sources

    answer = answer_of(trace)
    each, cited = sources(trace, answer), answer.cited
    sentences = ["" if source.sentence is None else one_line(source.sentence.text, _NAMED) for source in answer.sources]
    whole = [not cited or source["id"] in cited for source in each]
    shown = (source["text"] if all_of_it else said for source, said, all_of_it in zip(each, sentences, whole, strict=True))
    return [
        {**_of(source), "score": source["relative"], "sentence": sentence, **text}
        | ({"cited": source["id"] in cited} if trace.status != "retrieved" else {})
        | ({} if all_of_it else {"cut": True})
        for source, sentence, all_of_it, text in zip(each, sentences, whole, cut(shown, most), strict=False)
    ]


def _of(record: Record) -> Record:
    return {key: record[key] for key in _PLACE}


def _place(record: Record) -> str:
    name, page, section = one_line(record["document"]), record["page"], record["section"]
    where = f" p. {page}" if page else f":{record['start_line']}-{record['end_line']}"
    return f"{name}{where}" + (f" ({one_line(section, _NAMED)})" if section else "")


def _fate(row: Record) -> str:
    """Return what became of a chunk, in an explanation; "" elsewhere."""
    if "rank" not in row:
        return "" if row.get("cited", True) else " (not cited)"
    fate = "selected" if row["selected"] else "not selected"
    holds = "; holds the text" if row.get("found") else ""
    return f" rank {row['rank']}, score {row['combined']}, {fate}{holds}"


def _warnings(trace: Trace) -> list[str]:
    of_documents = (each for document in trace.corpus.documents for each in document.warnings)
    return [*islice((*trace.warnings, *of_documents), _ROWS)]
