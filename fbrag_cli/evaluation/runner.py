"""Runs an evaluation. It keeps one row per example and configuration, each as soon as it is done, so that a stopped run can
resume.

Configurations share the chunks and the index of a document, and the forward samples and the answer of a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation import metrics, results
from fbrag_cli.evaluation.configurations import Configuration, distinct
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.results import Result, key
from fbrag_cli.generation.build import releases, versions
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.limits import peak_memory_mb
from fbrag_cli.progress import Event, Listener, Progress, silent
from fbrag_cli.query import Collection, Query
from fbrag_cli.render.as_json import method_notes
from fbrag_cli.session.session import Session
from fbrag_cli.storage.cache import entry_key
from fbrag_cli.storage.rows import HINT_OTHER_FILE, Row, open_rows
from fbrag_cli.text.languages import detect
from fbrag_cli.trace import Stage, Trace

# Errors that end the run, because the next example would also fail. Requests to a server were already retried.
_END = (
    *("usage", "out_of_memory", "timeout", "gpu_unavailable"),
    *("model_missing", "model_corrupt", "llama_unavailable", "server_failed", "offline"),
)
#: The kind of cache entry.
KIND = "eval"

_UNTIMED = ("read", "load")  # stages of the run, not of a question
_AFTER = ("verify",)  # comes after the answer, is not part of the paper's methods, and costs nothing if it is cached

_Case = tuple[Example, Configuration]
_RowsByKey = Mapping[tuple[str, str, str], Row]  # dataset, example, configuration


def run(
    examples: Sequence[Example],
    configurations: Sequence[Configuration],
    output: Path | None,
    session: Session,
    *,
    restart: bool = False,
    progress: Progress = silent,
) -> list[Result]:
    """Evaluate each example with each configuration, and return the results. A failure is a row with an error.

    output: a file to which missing rows are appended, and all of whose rows are returned; None to keep the rows in the cache.
    Finished rows are kept, whatever stops the run. restart: evaluate again. progress: stage "eval", in rows. Raises FbragError
    `usage` for a dataset without a scorer, and if `output` has rows of other versions, another model file, or an example that has
    changed.
    """
    configurations = distinct(configurations)
    for example in examples:  # check the dataset's scorer, libraries and prompts, which would otherwise fail after hours
        metrics.main_metric(example)
        for configuration in configurations:
            configuration.method_for(example.dataset)
        if any(configuration.large for configuration in configurations):
            metrics.score(example, "")
    progress(Event("eval", "start"))
    wanted = [(example, configuration) for example in examples for configuration in configurations]
    models = {name for each in configurations for name in each.models.values()}
    of_models = {name: _digest(repr(session.models.identity(name)[:2])) for name in models}
    if output is None:
        found = _run_in_cache(wanted, of_models, session, restart=restart, progress=progress)
        progress(Event("eval", "done"))
        return results.results_of(found)
    with open_rows(output, results.SCHEMA, restart=restart) as file:
        done = _done(file.rows, output)
        todo = []
        for example, each in wanted:
            row, to_check = done.get((example.dataset, example.id, each.key)), each.large and each.checked
            for name, digest in _digests(example, each, of_models).items():
                if row and row["digests"].get(name) != digest:
                    what = f"{example.id} of {example.dataset}" if name == "example" else f"the {name} model {each.models[name]}"
                    raise FbragError("usage", f"{what} has changed since {output} was written", HINT_OTHER_FILE)
            if row is None or (to_check and {"abstain", "abstain_wrongly"}.isdisjoint(row["metrics"])):
                todo.append((example, each))
        for n_done, (case, row) in enumerate(_rows(todo, session), len(wanted) - len(todo) + 1):
            file.write({**row, "digests": _digests(*case, of_models)})
            progress(Event("eval", "progress", n_done, len(wanted), "rows"))
    progress(Event("eval", "done"))
    return results.read_results(output)


def _run_in_cache(
    wanted: Sequence[_Case], of_models: Mapping[str, str], session: Session, *, restart: bool, progress: Progress
) -> list[Row]:
    """Return the rows of all cases, which are added to the cache one by one. Failures are not added. restart: use none of it."""

    def entry(example: Example, each: Configuration) -> str:
        about = [_digests(example, each, of_models), example.dataset, example.id, each.described(), each.checked]
        return entry_key(KIND, *about, releases(versions()))

    def read(example: Example, each: Configuration) -> Row | None:
        row = session.cache.read_json(KIND, entry(example, each), lambda found: found)
        return row and {**row, "preset": each.preset}

    rows = [None if restart else read(*case) for case in wanted]
    todo = [i for i, row in enumerate(rows) if row is None]
    done = len(wanted) - len(todo)
    for n, (i, (case, row)) in enumerate(zip(todo, _rows([wanted[i] for i in todo], session), strict=True), done + 1):
        rows[i] = row
        if row["status"] != "error":
            session.cache.write_json(KIND, entry(*case), row)
        progress(Event("eval", "progress", n, len(wanted), "rows"))
    return [row for row in rows if row is not None]


def _digests(example: Example, configuration: Configuration, of_models: Mapping[str, str]) -> dict[str, str]:
    """Return fingerprints of a row's example and models, 12 hex digits each. of_models: those of the models, by name."""
    return {"example": _digest(repr(example)), **{role: of_models[name] for role, name in configuration.models.items()}}


def _done(rows: Iterable[Row], output: Path) -> _RowsByKey:
    """Return the rows without an error."""
    done = {}
    try:
        for row in rows:
            if releases(row["versions"]) != releases(versions()):
                others = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
                raise FbragError("usage", f"{output} was written by other versions ({others})", HINT_OTHER_FILE)
            if row["status"] != "error" and row["digests"]:
                done[row["dataset"], row["id"], key(row["configuration"])] = row
    except (AttributeError, KeyError, TypeError):
        raise FbragError("usage", f"{output} is not a file of result rows", HINT_OTHER_FILE) from None
    return done


def _rows(todo: Sequence[_Case], session: Session) -> Iterator[tuple[_Case, dict[str, Any]]]:
    collections: dict[int, Collection] = {}  # of the last document, by words per chunk
    last: Example | None = None
    for example, configuration in todo:
        if last is not example:
            session.forget()
            if last is None or last.document != example.document:
                collections.clear()
            last = example
        try:
            if (words := configuration.chunk_words) not in collections:
                collections[words] = _collection(example, words, session)
            trace = _trace(example, configuration, collections[words], session)
            yield (example, configuration), _row(example, configuration, trace)
        except FbragError as error:
            if error.code in _END:
                raise
            nothing: dict[str, Any] = {"answer": None, "metrics": {}, "tokens_read": None, "seconds": {}, "memory_mb": None}
            row = {**_identity(example, configuration), "status": "error", **nothing, "error": error.message}
            yield (example, configuration), row


def _trace(example: Example, configuration: Configuration, collection: Collection, session: Session) -> Trace:
    listener = Listener(cancellation=session.listener.cancellation)
    method = configuration.method_for(example.dataset, example.choices)
    query = Query(example.question, collection, method, configuration.names, configuration.retriever)
    return session.ask(query, listener) if configuration.large else session.retrieve(query, listener, answering=False)


def _collection(example: Example, chunk_words: int, session: Session) -> Collection:
    if example.path:
        return session.collect([example.path], chunk_words=chunk_words)
    text = example.context()
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    extracted = Extracted(Content(text), "text/plain")
    return collect_text(Document.of(example.id, example.id, extracted, digest, detect(text)), chunk_words)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


# -- rows --------------------------------------------------------------------------------------------------------------------


def _row(example: Example, configuration: Configuration, trace: Trace) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    for stage in _timed(trace):
        seconds[stage.name] = seconds.get(stage.name, 0.0) + stage.seconds
    seconds["total"] = sum(taken for name, taken in seconds.items() if name not in _AFTER)
    if (first := _first_token(trace)) is not None:
        seconds["first_token"] = first
    chunks = trace.corpus.chunks
    copies = trace.selection.duplicate_of.items()
    copied = [chunks[copy] for copy, first in copies if chunks[copy].words == chunks[first].words]  # of the text that was read
    spans = [(excerpt.start, excerpt.end) for excerpt in trace.context] + [(chunk.start, chunk.end) for chunk in copied]
    text = trace.corpus.documents[0].text
    recall = metrics.evidence_recall(example.evidence, spans, text)
    values: dict[str, float | None] = {"evidence_recall": recall, "full_evidence": metrics.full_evidence(recall)}
    if metrics.main_metric(example) != "rouge_l":
        values["answer_in_context"] = metrics.answer_in(example, [excerpt.text for excerpt in trace.context])
    if trace.samples:
        values["answer_in_samples"] = metrics.answer_in(example, [sample.text for sample in trace.samples])
    if trace.answer is not None:
        values |= metrics.score(example, trace.answer)
        if configuration.checked:
            values["abstain_wrongly" if example.answerable else "abstain"] = float(trace.status == "not_found")
    return {
        **_identity(example, configuration),
        "status": trace.status,
        "answer": trace.answer,
        "confidence": trace.verdict.confidence,
        **method_notes(trace),
        "metrics": values,
        "tokens_read": sum(stage.prompt_tokens for stage in trace.stages),
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "memory_mb": round(peak_memory_mb()),
        "read": _digest("\n".join(each.text for each in sorted(trace.context, key=lambda each: (each.position, each.start)))),
        "selected": [int(position) + 1 for position in trace.selection.ranked],
        "samples": [sample.text for sample in trace.samples],
        "warnings": list(trace.warnings),
        "error": None,
    }


def _timed(trace: Trace) -> list[Stage]:
    return [stage for stage in trace.stages if stage.name not in _UNTIMED]


def _first_token(trace: Trace) -> float | None:
    """Return the seconds from the question to the first word of the answer. If there are several answers, the last one counts."""
    before, first = 0.0, None
    for stage in _timed(trace):
        if stage.name == "answer" and stage.first_token_seconds is not None:
            first = before + stage.first_token_seconds
        before += stage.seconds
    return first


def _identity(example: Example, configuration: Configuration) -> dict[str, Any]:
    return {
        "schema": results.SCHEMA,
        "id": example.id,
        "dataset": example.dataset,
        "question": example.question,
        "gold": list(example.answers),
        "preset": configuration.preset,
        "configuration": configuration.described(),
        "versions": versions(),
        "main_metric": metrics.main_metric(example),
    }
