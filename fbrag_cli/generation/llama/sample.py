"""One sample while it is decoded: its sampler, its text so far, and where it ends."""

from __future__ import annotations

import codecs
import ctypes
from dataclasses import dataclass, field
from typing import Any

import llama_cpp

from fbrag_cli.generation.generator import Finish, Generation, Sampling
from fbrag_cli.generation.repetition import Repetition


@dataclass(slots=True, eq=False)
class Sample:
    """A sample of a prompt.

    position: place of its next token in the sequence. output: index of the token in the last batch from whose logits the next one
    is drawn. token: the last token drawn. n_sent: number of characters of the text that `on_text` has received.
    """

    sampling: Sampling
    seed: int
    sequence: int
    position: int
    output: int
    sampler: Any
    token: int = -1
    n_tokens: int = 0
    n_sent: int = 0
    text: str = ""
    finish: Finish | None = None
    repetition: Repetition = field(default_factory=Repetition)
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    @classmethod
    def of(cls, sampling: Sampling, i: int, sequence: int, position: int, output: int) -> Sample:
        """Return sample `i` of a prompt of `position` tokens. Free it at its end."""
        seed = sampling.seed + i
        return cls(sampling, seed, sequence, position, output, _sampler(sampling, seed))

    def add(self, token: int, vocab: Any) -> None:
        """Take the token that was drawn, and end the sample where it ends by that."""
        if llama_cpp.llama_vocab_is_eog(vocab, token):
            self.finish = "stop"
            return
        self.token = token
        self.n_tokens += 1
        self.text += self.decoder.decode(piece_of(vocab, token))
        self.repetition.add(token, self.text)
        if (end := self.repetition.loop()) is not None:
            self.text, self.finish = self.text[:end], "repeat"
        elif self.n_tokens >= self.sampling.max_tokens:
            self.text += self.decoder.decode(b"", True)  # the rest of a character that the limit has cut
            self.finish = "length"

    def next_piece(self) -> str:
        """Return the text that was not sent yet. What may turn out to be a loop waits."""
        n_certain = self.repetition.n_fresh if self.finish is None else len(self.text)
        piece = self.text[self.n_sent : n_certain]
        self.n_sent += len(piece)
        return piece

    def generation(self) -> Generation:
        """Return the finished sample."""
        assert self.finish
        return Generation(self.text, self.n_tokens, self.finish, self.seed)

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
    library."""
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    if sampling.temperature <= 0:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_greedy())
        return chain
    if sampling.top_k > 0:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_k(sampling.top_k))
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_temp(sampling.temperature))
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1))
    seed %= llama_cpp.LLAMA_DEFAULT_SEED  # for which llama.cpp draws another one
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_dist(seed))
    return chain
