"""The generator for GGUF files, through llama.cpp's low-level API: the prompt is read once, n samples are decoded in one batch.

A `LlamaGenerator` owns one model and one context. The last prompt stays in the context as sequence 0, and a call reads only what
its prompt does not share with that one. The samples are further sequences that share its cells.
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
from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.generation.generator import QUIET, Call, Finish, Generation, Generations, ModelInfo, OnText, Sampling, Turn
from fbrag_cli.generation.llama.chat_template import ChatTemplate, Markup, TemplateChild
from fbrag_cli.generation.llama.machine import WHERE_IT_FITS, Placement
from fbrag_cli.generation.llama.sequences import Sequences
from fbrag_cli.generation.llama.token_counter import TokenCounter
from fbrag_cli.generation.llama.weights import Weights
from fbrag_cli.generation.repetition import Repetition


@dataclass(slots=True)
class _Row:
    """One sample while it is decoded.

    position: of its next token. output: the row of the last batch's logits that this token is drawn from. token: the last token
    drawn. n_sent: how many characters of the text `on_text` has received.
    """

    sequence: int
    seed: int
    position: int
    sampler: Any
    output: int = -1
    token: int = -1
    n_tokens: int = 0
    n_sent: int = 0
    text: str = ""
    finish: Finish | None = None
    repetition: Repetition = field(default_factory=Repetition)
    decoder: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))


class LlamaGenerator:
    """The `Generator` for GGUF files. It runs one call at a time.

    name: None for the file's. sha256: of the file, where it is known. max_context: tokens, None for as many as the model was
    trained with. cancellation: stops the loading; a call has its own. The other parameters, and the errors raised, are those of
    `Weights`.

    threads: the most that are used. problems: what the user should know about the model, as sentences.
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
        with TemplateChild(cancellation) as child:  # it starts while the weights are loaded
            self._weights = Weights(path, placement=placement, threads=threads, cancellation=cancellation, verbose=verbose)
            self._model, self._vocab = self._weights.model, self._weights.vocab
            self._template = ChatTemplate(
                _decoded(llama_cpp.llama_model_chat_template(self._model, None)),
                bos=self._token_text(llama_cpp.llama_vocab_bos(self._vocab)),
                eos=self._token_text(llama_cpp.llama_vocab_eos(self._vocab)),
                child=child,
            )
        self.threads = self._weights.threads
        trained = max(llama_cpp.llama_model_n_ctx_train(self._model), 0)
        self.problems = (self._template.problem,) if self._template.problem else ()
        self._counter: TokenCounter | None = None
        n_layers = llama_cpp.llama_model_n_layer(self._model) + 1
        limit = min(trained, max_context) if max_context else trained
        self.info = ModelInfo(name or path.stem, sha256, f"{self._weights.layers_on_gpu}/{n_layers}", limit)
        self._sequences = Sequences(self._weights, self.info.name, limit)

    # -- the Generator protocol ------------------------------------------------------------------------------------------

    continues_turns = True
    takes_rows = False

    def written(self, turns: Sequence[Turn]) -> str:
        return "".join(segment.text for segment in self._template.prompt(turns).segments)

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call = QUIET) -> Generations:
        """Draw `n` samples of the reply to `turns`.

        Raises FbragError `prompt_too_long`, with both numbers, before any work; `out_of_memory`; the error of a cancellation,
        after which the generator can be used again.
        """
        tokens = self.tokenize(turns)
        n_prompt = len(tokens)
        started = perf_counter()
        # 1. Read the part of the prompt that the last call has not read.
        cached = self._read(tokens, n, sampling.max_tokens, call)
        prefilled = perf_counter()
        rows = [_Row(i, sampling.seed + i, n_prompt, _sampler(sampling, sampling.seed + i)) for i in range(n)]
        try:
            # 2. Every sample continues sequence 0; the prompt's cells are shared, not copied.
            for row in rows[1:]:
                self._sequences.copy(row.sequence)
            # 3. Draw a token for each live sample, then decode all of them in one batch. Finished samples leave the batch.
            live, n_written = rows, 0
            while live := self._draw(live, sampling, call.on_text):
                n_written += 1
                if call.on_written:
                    call.on_written(n_written, sampling.max_tokens)
                self._step(live)
        finally:
            for row in rows:
                llama_cpp.llama_sampler_free(row.sampler)
            self._sequences.cut(n_prompt)
        samples = tuple(map(_generation, rows))
        return Generations(samples, n_prompt, cached, prefilled - started, perf_counter() - prefilled)

    def choose(self, turns: Sequence[Turn], choices: Sequence[str], call: Call = QUIET) -> tuple[float, ...]:
        """Return the probability that the reply begins with each of `choices`. They sum to 1 at most; the rest is that of other
        words."""
        self._read(self.tokenize(turns), 1, 1, call)
        probabilities = _softmax(self._sequences.logits(-1))
        totals = []
        for choice in choices:
            spellings = {lead + form for lead in ("", " ") for form in (choice.lower(), choice.capitalize(), choice.upper())}
            first = {token for spelling in spellings for token in self._weights.tokens_of(spelling)[:1]}
            totals.append(float(sum(probabilities[token] for token in first)))
        return tuple(totals)

    def count_tokens(self, text: str) -> int:
        if self._counter is None:
            self._counter = TokenCounter(self._model, self._vocab, self._weights.tokens_of)
        return self._counter.count(text)

    def tokenize(self, turns: Sequence[Turn]) -> list[int]:
        """Return the token ids of the prompt. Only the template's own markup becomes special tokens, whatever a turn contains."""
        bos = llama_cpp.llama_vocab_bos(self._vocab)
        tokens = [bos] if llama_cpp.llama_vocab_get_add_bos(self._vocab) else []
        for segment in self._template.prompt(turns).segments:
            tokens += self._weights.tokens_of(segment.text, special=isinstance(segment, Markup))
        if tokens[:2] == [bos, bos]:
            del tokens[0]  # the template wrote the marker itself
        return tokens

    def close(self) -> None:
        """Free the context and the model. The generator cannot be used afterwards."""
        self._sequences.close()
        self._weights.close()

    def __enter__(self) -> LlamaGenerator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- steps of a call -------------------------------------------------------------------------------------------------

    def _read(self, tokens: list[int], n_rows: int, max_tokens: int, call: Call) -> int:
        """Make the prompt sequence 0 and compute the logits of its last token. Return how many of its tokens were there."""
        if not tokens:
            raise self._broken("has no tokens for the words of a prompt")
        self._weights.cancellation = call.cancellation or Cancellation()
        cached = self._sequences.prepare(tokens, n_rows, max_tokens, call.room)

        def report(done: int) -> None:
            if call.on_prompt:
                call.on_prompt(cached + done, len(tokens))

        if not self._weights.cancellation.requested:
            report(0)
        self._sequences.append(tokens[cached:], report)
        if not np.isfinite(self._sequences.logits(-1)).all():
            raise self._broken("computes what are no numbers (NaN)")
        return cached

    def _broken(self, what: str) -> FbragError:
        hint = "check the file (fbrag models verify), or use another model (fbrag models list --all)"
        return FbragError("model_corrupt", f"{self.info.name} {what}", hint)

    def _draw(self, live: list[_Row], sampling: Sampling, on_text: OnText | None) -> list[_Row]:
        """Draw a token for each row of `live`. Return the rows that are not finished."""
        unfinished: list[_Row] = []
        for row in live:
            token = self._sequences.sample(row.sampler, row.output)
            if llama_cpp.llama_vocab_is_eog(self._vocab, token):
                row.finish = "stop"
            else:
                self._extend(row, token, sampling)
            if row.finish is None:
                unfinished.append(row)
            # What may turn out to be a loop is not sent yet.
            n_certain = row.repetition.n_fresh if row.finish is None else len(row.text)
            if on_text and row.sequence == 0 and (piece := row.text[row.n_sent : n_certain]):
                row.n_sent += len(piece)
                on_text(piece)
        return unfinished

    def _extend(self, row: _Row, token: int, sampling: Sampling) -> None:
        row.token = token
        row.n_tokens += 1
        row.text += row.decoder.decode(self._piece(token))
        row.repetition.add(token, row.text)
        at = min((found for stop in sampling.stop if (found := row.text.find(stop)) >= 0), default=-1)
        if at >= 0:
            row.text, row.finish = row.text[:at], "stop"
        elif (end := row.repetition.loop()) is not None:
            row.text, row.finish = row.text[:end], "repeat"
        elif row.n_tokens >= sampling.max_tokens:
            row.finish = "length"

    def _step(self, live: list[_Row]) -> None:
        """Decode the tokens that `_draw` has drawn, in one batch."""
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
    llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_dist(seed & 0xFFFFFFFF))
    return chain


def _generation(row: _Row) -> Generation:
    assert row.finish
    text = row.text + (row.decoder.decode(b"", True) if row.finish == "length" else "")
    return Generation(text, row.n_tokens, row.finish, row.seed)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()  # type: ignore[no-any-return]


def _decoded(text: bytes | None) -> str | None:
    return text.decode("utf-8", "replace") if text else None
