"""Methods that read no document, or write before they read one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fbrag_cli.generation.generator import Message, Sampling
from fbrag_cli.methods.method import Method, Tools, cost_of, draw_forward_samples
from fbrag_cli.methods.prompts import background_messages, question_messages
from fbrag_cli.methods.ranking import ChunkMethod, backward_scores, no_match_warning, top_unique_chunks, whole_chunks
from fbrag_cli.progress import stage
from fbrag_cli.query import Query
from fbrag_cli.trace import ForwardLookup, ForwardSample, Scores, Selection, Stage, Trace

_MOST_TOKENS = 128  # of the passage


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedBook(Method):
    """Closed book: the large model answers from its own knowledge; its prompt has no text of the document.

    A lower bound for the methods that read. The answer is not checked, since no passage could show it.
    """

    name: ClassVar[str] = "closed-book"
    retrieves: ClassVar[bool] = False

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        return ["none to read"]

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Score nothing and select nothing: the context is empty."""
        return Trace.start(query)

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        return question_messages(trace.question, self.instructions)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenRead(Method):
    """GenRead: the large model writes a background passage, then answers by reading it (Yu et al., 2023, "Generate rather than
    retrieve").

    Of the paper's variants this is the plain one: one passage, written greedily. Left out are several sampled passages, passages
    written after examples from clusters of questions, and a trained reader.

    The passage is the only sample of `Trace.forward`. It scores no chunk, and the context stays empty: no text of the document
    is read, so the answer is not checked.
    """

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
        """Return the written passage, for the prompt that other methods use."""
        return [sample.rationale for sample in trace.samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refeed(ChunkMethod):
    """REFEED: the large model answers alone, and its answer helps to retrieve what it answers from (Yu et al., 2023, "Improving
    language models via plug-and-play retrieval feedback").

    For a model that gives replies alone. Left out are several sampled first answers, and the choice between the answers before
    and after retrieval by their likelihood.

    The first answer is the only sample of `Trace.forward`. `instructions` shape the second one alone.
    """

    name: ClassVar[str] = "refeed"

    @property
    def needs_large(self) -> bool:
        return True

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        return ["an answer without the document", *ChunkMethod.steps(self, n_chunks, chunk_words)]

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Answer alone, then select the chunks that score highest for the question followed by that answer, best first."""
        with stage("recall") as recalling:
            backward = backward_scores(query.text, tools)

        large, messages = tools.large, question_messages(query.text)
        generations = draw_forward_samples(large, messages, 1, Sampling(self.max_tokens, temperature=0, seed=self.seed), tools)
        reply = generations.samples[0]
        first = ForwardSample(
            index=0, seed=reply.seed, text=reply.text, rationale="", answer=reply.text.strip(), finish=reply.finish
        )

        with stage("select") as selecting:
            # (n_chunks,); of BM25 the combined scores are the sum of these two.
            forward = tools.retriever.scores(first.scored_text)
            combined = tools.retriever.scores(f"{query.text}\n{first.answer}")
            scores = Scores(backward, forward[None], forward, forward[None].argmax(axis=0), combined)
            selected = top_unique_chunks(tools.corpus, combined, self.n_selected, query.text)

        return replace(
            Trace.start(query),
            scores=scores,
            selection=Selection(selected, whole_chunks(tools.corpus, selected)),
            forward=ForwardLookup(messages=messages, samples=(first,)),
            stages=(Stage("recall", recalling.seconds), cost_of(generations), Stage("select", selecting.seconds)),
            models={"large": large.info},
            warnings=no_match_warning(combined),
            cached=("samples",) if generations.cached else (),
        )
