"""The `Generator` protocol, a language model as the methods see it, and its input and output records.

This module knows nothing about documents, chunks or methods. Each generator turns `Message`s into its model's prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, Protocol

from fbrag_cli.cancellation import Cancellation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class InputEmbeddings:
    """Input embeddings in a prompt: each takes the place of a token, and is read like a token's embedding.

    data: float32, row by row. width: length of a row, the model's `n_embd`. Raises ValueError unless the data are one or more
    complete rows of finite numbers.
    """

    data: bytes
    width: int

    def __post_init__(self) -> None:
        import numpy as np

        if not self.data or self.width < 1 or len(self.data) % (4 * self.width):
            raise ValueError(f"{len(self.data)} bytes: expected rows of {self.width} numbers")
        if not np.isfinite(self.vectors).all():
            raise ValueError("an input embedding has a number that is not finite")

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> InputEmbeddings:
        """Return the rows of an array `(n, width)`."""
        return cls(vectors.astype("<f4").tobytes(), vectors.shape[1])

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The rows: float32 `(n, width)`, read-only."""
        import numpy as np

        return np.frombuffer(self.data, "<f4").reshape(-1, self.width)

    @property
    def ids(self) -> tuple[int, ...]:
        """A negative number for each row, computed from its bytes, which represents the row among token ids."""
        step = 4 * self.width
        parts = (self.data[at : at + step] for at in range(0, len(self.data), step))
        return tuple(-1 - int.from_bytes(sha256(part).digest()[:8], "big") for part in parts)

    @property
    def placeholder(self) -> str:
        """A visible mark for each row, for printed prompts."""
        return "⟨row⟩" * (len(self.data) // (4 * self.width))

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the rows in the key of a cache."""
        return self.width, sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Blend:
    """A mixture of words in a prompt, as one input embedding: the weighted mean of their embeddings in the model's own table.

    words: each with its weight. A model that takes no input embeddings reads the word with the largest weight.
    """

    words: tuple[tuple[str, float], ...]

    @property
    def word(self) -> str:
        """The word with the largest weight."""
        return max(self.words, key=lambda each: each[1])[0]

    @property
    def key(self) -> tuple[object, ...]:
        """What identifies the mixture in the key of a cache."""
        return self.words


#: What may be between the words of a message.
Row = InputEmbeddings | Blend


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat. The last one may be the assistant's: the beginning of a reply for the model to continue.

    embeddings: input embeddings between the words, each with its offset in the text (characters), in order. context_end: length
    in characters of the context at the beginning of the text, which later prompts may share; 0 for none. It does not affect the
    prompt.
    """

    role: Role
    text: str
    embeddings: tuple[tuple[int, Row], ...] = ()
    context_end: int = field(default=0, compare=False)

    @classmethod
    def of(cls, role: Role, parts: Iterable[str | Row]) -> Message:
        """Return the message with these words and input embeddings, in order."""
        text, rows = "", []
        for part in parts:
            if isinstance(part, str):
                text += part
            else:
                rows.append((len(text), part))
        return cls(role, text, tuple(rows))

    @classmethod
    def about(cls, context: Iterable[str | Row], asked: str) -> Message:
        """Return the user's message with a context and a question about it."""
        message = cls.of("user", (*context, asked))
        return replace(message, context_end=len(message.text) - len(asked))

    @property
    def context(self) -> Message:
        """The message with only its context."""
        return Message(
            self.role, self.text[: self.context_end], tuple(each for each in self.embeddings if each[0] <= self.context_end)
        )

    @property
    def parts(self) -> tuple[str | Row, ...]:
        """The words and the rows, in order."""
        parts: list[str | Row] = []
        done = 0
        for at, rows in self.embeddings:
            parts += [self.text[done:at], rows]
            done = at
        return tuple(part for part in (*parts, self.text[done:]) if part)

    def blended(self, made: Callable[[Blend], str | InputEmbeddings]) -> Message:
        """Return the message with what `made` returns instead of each `Blend`."""

        def resolved(message: Message) -> Message:
            return Message.of(self.role, (made(part) if isinstance(part, Blend) else part for part in message.parts))

        end = len(resolved(self.context).text) if self.context_end else 0
        return replace(resolved(self), context_end=end) if any(isinstance(row, Blend) for _, row in self.embeddings) else self


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw tokens.

    temperature: 0 takes the most likely token. Above 0, a token is drawn from the `top_k` most likely ones, and of these from the
    smallest set with `top_p` of the probability, by default as in FB-RAG. seed: sample i uses `seed` + i. A sample ends at
    `max_tokens`, when the model ends it, or when the model repeats itself.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int = 50
    seed: int = 0


#: Why a sample ended: the model ended it, it reached `max_tokens`, or the model repeated itself.
FinishReason = Literal["stop", "length", "repeat"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One sample.

    text: with finish "repeat" only the first period of the loop. n_tokens: number of all tokens that were drawn.
    reasoning_tokens: number of those that are reasoning, which is not part of the text. probability: the geometric mean of the
    probabilities of the text's tokens, 0 to 1; None for a sample that was drawn at a temperature above 0 or cut at a repetition,
    and if a server does not give it.
    """

    text: str
    n_tokens: int
    finish: FinishReason
    seed: int
    reasoning_tokens: int = 0
    probability: float | None = field(default=None, compare=False)  # other calls in its batches change the rounding


def geometric_mean(logprobs: Sequence[float]) -> float | None:
    """Return the geometric mean of probabilities, given by their natural logarithms; None if there are none."""
    return math.exp(math.fsum(logprobs) / len(logprobs)) if logprobs else None


@dataclass(frozen=True, slots=True)
class Generations:
    """The samples of one call, and its cost.

    cached_tokens: how many of the `prompt_tokens` an earlier call has read. cached: whether the samples come from the cache.
    """

    samples: tuple[Generation, ...]
    prompt_tokens: int
    cached_tokens: int
    prefill_seconds: float
    decode_seconds: float
    cached: bool = False

    @property
    def generated_tokens(self) -> int:
        return sum(sample.n_tokens for sample in self.samples)

    @property
    def reasoning_tokens(self) -> int:
        return sum(sample.reasoning_tokens for sample in self.samples)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model's name and limits, for the Trace.

    sha256: hex, None if it was not computed. gpu_layers: such as "25/25"; "0/25" is all on the CPU; None for a server.
    context_tokens: maximum length of prompt and reply, None if unknown.
    """

    name: str
    sha256: str | None
    gpu_layers: str | None
    context_tokens: int | None


OnTokens = Callable[[int, int], None]  # (tokens done, total or maximum number of tokens)
OnText = Callable[[str], None]  # the next piece of the first sample; joined, the pieces are its text


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The options of a call besides its prompt.

    cancellation: stops the call, from any thread. on_prompt: receives the number of prompt tokens read so far, beginning with
    those read by an earlier call. on_written: receives the number of tokens of the longest sample so far. on_text: receives the
    text of the first sample.
    """

    cancellation: Cancellation | None = None
    on_prompt: OnTokens | None = None
    on_written: OnTokens | None = None
    on_text: OnText | None = None


#: No progress, and stopped only by signals.
QUIET = CallOptions()

#: Returns the probability that the reply begins with each of some words, in any letter case, with or without a space.
ChoiceProbabilities = Callable[[Sequence[Message], Sequence[str], CallOptions], tuple[float, ...]]


class Generator(Protocol):
    """A language model, as the methods see it."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def choice_probabilities(self) -> ChoiceProbabilities | None:
        """See `ChoiceProbabilities`. None if the generator has no probabilities."""
        ...

    def generate(self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions = QUIET) -> Generations:
        """Draw `n` samples of the reply to `messages`. The prompt is read once; sample i depends on `n` only through rounding.

        Raises FbragError `prompt_too_long`, `out_of_memory`, `no_answer`, and the error of a requested cancellation.
        """
        ...

    def render_prompt(self, messages: Sequence[Message]) -> str:
        """Return the model's prompt for `messages`, including its own markers, as `explain --show-prompt` prints it."""
        ...

    def count_tokens(self, text: str, cancellation: Cancellation | None = None) -> int:
        """Return the number of tokens in `text`, without markers. Raises FbragError `server_failed`, and the error of a requested
        cancellation."""
        ...


class Scorer(Protocol):
    """A cross-encoder as the methods see it: it reads a question with a text, and returns one logit per label."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str:
        """Return hexadecimal digits that change whenever scores may change; part of the cache key of scores."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the columns of `scores`, from the model's file."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(labels))`, row i for texts[i].

        A logit has any sign and no unit; its sigmoid is the probability of the label. Columns have different spreads, so add
        probabilities, not logits. Without texts there are no rows. A text of any length is read completely.

        Raises FbragError `out_of_memory`, `model_corrupt`; the error of a requested cancellation.
        """
        ...

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1; similar questions have similar rows. Raises the same errors
        as `scores`."""
        ...
