"""FB-RAG: forward-backward lookup (FB-RAG, section 2). Three stages, in the order of the paper.

I    recall: the chunks that BM25 ranks highest for the question, a generous set.
II   look forward: a small model samples K rationales and answers from them; every chunk of the whole document is scored by how
     well it supports the question (backward) and any of the samples (forward); the best are selected.
III  answer: a large model reads the selected chunks, in document order. Beyond the paper: a model that does both stages first
     reads what it has read in Stage II, which costs no time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from fbrag_cli.corpus import Passage, texts_for
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Generation, Sampling
from fbrag_cli.methods.fb_rag.windows import best_windows, in_reading_order
from fbrag_cli.methods.method import Method, Tools, cost_of, draw_forward_samples
from fbrag_cli.methods.prompts import forward_messages
from fbrag_cli.methods.ranking import (
    SELECT,
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
from fbrag_cli.settings import knob, settings_of
from fbrag_cli.text.printable import plural
from fbrag_cli.trace import ForwardLookup, ForwardSample, Scores, Selection, Stage, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

#: Chunks of a document in which windows answer better than whole chunks (tests/benchmarks/README.md, "What Stage III reads").
FEW = 50

_SELECT = 5
_AROUND, _TIMES = 12, 4  # chunks that give their windows, at least; times as many words as are read
_LARGEST_WEIGHT = 1e6
_IN = r"\(in \w+\)[\s*_]*"  # after a label, as the prompt writes it if it names a language
_QUOTE = "[\"'”’」』)）]"  # may stand between a sentence's end and the label
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
    """samples: the number of samples, K. weights: "X:Y", eta_F and eta_B of equation 6. Raises FbragError `usage` for others."""

    name: ClassVar[str] = "fb-rag"
    needs_small: ClassVar[bool] = True

    recall: int = knob(2, "chunks to retrieve for the small model", on_gpu=20, minimum=1, metavar="N")
    samples: int = knob(3, "forward samples to draw", on_gpu=5, flags=("-k", "--samples"), minimum=1, maximum=64, metavar="K")
    weights: str = knob(
        "0.5:0.5",
        "weights of the forward and the backward lookup; 1:0 is the paper's F",
        form=lambda text: parse_weights(text),
        accepts="X:Y, two numbers from 0 to 1,000,000",
        expert=True,
        metavar="X:Y",
    )
    temperature: float = knob(1.0, "temperature of the forward samples", minimum=0, expert=True, metavar="T")
    top_p: float = knob(
        0.9, "probability mass that forward samples are drawn from", minimum=0, maximum=1, expert=True, metavar="P"
    )
    top_k: int = knob(50, "number of tokens that forward samples are drawn from", minimum=0, expert=True, metavar="N")
    forward_tokens: int = knob(48, "length limit of a forward sample", on_gpu=128, minimum=1, expert=True, metavar="N")

    order: Literal["read-first", "document"] = knob(
        "read-first",
        "what the large model reads first: the retrieved chunks, which one model for both roles has read already; or all in "
        "document order, as in the paper, with two models, with prompts, or if recall is above half of select",
        expert=True,
    )
    granularity: Literal["auto", "chunk", "window"] = knob(
        "auto",
        "what to read after the retrieved chunks: whole chunks, as in the paper, or windows of a few sentences",
        varies=f"window up to {FEW} chunks, else chunk",
    )
    select: int = knob(
        _SELECT, SELECT, on_gpu=10, minimum=1, metavar="N", implies=("granularity", "chunk"), varies="5, on a GPU 10"
    )
    max_words: int = knob(
        400,
        "words of windows to read after the retrieved chunks",
        minimum=1,
        varies="400",
        metavar="N",
        implies=("granularity", "window"),
    )
    window_words: int = knob(40, "target words per window", minimum=1, expert=True, metavar="N")

    def __post_init__(self) -> None:
        settings_of(FBRag)["weights"].check(self.weights, "weights")
        if self.granularity == "window" and not self.continues:
            what = "windows are read after the retrieved chunks, which are not read first here"
            raise FbragError("usage", what, "take one model for both, --recall of at most half of --select, and no prompts")

    @property
    def continues(self) -> bool:
        """Whether Stage III's prompt begins with Stage II's passages, so that one model does not read them again.

        With the paper's settings, of which Stage II reads the larger part, the order is the paper's.
        """
        return self.order == "read-first" and self.templates is None and 2 * self.recall <= self.select

    def for_two_models(self) -> Method:
        return replace(self, order="document")

    def steps(self, n_chunks: int) -> list[str]:
        steps = [f"{min(self.recall, n_chunks)} to retrieve", plural(self.samples, "forward sample")]
        if self._reads_windows(n_chunks):
            return [*steps, f"{self._n_words:,} words of windows to read"]
        return [*steps, *ChunkMethod.steps(self, n_chunks)]

    def n_context_chunks(self, n_chunks: int) -> int:
        if not self._reads_windows(n_chunks):
            return ChunkMethod.n_context_chunks(self, n_chunks)
        return min(self.recall + -(-self._n_words // self.chunk_words), n_chunks)

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        # Stage I: the chunks that the question itself points to.
        with stage("recall") as recalling:
            backward = backward_scores(query.text, tools)  # S_B
            recalled = top_unique_chunks(tools.corpus, backward, self.recall, query.text)
            named = dict.fromkeys(unread(dict.fromkeys(at_named_place(query.text, tools.corpus, backward), ()), recalled), ())
            recalled |= named
            read = whole_chunks(tools.corpus, sorted(recalled))

        # Stage II: K samples of rationale and answer from these chunks, ...
        messages = forward_messages(
            texts_for(query.text, ([passage] for passage in read)),
            self.question_with_choices(query.text),
            self.templates,
            main_language(read),
        )
        sampling = Sampling(self.forward_tokens, self.temperature, self.top_p, self.top_k, self.seed)
        generations = draw_forward_samples(tools.small(), messages, self.samples, sampling, tools)
        samples = tuple(parse_sample(i, generation) for i, generation in enumerate(generations.samples))

        # ... by which every chunk of the whole document is scored.
        with stage("select") as selecting:
            scores = self._scores(backward, samples, tools)
            if self._reads_windows(len(backward)):
                selected = self._with_windows(query.text, recalled, samples, scores.combined, tools)
            else:
                best = matching(tools.corpus, scores.combined, self.n_selected, query.text)
                if self.continues:
                    selected = continued(tools.corpus, recalled, best, self.n_selected + len(named), self.select)
                else:
                    best |= dict.fromkeys(unread(named, best), ())
                    selected = Selection(best, whole_chunks(tools.corpus, sorted(best)))

        return replace(
            Trace.start(query),
            scores=scores,
            selection=selected,
            forward=ForwardLookup(read=read, messages=messages, samples=samples),
            stages=(Stage("recall", recalling.seconds), cost_of(generations), Stage("select", selecting.seconds)),
            models={"small": tools.small().info},
            warnings=no_match_warning(backward),
            cached=("samples",) if generations.cached else (),
        )

    @property
    def _n_words(self) -> int:
        return self.max_words * (1 + self.more)

    def _reads_windows(self, n_chunks: int) -> bool:
        """Return whether windows are read of a document of this many chunks.

        With "auto" they are not if another number of chunks is asked for, and a document of so few chunks is read whole.
        """
        by_itself = self.granularity == "auto" and self.continues and self.select == _SELECT
        return self.granularity == "window" or (by_itself and _SELECT < n_chunks <= FEW)

    def _with_windows(
        self,
        question: str,
        recalled: Mapping[int, tuple[int, ...]],
        samples: Sequence[ForwardSample],
        scores: Array,
        tools: Tools,
    ) -> Selection:
        """Select the recalled chunks, and after them `max_words` words of the best windows of other chunks: once, and for each
        --more again. A window is scored by its own text, as a chunk is."""

        def score_windows(windows: Sequence[Passage]) -> Array:
            found = tools.retriever.excerpt_scores([question, *(sample.scored_text for sample in samples)], windows)
            return score(found[0], found[1:], self).combined

        n_around = max(_AROUND, _TIMES * self.max_words // tools.corpus.chunk_words)
        best = matching(tools.corpus, scores, n_around * (1 + self.more) + len(recalled), question)
        chunks = [tools.corpus.chunks[position] for position in unread(best, recalled)]
        context, taken = whole_chunks(tools.corpus, sorted(recalled)), list[Passage]()
        for portion in range(1, 2 + self.more):
            new = best_windows(chunks[: portion * n_around], score_windows, self.max_words, self.window_words, taken)
            context, taken = context + in_reading_order(new), taken + new
        copies = ranked(best, recalled, (window.position for window in taken))
        return Selection(copies, context)

    def _scores(self, backward: Array, samples: tuple[ForwardSample, ...], tools: Tools) -> Scores:
        import numpy as np

        return score(backward, np.stack([tools.retriever.scores(sample.scored_text) for sample in samples]), self)


def main_language(read: Sequence[Passage]) -> str:
    """Return the language (ISO 639-1) of most words that are read; "" if it is unknown."""
    words = Counter[str]()
    for passage in read:
        words[passage.document.language] += passage.n_words
    return max(words, key=lambda language: words[language], default="")


def score(backward: Array, per_sample: Array, settings: FBRag) -> Scores:
    """Compute equations 5 and 6: S_F = max_k S(C_i; [R_k, A_k]), and eta_B S_B + eta_F S_F.

    backward: (n_chunks,). per_sample: (n_samples, n_chunks).
    """
    forward = per_sample.max(axis=0)  # (n_chunks,)
    eta_forward, eta_backward = parse_weights(settings.weights)
    combined = eta_backward * backward + eta_forward * forward
    return Scores(backward, per_sample, forward, per_sample.argmax(axis=0), combined.astype("float32"))


def parse_weights(text: str) -> tuple[float, float]:
    """Parse the weights of the two lookups, "X:Y": eta_F and eta_B. Raises ValueError."""
    eta_forward, eta_backward = map(float, text.split(":"))
    if not (0 <= eta_forward <= _LARGEST_WEIGHT and 0 <= eta_backward <= _LARGEST_WEIGHT):
        raise ValueError(text)
    return eta_forward, eta_backward


def parse_sample(index: int, generation: Generation) -> ForwardSample:
    """Cut a sample at its first 'Answer:', and what follows at a second 'Rationale:'. Without an answer all is rationale."""
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
