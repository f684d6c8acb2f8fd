"""`Generator`: a language model as the methods see it. Turns go in, samples with their cost come out.

Knows nothing of documents, chunks or methods. How turns become the text that a model reads is each generator's own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from fbrag_cli.generation.cancellation import Cancellation


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's words in a chat. The last turn may be the assistant's: the beginning of a reply that the model continues."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: `temperature` 0 is greedy; else the `top_k` likeliest tokens, of these the smallest set that holds
    `top_p` of the probability, sample i with seed `seed` + i. A sample ends at `max_tokens`, at the model's own end, or before
    one of the texts of `stop`.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int = 50
    seed: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """One sample. finish: "stop" (the model's own end, or a stop text) or "length"."""

    text: str
    n_tokens: int
    finish: Literal["stop", "length"]
    seed: int


@dataclass(frozen=True, slots=True)
class Generations:
    """The samples of one call, and what the call cost. `cached_tokens` of the `prompt_tokens` were read in earlier calls.
    cached: whether the samples themselves come from the cache."""

    samples: tuple[Generation, ...]
    prompt_tokens: int
    cached_tokens: int
    prefill_seconds: float
    decode_seconds: float
    cached: bool = False

    @property
    def generated_tokens(self) -> int:
        return sum(sample.n_tokens for sample in self.samples)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model's name and limits, for the Trace. gpu_layers: "25/25"; "0/25" is all on the CPU. sha256: None where it was not
    computed. context_tokens: None where the generator does not know it."""

    name: str
    sha256: str | None
    gpu_layers: str
    context_tokens: int | None


OnTokens = Callable[[int, int], None]  # (tokens done, tokens in all) of the prompt
OnText = Callable[[str], None]  # the next piece of the first sample: the pieces, joined, are its text


def _never() -> Cancellation:
    return Cancellation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a call carries beside its prompt.

    cancellation: a request to stop, from any thread. on_prompt, on_text: receive progress. room: tokens of context to reserve at
    least, so that later prompts with the same beginning can grow into it without being read again.
    """

    cancellation: Cancellation = field(default_factory=_never)
    on_prompt: OnTokens | None = None
    on_text: OnText | None = None
    room: int = 0


Choose = Callable[[Sequence[Turn], Sequence[str], Call], tuple[float, ...]]


class Generator(Protocol):
    """A language model, as the methods see it.

    info: also its limits. choose: the probability that the reply begins with each of some words (in any letter case, with or
    without a space), None where the generator cannot say. continues_turns: whether it goes on from an assistant's last turn.
    takes_rows: whether a prompt may hold embedding rows.
    """

    @property
    def info(self) -> ModelInfo: ...
    @property
    def choose(self) -> Choose | None: ...
    @property
    def continues_turns(self) -> bool: ...
    @property
    def takes_rows(self) -> bool: ...

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call = ...) -> Generations:
        """`n` samples of the reply to `turns`, which are read once; sample i depends on `n` through rounding at most."""
        ...

    def written(self, turns: Sequence[Turn]) -> str:
        """The prompt that the model reads for `turns`, its own markers included, as `explain --prompt` prints it."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text`, without markers."""
        ...
