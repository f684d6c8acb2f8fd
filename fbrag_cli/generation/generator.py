"""The `Generator` protocol, a language model as the methods see it, and the records that go in and come out.

This module knows nothing of documents, chunks or methods. Each generator turns `Message`s into the text that its model reads.
"""

from __future__ import annotations

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
    """Input embeddings in a prompt: each stands where a token could, and the model reads it as it reads a token's embedding.

    data: float32, one row after the other. width: length of a row, the model's `n_embd`. Raises ValueError for data that are not
    one whole row or more, or not finite.
    """

    data: bytes
    width: int

    def __post_init__(self) -> None:
        import numpy as np

        if not self.data or self.width < 1 or len(self.data) % (4 * self.width):
            raise ValueError(f"{len(self.data)} bytes are not rows of {self.width} numbers")
        if not np.isfinite(self.vectors).all():
            raise ValueError("an input embedding with a number that is not finite")

    @classmethod
    def of(cls, vectors: NDArray[np.float32]) -> InputEmbeddings:
        """Return the rows of an array `(n, width)`."""
        return cls(vectors.astype("<f4").tobytes(), vectors.shape[1])

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The rows: float32 `(n, width)`, not to be written to."""
        import numpy as np

        return np.frombuffer(self.data, "<f4").reshape(-1, self.width)

    @property
    def ids(self) -> tuple[int, ...]:
        """A negative number for each row, made of its bytes: it stands for the row where others are token ids."""
        step = 4 * self.width
        parts = (self.data[at : at + step] for at in range(0, len(self.data), step))
        return tuple(-1 - int.from_bytes(sha256(part).digest()[:8], "big") for part in parts)

    @property
    def placeholder(self) -> str:
        """A mark for each row, for people who read the prompt."""
        return "⟨row⟩" * (len(self.data) // (4 * self.width))


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat. The last message may be the assistant's: the beginning of a reply that the model continues.

    embeddings: input embeddings between the words, each with the number of characters of the text before it, in order.
    context_end: number of characters of the context at the text's beginning, which later prompts may begin with too; 0 for none.
    It changes nothing in what the model reads.
    """

    role: Role
    text: str
    embeddings: tuple[tuple[int, InputEmbeddings], ...] = ()
    context_end: int = field(default=0, compare=False)

    @classmethod
    def of(cls, role: Role, parts: Iterable[str | InputEmbeddings]) -> Message:
        """Return the message of words and input embeddings in their order."""
        text, rows = "", []
        for part in parts:
            if isinstance(part, InputEmbeddings):
                rows.append((len(text), part))
            else:
                text += part
        return cls(role, text, tuple(rows))

    @classmethod
    def about(cls, context: Iterable[str | InputEmbeddings], asked: str) -> Message:
        """Return the user's message of a context, and of what is asked about it."""
        message = cls.of("user", (*context, asked))
        return replace(message, context_end=len(message.text) - len(asked))

    @property
    def context(self) -> Message:
        """The message without what is asked about its context."""
        return Message(
            self.role, self.text[: self.context_end], tuple(each for each in self.embeddings if each[0] <= self.context_end)
        )

    @property
    def parts(self) -> tuple[str | InputEmbeddings, ...]:
        """The words, cut where input embeddings stand, and the rows."""
        parts: list[str | InputEmbeddings] = []
        done = 0
        for at, rows in self.embeddings:
            parts += [self.text[done:at], rows]
            done = at
        return tuple(part for part in (*parts, self.text[done:]) if part)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn.

    temperature: 0 takes the likeliest token. Above 0, a token is drawn from the `top_k` likeliest, and of these from the smallest
    set that holds `top_p` of the probability. seed: sample i uses `seed` + i. A sample ends at `max_tokens`, at the model's own
    end, or where the model repeats itself.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int = 50
    seed: int = 0


#: How a sample ended: by the model's own end, at `max_tokens`, or because the model repeated itself.
FinishReason = Literal["stop", "length", "repeat"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One sample.

    text: with finish "repeat" only the first period of the loop. n_tokens: number of all tokens that were drawn.
    reasoning_tokens: number of those of a thought, which is no part of the text.
    """

    text: str
    n_tokens: int
    finish: FinishReason
    seed: int
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Generations:
    """The samples of one call, and its cost.

    cached_tokens: number of the `prompt_tokens` that an earlier call has read. cached: whether the samples come from the cache.
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

    sha256: hex, None where it was not computed. gpu_layers: "25/25"; "0/25" is all on the CPU; None where a server runs
    it. context_tokens: the longest prompt with its reply, None where the generator does not know it.
    """

    name: str
    sha256: str | None
    gpu_layers: str | None
    context_tokens: int | None


OnTokens = Callable[[int, int], None]  # (tokens done, tokens in all or at most)
OnText = Callable[[str], None]  # the next piece of the first sample: the pieces, joined, are its text


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """What a call carries beside its prompt.

    cancellation: stops the call, from any thread. on_prompt: receives how much of the prompt is read, first what an earlier call
    has read. on_written: receives the tokens of the longest sample so far. on_text: receives the first sample.
    """

    cancellation: Cancellation | None = None
    on_prompt: OnTokens | None = None
    on_written: OnTokens | None = None
    on_text: OnText | None = None


#: A call without progress that only a signal stops.
QUIET = CallOptions()

#: The probability that the reply to the messages begins with each of some words, in any letter case, with or without a space.
ChoiceProbabilities = Callable[[Sequence[Message], Sequence[str], CallOptions], tuple[float, ...]]


class Generator(Protocol):
    """A language model, as the methods see it."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def choice_probabilities(self) -> ChoiceProbabilities | None:
        """See `ChoiceProbabilities`. None where the generator cannot give probabilities."""
        ...

    def generate(self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions = QUIET) -> Generations:
        """Draw `n` samples of the reply to `messages`. The prompt is read once; sample i depends on `n` through rounding at most.

        Raises FbragError `prompt_too_long`, `out_of_memory`, `no_answer`, and the error of a requested cancellation.
        """
        ...

    def render_prompt(self, messages: Sequence[Message]) -> str:
        """Return the prompt that the model reads for `messages`, its own markers included, as `explain --prompt` prints it."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without markers."""
        ...


class Scorer(Protocol):
    """A cross-encoder, as the methods see it: it reads a question with a text, and gives the text a logit for each label."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str:
        """Return hexadecimal digits that change whenever a score may change; part of the key of cached scores."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the columns of `scores`, as the model's file has them."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(texts), len(labels))`, row i for texts[i].

        A logit has any sign and no unit; its sigmoid is the probability of the label. Columns have different spreads, so
        that sums are taken of probabilities. No rows for no texts. A text of any length is read whole.

        Raises FbragError `out_of_memory`, `model_corrupt`; the error of a requested cancellation.
        """
        ...

    def embed(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 `(len(questions), d)`, each row of length 1: similar questions have similar rows. Raises as `scores`."""
        ...
