"""FB-RAG: forward-backward lookup (FB-RAG, section 2). Three stages, in the order of the paper.

I    recall: the chunks that BM25 ranks highest for the question, a generous set.
II   look forward: a small model samples K rationales and answers from them; every chunk of the whole document is scored by how
     well it supports the question (backward) and any of the samples (forward); the best are selected.
III  answer: a large model reads the selected chunks in document order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fbrag_cli.corpus import Excerpt
from fbrag_cli.generation.generator import Generation, Sampling
from fbrag_cli.methods.fb_rag.windows import WindowMethod
from fbrag_cli.methods.knobs import knob
from fbrag_cli.methods.method import Tools, cost_of, look_forward
from fbrag_cli.methods.prompts import forward_turns
from fbrag_cli.methods.ranking import backward_scores, distinct, lost, whole_chunks
from fbrag_cli.progress import stage
from fbrag_cli.text.printable import counted
from fbrag_cli.trace import ForwardSample, Round, Scores, Stage, Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_LIMIT = "128 on a GPU, 48 on a CPU, or of --prompts"
_IN = r"\(in \w+\)[\s*_]*"  # after a label, as the prompt writes it where it names a language
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
class FBRag(WindowMethod):
    """samples: the number of samples, K. eta_forward, eta_backward: weights of the two lookups (equation 6)."""

    name: ClassVar[str] = "fb-rag"
    needs_small: ClassVar[bool] = True

    recall: int = knob(2, "chunks for the small model", on_gpu=20, minimum=1, metavar="N")
    samples: int = knob(3, "forward samples", on_gpu=5, minimum=1, maximum=64, metavar="K")
    eta_forward: float = knob(0.5, "weight of the forward lookup", minimum=0, maximum=1e6, group="Advanced", metavar="X")
    eta_backward: float = knob(0.5, "weight of the backward lookup", minimum=0, maximum=1e6, group="Advanced", metavar="Y")
    pooling: Literal["max", "mean"] = knob(
        "max", "a chunk's score over the samples: the best as in the paper, or the mean", group="Advanced", added=True
    )
    temperature: float = knob(1.0, "temperature of the forward samples", minimum=0, group="Advanced", metavar="T")
    top_p: float = knob(
        0.9, "probability mass that forward samples are drawn from", minimum=0, maximum=1, group="Advanced", metavar="P"
    )
    top_k: int = knob(50, "number of tokens that forward samples are drawn from", minimum=0, group="Advanced", metavar="N")
    forward_tokens: int = knob(
        48, "length limit of a forward sample", on_gpu=128, minimum=1, varies=_LIMIT, group="Advanced", metavar="N"
    )

    def plan(self, n_chunks: int) -> list[str]:
        recalled = f"{min(self.recall, n_chunks)} to recall"
        return [recalled, counted(self.samples, "forward sample"), *WindowMethod.plan(self, n_chunks)]

    def retrieve(self, question: str, tools: Tools) -> Trace:
        # Stage I: the chunks that the question itself points to, and those of the last answer.
        with stage("recall") as recalling:
            backward = backward_scores(question, tools)  # S_B
            recalled = {*distinct(tools.corpus, backward, self.recall), *tools.candidates}
            read = whole_chunks(tools.corpus, sorted(recalled))

        # Stage II: K samples of rationale and answer from these chunks, ...
        turns = forward_turns([excerpt.as_read for excerpt in read], self.asked(question), self.templates, main_language(read))
        sampling = Sampling(self.forward_tokens, self.temperature, self.top_p, self.top_k, self.seed)
        generations = look_forward(tools.small(), turns, self.samples, sampling, tools)
        samples = tuple(parse_sample(i, generation) for i, generation in enumerate(generations.samples))

        # ... by which every chunk of the whole document is scored.
        with stage("select") as selecting:
            scores = self._scores(backward, samples, tools)
            selected = self.selection(
                tools.corpus, scores.combined, lambda windows: self._window_scores(question, samples, windows, tools)
            )
            ranked = tuple(selected.copies)

        return replace(
            Trace.start(question, self, tools),
            scores=scores,
            ranked=ranked,
            **selected._asdict(),
            rounds=(Round(read=read, turns=turns, samples=samples, scores=scores, selected=ranked),),
            stages=(Stage("recall", recalling.seconds), cost_of(generations), Stage("select", selecting.seconds)),
            models={"small": tools.small().info},
            warnings=lost(backward),
            cached=("samples",) if generations.cached else (),
        )

    def described(self) -> dict[str, Any]:
        """Return the settings, without the pooling of samples that weigh nothing."""
        settings = WindowMethod.described(self)
        if not self.eta_forward:
            del settings["pooling"]
        return settings

    def _window_scores(
        self, question: str, samples: tuple[ForwardSample, ...], windows: Sequence[Excerpt], tools: Tools
    ) -> Array:
        """Return equation 6 for windows, float32 (n_windows,): each is scored by its own text, as chunks are."""
        scores = tools.retriever.excerpt_scores([question, *(each.said for each in samples)], windows)
        return score(scores[0], scores[1:], self).combined

    def _scores(self, backward: Array, samples: tuple[ForwardSample, ...], tools: Tools) -> Scores:
        import numpy as np

        return score(backward, np.stack([tools.retriever.scores(sample.said) for sample in samples]), self)


def main_language(read: Sequence[Excerpt]) -> str:
    """Return the language (ISO 639-1) of most words that are read; "" where it is unknown."""
    words = Counter[str]()
    for excerpt in read:
        words[excerpt.chunk.document.language] += excerpt.chunk.n_words
    return max(words, key=lambda language: words[language], default="")


def score(backward: Array, per_sample: Array, settings: FBRag) -> Scores:
    """Compute equations 5 and 6: S_F = max_k S(C_i; [R_k, A_k]), and eta_B S_B + eta_F S_F.

    backward: (n_chunks,). per_sample: (n_samples, n_chunks). Not in the paper: with `pooling` "mean" S_F is the mean over k, so
    that one long sample does not outweigh what the others agree on.
    """
    forward = per_sample.mean(axis=0) if settings.pooling == "mean" else per_sample.max(axis=0)  # (n_chunks,)
    combined = settings.eta_backward * backward + settings.eta_forward * forward
    return Scores(backward, per_sample, forward, per_sample.argmax(axis=0), combined.astype("float32"))


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
