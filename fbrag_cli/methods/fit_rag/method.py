"""FIT-RAG: fewer tokens for a model that stays as it is, chosen by fact and by use (Mao et al., 2024; its Algorithm 1).

1. candidates: the chunks that the retriever ranks highest for the question.
2. A scorer gives each of them two labels: does it hold the answer, and does it lead this model to the answer?
3. The chunks with the largest sum of both labels stay.
4. A reducer takes the best window of three sentences of each, one after the other, until a detector finds them enough.
5. The large model answers from the windows, best first.

Without trained parts, or in a language that the scorer was not trained on, the retriever ranks chunks and windows, and all
windows are taken. Then `rank_by` ranks the windows by labels that need no training: the R2-Former that ships with fbrag says how
probably a chunk holds the answer, and the large model itself how probably it prefers a window. reduce="enough" takes as many
windows as probably hold the answer, by the R2-Former.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fbrag_cli.corpus import Passage
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Message
from fbrag_cli.methods.alone import GenRead
from fbrag_cli.methods.fit_rag.windows import Reduction, best_of_each, search, sliding_windows, tables, to_score, within
from fbrag_cli.methods.method import Method, Tools, report_tokens, share_of_yes
from fbrag_cli.methods.prompts import BETWEEN, question_messages, support_question
from fbrag_cli.methods.ranking import backward_scores, language_warning, no_match_warning, top_unique_chunks
from fbrag_cli.progress import stage
from fbrag_cli.query import Query
from fbrag_cli.settings import knob
from fbrag_cli.trace import Scores, Selection, Stage, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fbrag_cli.methods.fit_rag.parts import FitRagParts

    Array = NDArray[np.float32]


_CANDIDATES = 100  # chunks that the scorer reads, as in the paper
_PREFERS = "Does the passage hold the answer to the question, or a fact that is needed for it? Reply with yes or no."
_RANK = {  # what ranks the windows without trained parts, if not the retriever
    "sum": "the estimate of relevance and the model itself rank the windows, and ",
    "has-answer": "the estimate of relevance ranks the windows, and ",
    "llm-prefer": "the model itself ranks the windows, and ",
}
_ENOUGH = 0.5  # probability at which windows are enough without a trained detector


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRag(Method):
    """fit_rag: folder of the trained parts (`methods.fit_rag.parts`). rank_by, reduce: settings for ablations."""

    name: ClassVar[str] = "fit-rag"
    table_keys: ClassVar[tuple[str, ...]] = ("windows",)
    chunk_words: ClassVar[int] = 100

    select: int = knob(10, "chunks for the large model", minimum=1)
    rank_by: Literal["sum", "has-answer", "llm-prefer", "retriever"] | None = knob(
        None,
        "what ranks: the sum of both labels, or one of them; without trained parts it ranks windows, and asks the model of each",
    )
    reduce: Literal["enough", "windows", "off"] | None = knob(
        None,
        "a window of each chunk until there are enough, a window of each, or whole chunks",
    )
    max_words: int | None = knob(None, "maximum words of all windows or chunks", minimum=1)
    self_knowledge: bool = knob(False, "answer without the document if the model probably knows the answer")
    prompt_style: Literal["short", "paper", "step-by-step"] = knob(
        "short",
        "paper: an answer with its reason, and a background passage if the document is not read; step-by-step: chain of thought",
    )
    fit_rag: str | None = knob(None, "folder that 'fbrag train fit-rag' wrote", path="FOLDER")

    def described(self) -> dict[str, Any]:
        """Return the settings, with the content of the folder in place of its path."""
        from fbrag_cli.methods.fit_rag.parts import FIT_RAG

        settings = Method.described(self)
        if self.fit_rag:
            settings["fit_rag"] = FIT_RAG.described(self.fit_rag)
        return settings

    def check(self) -> None:
        from fbrag_cli.methods.fit_rag.parts import FIT_RAG

        if self.fit_rag:
            FIT_RAG.read(Path(self.fit_rag), bool)

    @property
    def needs_large(self) -> bool:
        return self._ranks_windows and self.rank_by != "has-answer"

    @property
    def _ranks_windows(self) -> bool:
        """Whether labels that need no training rank the windows."""
        return self.fit_rag is None and self.rank_by in _RANK

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        candidates = min(max(_CANDIDATES, self.select), n_chunks)
        scored = [f"{candidates} to score"] if self.fit_rag else []
        return [*scored, f"{min(self.select, candidates)} to select"]

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Choose the windows."""
        parts = self._parts(tools)
        with stage("recall") as recalling:
            backward = backward_scores(query.text, tools)
            unique = top_unique_chunks(tools.corpus, backward, max(_CANDIDATES, self.select), query.text)
        elapsed = tools.timer()
        with stage("select", tools.progress):
            candidates = tuple(unique)
            chunks = [tools.corpus.chunks[position] for position in candidates]
            strange = () if parts is None else language_warning("the scorer", parts.languages, chunks)
            scoring = None if strange else parts
            labels = None if scoring is None else self._labels(query.text, [chunk.text for chunk in chunks], scoring)
            scores = self._scores(backward, candidates, labels)
            told, known, knows = self._knowledge(query.text, labels, parts)
            best = sorted(candidates, key=lambda position: -scores.combined[position])[: self.select]
            chosen = [tools.corpus.chunks[position] for position in best]
            nothing = Reduction(windows=(), n_taken=0)
            reduction = nothing if knows else self._reduced(query.text, chosen, scores, scoring, tools)
            reduction = replace(reduction, labels=labels, candidates=tuple(chunks), told=told, known=known)
        context = reduction.windows[: reduction.n_taken]
        copies = {window.position: unique[window.position] for window in context}
        return replace(
            Trace.start(query),
            scores=scores,
            selection=Selection(copies, context, reduction.window_scores[: len(context)]),
            stages=(Stage("recall", recalling.seconds), Stage("select", elapsed())),
            warnings=(*no_match_warning(backward), *self._missing(parts), *(f"{each}: the retriever ranks" for each in strange)),
            tables=tables(reduction),
            method_state=reduction,
        )

    def n_context_chunks(self, n_chunks: int, chunk_words: int) -> int:
        return min(self.select, n_chunks)

    def reading_twice(self) -> Method | None:
        return replace(self, select=2 * self.select, max_words=self.max_words and 2 * self.max_words)

    @property
    def larger_select(self) -> int | None:
        return 2 * self.select

    def passages(self, trace: Trace) -> list[str]:
        """Return the texts of the windows, or the background passage that the model wrote in place of them."""
        return [sample.rationale for sample in trace.samples] or Method.passages(self, trace)

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        passages = self.passages(trace)
        if not passages:
            return question_messages(trace.question, self.instructions)
        if self.prompt_style == "short":
            return Method.messages(self, trace)
        end = "\n\nLet's think step by step." if self.prompt_style == "step-by-step" else ""
        return (Message.about([self._read(passages)], f"Question: {trace.question}{end}"),)

    def support_messages(self, trace: Trace, answer: str) -> tuple[Message, ...]:
        if self.prompt_style == "short":
            return Method.support_messages(self, trace, answer)
        return (Message.about([self._read(self.passages(trace))], support_question(trace.question, answer)),)

    def _read(self, passages: Sequence[str]) -> str:
        """Return the beginning of the paper's prompts: the task and the passages."""
        return _reasoned(passages, self.instructions) if self.prompt_style == "paper" else _referred(passages, self.instructions)

    def answer(self, trace: Trace, tools: Tools) -> Trace:
        """Answer from the windows, or from the model's own knowledge. Warn if the labels were learnt from another model."""
        if self.prompt_style == "paper" and not trace.from_document:
            written = GenRead(seed=self.seed).retrieve(replace(trace.query, text=trace.question), tools)
            scores = replace(trace.scores, per_sample=written.scores.per_sample)
            trace = replace(trace, scores=scores, forward=written.forward, stages=(*trace.stages, *written.stages))
        trace = Method.answer(self, trace, tools)
        parts = self._parts(tools)
        if parts is None or tools.digest() in (None, parts.model["sha256"]):
            return trace
        other = f"the parts in {self.fit_rag} were trained for {parts.model['name']}, and {trace.models['large'].name} answers"
        return replace(trace, warnings=(*trace.warnings, other))

    def _parts(self, tools: Tools) -> FitRagParts | None:
        from fbrag_cli.methods.fit_rag.parts import load

        return tools.part(self.fit_rag, load) if self.fit_rag else None

    def _missing(self, parts: FitRagParts | None) -> tuple[str, ...]:
        """Return a warning if trained parts are missing, which says what works without them."""
        if parts is None:
            missing = "the retriever and the windows of fit-rag work; its scorer, recognizer, and detector are missing"
            read = "the estimate of relevance says what is enough" if self.reduce == "enough" else "all that is selected is read"
            order = _RANK.get(self.rank_by or "", "")
            return (f"{missing}, so {order}{read} (to train them: fbrag train fit-rag --help)",)
        if parts.detector is None and self.reduce in (None, "enough"):
            return (f"{self.fit_rag} has no detector, so a window of each selected chunk is read",)
        return ()

    def _knowledge(
        self, question: str, labels: Array | None, parts: FitRagParts | None
    ) -> tuple[float | None, float | None, bool]:
        """Ask the self-knowledge recognizer. Return both of its shares, and whether the model answers without the document.
        Without labels it is not asked.

        Raises FbragError `usage` where it is asked for and was not trained.
        """
        if not self.self_knowledge:
            return None, None, False
        if parts is None or parts.recognizer is None:
            raise FbragError("usage", "--set self-knowledge needs a trained recognizer", "name its folder: --set fit-rag=FOLDER")
        if labels is None:
            return None, None, False
        told, known = parts.recognizer.told_share(labels[:, 0]), parts.recognizer.known_share(parts.scorer.embed([question])[0])
        return told, known, parts.recognizer.knows(told, known, len(labels))

    def _labels(self, question: str, texts: Sequence[str], parts: FitRagParts) -> Array:
        """Return the labels of texts, as probabilities."""
        import numpy as np

        return np.asarray(1 / (1 + np.exp(-parts.scorer.scores(question, texts))), np.float32)

    def _scores(self, backward: Array, candidates: tuple[int, ...], labels: Array | None) -> Scores:
        """Return the scores by which chunks are ranked: a label or the sum of both; of chunks that were not scored 0."""
        import numpy as np

        combined = backward
        if labels is not None and self.rank_by != "retriever":
            combined = np.zeros_like(backward)
            combined[list(candidates)] = self._value(labels)
        return replace(Scores.zero(len(backward)), backward=backward, combined=combined)

    def _value(self, labels: Array) -> Array:
        """Return the values by which the bi-criteria reranker ranks: (n, 2) -> (n,)."""
        columns = {"has-answer": labels[:, :1], "llm-prefer": labels[:, 1:]}.get(self.rank_by or "sum", labels)
        values: Array = columns.sum(axis=1)
        return values

    # -- the token reducer (Algorithm 3) ---------------------------------------------------------------------------------

    def _reduced(
        self, question: str, chunks: Sequence[Passage], scores: Scores, parts: FitRagParts | None, tools: Tools
    ) -> Reduction:
        """Return the representative of each chunk, best first, and how many of them are taken. chunks: best first."""
        if self.reduce == "off":
            whole = tuple(chunks)
            return Reduction(windows=whole, n_taken=within(whole, self.max_words))
        # 1. windows
        windows = [window for chunk in chunks for window in sliding_windows(chunk)]
        values = tools.retriever.excerpt_scores([question], windows)[0]
        labels = None
        if parts is not None:
            windows = to_score(windows, values)
            labels = self._labels(question, [window.text for window in windows], parts)
            values = labels.sum(axis=1)
        else:  # a window's own words say little of told stories: the chunk's score counts too
            values = values + scores.backward[[window.position for window in windows]]
        # 2. of each chunk the best one; 3. ranked
        ranked = best_of_each(windows, values)
        representatives = tuple(windows[i] for i in ranked)
        own = None if labels is None else labels[ranked]
        values = values[ranked]
        relevance: Mapping[int, float] = {}
        if parts is None and (self.reduce == "enough" or self._ranks_windows):
            relevance = _relevance(question, chunks, scores, tools)
        if self._ranks_windows:
            own = self._untrained_labels(question, representatives, relevance, tools)
            values = self._value(own)
            order = sorted(range(len(values)), key=lambda i: -values[i])
            representatives, own, values = tuple(representatives[i] for i in order), own[order], values[order]
        # 4. one after the other
        eligible, threshold = tuple[float, ...](), 0.0
        if self.reduce != "windows" and parts is not None and parts.detector is not None and own is not None:
            eligible, threshold = search(own, parts.detector), parts.detector.threshold
        elif self.reduce == "enough" and parts is None:
            eligible, threshold = _held(representatives, relevance), _ENOUGH
        taken = len(eligible) if eligible and eligible[-1] >= threshold else len(representatives)
        return Reduction(
            windows=representatives,
            n_taken=within(representatives[:taken], self.max_words),
            window_labels=own,
            window_scores=tuple(map(float, values)),
            eligible=eligible,
        )

    def _untrained_labels(self, question: str, windows: Sequence[Passage], relevance: Mapping[int, float], tools: Tools) -> Array:
        """Return both labels of each window: float32 (n_windows, 2).

        Has_Answer is the relevance of its chunk; LLM_Prefer is P(yes) / (P(yes) + P(no)) of the large model, which is asked of
        each window alone, and 0.5 if it cannot be asked or says neither.
        """
        import numpy as np

        report = report_tokens(tools.progress, "select")
        labels = np.full((len(windows), 2), 0.5, np.float32)
        labels[:, 0] = [relevance.get(window.position, 0.0) for window in windows]
        for i, window in enumerate(windows if self.needs_large else ()):
            asked = (Message.about([f"Passage:\n{window.text}\n"], f"Question: {question}\n\n{_PREFERS}"),)
            if (share := share_of_yes(tools.large, asked, tools)) is not None:
                labels[i, 1] = share
            report(i + 1, len(windows))
        return labels


def _relevance(question: str, chunks: Sequence[Passage], scores: Scores, tools: Tools) -> Mapping[int, float]:
    """Return the relevance of each chunk by its position. chunks: best first.

    Raises FbragError `usage` for another retriever than the R2-Former's.
    """
    from fbrag_cli.methods.relevance.features import Scored, list_features
    from fbrag_cli.methods.relevance.former import SHIPPED, load

    former = tools.part(str(SHIPPED), lambda folder, _: load(folder))
    former.check(tools.retriever)
    listed = chunks[: former.max_list]
    features = list_features(former.features, listed, tools.retriever, Scored(question, scores.backward))
    return dict(zip((chunk.position for chunk in listed), map(float, former.relevance(features)), strict=True))


def _held(windows: Sequence[Passage], relevance: Mapping[int, float]) -> tuple[float, ...]:
    """Return the probability that the first window holds the answer, the first two, and so on, up to the first that is enough.

    A window has the relevance of its chunk, and windows are taken for independent: 1 - (1 - p_1)(1 - p_2)...
    """
    enough, lacking = list[float](), 1.0
    for window in windows:
        lacking *= 1 - relevance.get(window.position, 0.0)
        enough.append(1 - lacking)
        if enough[-1] >= _ENOUGH:
            break
    return tuple(enough)


def _reasoned(passages: Sequence[str], instructions: str | None) -> str:
    """Return the paper's prompt (its Figure 6; the words are ours): read, be sure to understand, answer with the reason."""
    form = f"Give it in this form: {instructions}" if instructions else "Give the answer first, then say why it is the answer."
    asked = (
        "Consult the passages below and answer the question. Before you answer, make sure that you understand the question and "
        f"each of the passages. {form}"
    )
    return f"{asked}\n\nPassages:\n{_numbered(passages)}"


def _referred(passages: Sequence[str], instructions: str | None) -> str:
    """Return the beginning of the paper's chain-of-thought prompt (its Table 2; the words are ours)."""
    form = f" Give it in this form: {instructions}" if instructions else ""
    return f"Refer to the passages below, and answer the question.{form}\n\nPassages:\n{_numbered(passages)}"


def _numbered(passages: Sequence[str]) -> str:
    return "".join(f"[{number}] {text}{BETWEEN}" for number, text in enumerate(passages, 1))
