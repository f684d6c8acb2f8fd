"""A stand-in for the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.corpus import Corpus
from fbrag_cli.generation.generator import (
    CallOptions,
    FinishReason,
    Generation,
    Generations,
    Generator,
    Message,
    ModelInfo,
    Sampling,
)
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.progress import silent
from fbrag_cli.query import Collection, Query, Role
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.trace import Trace


@dataclass
class Scripted:
    """Says what it is told to say, and keeps what it was asked: turns, number of samples, sampling."""

    replies: Sequence[str]
    asked: list[tuple[tuple[Message, ...], int, Sampling]] = field(default_factory=list)
    yes: float = 1.0
    finish: FinishReason = "stop"
    info: ModelInfo = field(default_factory=lambda: ModelInfo("scripted", None, "0/1", 9999))
    thought_tokens: int = 0
    probability: float | None = None

    def generate(
        self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions | None = None
    ) -> Generations:
        self.asked.append((tuple(messages), n, sampling))
        replies = (self.replies[i % len(self.replies)] for i in range(n))
        samples = tuple(
            Generation(reply, 5, self.finish, sampling.seed + i, self.thought_tokens, self.probability)
            for i, reply in enumerate(replies)
        )
        if options and options.on_text:
            for piece in samples[0].text.partition(" "):
                options.on_text(piece)
        return Generations(samples, 100, 0, 0.1, 0.1)

    def choice_probabilities(
        self, messages: Sequence[Message], choices: Sequence[str], options: CallOptions | None = None
    ) -> tuple[float, ...]:
        self.asked.append((tuple(messages), 0, Sampling(1)))
        return (self.yes, 1 - self.yes)

    def render_prompt(self, messages: Sequence[Message]) -> str:
        return "\n".join(f"<{message.role}>{message.text}" for message in messages)

    def count_tokens(self, text: str, cancellation: Cancellation | None = None) -> int:
        return len(text.split())


def retrieved(method: Method, question: str, given: Tools) -> Trace:
    """What a method retrieves for a question, from the corpus of its tools."""
    assert isinstance(given.retriever, BM25)
    return method.retrieve(Query(question, Collection(given.corpus, given.retriever), method), given)


def tools(
    corpus: Corpus,
    small: Generator | None = None,
    large: Generator | None = None,
    *,
    part: object = None,
    digest: str | None = None,
) -> Tools:
    """What a method works with, over BM25. A model or a trained part that is not given must not be asked for.

    digest: of the large model, None for a server.
    """

    def model(role: Role) -> Generator:
        found = {"small": small, "large": large}[role]
        assert found is not None
        return found

    def given(folder: str, load: object) -> Any:
        assert part is not None
        return part

    return Tools(
        corpus=corpus,
        retriever=BM25.of(corpus),
        progress=silent,
        cancellation=Cancellation(),
        model=model,
        part=given,
        digest=lambda: digest,
    )
