"""Runs an evaluation: a row for each example and configuration, written at once, so that a stopped run can go on.

Configurations share the chunks and the index of a document, the forward samples of a prompt, and the answer to a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation import metrics, results
from fbrag_cli.evaluation.configurations import Configuration, distinct
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.labels import key
from fbrag_cli.generation.build import versions
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.progress import Event, Listener, Progress, silent
from fbrag_cli.query import Collection, Query
from fbrag_cli.render.as_json import facts
from fbrag_cli.session.memory import peak_memory_mb
from fbrag_cli.session.session import Session
from fbrag_cli.storage.rows import ANOTHER, Row, open_rows
from fbrag_cli.text.languages import detect
from fbrag_cli.trace import Stage, Trace

# Errors that end the run, because the next example would fail too. A server was asked several times before.
_END = (
    *("usage", "out_of_memory", "timeout", "gpu_unavailable"),
    *("model_missing", "model_corrupt", "llama_unavailable", "server_failed", "offline"),
)
_UNTIMED = ("read", "load")  # stages that belong to the run, not to a question
_AFTER = ("verify",)  # follows the answer, is no part of the paper's methods, and costs nothing where it is cached

_Case = tuple[Example, Configuration]
_RowsByKey = Mapping[tuple[str, str, str], Row]  # data set, example, configuration


def checked_data_sets(examples: Sequence[Example], asked: bool | None) -> frozenset[str]:
    """Return the data sets whose answers are checked. asked: all or none; None for those with unanswerable rows."""
    return frozenset(each.dataset for each in examples if asked or (asked is None and not each.answerable))


def run(
    examples: Sequence[Example],
    configurations: Sequence[Configuration],
    output: Path,
    session: Session,
    *,
    restart: bool = False,
    progress: Progress = silent,
) -> None:
    """Append a row to `output` for each example and configuration that it lacks. A failure is a row with an error.

    progress: stage "eval", in rows. Raises FbragError `usage` for a data set without a scorer, and where `output` holds rows of
    other versions, of another model file, or of an example that has changed. Whatever stops the run, the finished rows stay.
    """
    configurations = distinct(configurations)
    for example in examples:
        _check(example, configurations)
    progress(Event("eval", "start"))
    with open_rows(output, results.SCHEMA, restart=restart) as file:
        done = _done(file.rows, output)
        wanted = [(example, configuration) for example in examples for configuration in configurations]
        digests = _Digests(lambda name: session.models.identity(name)[:2])
        for example, each in wanted:
            if (row := done.get((example.dataset, example.id, each.key))) is not None:
                digests.check(row, example, each.models, output)
        todo = [(example, each) for example, each in wanted if not _is_done(example, each, done)]
        for n_done, (case, row) in enumerate(_rows(todo, session), len(wanted) - len(todo) + 1):
            file.write({**row, "digests": digests.of(case[0], case[1].models)})
            progress(Event("eval", "progress", n_done, len(wanted), "rows"))
    progress(Event("eval", "done"))


def _check(example: Example, configurations: Sequence[Configuration]) -> None:
    """Check that the data set has a scorer, its library and prompts, which would else fail after hours. Raises FbragError."""
    metrics.main_metric(example)
    for configuration in configurations:
        configuration.method_for(example.dataset)
    if any(configuration.large for configuration in configurations):
        metrics.score(example, "")


def _is_done(example: Example, configuration: Configuration, done: _RowsByKey) -> bool:
    """Return whether there is a row, with a checked answer where it has to be checked."""
    if (row := done.get((example.dataset, example.id, configuration.key))) is None:
        return False
    was_checked = not {"abstain", "abstain_wrongly"}.isdisjoint(row["metrics"])
    return was_checked or not configuration.large or example.dataset not in configuration.checked


def _done(rows: Iterable[Row], output: Path) -> _RowsByKey:
    """Return the rows without an error."""
    done = {}
    try:
        for row in rows:
            if row["versions"] != versions():
                others = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
                raise FbragError("usage", f"{output} holds rows of other versions ({others})", ANOTHER)
            if row["status"] != "error" and row["digests"]:
                done[row["dataset"], row["id"], key(row["configuration"])] = row
    except (AttributeError, KeyError, TypeError):
        raise FbragError("usage", f"{output} holds lines that are no rows of results", ANOTHER) from None
    return done


def _rows(todo: Sequence[_Case], session: Session) -> Iterator[tuple[_Case, dict[str, Any]]]:
    collections = _Collections()
    last: Example | None = None
    for example, configuration in todo:
        if last is not example:
            session.forget()
            last = example
        try:
            trace = _trace(example, configuration, collections.of(example, configuration.chunk_words), session)
            yield (example, configuration), _row(example, configuration, trace)
        except FbragError as error:
            if error.code in _END:
                raise
            yield (example, configuration), _failed(example, configuration, error)


def _trace(example: Example, configuration: Configuration, collection: Collection, session: Session) -> Trace:
    listener = Listener(cancellation=session.listener.cancellation)
    method = replace(configuration.method_for(example.dataset), choices=example.choices)
    query = Query(example.question, collection, method, configuration.names, configuration.retriever)
    return session.ask(query, listener) if configuration.large else session.retrieve(query, listener, answering=False)


class _Collections:
    """Caches the chunks of the last document, by words in a chunk."""

    def __init__(self) -> None:
        self._document = ""
        self._by_words: dict[int, Collection] = {}

    def of(self, example: Example, chunk_words: int) -> Collection:
        if example.document != self._document:
            self._document = example.document
            self._by_words.clear()
        if chunk_words not in self._by_words:
            text = example.context()
            extracted = Extracted(Content(text), "text/plain")
            digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            document = Document.of(example.id, example.id, extracted, digest, detect(text))
            self._by_words[chunk_words] = collect_text(document, chunk_words)
        return self._by_words[chunk_words]


class _Digests:
    """Fingerprints of the example and the models of a row. A resumed run refuses rows whose fingerprints differ.

    identity: returns what identifies the file or the server of a model, by its name.
    """

    def __init__(self, identity: Callable[[str], Sequence[object]]) -> None:
        self._identity, self._models = identity, dict[str, str]()

    def of(self, example: Example, models: Mapping[str, str]) -> dict[str, str]:
        """Return 12 hex digits for the example and each model. models: names by role, "small" and "large"."""
        return {"example": _digest(repr(example)), **{role: self._of(models[role]) for role in models}}

    def check(self, row: Row, example: Example, models: Mapping[str, str], output: Path) -> None:
        """Raise FbragError `usage` where a row of `output` has other fingerprints."""
        for name, digest in self.of(example, models).items():
            if row["digests"].get(name) != digest:
                what = f"{example.id} of {example.dataset}" if name == "example" else f"the {name} model {models[name]}"
                raise FbragError("usage", f"{what} has changed since {output} got rows of it", ANOTHER)

    def _of(self, model: str) -> str:
        if model not in self._models:
            self._models[model] = _digest(repr(self._identity(model)))
        return self._models[model]


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
    copied = [trace.corpus.chunks[position] for position in trace.selection.copy_of]  # of the same words as what was read
    spans = [(excerpt.start, excerpt.end) for excerpt in trace.context] + [(chunk.start, chunk.end) for chunk in copied]
    text = trace.corpus.documents[0].text
    recall = metrics.evidence_recall(example.evidence, spans, text)
    found: dict[str, float | None] = {"evidence_recall": recall, "full_evidence": metrics.full_evidence(recall)}
    if metrics.main_metric(example) != "rouge_l":
        found["answer_in_context"] = metrics.answer_in(example, [excerpt.text for excerpt in trace.context])
    if trace.samples:
        found["answer_in_samples"] = metrics.answer_in(example, [sample.text for sample in trace.samples])
    if trace.answer is not None:
        found |= metrics.score(example, trace.answer)
        if example.dataset in configuration.checked:
            found |= metrics.abstention(example, trace.status == "not_found")
    return {
        **_identity(example, configuration),
        "status": trace.status,
        "answer": trace.answer,
        "confidence": trace.verdict.confidence,
        **facts(trace),
        "metrics": found,
        "tokens_read": sum(stage.prompt_tokens for stage in trace.stages),
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "memory_mb": round(peak_memory_mb()),
        "selected": [int(position) + 1 for position in trace.selection.ranked],
        "samples": [sample.text for sample in trace.samples],
        "warnings": list(trace.warnings),
        "error": None,
    }


def _timed(trace: Trace) -> list[Stage]:
    return [stage for stage in trace.stages if stage.name not in _UNTIMED]


def _first_token(trace: Trace) -> float | None:
    """Return the seconds from the question to the first word of the answer. Of several answers the last one counts."""
    before, first = 0.0, None
    for stage in _timed(trace):
        if stage.name == "answer" and stage.first_token_seconds is not None:
            first = before + stage.first_token_seconds
        before += stage.seconds
    return first


def _failed(example: Example, configuration: Configuration, error: FbragError) -> dict[str, Any]:
    nothing: dict[str, Any] = {"answer": None, "metrics": {}, "tokens_read": None, "seconds": {}, "memory_mb": None}
    return {**_identity(example, configuration), "status": "error", **nothing, "error": error.message}


def _identity(example: Example, configuration: Configuration) -> dict[str, Any]:
    return {
        "schema": results.SCHEMA,
        "id": example.id,
        "dataset": example.dataset,
        "configuration": configuration.described(),
        "versions": versions(),
        "main_metric": metrics.main_metric(example),
    }
