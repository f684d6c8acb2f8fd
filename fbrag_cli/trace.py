"""`Trace`: all that happened to one question. Fronts print it, explain it and write it as JSON; nothing is computed twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.generation.generator import FinishReason, Message, ModelInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.citations import Citations
    from fbrag_cli.query import MethodSettings, Query

Status = Literal["answered", "not_found", "retrieved"]  # "retrieved": Stages I and II only


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardSample:
    """One forward sample. If it lacks the requested format, `rationale` is the whole text and `answer` is empty."""

    index: int
    seed: int
    text: str
    rationale: str
    answer: str
    finish: FinishReason

    @property
    def scored_text(self) -> str:
        """Return [R_k, A_k], by which chunks are scored: rationale and answer without their labels."""
        return f"{self.rationale}\n{self.answer}"


@dataclass(frozen=True)
class Scores:
    """Arrays aligned with `Corpus.chunks`; higher is better.

    backward: S_B, float32 (n_chunks,). per_sample: S(C_i; [R_k, A_k]), float32 (n_samples, n_chunks). forward: S_F, the maximum
    over the samples, and best_sample, int (n_chunks,), the sample that gave it (-1: no sample). combined: float32 (n_chunks,).
    """

    backward: NDArray[np.float32]
    per_sample: NDArray[np.float32]
    forward: NDArray[np.float32]
    best_sample: NDArray[np.intp]
    combined: NDArray[np.float32]

    @classmethod
    def zero(cls, n_chunks: int, n_samples: int = 0) -> Scores:
        """Return scores of 0, as if nothing was retrieved."""
        import numpy as np

        nothing = np.zeros(n_chunks, np.float32)
        return cls(nothing, np.zeros((n_samples, n_chunks), np.float32), nothing, np.full(n_chunks, -1), nothing)

    @cached_property
    def relative(self) -> NDArray[np.float32] | None:
        """Return float32 (n_chunks,): `combined` on a scale on which the best chunk has 1; None if no score is above 0."""
        best = self.combined.max(initial=0)
        return self.combined / best if best > 0 else None


@dataclass(frozen=True, slots=True)
class Stage:
    """The cost of one stage: seconds of wall time, and tokens, which are 0 if no model ran.

    reasoning_tokens: those of `generated_tokens` that are reasoning, which is in no sample and no answer.
    """

    name: Literal["read", "load", "recall", "forward", "select", "answer", "verify"]
    seconds: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    first_token_seconds: float | None = None
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardLookup:
    """A look forward: what the model read of the document (`read`), its prompt (`messages`), and what it sampled."""

    read: tuple[Passage, ...] = ()
    messages: tuple[Message, ...]
    samples: tuple[ForwardSample, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """What was selected, and what the large model reads of it.

    duplicates: the position of each selected chunk, best first, with the positions of its copies, which count as one with it.
    context: the passages that are read, in reading order. scores: of each passage, if passages were chosen by themselves and not
    with their chunks; else empty.
    """

    duplicates: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    context: tuple[Passage, ...] = ()
    scores: tuple[float, ...] = ()

    @property
    def ranked(self) -> tuple[int, ...]:
        """Return the positions of the selected chunks, best first."""
        return tuple(self.duplicates)

    @property
    def duplicate_of(self) -> dict[int, int]:
        """Return the position of each copy, with that of its selected chunk."""
        return {copy: position for position, copies in self.duplicates.items() for copy in copies}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How sure an answer is (`methods.method.judged`).

    support: the probability, by the large model, that the context shows the answer, 0 to 1; None if it was not asked. agreement:
    the share of the samples that hold the answer, 0 to 1; None without samples of the document. answer_probability: the geometric
    mean of the probabilities of the answer's tokens, 0 to 1; None if the generator does not give it. confidence: of all three, 0
    to 1; None if none is known. low_confidence: whether the confidence is too low for an answer that looks sure.
    """

    support: float | None = None
    agreement: float | None = None
    answer_probability: float | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a `Table`. name: its key in JSON. header: its heading in text; None for a column of JSON alone."""

    name: str
    header: str | None = None


#: A truth value is a `*` in text. Numbers that have names of their own are in one cell.
Cell = bool | int | float | Mapping[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a method found of chunks, or of parts of them, beyond `Scores`. `explain`, JSON and the page show it as it is.

    name: its key in JSON. unit: the word for a row. rows: a cell for each column. passages: for each row the chunk or the part
    that it is about. note: a sentence below the rows. beside_chunks: whether the text output shows the cells with their chunks,
    instead of the forward lookup; such a table has no name, unit or note.
    """

    name: str = ""
    unit: str = ""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    passages: tuple[Passage, ...]
    note: str = ""
    beside_chunks: bool = False


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A query, and what became of it.

    scores: those that decided the selection. forward: the look forward; None without one. answer: None until Stage III.
    truncated: whether it was cut at its length limit; a warning says if it was cut because the model repeated itself. cached:
    which of "text", "index", "samples" and "answer" came from the cache. missing_terms: words of the question that are in no
    chunk, as it spells them; none if the retriever does not count words. method_notes: what the method decided, a word each, by
    its key in JSON. tables: its tables. method_state: what the method itself needs in Stage III; nothing else reads it.
    """

    query: Query
    scores: Scores
    selection: Selection = Selection()
    forward: ForwardLookup | None = None
    stages: tuple[Stage, ...] = ()
    models: Mapping[str, ModelInfo] = field(default_factory=dict)
    status: Status = "retrieved"
    answer: str | None = None
    truncated: bool = False
    verdict: Verdict = Verdict()
    warnings: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    missing_terms: tuple[str, ...] = ()
    method_notes: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    method_state: object = None

    @classmethod
    def start(cls, query: Query) -> Trace:
        """Return the trace of a query before any work: all scores are 0, and nothing is read."""
        return cls(query=query, scores=Scores.zero(len(query.corpus.chunks)))

    @property
    def question(self) -> str:
        """The question."""
        return self.query.text

    @property
    def method(self) -> MethodSettings:
        return self.query.method

    @property
    def corpus(self) -> Corpus:
        return self.query.corpus

    @property
    def retriever(self) -> str:
        """Return the name of the retriever."""
        return self.query.retriever

    def over(self, corpus: Corpus) -> Trace:
        """Return the trace with another corpus of the same chunks."""
        return replace(self, query=replace(self.query, collection=replace(self.query.collection, corpus=corpus)))

    def reading(self, context: Iterable[Passage]) -> Trace:
        """Return the same trace with another context, in reading order."""
        return replace(self, selection=replace(self.selection, context=tuple(context)))

    @property
    def context(self) -> tuple[Passage, ...]:
        """Return what the large model reads, in reading order; empty if it answers from its own knowledge."""
        return self.selection.context

    @property
    def selected(self) -> tuple[int, ...]:
        """Return the positions of the chunks in `context`, in document order."""
        return _positions(self.context)

    @property
    def has_more(self) -> bool:
        """Return whether a chunk that matches the question or a sample was not selected, nor a copy of it."""
        known = self.selection.duplicates.keys() | self.selection.duplicate_of.keys()
        return not known.issuperset(self.scores.combined.nonzero()[0].tolist())

    @property
    def from_document(self) -> bool:
        """Return whether the large model reads text of the document. If not, the answer is from its own knowledge."""
        return bool(self.context)

    @property
    def retrieved(self) -> tuple[int, ...]:
        """Return the positions of the chunks that the small model read (Stage I), in document order."""
        return _positions(self.forward.read if self.forward else ())

    @property
    def sources(self) -> tuple[Passage, ...]:
        """Return what the large model read of the selected chunks, the best chunk first."""
        place = {position: i for i, position in enumerate(self.selection.duplicates)}
        return tuple(sorted((each for each in self.context if each.position in place), key=lambda each: place[each.position]))

    @property
    def samples(self) -> tuple[ForwardSample, ...]:
        """Return the samples of the look forward."""
        return self.forward.samples if self.forward else ()

    @cached_property
    def citations(self) -> Citations:
        """Return which of `sources` shows which sentence of the answer. Computed at the first use, from the sources' texts."""
        from fbrag_cli.citations import Candidate, citations

        relative, raised_by, samples = self.scores.relative, self.scores.best_sample, self.samples
        candidates = []
        for passage in self.sources:
            score = 0.0 if relative is None else float(relative[passage.position])
            k = int(raised_by[passage.position])
            said = samples[k].scored_text if 0 <= k < len(samples) else ""
            candidates.append(Candidate(passage, score, said))
        answer = self.answer if self.status == "answered" and self.from_document else None
        agreed = None if self.verdict.agreement is None else self.verdict.agreement == 1
        texts, declined = [sample.scored_text for sample in samples], self.status == "not_found"
        return citations(self.question, answer or "", candidates, declined=declined, agreed=agreed, samples=texts)


def _positions(passages: Iterable[Passage]) -> tuple[int, ...]:
    return tuple(sorted({each.position for each in passages}))
