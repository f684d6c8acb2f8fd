"""llama.cpp through its low-level API: one prompt read once, n samples decoded in one batch.

A `LlamaGenerator` owns one model and one context. The context holds the last prompt as sequence 0; a call reads only what its
prompt does not share with that one. Samples are further sequences over the same cells of the unified KV memory.
"""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Callable, Sequence
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
from fbrag_cli.generation.machine import free_gpu_memory, free_memory
from fbrag_cli.generation.native_log import native_log
from fbrag_cli.generation.token_counter import TokenCounter
from fbrag_cli.generation.weights import Weights
from fbrag_cli.prompts import Block, Markup, Prompt, Turn

_BATCH = 512  # tokens a llama_decode of the prompt
_SPARE = 256  # cells beyond what a call needs, so that a follow-up on the same prompt finds room


@dataclass(slots=True)
class _Row:
    """One sample while it is decoded. `output` is the row of the last batch's logits that its next token is drawn from."""

    sequence: int
    seed: int
    position: int
    sampler: Any
    output: int = -1
    n_tokens: int = 0
    n_drawn: int = 0
    logprob: float = 0.0
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
        gpu_layers: int | None = None,
        threads: int | None = None,
        max_context: int | None = None,
        cancellation: Cancellation | None = None,
        verbose: bool = False,
    ) -> None:
        self.block_states: BlockStates | None = None
        self._context: Any = None
        self._cached: list[int] = []  # the tokens of sequence 0
        self._n_ctx = self._n_rows = 0
        self._weights = Weights(path, gpu_layers=gpu_layers, threads=threads, cancellation=cancellation, verbose=verbose)
        self.threads = self._weights.threads
        self._model, self._vocab = self._weights.model, self._weights.vocab
        self._n_vocab = llama_cpp.llama_vocab_n_tokens(self._vocab)
        trained = llama_cpp.llama_model_n_ctx_train(self._model)
        self._limit = min(trained, max_context) if max_context else trained
        self._template = ChatTemplate(
            _decoded(llama_cpp.llama_model_chat_template(self._model, None)),
            bos=self._token_text(llama_cpp.llama_vocab_bos(self._vocab)),
            eos=self._token_text(llama_cpp.llama_vocab_eos(self._vocab)),
        )
        self.problems = (self._template.problem,) if self._template.problem else ()
        self._counter: TokenCounter | None = None
        n_layers = llama_cpp.llama_model_n_layer(self._model) + 1
        self.info = ModelInfo(name or path.stem, sha256, f"{self._weights.layers_on_gpu}/{n_layers}", self._limit)

    # -- the Generator protocol ------------------------------------------------------------------------------------------

    def prompt(self, turns: Sequence[Turn]) -> Prompt:
        return self._template.prompt(turns)

    def generate(
        self, prompt: Prompt, n: int, sampling: Sampling, *, on_prompt: OnTokens | None = None, on_text: OnText | None = None
    ) -> Generations:
        """Raises FbragError `prompt_too_long`, with both numbers, before any work; `out_of_memory`."""
        parts = self._parts(prompt)
        tokens = [token for part in parts for token in part]
        started = perf_counter()
        # 1. Read the prompt, or what the last call did not leave of it.
        if len(parts) == 1:
            cached = self._read(tokens, n, sampling.max_tokens, on_prompt)
        else:
            cached = self._read_blocks(parts, n, sampling.max_tokens, on_prompt)
        prefilled = perf_counter()
        rows = [_Row(i, sampling.seed + i, len(tokens), _sampler(sampling, sampling.seed + i)) for i in range(n)]
        try:
            # 2. Every sample continues sequence 0; the prompt's cells are shared, not copied.
            memory = llama_cpp.llama_get_memory(self._context)
            for row in rows[1:]:
                llama_cpp.llama_memory_seq_cp(memory, 0, row.sequence, -1, -1)
            # 3. Draw a token for each live sample, then decode all of them in one batch; who is finished leaves the batch.
            live = rows
            while live := self._draw(live, sampling, on_text):
                self._step(live)
        finally:
            for row in rows:
                llama_cpp.llama_sampler_free(row.sampler)
            self._forget(len(tokens))
        samples = tuple(map(_generation, rows))
        return Generations(samples, len(tokens), cached, prefilled - started, perf_counter() - prefilled)

    def choose(self, prompt: Prompt, choices: Sequence[str]) -> tuple[float, ...]:
        """The probabilities sum to 1 at most; the rest is the model saying something else."""
        tokens = self.tokenize(prompt)
        self._read(tokens, 1, 1, None)
        probabilities = _softmax(self._logits(-1))
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
        self._free_context()
        self._weights.close()

    def __enter__(self) -> LlamaGenerator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- model and context -----------------------------------------------------------------------------------------------

    def _make_context(self, n_ctx: int, n_rows: int) -> None:
        """A context of `n_ctx` cells for up to `n_rows` sequences; the old one, and what it held, is gone."""
        self._free_context()
        need, free = self._kv_bytes(n_ctx), free_memory() + (free_gpu_memory() if self._weights.layers_on_gpu else 0)
        if need > free:
            raise FbragError(
                "out_of_memory",
                f"a prompt of {n_ctx} tokens needs {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free",
                "use fewer chunks (--recall, --select) or a smaller model",
            )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = params.n_ubatch = _BATCH
        params.n_seq_max = params.n_outputs_max = n_rows
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self._context = self._weights.context(params)
        if not self._context:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp made no context of {n_ctx} tokens: {native_log.last_error()}",
                "use fewer chunks (--recall, --select) or a smaller model",
            )
        self._n_ctx, self._n_rows = n_ctx, n_rows
        self._batch = llama_cpp.llama_batch_init(_BATCH, 0, 1)

    def _free_context(self) -> None:
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None
        self._cached = []
        self._n_ctx = 0

    def _kv_bytes(self, n_ctx: int) -> int:
        heads = llama_cpp.llama_model_n_head(self._model)
        width = llama_cpp.llama_model_n_embd(self._model) // max(heads, 1) * llama_cpp.llama_model_n_head_kv(self._model)
        return int(2 * 2 * n_ctx * width * llama_cpp.llama_model_n_layer(self._model))  # keys and values, two bytes each

    # -- steps of a call -------------------------------------------------------------------------------------------------

    def _read(self, tokens: list[int], n_rows: int, max_tokens: int, on_prompt: OnTokens | None) -> int:
        """Make `tokens` sequence 0, its last logits at hand. How many of them were there already."""
        self._reserve(len(tokens), n_rows, max_tokens)
        self._forget(_common_prefix(self._cached, tokens[:-1]))
        cached = len(self._cached)

        def tell(done: int) -> None:
            self._cached = tokens[: cached + done]
            if on_prompt:
                on_prompt(cached + done, len(tokens))

        self._append(tokens[cached:], cached, 0, want_logits=True, on_batch=tell)
        return cached

    def _read_blocks(
        self, parts: Sequence[list[int]], n_rows: int, max_tokens: int, on_prompt: OnTokens | None, *, kept: bool = True
    ) -> int:
        """As `_read`, but each block is read after the prompt's beginning, without the other blocks, or what was made of it is
        taken from `block_states`; then it is moved to its place."""
        first, *blocks, last = parts
        total, work = sum(map(len, parts)), n_rows
        self._reserve(total, n_rows + 1, max_tokens)
        memory = llama_cpp.llama_get_memory(self._context)
        if not llama_cpp.llama_memory_can_shift(memory):
            return self._read([token for part in parts for token in part], n_rows, max_tokens, on_prompt)
        # 1. The beginning, as sequence 0.
        self._forget(_common_prefix(self._cached, first))
        cached = done = len(self._cached)
        self._append(first[cached:], cached, 0, want_logits=False)
        self._cached = list(first)  # what follows is no exact reading of its tokens
        # 2. What the model makes of each block after it.
        states = []
        for block in blocks:
            state = self.block_states.get(first, block) if self.block_states and kept else None
            if state is not None:
                cached += len(block)
            else:
                state = self._state_of_block(block, len(first), work)
                if self.block_states:
                    self.block_states.put(first, block, state)
            states.append(state)
            if on_prompt:
                on_prompt(done := done + len(block), total)
        # 3. All of them one after the other, and the end.
        at = len(first)
        for block, state in zip(blocks, states, strict=True):
            buffer = (ctypes.c_ubyte * len(state)).from_buffer_copy(state)
            if not llama_cpp.llama_state_seq_set_data(self._context, buffer, len(state), work):
                return self._read_again(parts, n_rows, max_tokens, on_prompt, kept)
            llama_cpp.llama_memory_seq_add(memory, work, len(first), -1, at - len(first))
            llama_cpp.llama_memory_seq_cp(memory, work, 0, -1, -1)
            llama_cpp.llama_memory_seq_rm(memory, work, -1, -1)
            at += len(block)
        self._append(last, at, 0, want_logits=True)
        return cached

    def _read_again(
        self, parts: Sequence[list[int]], n_rows: int, max_tokens: int, on_prompt: OnTokens | None, kept: bool
    ) -> int:
        """After a state that llama.cpp did not take: those that were kept are made anew."""
        self._free_context()
        if not kept:
            raise FbragError(
                "out_of_memory",
                f"llama.cpp does not take the state of a chunk: {native_log.last_error()}",
                "ask without --prefill chunks",
            )
        if self.block_states:
            for block in parts[1:-1]:
                self.block_states.discard(parts[0], block)
        return self._read_blocks(parts, n_rows, max_tokens, on_prompt, kept=False)

    def _state_of_block(self, block: Sequence[int], position: int, work: int) -> bytes:
        """What the model makes of a block after the first `position` tokens of sequence 0. `work` is empty before and after."""
        memory = llama_cpp.llama_get_memory(self._context)
        llama_cpp.llama_memory_seq_cp(memory, 0, work, -1, -1)
        self._append(block, position, work, want_logits=False)
        llama_cpp.llama_memory_seq_rm(memory, work, 0, position)  # what stands before is sequence 0's
        size = llama_cpp.llama_state_seq_get_size(self._context, work)
        buffer = (ctypes.c_ubyte * size)()
        n = llama_cpp.llama_state_seq_get_data(self._context, buffer, size, work)
        llama_cpp.llama_memory_seq_rm(memory, work, -1, -1)
        return bytes(memoryview(buffer)[:n])

    def _reserve(self, n_tokens: int, n_rows: int, max_tokens: int) -> None:
        """A context with room for a prompt and its samples."""
        need = n_tokens + n_rows * max_tokens
        if need > self._limit:
            raise FbragError(
                "prompt_too_long",
                f"the prompt of {n_tokens} tokens and {n_rows} x {max_tokens} for the reply need {need}, "
                f"and {self.info.name} can take {self._limit}",
                "use fewer chunks (--recall, --select), fewer samples, or a model with a longer context",
            )
        if self._context is None or need > self._n_ctx or n_rows > self._n_rows:
            self._make_context(min(-(-(need + _SPARE) // 256) * 256, max(self._limit, 256)), max(n_rows, self._n_rows))

    def _append(
        self,
        tokens: Sequence[int],
        position: int,
        sequence: int,
        *,
        want_logits: bool,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        """Append to a sequence, batch by batch. want_logits: of the last token. on_batch: hears how many are done."""
        for start in range(0, len(tokens), _BATCH):
            piece = tokens[start : start + _BATCH]
            for i, token in enumerate(piece):
                is_last = start + i == len(tokens) - 1
                self._put(i, token, position + start + i, sequence, want_logits=want_logits and is_last)
            self._decode(len(piece))
            if on_batch:
                on_batch(start + len(piece))

    def _draw(self, live: list[_Row], sampling: Sampling, on_text: OnText | None) -> list[_Row]:
        """One token for each row of `live`; those that go on."""
        going_on: list[_Row] = []
        for row in live:
            token = llama_cpp.llama_sampler_sample(row.sampler, self._context, row.output)
            row.n_drawn += 1
            row.logprob += _logprob(self._logits(row.output), token)
            if llama_cpp.llama_vocab_is_eog(self._vocab, token):
                row.finish = "stop"
            else:
                row.n_tokens += 1
                self._extend(row, self._piece(token), sampling)
            if row.finish is None:
                self._put(len(going_on), token, row.position, row.sequence, want_logits=True)
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
        """Decode the batch that `_draw` has filled."""
        self._decode(len(live))
        for output, row in enumerate(live):
            row.output = output
            row.position += 1

    def _put(self, i: int, token: int, position: int, sequence: int, *, want_logits: bool) -> None:
        batch = self._batch
        batch.token[i] = token
        batch.pos[i] = position
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = sequence
        batch.logits[i] = want_logits

    def _decode(self, n_tokens: int) -> None:
        self._batch.n_tokens = n_tokens
        try:
            status = self._weights.decode(self._context, self._batch)
        except BaseException:
            self._free_context()  # the memory holds part of a batch: nothing in it can be trusted
            raise
        if status != 0:
            self._free_context()
            raise FbragError(
                "out_of_memory",
                f"llama.cpp stopped at a batch of {n_tokens} tokens (status {status}): {native_log.last_error()}",
                "use fewer chunks (--recall, --select) or a smaller model",
            )

    def _forget(self, position: int) -> None:
        """Keep the first `position` tokens of sequence 0, and no other sequence."""
        if self._context is None:
            return
        memory = llama_cpp.llama_get_memory(self._context)
        for sequence in range(1, self._n_rows):
            llama_cpp.llama_memory_seq_rm(memory, sequence, -1, -1)
        if llama_cpp.llama_memory_seq_rm(memory, 0, position, -1):
            del self._cached[position:]
        else:  # a model with a recurrent state cannot go back
            llama_cpp.llama_memory_clear(memory, True)
            self._cached = []

    def _logits(self, output: int) -> NDArray[np.float32]:
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self._context, output), (self._n_vocab,))

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
    return Generation(text, row.n_tokens, finish, row.seed, row.logprob / row.n_drawn)


def _logprob(logits: NDArray[np.float32], token: int) -> float:
    most = logits.max()
    return float(logits[token] - most - np.log(np.exp(logits - most).sum()))


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
