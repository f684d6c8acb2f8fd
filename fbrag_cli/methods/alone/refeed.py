"""REFEED: the large model answers alone, and its answer helps to retrieve what it answers from (Yu et al., 2023, "Improving
language models via plug-and-play retrieval feedback").

For a model of which only the replies are known. Left out: several different first answers, which are
sampled, and the choice between answers before and after retrieval by their likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fbrag_cli.generation.generator import Sampling
from fbrag_cli.methods.method import Tools, cost_of, look_forward
from fbrag_cli.methods.prompts import alone_turns
from fbrag_cli.methods.ranking import ChunkMethod, backward_scores, lost, whole_chunks
from fbrag_cli.progress import stage
from fbrag_cli.query import Query
from fbrag_cli.trace import ForwardSample, LookForward, Scores, Selection, Stage, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Refeed(ChunkMethod):
    """The first answer is the only sample of `Trace.forward`. `instructions` shape the second one alone."""

    name: ClassVar[str] = "refeed"
    needs_large: ClassVar[bool] = True

    def plan(self, n_chunks: int) -> list[str]:
        return ["an answer without the document", *ChunkMethod.plan(self, n_chunks)]

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Answer alone, then select the chunks that score highest for the question followed by that answer, best first."""
        with stage("recall") as recalling:
            backward = backward_scores(query.text, tools)

        large, turns = tools.large(), alone_turns(self.asked(query.text))
        generations = look_forward(large, turns, 1, Sampling(self.max_tokens, temperature=0, seed=self.seed), tools)
        reply = generations.samples[0]
        first = ForwardSample(
            index=0, seed=reply.seed, text=reply.text, rationale="", answer=reply.text.strip(), finish=reply.finish
        )

        with stage("select") as selecting:
            forward = tools.retriever.scores(first.said)  # (n_chunks,); of BM25 the combined scores are the sum of these two
            combined = tools.retriever.scores(f"{query.text}\n{first.answer}")
            scores = Scores(backward, forward[None], forward, forward[None].argmax(axis=0), combined)
            selected = self.best(tools.corpus, combined)

        return replace(
            Trace.start(query),
            scores=scores,
            selection=Selection(selected, whole_chunks(tools.corpus, selected)),
            forward=LookForward(turns=turns, samples=(first,)),
            stages=(Stage("recall", recalling.seconds), cost_of(generations), Stage("select", selecting.seconds)),
            models={"large": large.info},
            warnings=lost(combined),
            cached=("samples",) if generations.cached else (),
        )
