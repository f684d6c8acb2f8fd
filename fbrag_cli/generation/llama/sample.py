"""A sample while it is decoded: its sampler, its text so far, and its end."""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fbrag_cli.generation.generator import FinishReason, Generation, Sampling, geometric_mean
from fbrag_cli.generation.llama.machine import llama_cpp
from fbrag_cli.generation.reasoning import ReasoningParser, ReasoningTags
from fbrag_cli.generation.repetition import Repetition


@dataclass(frozen=True, slots=True)
class Reasoning:
    """How the samples of a call may reason before they answer.

    marks: the model's reasoning tags, None if it has none. tokens: a character for each token that is a tag or a part of one; it
    represents the token in `marks`, so that the same letters in other tokens are not a tag. texts: the text of these characters
    in an answer. end: token ids that end the reasoning. extra_tokens: number of reasoning tokens in addition to those of the
    answer.
    """

    marks: ReasoningTags | None = None
    tokens: Mapping[int, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    end: tuple[int, ...] = ()
    extra_tokens: int = 0


NO_REASONING = Reasoning()


@dataclass(slots=True, eq=False)
class Sample:
    """A sample of a prompt.

    position: place of its next token in the sequence. output: index of the token in the last batch from whose logits the next one
    is drawn. sampler: None if the likeliest token is taken. token: the last token drawn. n_tokens: number of all tokens,
    reasoning and its forced end included. n_sent: number of characters of the text that `on_text` has received. logprobs: natural
    logarithms of the probabilities of the text's tokens; none of tokens that a sampler draws.
    """

    sampling: Sampling
    seed: int
    sequence: int
    position: int
    output: int
    sampler: Any
    thinking: Reasoning = NO_REASONING
    token: int = -1
    n_tokens: int = 0
    n_sent: int = 0
    text: str = ""
    logprobs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    thoughts: ReasoningParser = field(init=False)
    repetition: Repetition = field(default_factory=Repetition)
    _forced: list[int] = field(default_factory=list)  # the remaining tokens that end the reasoning
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def __post_init__(self) -> None:
        self.thoughts = ReasoningParser((self.thinking.marks,) if self.thinking.marks else ())

    @classmethod
    def of(
        cls, sampling: Sampling, i: int, sequence: int, position: int, output: int, thinking: Reasoning = NO_REASONING
    ) -> Sample:
        """Return sample `i` of a prompt of `position` tokens. Free it at its end."""
        seed = sampling.seed + i
        return cls(sampling, seed, sequence, position, output, _sampler(sampling, seed), thinking)

    def forced(self) -> int | None:
        """Return the next token that ends the reasoning at its limit; None if the next token must be drawn."""
        return self._forced.pop(0) if self._forced else None

    def add(self, token: int, vocab: Any, logprob: float | None = None) -> None:
        """Append the next token. It may end the sample or its reasoning. logprob: None if it is unknown."""
        if llama_cpp.llama_vocab_is_eog(vocab, token):
            if not (self.thoughts.inside and self.thinking.end):
                self.text += self._plain(self.thoughts.end())
                self.finish = "stop"
                return
            token, *self._forced = self.thinking.end  # the model stops while reasoning: make it answer
        self.token = token
        self.n_tokens += 1
        mark = self.thinking.tokens.get(token, "")
        # An incomplete character belongs to the text before a tag.
        piece = self.decoder.decode(b"" if mark else piece_of(vocab, token), bool(mark)) + mark
        said = self.thoughts.add(piece)
        if said:
            self.text += self._plain(said)
            self.repetition.add(token, self.text)
        if logprob is not None:
            self.logprobs.append(logprob)
        if (mark or self.thoughts.inside or piece.isspace()) and not self.text.strip():
            self.logprobs.clear()  # the answer has not begun
        n_thought, limit = self.thoughts.n_pieces, self.sampling.max_tokens
        if said and (end := self.repetition.loop()) is not None:
            self.text, self.finish = self.text[:end], "repeat"
        elif self.n_tokens - n_thought >= limit or self.n_tokens >= limit + self.thinking.extra_tokens:
            # Text that might have become a tag, and the rest of a character cut by the limit.
            self.text += self._plain(self.thoughts.end() + self.decoder.decode(b"", True))
            self.finish = "length"
        elif self.thoughts.inside and n_thought + len(self.thinking.end) >= (self.thinking.extra_tokens or limit // 2):
            self._forced = self._forced or list(self.thinking.end)

    def next_piece(self) -> str:
        """Return the text that was not sent yet. Text that may turn out to be a loop is held back."""
        n_certain = self.repetition.n_fresh if self.finish is None else len(self.text)
        piece = self.text[self.n_sent : n_certain]
        self.n_sent += len(piece)
        return piece

    def generation(self) -> Generation:
        """Return the finished sample."""
        assert self.finish
        logprobs = self.logprobs if self.finish != "repeat" else ()
        return Generation(self.text, self.n_tokens, self.finish, self.seed, self.thoughts.n_pieces, geometric_mean(logprobs))

    def _plain(self, text: str) -> str:
        """Return a text with the characters of tags replaced by the tags' text."""
        for character, written in self.thinking.texts.items():
            text = text.replace(character, written)
        return text

    def free(self) -> None:
        """Free the sampler."""
        if self.sampler is not None:
            llama_cpp.llama_sampler_free(self.sampler)
            self.sampler = None


def piece_of(vocab: Any, token: int) -> bytes:
    """Return the bytes of a token's text."""
    buffer = ctypes.create_string_buffer(64)
    n = llama_cpp.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
    if n < 0:
        buffer = ctypes.create_string_buffer(-n)
        n = llama_cpp.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
    return buffer.raw[:n]


def _sampler(sampling: Sampling, seed: int) -> Any:
    """Return a sampler chain: top-k, temperature, top-p and a draw with the sample's own seed, in the order of the transformers
    library. None at a temperature of 0."""
    if sampling.temperature <= 0:
        return None
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    if sampling.top_k > 0:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_k(sampling.top_k))
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_temp(sampling.temperature))
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1))
    seed %= llama_cpp.LLAMA_DEFAULT_SEED  # llama.cpp would replace this seed with a random one
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_dist(seed))
    return chain
