"""A row of a batch: `fbrag.row/1`, as CSV, and in the views --html and --wide.

The CSV answers.csv is made from the row file next to it, answers.jsonl, from which a run resumes.
"""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from fbrag_cli.batch.jobs import Job
from fbrag_cli.batch.values import Value, value_of
from fbrag_cli.documents.lines import page_name
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.build import versions
from fbrag_cli.render.answer import Answer, answer_of
from fbrag_cli.render.as_json import certainty, citations, matching_passages, sources, warnings
from fbrag_cli.render.matrix import MARK, Cell, Matrix
from fbrag_cli.render.passages import place
from fbrag_cli.storage.files import not_writable, open_regular
from fbrag_cli.storage.rows import Row
from fbrag_cli.text.printable import dumps, one_line, printable
from fbrag_cli.trace import Trace

SCHEMA = "fbrag.row/1"

#: The fields of a source in a row.
_OF_A_SOURCE = (
    *("document", "page", "last_page", "page_label", "ocr", "section"),
    *("start_line", "end_line", "start_char", "end_char"),
)
_NO_QUESTION = ("read", "load")  # stages that many rows share

#: Columns of the CSV. Those of values and of gold answers are left out if no question has any.
COLUMNS = tuple(
    "id document question name value status answer location quote unsupported_answer confidence low_confidence uncited "
    "missing_terms sources answers support agreement seconds error".split()
)
_TYPED, _GOLD = ("name", "value"), ("answers",)

#: Byte order mark at the start of a CSV; without it, Excel does not recognize UTF-8.
BOM = "\ufeff"

_READ_FROM = (" (answer)", " (sentence)", " (location)")
_CORNER = "document \\ question"  # the first cell of a wide table, which identifies it
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*%?")


def answered(job: Job, trace: Trace, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the row of an answered question. Its seconds exclude reading the document and loading models."""
    is_answered, shown = trace.status == "answered", answer_of(trace)
    documents = trace.corpus.documents
    cited = dict.fromkeys(claim.sources[0] for claim in shown.claims if claim.sources)
    # The supporting sentences: the best one for each sentence of the answer.
    sentences = [sentence for number in cited if (sentence := shown.sources[number - 1].sentence)]
    return _row(
        job,
        settings,
        status=trace.status,
        answer=trace.answer if is_answered else None,
        value=_value(job, trace.answer or "", shown) if is_answered and job.type and not shown.low_confidence else None,
        unsupported_answer=None if is_answered else trace.answer,
        location="; ".join(map(place, sentences)) or None,
        quote=" … ".join(one_line(sentence.text) for sentence in sentences) or None,
        **certainty(trace, shown),
        missing_terms=list(trace.missing_terms),
        matching_passages=matching_passages(shown),
        sources=[
            {"id": source["id"], **{name: source[name] for name in _OF_A_SOURCE}, "relative_score": source["relative_score"]}
            for source in sources(trace, shown)
        ],
        citations=citations(shown),
        seconds=round(sum(stage.seconds for stage in trace.stages if stage.name not in _NO_QUESTION), 3),
        warnings=warnings(trace, shown),
        sha256=[document.sha256 for document in documents],
    )


def _value(job: Job, answer: str, shown: Answer) -> Value | None:
    """Return the value of an answer, by the source that it cites first or else is nearest to."""
    if not shown.sources:
        return value_of(answer, job.type, "")
    first = shown.sources[0]
    sentence = first.sentence.text if first.sentence else ""
    return value_of(answer, job.type, first.passage.document.language, sentence)


def failed(job: Job, error: FbragError, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the row of a question that could not be answered, or of a document that could not be read (`Job.unreadable`)."""
    return _row(job, settings, status="error", error={"code": error.code, "message": error.message, "hint": error.hint})


def _row(job: Job, settings: Mapping[str, object], *, status: str, **found: Any) -> dict[str, Any]:
    """Return a row. found: values of keys; the other keys are null."""
    value, given = found.pop("value", None), dict[str, Any]()
    if job.answers:
        given["answers"] = list(job.answers)
    if job.type:
        given |= {"name": job.name, "type": job.type, "value": value}
    nothing = (
        *("answer", "unsupported_answer", "location", "quote", "low_confidence", "support", "agreement"),
        *("answer_probability", "confidence", "matching_passages", "uncited"),
    )
    return {
        **{"schema": SCHEMA, "id": job.id or None, "document": job.document, "question": job.question or None, **given},
        "status": status,
        **dict.fromkeys(nothing),
        **{"missing_terms": [], "sources": [], "citations": [], "seconds": None, "warnings": [], "error": None, "sha256": []},
        **found,
        "settings": dict(settings),
        "versions": versions(),
    }


# -- CSV -------------------------------------------------------------------------------------------------------------------------


def is_sheet(output: str) -> bool:
    """Return whether the name of an output means CSV."""
    return output.lower().endswith(".csv")


def rows_of(output: str) -> Path:
    """Return the row file of an output: for CSV, the file next to it from which it is made."""
    return Path(output).with_suffix(".jsonl") if is_sheet(output) else Path(output)


def columns(jobs: Iterable[Job], rows: Iterable[Row] = ()) -> list[str]:
    """Return the columns of the CSV of these jobs, and of the rows of earlier ones."""
    typed = any(job.type for job in jobs) or any("type" in row for row in rows)
    gold = any(job.answers for job in jobs) or any("answers" in row for row in rows)
    return [name for name in COLUMNS if (typed or name not in _TYPED) and (gold or name not in _GOLD)]


def check_sheet(output: str, *, restart: bool) -> None:
    """Raise FbragError `usage` for a file that is not a CSV of rows, and without `restart` if its row file is missing; `output`
    if it cannot be read.
    """
    path, rows = Path(output), rows_of(output)
    try:
        with open_regular(path) as file:
            begins = file.read(1000).removeprefix(BOM_UTF8)
    except FileNotFoundError:
        return
    except OSError as error:
        raise not_writable(path, error, "output", "use another -o FILE") from None
    head, _, rest = begins.partition(b"\n")
    names = head.rstrip(b"\r").decode("utf-8", "replace").split(",")
    if begins and (names != [name for name in COLUMNS if name in names] or not {*columns(())} <= {*names}):
        raise FbragError("usage", f"{path} is not a CSV of fbrag batch", "use another -o FILE")
    if rest and not restart and not (rows.is_file() and rows.stat().st_size):
        what = f"cannot resume {path}: {rows} is missing or empty"
        raise FbragError("usage", what, f"restore {rows}, use another -o FILE, or --restart to overwrite it")


def cell(text: str) -> str:
    """Return text for a cell: without control characters, and with a ' before text that a spreadsheet would compute.

    Bytes of a file name that are not UTF-8 become \\udc..
    """
    shown = printable(text.encode("utf-8", "backslashreplace").decode())
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown


def line(values: Iterable[object]) -> str:
    """Return a line of CSV as in RFC 4180, but with a Unix line end."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow([cell(value) if isinstance(value, str) else value for value in values])
    return text.getvalue()


def row_line(row: Row, columns: Iterable[str] = COLUMNS) -> str:
    """Return the columns of a row as a line of CSV: sources as "report.pdf p. 12" and "book.txt:3-9", separated by "; ", gold
    answers as JSON."""
    flat = {
        **row,
        **{name: row[name] and round(row[name], 2) for name in ("confidence", "support", "agreement")},
        "low_confidence": _said(row["low_confidence"]),
        "uncited": _said(row["uncited"]),
        "value": _said(row.get("value")),
        "missing_terms": " ".join(row["missing_terms"]),
        "sources": "; ".join(map(_place, row["sources"])),
        "answers": dumps(row["answers"]) if "answers" in row else None,
        "error": row["error"] and row["error"]["message"],
    }
    return line(flat.get(name) if name in _TYPED else flat[name] for name in columns)


def _said(value: object) -> object:
    """Return a value for a cell: yes and no for true and false."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def _place(source: Mapping[str, Any]) -> str:
    if source["page"] is None:
        return f"{source['document']}:{source['start_line']}-{source['end_line']}"
    by_ocr = ", read by OCR" if source.get("ocr") else ""
    return f"{source['document']} p. {page_name((source['page'], source['last_page']), source['page_label'])}{by_ocr}"


# -- views -------------------------------------------------------------------------------------------------------------------


def shown(row: Row) -> Cell:
    """Return a row for the views."""
    return Cell(
        **{name: cell(row[name] or "") for name in ("document", "question", "status", "answer", "location", "quote")},
        value=_said(row.get("value")),
        unsupported_answer=cell(row["unsupported_answer"] or ""),
        error=cell(row["error"]["message"]) if row["error"] else "",
        low_confidence=bool(row["low_confidence"]),
        uncited=bool(row["uncited"]),
    )


def wide(matrix: Matrix) -> str:
    """Return the answers as CSV, with one row per document and one column per question: its answer. A question of a type has
    four: the value by its name, and the answer, sentence and location from which it was read."""
    heads = ([f"{name}{of}" for of in ("", *_READ_FROM)] if name else [question] for question, name in matrix.questions.items())
    lines: list[list[object]] = [[_CORNER, *chain.from_iterable(heads)]]
    for document in matrix.documents:
        cells = list[object]()
        for question, name in matrix.questions.items():
            of = matrix.cells.get((document, question))
            said = of.said if of else ""
            cells += [of and of.value, said, of and of.quote, of and of.location] if name else [said]
        lines.append([document, *cells])
    return BOM + "".join(map(line, lines))


def is_own(path: Path) -> bool:
    """Return whether a file is a page or a wide table from an earlier run."""
    try:
        with open_regular(path) as file:
            begins = file.read(400)
    except OSError:
        return False
    return begins.removeprefix(BOM_UTF8).startswith(_CORNER.encode()) or MARK.encode() in begins
