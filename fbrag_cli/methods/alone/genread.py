"""GenRead: the large model writes a background passage, then answers by reading it (Yu et al., 2023, "Generate rather than
retrieve").

Of the paper's variants this is the plain one: one passage, written greedily. Several passages that are sampled, or written after
examples from clusters of questions, and a reader that is trained, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fbrag_cli.generation.generator import Sampling
from fbrag_cli.methods.method import Method, Tools, cost_of, draw_forward_samples
from fbrag_cli.methods.prompts import background_messages
from fbrag_cli.query import Query
from fbrag_cli.trace import ForwardLookup, ForwardSample, Scores, Trace

_MOST_TOKENS = 128  # of the passage


@dataclass(frozen=True, slots=True, kw_only=True)
class GenRead(Method):
    """The passage is the only sample of `Trace.forward`. It scores no chunk, and the context stays empty: no text of the document
    is read, so the answer is not checked."""

    name: ClassVar[str] = "genread"
    retrieves: ClassVar[bool] = False

    @property
    def needs_large(self) -> bool:
        return True

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        return ["none to read", "a background passage to write"]

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Write the passage."""
        large, messages = tools.large, background_messages(query.text)
        generations = draw_forward_samples(large, messages, 1, Sampling(_MOST_TOKENS, temperature=0, seed=self.seed), tools)
        written = generations.samples[0]
        passage = ForwardSample(
            index=0, seed=written.seed, text=written.text, rationale=written.text.strip(), answer="", finish=written.finish
        )
        return replace(
            Trace.start(query),
            scores=Scores.zero(len(tools.corpus.chunks), n_samples=1),
            forward=ForwardLookup(messages=messages, samples=(passage,)),
            stages=(cost_of(generations),),
            models={"large": large.info},
            cached=("samples",) if generations.cached else (),
        )

    def passages(self, trace: Trace) -> list[str]:
        """Return the passage that was written, for the prompt that other methods have."""
        return [sample.rationale for sample in trace.samples]
