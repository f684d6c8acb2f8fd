"""Examples under configurations: a row each, written as it comes, so that a run that was stopped goes on where it was.

What configurations have in common is done once: the chunks and the index of a document, the forward samples of a prompt, the
answer to a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.evaluation import metrics, results
from fbrag_cli.evaluation.configurations import used
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.generation.cached import CachedGenerator
from fbrag_cli.methods.prompt_file import PromptFile
from fbrag_cli.methods.registry import find_method
from fbrag_cli.progress import Event, Progress, silent
from fbrag_cli.retrieval import Retriever
from fbrag_cli.text.languages import detect
from fbrag_cli.trace import MethodSettings, Trace

_END = ("usage", "out_of_memory", "timeout", "gpu_unavailable", "model_missing", "model_corrupt")  # not of one example alone
_NOT_ASKED = ("instructions", "answer_anyway", "templates")  # of the settings of a method: alike for all configurations


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to answer. small, large: names of models; large is None where nothing is answered (`--retrieval-only`). prompts: in
    place of ours, with their limits, for each data set its own."""

    settings: MethodSettings
    small: str | None
    large: str | None
    retriever: str = "bm25"
    chunk_words: int = 300
    prompts: PromptFile | None = None

    def settings_for(self, dataset: str) -> MethodSettings:
        return self.prompts.of(dataset).applied(self.settings) if self.prompts else self.settings

    def described(self) -> dict[str, object]:
        """The settings that its method reads, as a row has them. Two configurations that are described alike are one."""
        settings = {name: value for name, value in asdict(self.settings).items() if name not in _NOT_ASKED}
        method = settings.pop("name")
        told = {"method": method, **settings, "small": self.small, "large": self.large}
        told |= {"retriever": self.retriever, "chunk_words": self.chunk_words}
        if self.prompts:
            told["prompts"] = self.prompts.label
            if self.prompts.has_limits:
                del told["max_tokens"], told["forward_tokens"]
        return used(told)

    @property
    def key(self) -> str:
        return results.key(self.described())


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run needs from outside. model: by name, loaded when it is first asked for. retriever: of a corpus, by name.
    peak_memory_mb: so far."""

    model: Callable[[str], CachedGenerator]
    retriever: Callable[[Corpus, str], Retriever]
    peak_memory_mb: Callable[[], float]
    versions: Mapping[str, str]


def distinct(configurations: Sequence[Configuration]) -> list[Configuration]:
    """Each once, those with more samples first: fewer are taken from them."""
    by_key = {configuration.key: configuration for configuration in configurations}
    return sorted(by_key.values(), key=lambda configuration: -configuration.settings.samples)


def run(
    examples: Sequence[Example],
    configurations: Sequence[Configuration],
    output: Path,
    resources: Resources,
    *,
    restart: bool = False,
    progress: Progress = silent,
) -> None:
    """Append a row for each example and configuration that `output` has none of. One that fails is a row with an error.

    progress: hears of stage "eval", in rows. Raises FbragError `usage` where `output` holds rows of other versions, or for
    a dataset that has no scorer; what stops the run (Ctrl-C, memory) leaves the rows that are done.
    """
    configurations = distinct(configurations)
    for example in examples:
        metrics.main_metric(example)  # errors before the work
        for configuration in configurations:
            configuration.settings_for(example.dataset)
    done = set() if restart else _done(output, resources.versions)
    wanted = [(example, configuration) for example in examples for configuration in configurations]
    todo = [(example, each) for example, each in wanted if (example.dataset, example.id, each.key) not in done]
    n_done = len(wanted) - len(todo)
    progress(Event("eval", "start"))
    with output.open("w" if restart else "a", encoding="utf-8") as file:
        if not restart and output.stat().st_size and not output.read_bytes().endswith(b"\n"):
            file.write("\n")  # a row that was cut off stays alone on its line
        for row in _rows(todo, resources):
            file.write(json.dumps(row) + "\n")
            file.flush()
            n_done += 1
            progress(Event("eval", "progress", n_done, len(wanted), "rows"))
    progress(Event("eval", "done"))


def _done(output: Path, versions: Mapping[str, str]) -> set[tuple[str, str, str]]:
    """Dataset, example and configuration of each row that is there and is no error."""
    if not output.exists():
        return set()
    done = set()
    for line in output.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:  # blank, or cut off
            continue
        if row.get("versions") != dict(versions):
            told = ", ".join(f"{name} {version}" for name, version in (row.get("versions") or {}).items())
            raise FbragError("usage", f"{output} holds rows of other versions ({told})", "name another -o FILE, or add --restart")
        if row["status"] != "error":
            done.add((row["dataset"], row["id"], results.key(row["configuration"])))
    return done


def _rows(todo: Sequence[tuple[Example, Configuration]], resources: Resources) -> Iterator[dict[str, Any]]:
    corpora = _Corpora(resources)
    last: Example | None = None
    models: dict[str, CachedGenerator] = {}
    for example, configuration in todo:
        if last is not example:
            for model in models.values():
                model.forget()
            last = example
        try:
            trace = _trace(example, configuration, corpora, resources, models)
            yield _row(example, configuration, trace, resources)
        except FbragError as error:
            if error.code in _END:
                raise
            yield _failed(example, configuration, error, resources)


def _trace(
    example: Example, configuration: Configuration, corpora: _Corpora, resources: Resources, models: dict[str, CachedGenerator]
) -> Trace:
    def model(name: str) -> CachedGenerator:
        if name not in models:
            models[name] = resources.model(name)
        return models[name]

    method = find_method(configuration.settings.name)
    corpus, retriever = corpora.of(example, configuration)
    small = model(configuration.small) if method.looks_forward and configuration.small else None
    settings = configuration.settings_for(example.dataset)
    trace = method.select(_question(example), corpus, retriever, small, settings, silent)
    return method.answer(trace, model(configuration.large), silent) if configuration.large else trace


def _question(example: Example) -> str:
    """With the choices, where there are some, a line each."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    choices = [f"{letter}. {choice}" for letter, choice in zip(letters, example.choices, strict=False)]
    return "\n".join([example.question, *choices])


class _Corpora:
    """The chunks and the retrievers of the last document."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._document = ""
        self._corpora: dict[int, Corpus] = {}
        self._retrievers: dict[tuple[int, str], Retriever] = {}

    def of(self, example: Example, configuration: Configuration) -> tuple[Corpus, Retriever]:
        if example.document != self._document:
            self._document = example.document
            self._corpora.clear()
            self._retrievers.clear()
        words, name = configuration.chunk_words, configuration.retriever
        if words not in self._corpora:
            text = example.context()
            extracted = Extracted(Content(text), "text/plain")
            digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self._corpora[words] = build_corpus([Document.of(example.id, example.id, extracted, digest, detect(text))], words)
        if (words, name) not in self._retrievers:
            self._retrievers[words, name] = self._resources.retriever(self._corpora[words], name)
        return self._corpora[words], self._retrievers[words, name]


# -- rows --------------------------------------------------------------------------------------------------------------------


def _row(example: Example, configuration: Configuration, trace: Trace, resources: Resources) -> dict[str, Any]:
    seconds: dict[str, float] = {}
    for stage in trace.stages:
        seconds[stage.name] = seconds.get(stage.name, 0.0) + stage.seconds
    seconds["total"] = sum(seconds.values())
    if (first := _first_token(trace)) is not None:
        seconds["first_token"] = first
    spans = [(chunk.start, chunk.end) for chunk in map(trace.corpus.chunks.__getitem__, trace.selected)]
    text = trace.corpus.documents[0].text
    recall = metrics.evidence_recall(example.evidence, spans, text)
    found: dict[str, float | None] = {"evidence_recall": recall, "full_evidence": metrics.full_evidence(recall)}
    if trace.samples:
        found["answer_in_samples"] = metrics.answer_in(example, [sample.text for sample in trace.samples])
    if trace.answer is not None:
        found |= {**metrics.score(example, trace.answer), "abstained": float(trace.status == "not_found")}
    return {
        **_identity(example, configuration, resources),
        "status": trace.status,
        "answer": trace.answer,
        "route": trace.route or None,
        "metrics": found,
        "tokens_read": sum(stage.prompt_tokens for stage in trace.stages),
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "memory_mb": round(resources.peak_memory_mb()),
        "selected": [int(position) + 1 for position in trace.ranked],
        "samples": [sample.text for sample in trace.samples],
        "warnings": list(trace.warnings),
        "error": None,
    }


def _first_token(trace: Trace) -> float | None:
    """Seconds from the question to the first word of the answer, of the last one where the first was declined."""
    before, first = 0.0, None
    for stage in trace.stages:
        if stage.name == "answer" and stage.first_token_seconds is not None:
            first = before + stage.first_token_seconds
        before += stage.seconds
    return first


def _failed(example: Example, configuration: Configuration, error: FbragError, resources: Resources) -> dict[str, Any]:
    nothing: dict[str, Any] = {"answer": None, "metrics": {}, "tokens_read": None, "seconds": {}, "memory_mb": None}
    return {**_identity(example, configuration, resources), "status": "error", **nothing, "error": error.message}


def _identity(example: Example, configuration: Configuration, resources: Resources) -> dict[str, Any]:
    return {
        "schema": results.SCHEMA,
        "id": example.id,
        "dataset": example.dataset,
        "configuration": configuration.described(),
        "versions": dict(resources.versions),
        "main_metric": metrics.main_metric(example),
    }


def expand(base: Configuration, **lists: Sequence[Any]) -> list[Configuration]:
    """Every combination of the values in `lists`, whose names are fields of the settings, or small, large, retriever."""
    configurations = [base]
    for name, values in lists.items():
        configurations = [_with(each, name, value) for each in configurations for value in values]
    return configurations


def _with(configuration: Configuration, name: str, value: Any) -> Configuration:
    if name in ("small", "large", "retriever", "chunk_words"):
        return replace(configuration, **{name: value})
    if name == "weights":
        forward, backward = value
        return replace(configuration, settings=replace(configuration.settings, eta_forward=forward, eta_backward=backward))
    return replace(configuration, settings=replace(configuration.settings, **{name: value}))
