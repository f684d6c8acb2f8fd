"""FB-RAG: forward-backward lookup (FB-RAG, section 2). Three stages, in the order of the paper.

I    recall: the chunks that BM25 ranks highest for the question, a generous set.
II   look forward: a small model samples K rationales and answers from them; every chunk of the whole document is scored by how
     well it supports the question (backward) and any of the samples (forward); the best are selected.
III  answer: a large model reads the selected chunks, in document order. Beyond the paper, of a short document: a model that does
     both stages begins with the chunks that it has read in Stage II, which costs no time; windows follow.

Without samples (K = 0) there is no Stage II, and S is S_B.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from fbrag_cli.corpus import Passage, texts_for
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Generation, Message, Sampling
from fbrag_cli.methods.fb_rag.windows import best_windows, in_reading_order
from fbrag_cli.methods.method import Method, Tools, cost_of, draw_forward_samples
from fbrag_cli.methods.prompts import forward_messages
from fbrag_cli.methods.ranking import (
    SELECT,
    UNLESS_GIVEN,
    ChunkMethod,
    at_named_place,
    backward_scores,
    continued,
    matching,
    no_match_warning,
    ranked,
    top_unique_chunks,
    unread,
    whole_chunks,
)
from fbrag_cli.progress import stage
from fbrag_cli.query import Query
from fbrag_cli.settings import knob
from fbrag_cli.text.printable import plural
from fbrag_cli.trace import ForwardLookup, ForwardSample, Scores, Selection, Stage, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

#: Chunks of a short document: the retrieved ones first, then windows, answer better than whole chunks in document order; of a
#: longer document they answer worse (tests/benchmarks/README.md, "What Stage III reads" and "Long documents").
FEW = 50

_WINDOWS = 400  # words of windows behind the retrieved chunks, if no number of chunks is given
_WINDOW = 40  # target words of a window
_AROUND, _TIMES = 12, 4  # chunks that give their windows, at least; times as many words as are read
_LARGEST_WEIGHT = 1e6
_IN = r"\(in \w+\)[\s*_]*"  # after a label, as the prompt writes it if it names a language
_QUOTE = "[\"'”’」』)）]"  # between a sentence and the label
_ANSWER = re.compile(
    rf"^[\s*_#>-]*(?:final\s+)?answer[\s*_]*(?:{_IN})?:[\s*_]*"
    rf"|(?:(?:(?<=[.!?])|(?<=[.!?]{_QUOTE})|(?<=[.!?]\s{_QUOTE}))\s+|(?:(?<=[。！？])|(?<=[。！？]{_QUOTE}))\s*)answer\s*:\s*"
    rf"|\s*answer\s*{_IN}:\s*",
    re.IGNORECASE | re.MULTILINE,
)
_AGAIN = re.compile(rf"\s+rationale[\s*_]*(?:{_IN})?:", re.IGNORECASE)
_LABEL = re.compile(rf"^[\s*_#>-]*rationale[\s*_]*(?:{_IN})?:[\s*_]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FBRag(ChunkMethod):
    """samples: the number of samples, K. weights: "X:Y", eta_F and eta_B of equation 6.

    select: how much Stage III reads, in chunks, the retrieved ones included; windows fill as many words. None: 5 chunks; of a
    document of which windows are read and that has up to FEW chunks, the retrieved chunks and 400 words of windows. A document of
    up to `select` chunks is read whole.
    """

    name: ClassVar[str] = "fb-rag"

    select: int | None = knob(
        None,
        SELECT,
        words=("auto",),
        on_gpu=10,
        minimum=1,
    )
    samples: int = knob(3, "forward samples to draw (0: none)", on_gpu=5, minimum=0, maximum=64)
    recall: int = knob(2, "chunks to retrieve for the small model", on_gpu=20, minimum=1)
    weights: str = knob(
        "0.5:0.5",
        "weights of the forward and the backward lookup; 1:0 is the paper's F",
        form=lambda text: parse_weights(text),
        accepts="X:Y, two numbers from 0 to 1,000,000, not both 0",
    )
    temperature: float = knob(1.0, "temperature of the forward samples", minimum=0)
    forward_tokens: int = knob(48, "length limit of a forward sample", on_gpu=128, minimum=1)
    order: Literal["auto", "read-first", "document"] = knob(
        "auto",
        "what the large model reads first: read-first is the retrieved chunks, document is document order, as in the paper; "
        f"auto is read-first if one model has both roles, recall is less than select and the document has up to {FEW} chunks",
    )
    granularity: Literal["auto", "chunk", "window"] = knob(
        "auto",
        "what the large model reads: whole chunks, as in the paper, or windows of a few sentences next to the retrieved chunks; "
        f"auto is window if the retrieved chunks come first and the document has up to {FEW} chunks",
    )

    def __post_init__(self) -> None:
        Method.__post_init__(self)
        if not self.samples and not parse_weights(self.weights)[1]:
            what = f"weights are {self.weights}, which leave the question out, and no forward samples are drawn"
            raise FbragError("usage", what, "draw samples, or give the question a weight")

    @property
    def needs_small(self) -> bool:
        return self.samples > 0

    def _reads_first(self, n_chunks: int) -> bool:
        """Return whether Stage III's prompt begins with the retrieved chunks, so that one model does not read them again."""
        if self.order == "auto":
            return self.recall < (self.select or UNLESS_GIVEN) and n_chunks <= FEW
        return self.order == "read-first"

    def for_two_models(self) -> Method:
        return replace(self, order="document") if self.order == "auto" and self.needs_small else self

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        steps = [f"{min(self.recall, n_chunks)} to retrieve"] if self.needs_small or self._reads_first(n_chunks) else []
        steps += [plural(self.samples, "forward sample")] if self.needs_small else []
        if not self._reads_windows(n_chunks):
            return [*steps, *ChunkMethod.steps(self, n_chunks, chunk_words)]
        return [*steps, f"{max(0, self._words_of_windows(n_chunks, chunk_words)[-1]):,} words of windows to read"]

    def n_context_chunks(self, n_chunks: int, chunk_words: int) -> int:
        if not self._reads_windows(n_chunks):
            return ChunkMethod.n_context_chunks(self, n_chunks, chunk_words)
        first = self.recall if self._reads_first(n_chunks) else 0
        return min(first + -(-self._words_of_windows(n_chunks, chunk_words)[-1] // chunk_words), n_chunks)

    def _reads_windows(self, n_chunks: int) -> bool:
        """Return whether windows are read of a document of this many chunks."""
        if n_chunks <= (self.select or UNLESS_GIVEN):
            return False
        if self.granularity == "auto":
            return self._reads_first(n_chunks) and n_chunks <= FEW
        return self.granularity == "window"

    def _words_of_windows(self, n_chunks: int, chunk_words: int) -> list[int]:
        """Return how many words of windows are read at first, and after each doubling of all that is read."""
        retrieved = self.recall * chunk_words
        words = retrieved + _WINDOWS if self.select is None and n_chunks <= FEW else (self.select or UNLESS_GIVEN) * chunk_words
        return [(words << doubled) - (retrieved if self._reads_first(n_chunks) else 0) for doubled in range(self.doubled + 1)]

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        # Stage I: the chunks that the question itself points to.
        with stage("recall") as recalling:
            backward = backward_scores(query.text, tools)  # S_B
            recalled = top_unique_chunks(tools.corpus, backward, self.recall, query.text)
            named = dict.fromkeys(unread(dict.fromkeys(at_named_place(query.text, tools.corpus, backward), ()), recalled), ())

        # Stage II: K samples of rationale and answer from these chunks, by which every chunk of the document is scored.
        trace = replace(Trace.start(query), stages=(Stage("recall", recalling.seconds),), warnings=no_match_warning(backward))
        if self.needs_small:
            trace = self._looking_forward(trace, whole_chunks(tools.corpus, sorted({**recalled, **named})), tools)
        with stage("select") as selecting:
            scores = self._scores(backward, trace.samples, tools)
            selected = self._selected(query.text, recalled, named, trace.samples, scores.combined, tools)
        return replace(trace, scores=scores, selection=selected, stages=(*trace.stages, Stage("select", selecting.seconds)))

    def _looking_forward(self, trace: Trace, read: Sequence[Passage], tools: Tools) -> Trace:
        """Return the trace with the samples of the small model, which has read these passages."""
        asked = trace.query.text
        texts = texts_for(asked, ([passage] for passage in read))
        messages = self.forward_messages(asked, texts, main_language(read))
        sampling = Sampling(self.forward_tokens, self.temperature, seed=self.seed)
        generations = draw_forward_samples(tools.small, messages, self.samples, sampling, tools)
        samples = tuple(parse_sample(i, generation) for i, generation in enumerate(generations.samples))
        return replace(
            trace,
            forward=ForwardLookup(read=tuple(read), messages=messages, samples=samples),
            stages=(*trace.stages, cost_of(generations)),
            models={"small": tools.small.info},
            cached=("samples",) if generations.cached else (),
        )

    def forward_messages(self, question: str, texts: Sequence[str], language: str) -> tuple[Message, ...]:
        """Return the prompt of Stage II. texts: those of the passages that are read. language: theirs (ISO 639-1)."""
        return forward_messages(texts, question, language)

    def _selected(
        self,
        question: str,
        recalled: Mapping[int, tuple[int, ...]],
        named: Mapping[int, tuple[int, ...]],
        samples: Sequence[ForwardSample],
        scores: Array,
        tools: Tools,
    ) -> Selection:
        """Select what Stage III reads. recalled, named: the chunks that were retrieved, and those of a place that the question
        names, which come on top."""
        n_chunks = len(tools.corpus.chunks)
        first = {**recalled, **named} if self._reads_first(n_chunks) else named
        if self._reads_windows(n_chunks):
            return self._with_windows(question, first, samples, scores, tools)
        sizes = [(self.select or UNLESS_GIVEN) << doubled for doubled in range(self.doubled + 1)]
        best = matching(tools.corpus, scores, sizes[-1], question)
        if self._reads_first(n_chunks):
            return continued(tools.corpus, first, best, [size + len(named) for size in sizes])
        best |= dict.fromkeys(unread(named, best), ())
        return Selection(best, whole_chunks(tools.corpus, sorted(best)))

    def _with_windows(
        self,
        question: str,
        first: Mapping[int, tuple[int, ...]],
        samples: Sequence[ForwardSample],
        scores: Array,
        tools: Tools,
    ) -> Selection:
        """Select the chunks `first` whole, and the best windows of other chunks. Each doubling adds windows behind the others,
        so that a prompt for more begins with the one for less. A window is scored by its own text, as a chunk is."""

        def score_windows(windows: Sequence[Passage]) -> Array:
            found = tools.retriever.excerpt_scores([question, *(sample.scored_text for sample in samples)], windows)
            return score(found[0], found[1:], self).combined

        n_chunks = len(tools.corpus.chunks)
        words = self._words_of_windows(n_chunks, tools.corpus.chunk_words)
        around = [max(_AROUND, _TIMES * n // tools.corpus.chunk_words) for n in words]
        best = matching(tools.corpus, scores, around[-1] + len(first), question)
        chunks = [tools.corpus.chunks[position] for position in unread(best, first)]
        context, taken = whole_chunks(tools.corpus, sorted(first)), list[Passage]()
        for n_words, n_before, n_around in zip(words, [0, *words], around, strict=False):
            new = best_windows(chunks[:n_around], score_windows, n_words - max(0, n_before), _WINDOW, taken)
            context, taken = context + in_reading_order(new), taken + new
        if not self._reads_first(n_chunks):
            context = tuple(
                sorted((*context[: len(first)], *in_reading_order(taken)), key=lambda each: (each.position, each.start))
            )
        return Selection(ranked(best, first, (window.position for window in taken)), context)

    def _scores(self, backward: Array, samples: tuple[ForwardSample, ...], tools: Tools) -> Scores:
        import numpy as np

        per_sample = [tools.retriever.scores(sample.scored_text) for sample in samples]
        return score(backward, np.array(per_sample, np.float32).reshape(-1, len(backward)), self)


def main_language(read: Sequence[Passage]) -> str:
    """Return the language (ISO 639-1) of most of the words that are read; "" if it is unknown."""
    words = Counter[str]()
    for passage in read:
        words[passage.document.language] += passage.n_words
    return max(words, key=lambda language: words[language], default="")


def score(backward: Array, per_sample: Array, settings: FBRag) -> Scores:
    """Compute equations 5 and 6: S_F = max_k S(C_i; [R_k, A_k]), and eta_B S_B + eta_F S_F; without samples S_B alone.

    backward: (n_chunks,). per_sample: (n_samples, n_chunks).
    """
    if not len(per_sample):
        return replace(Scores.zero(len(backward)), backward=backward, combined=backward)
    forward = per_sample.max(axis=0)  # (n_chunks,)
    eta_forward, eta_backward = parse_weights(settings.weights)
    combined = eta_backward * backward + eta_forward * forward
    return Scores(backward, per_sample, forward, per_sample.argmax(axis=0), combined.astype("float32"))


def parse_weights(text: str) -> tuple[float, float]:
    """Parse the weights of the two lookups, "X:Y": eta_F and eta_B. Raises ValueError."""
    eta_forward, eta_backward = map(float, text.split(":"))
    if not (0 <= eta_forward <= _LARGEST_WEIGHT and 0 <= eta_backward <= _LARGEST_WEIGHT and eta_forward + eta_backward):
        raise ValueError(text)
    return eta_forward, eta_backward


def parse_sample(index: int, generation: Generation) -> ForwardSample:
    """Split a sample at its first 'Answer:', and end the answer at a second 'Rationale:'. Without 'Answer:' the whole sample is
    the rationale."""
    text = generation.text.strip()
    rationale, answer = text, ""
    if found := _ANSWER.search(text):
        rationale, answer = text[: found.start()], _AGAIN.split(text[found.end() :], maxsplit=1)[0]
    return ForwardSample(
        index=index,
        seed=generation.seed,
        text=text,
        rationale=_LABEL.sub("", rationale).strip(),
        answer=answer.strip().rstrip("*_"),
        finish=generation.finish,
    )
