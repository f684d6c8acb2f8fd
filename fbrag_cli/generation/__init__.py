"""A `Generator` turns one `Prompt` into n `Generation`s. Knows nothing of documents, chunks or methods.

Only modules of this home import llama_cpp.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fbrag_cli.prompts import Prompt, Turn

# OpenMP's threads meet after each operation of llama.cpp, and libgomp lets the first turn in a loop for milliseconds until the
# last is there. Where other work holds a core they turn for most of the time; alone it is no faster. libgomp reads this when it
# is loaded, which importing llama_cpp does.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")


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
    """The samples of one call, and what the call cost. `cached_tokens` of the `prompt_tokens` were there from earlier calls.
    kept: whether the samples themselves were."""

    samples: tuple[Generation, ...]
    prompt_tokens: int
    cached_tokens: int
    prefill_seconds: float
    decode_seconds: float
    kept: bool = False

    @property
    def generated_tokens(self) -> int:
        return sum(sample.n_tokens for sample in self.samples)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What answers, for the Trace. gpu_layers: "25/25"; "0/25" is all on the CPU. sha256: None where it was not computed."""

    name: str
    sha256: str | None
    gpu_layers: str
    context_tokens: int


OnTokens = Callable[[int, int], None]  # (tokens done, tokens in all) of the prompt
OnText = Callable[[str], None]  # a further piece of the first sample


class Generator(Protocol):
    """A language model, as the methods see it."""

    @property
    def info(self) -> ModelInfo: ...

    def prompt(self, turns: Sequence[Turn]) -> Prompt:
        """`turns` in the model's own chat format; a last turn of the assistant is left open, to be continued."""
        ...

    def generate(
        self, prompt: Prompt, n: int, sampling: Sampling, *, on_prompt: OnTokens | None = None, on_text: OnText | None = None
    ) -> Generations:
        """`n` samples from `prompt`, which is read once; sample i depends on `n` through rounding at most."""
        ...

    def choose(self, prompt: Prompt, choices: Sequence[str]) -> tuple[float, ...]:
        """The probability that the next token begins each of `choices` (in any letter case, with or without a space)."""
        ...

    def count_tokens(self, text: str) -> int: ...
