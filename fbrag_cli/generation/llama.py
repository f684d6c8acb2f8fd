"""llama.cpp through its low-level API: one prompt read once, n samples decoded in one batch.

A `LlamaGenerator` owns one model and the sequences of one context. The last prompt stays as sequence 0; a call reads only what
its prompt does not share with that one. Samples are further sequences over the same cells.
"""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from fbrag_cli.errors import FbragError
from fbrag_cli.generation import Generation, Generations, ModelInfo, OnText, OnTokens, Sampling
from fbrag_cli.generation.block_states import BlockStates
from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.generation.chat_template import ChatTemplate
from fbrag_cli.generation.machine import WHERE_IT_FITS, Placement
from fbrag_cli.generation.native_log import native_log
from fbrag_cli.generation.sequences import Sequences
from fbrag_cli.generation.token_counter import TokenCounter
from fbrag_cli.generation.weights import Weights
from fbrag_cli.prompts import Block, Markup, Prompt, Turn


@dataclass(slots=True)
class _Row:
    """One sample while it is decoded. output: the row of the last batch's logits that its next token is drawn from. token: the
    one that was drawn last."""

    sequence: int
    seed: int
    position: int
    sampler: Any
    output: int = -1
    token: int = -1
    n_tokens: int = 0
    text: str = ""
    finish: str | None = None
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))


class LlamaGenerator:
    """The `Generator` for GGUF files.

    sha256: of the file where it is known. max_context: tokens, None for the model's own length. The rest, and what is raised, as
    `Weights`. block_states: keeps what is made of the blocks of prompts; None for keeping nothing.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str | None = None,
        sha256: str | None = None,
        placement: Placement = WHERE_IT_FITS,
        threads: int | None = None,
        max_context: int | None = None,
        cancellation: Cancellation | None = None,
        verbose: bool = False,
    ) -> None:
        self.block_states: BlockStates | None = None
        self._weights = Weights(path, placement=placement, threads=threads, cancellation=cancellation, verbose=verbose)
        self.threads = self._weights.threads
        self._model, self._vocab = self._weights.model, self._weights.vocab
        trained = llama_cpp.llama_model_n_ctx_train(self._model)
        self._template = ChatTemplate(
            _decoded(llama_cpp.llama_model_chat_template(self._model, None)),
            bos=self._token_text(llama_cpp.llama_vocab_bos(self._vocab)),
            eos=self._token_text(llama_cpp.llama_vocab_eos(self._vocab)),
        )
        self.problems = (self._template.problem,) if self._template.problem else ()
        self._counter: TokenCounter | None = None
        n_layers = llama_cpp.llama_model_n_layer(self._model) + 1
        limit = min(trained, max_context) if max_context else trained
        self.info = ModelInfo(name or path.stem, sha256, f"{self._weights.layers_on_gpu}/{n_layers}", limit)
        self._sequences = Sequences(self._weights, self.info.name, limit)

    # -- the Generator protocol ------------------------------------------------------------------------------------------

    def prompt(self, turns: Sequence[Turn]) -> Prompt:
        return self._template.prompt(turns)

    def generate(
        self, prompt: Prompt, n: int, sampling: Sampling, *, on_prompt: OnTokens | None = None, on_text: OnText | None = None
    ) -> Generations:
        """Raises FbragError `prompt_too_long`, with both numbers, before any work; `out_of_memory`."""
        parts = self._parts(prompt)
        n_prompt = sum(map(len, parts))
        started = perf_counter()
        # 1. Read the prompt, or what the last call did not leave of it.
        read = self._read if len(parts) == 1 else self._read_blocks
        cached = read(parts, n, sampling.max_tokens, on_prompt)
        prefilled = perf_counter()
        rows = [_Row(i, sampling.seed + i, n_prompt, _sampler(sampling, sampling.seed + i)) for i in range(n)]
        try:
            # 2. Every sample continues sequence 0; the prompt's cells are shared, not copied.
            for row in rows[1:]:
                self._sequences.copy(0, row.sequence)
            # 3. Draw a token for each live sample, then decode all of them in one batch; who is finished leaves the batch.
            live = rows
            while live := self._draw(live, sampling, on_text):
                self._step(live)
        finally:
            for row in rows:
                llama_cpp.llama_sampler_free(row.sampler)
            self._sequences.forget(n_prompt)
        samples = tuple(map(_generation, rows))
        return Generations(samples, n_prompt, cached, prefilled - started, perf_counter() - prefilled)

    def choose(self, prompt: Prompt, choices: Sequence[str]) -> tuple[float, ...]:
        """The probabilities sum to 1 at most; the rest is the model saying something else."""
        self._read(self._parts(prompt), 1, 1, None)
        probabilities = _softmax(self._sequences.logits(-1))
        totals = []
        for choice in choices:
            spellings = {lead + form for lead in ("", " ") for form in (choice.lower(), choice.capitalize(), choice.upper())}
            first = {self._weights.tokens_of(spelling)[0] for spelling in spellings}
            totals.append(float(sum(probabilities[token] for token in first)))
        return tuple(totals)

    def count_tokens(self, text: str) -> int:
        if self._counter is None:
            self._counter = TokenCounter(self._model, self._vocab, self._weights.tokens_of)
        return self._counter.count(text)

    def tokenize(self, prompt: Prompt) -> list[int]:
        """Token ids: markup with the model's special tokens, text without, whatever it contains."""
        return [token for part in self._parts(prompt) for token in part]

    def _parts(self, prompt: Prompt) -> list[list[int]]:
        """The tokens before the first block, those of each block, those after the last; of a prompt without blocks all."""
        parts: list[list[int]] = [[]]
        if llama_cpp.llama_vocab_get_add_bos(self._vocab):
            parts[0].append(llama_cpp.llama_vocab_bos(self._vocab))
        inside = False
        for segment in prompt.segments:
            if inside != isinstance(segment, Block) or isinstance(segment, Block):
                parts.append([])
            inside = isinstance(segment, Block)
            parts[-1] += self._weights.tokens_of(segment.text, special=isinstance(segment, Markup))
        first = parts[0]
        if len(first) > 1 and first[0] == first[1] == llama_cpp.llama_vocab_bos(self._vocab):
            del first[0]  # the template wrote the marker itself
        return parts

    def close(self) -> None:
        """Free the context and the model. The generator cannot be used after."""
        self._sequences.close()
        self._weights.close()

    def __enter__(self) -> LlamaGenerator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- steps of a call -------------------------------------------------------------------------------------------------

    def _read(self, parts: Sequence[list[int]], n_rows: int, max_tokens: int, on_prompt: OnTokens | None) -> int:
        """Make a prompt sequence 0, its last logits at hand. How many of its tokens were there already."""
        tokens = [token for part in parts for token in part]
        self._sequences.reserve(len(tokens), n_rows, max_tokens)
        cached = self._keep(tokens[:-1])

        def tell(done: int) -> None:
            if on_prompt:
                on_prompt(cached + done, len(tokens))

        self._sequences.append(tokens[cached:], cached, want_logits=True, on_batch=tell)
        return cached

    def _read_blocks(
        self, parts: Sequence[list[int]], n_rows: int, max_tokens: int, on_prompt: OnTokens | None, *, kept: bool = True
    ) -> int:
        """As `_read`, but each block is read after the prompt's beginning, without the other blocks, or what was made of it is
        taken from `block_states`; then it is moved to its place."""
        first, *blocks, last = parts
        total, work, sequences = sum(map(len, parts)), n_rows, self._sequences
        sequences.reserve(total, n_rows, max_tokens, spare_rows=1)
        if not sequences.can_shift:
            return self._read(parts, n_rows, max_tokens, on_prompt)
        # 1. The beginning, as sequence 0.
        cached = done = self._keep(first)
        sequences.append(first[cached:], cached)
        # 2. What the model makes of each block after it.
        states = []
        for block in blocks:
            state = self.block_states.get(sequences.layout, first, block) if self.block_states and kept else None
            if state is not None:
                cached += len(block)
            else:
                state = self._state_of_block(block, len(first), work)
                if self.block_states:
                    self.block_states.put(sequences.layout, first, block, state)
            states.append(state)
            if on_prompt:
                on_prompt(done := done + len(block), total)
        # 3. All of them one after the other, and the end.
        at = len(first)
        for block, state in zip(blocks, states, strict=True):
            if not sequences.put_state(work, state):
                return self._read_again(parts, n_rows, max_tokens, on_prompt, kept)
            sequences.shift(work, len(first), at - len(first))
            sequences.copy(work, 0)
            sequences.clear(work)
            at += len(block)
        sequences.append(last, at, want_logits=True)
        return cached

    def _read_again(
        self, parts: Sequence[list[int]], n_rows: int, max_tokens: int, on_prompt: OnTokens | None, kept: bool
    ) -> int:
        """After a state that llama.cpp did not take: those that were kept are made anew."""
        layout = self._sequences.layout
        self._sequences.close()
        if not kept:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp does not take the state of a chunk: {native_log.last_error()}",
                "ask without --prefill chunks",
            )
        if self.block_states:
            for block in parts[1:-1]:
                self.block_states.discard(layout, parts[0], block)
        return self._read_blocks(parts, n_rows, max_tokens, on_prompt, kept=False)

    def _state_of_block(self, block: Sequence[int], position: int, work: int) -> bytes:
        """What the model makes of a block after the first `position` tokens of sequence 0. `work` is empty before and after."""
        sequences = self._sequences
        sequences.copy(0, work)
        sequences.append(block, position, work)
        sequences.clear(work, position)  # what stands before is sequence 0's
        state = sequences.state(work)
        sequences.clear(work)
        return state

    def _keep(self, tokens: Sequence[int]) -> int:
        """Forget all but what the last call left of the beginning of `tokens`, and how long that is."""
        n = _common_prefix(self._sequences.held, tokens)
        self._sequences.forget(n)
        return min(n, len(self._sequences.held))

    def _draw(self, live: list[_Row], sampling: Sampling, on_text: OnText | None) -> list[_Row]:
        """One token for each row of `live`; those that go on."""
        going_on: list[_Row] = []
        for row in live:
            token = self._sequences.sample(row.sampler, row.output)
            if llama_cpp.llama_vocab_is_eog(self._vocab, token):
                row.finish = "stop"
            else:
                row.n_tokens += 1
                self._extend(row, self._piece(token), sampling)
            if row.finish is None:
                row.token = token
                going_on.append(row)
            if on_text and row.sequence == 0:
                on_text(row.text)
        return going_on

    def _extend(self, row: _Row, piece: bytes, sampling: Sampling) -> None:
        row.text += row.decoder.decode(piece)
        at = min((found for stop in sampling.stop if (found := row.text.find(stop)) >= 0), default=-1)
        if at >= 0:
            row.text, row.finish = row.text[:at], "stop"
        elif row.n_tokens >= sampling.max_tokens:
            row.finish = "length"

    def _step(self, live: list[_Row]) -> None:
        """Decode what `_draw` has drawn."""
        self._sequences.step([(row.token, row.position, row.sequence) for row in live])
        for output, row in enumerate(live):
            row.output = output
            row.position += 1

    # -- tokens ----------------------------------------------------------------------------------------------------------

    def _piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        return buffer.raw[:n]

    def _token_text(self, token: int) -> str:
        return "" if token < 0 else _decoded(llama_cpp.llama_vocab_get_text(self._vocab, token)) or ""


def _sampler(sampling: Sampling, seed: int) -> Any:
    """Top-k, temperature, top-p and a draw with the sample's own seed, in the order of the transformers library."""
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    if sampling.temperature <= 0:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_greedy())
        return chain
    if sampling.top_k > 0:
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_k(sampling.top_k))
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_temp(sampling.temperature))
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1))
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_dist(seed & 0xFFFFFFFF))
    return chain


def _generation(row: _Row) -> Generation:
    text = row.text + (row.decoder.decode(b"", True) if row.finish == "length" else "")
    finish: Any = row.finish
    return Generation(text, row.n_tokens, finish, row.seed)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()  # type: ignore[no-any-return]


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    for i, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return i
    return min(len(left), len(right))


def _decoded(text: bytes | None) -> str | None:
    return text.decode("utf-8", "replace") if text else None
