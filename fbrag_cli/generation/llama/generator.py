"""The generator for GGUF files, through llama.cpp's low-level API: the prompt is read once, and n samples are decoded in one
batch.

A `LlamaGenerator` owns one model and one context. Prompts of earlier calls stay in the context, so a call reads only the part of
its prompt that it does not share with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.generator import QUIET, Blend, CallOptions, Generations, InputEmbeddings, Message, ModelInfo, Sampling
from fbrag_cli.generation.llama.chat_template import ChatTemplate, Markup, Segment
from fbrag_cli.generation.llama.input_embeddings import check_input_embeddings, takes_input_embeddings
from fbrag_cli.generation.llama.kv_cache import PromptCache, PromptRequest, common_prefix
from fbrag_cli.generation.llama.machine import corrupt, llama_cpp
from fbrag_cli.generation.llama.sample import NO_REASONING, Reasoning, piece_of
from fbrag_cli.generation.llama.scheduler import NoNumbersError, Request, Scheduler
from fbrag_cli.generation.llama.token_counter import TokenCounter
from fbrag_cli.generation.llama.weights import BY_DEFAULT, Loading, TokenTable, Weights
from fbrag_cli.generation.reasoning import MOST_TOKENS, ReasoningTags, check_answered, tags_named

_IN_ANY_TEXT = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
_OF_MARKS = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | _IN_ANY_TEXT
_FIRST_CHARACTER = 0xD800  # a surrogate, which decoded text cannot contain


class LlamaGenerator:
    """The `Generator` for GGUF files. It is thread-safe: up to `at_once` calls run at the same time, others wait.

    max_context: maximum tokens of prompt and reply, None for the length that the model was trained with. Raises the errors of
    `Weights`.

    path: the file. threads: number of CPU threads. problems: warnings about the model.
    """

    def __init__(self, path: Path, loading: Loading = BY_DEFAULT, *, max_context: int | None = None) -> None:
        self._weights = Weights(path, loading)
        self._model, self._vocab = self._weights.model, self._weights.vocab
        self._counter: TokenCounter | None = None
        try:
            self._template = ChatTemplate(
                _decoded(llama_cpp.llama_model_chat_template(self._model, None)),
                path.name,
                bos=self._token_text(llama_cpp.llama_vocab_bos(self._vocab)),
                eos=self._token_text(llama_cpp.llama_vocab_eos(self._vocab)),
            )
        except BaseException:
            self._weights.close()
            raise
        self.path, self.threads = path, self._weights.threads
        trained = max(llama_cpp.llama_model_n_ctx_train(self._model), 0)
        self.problems = (self._template.problem,) if self._template.problem else ()
        n_layers = llama_cpp.llama_model_n_layer(self._model) + 1
        limit = min(trained, max_context) if max_context else trained
        self.info = ModelInfo(loading.name or path.stem, loading.sha256, f"{self._weights.layers_on_gpu}/{n_layers}", limit)
        self._prompts = PromptCache(self._weights, self.info.name, limit)
        self._scheduler = Scheduler(self._weights, self._prompts)
        # The tags of the model's reasoning: from its template, or <think> if its vocabulary has a token for it.
        marks = self._template.reasoning_tags or (
            tags_named("think") if len(self._weights.tokens_of("<think>", special=True)) == 1 else None
        )
        self._thinking = self._spelled(marks) if marks else NO_REASONING
        self._thought = self._weights.tokens_of(marks.empty, special=True) if marks else []
        # llama.cpp parses tokens of this kind, such as Qwen's <think>, in any text, so words of a message are split after their
        # first letter.
        read = [self._token_text(token) for token in self._thinking.tokens if self._attributes(token) & _IN_ANY_TEXT]
        within = [f"(?<={re.escape(each[0])})(?={re.escape(each[1:])})" for each in read if each[1:]]
        self._within_mark = re.compile("|".join(within)) if within else None

    # -- the Generator protocol ------------------------------------------------------------------------------------------

    @property
    def takes_input_embeddings(self) -> bool:
        return takes_input_embeddings(self._weights)

    def add_adapter(self, path: Path) -> None:
        """Add a LoRA GGUF file to the model, before the first prompt. Raises FbragError `model_corrupt` for another file."""
        self._weights.add_adapter(path)

    def render_prompt(self, messages: Sequence[Message]) -> str:
        """Return the prompt as text, with "⟨row⟩" for each input embedding."""
        segments = self._template.segments(self._blended(messages))
        return "".join(each.placeholder if isinstance(each, InputEmbeddings) else each.text for each in segments)

    def generate(self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions = QUIET) -> Generations:
        """Draw `n` samples of the reply to `messages`.

        Raises FbragError `prompt_too_long`, with both lengths, before any work; `usage` for input embeddings that the model does
        not support; `out_of_memory`; `no_answer` if the model only reasons; the error of a cancellation, after which the
        generator can be used again.
        """
        need = self._need(messages, n, sampling.max_tokens, MOST_TOKENS if self._template.may_reason else 0)
        request = self._run(need, sampling, options)
        samples = tuple(sample.generation() for sample in request.samples)
        check_answered(self.info.name, samples, need.max_tokens + need.reasoning_tokens)
        seconds = request.read - request.begun, request.ended - request.read
        return Generations(samples, len(request.need.tokens), request.n_cached, *seconds)

    def choice_probabilities(
        self, messages: Sequence[Message], choices: Sequence[str], options: CallOptions = QUIET
    ) -> tuple[float, ...]:
        """Return the probability that the reply begins with each of `choices`. The sum is 1 or less.

        If the model would reason first, the prompt ends with empty reasoning.
        """
        need = self._need(messages, 1, 1)
        need = replace(need, branch_points=need.branch_points[:-1])  # no chat continues after it
        probabilities = self._first_tokens(need, options)
        if self._thought and probabilities.argmax() == self._thought[0]:
            probabilities = self._first_tokens(replace(need, tokens=[*need.tokens, *self._thought]), options)
        totals = []
        for choice in choices:
            spellings = {lead + form for lead in ("", " ") for form in (choice.lower(), choice.capitalize(), choice.upper())}
            first = {token for spelling in spellings for token in self._weights.tokens_of(spelling)[:1]}
            totals.append(float(sum(probabilities[token] for token in first)))
        return tuple(totals)

    def _first_tokens(self, need: PromptRequest, options: CallOptions) -> NDArray[np.float64]:
        """Return the probability of each token after a prompt: float64 `(n_vocab,)`."""
        request = self._run(need, None, options)
        assert request.logits is not None
        exponentials = np.exp(request.logits.astype(np.float64) - request.logits.max())
        return np.asarray(exponentials / exponentials.sum(), np.float64)

    def count_tokens(self, text: str, cancellation: Cancellation | None = None) -> int:
        if cancellation:
            cancellation.raise_if_requested()
        if self._counter is None:
            self._counter = TokenCounter(self._model, self._vocab, self._weights.tokens_of)
        return self._counter.count(text)

    def tokenize(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of the prompt, with `InputEmbeddings.ids` for input embeddings.

        Only the template's markup becomes special tokens, whatever a message contains.
        """
        return self._tokens_of(self._template.segments(self._blended(messages)))

    def _blended(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with a row, or with a word if the model does not support rows, for each `Blend`."""
        return [message.blended(self._row if self.takes_input_embeddings else lambda blend: blend.word) for message in messages]

    def _row(self, blend: Blend) -> InputEmbeddings:
        rows = np.zeros((1, self.token_table.width), np.float32)
        for word, weight in blend.words:
            rows += np.float32(weight) * self.token_table.rows(self._weights.tokens_of(word)).mean(axis=0)
        return InputEmbeddings.of(rows)

    def _tokens_of(self, segments: Sequence[Segment]) -> list[int]:
        bos = llama_cpp.llama_vocab_bos(self._vocab)
        tokens = [bos] if llama_cpp.llama_vocab_get_add_bos(self._vocab) else []
        for segment in segments:
            if isinstance(segment, InputEmbeddings):
                tokens += segment.ids
            elif isinstance(segment, Markup):
                tokens += self._weights.tokens_of(segment.text, special=True)
            else:
                for words in self._within_mark.split(segment.text) if self._within_mark else [segment.text]:
                    tokens += self._weights.tokens_of(words)
        if tokens[:2] == [bos, bos]:
            del tokens[0]  # the template has written the marker
        return tokens

    def tokenize_reply(self, text: str) -> list[int]:
        """Return the token ids of a complete reply, including its end marker."""
        end = llama_cpp.llama_vocab_eot(self._vocab)
        return [*self._weights.tokens_of(text), end if end >= 0 else llama_cpp.llama_vocab_eos(self._vocab)]

    @property
    def token_table(self) -> TokenTable:
        """The token embeddings. Raises FbragError `model_corrupt` if they cannot be read."""
        return self._weights.token_table

    def close(self) -> None:
        """Free the context and the model. The generator cannot be used afterwards."""
        self._scheduler.close()
        self._weights.close()

    def __enter__(self) -> LlamaGenerator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def at_once(self) -> int:
        """Maximum number of calls that run at the same time, in shared batches (default: 1). Fewer run if memory is short."""
        return self._prompts.at_once

    @at_once.setter
    def at_once(self, n: int) -> None:
        self._prompts.at_once = n

    def _spelled(self, marks: ReasoningTags) -> Reasoning:
        """Return the reasoning of samples with these tags. If a tag is a token of the model, its letters in other tokens are not
        a tag."""
        tokens: dict[int, str] = {}
        for token in self._weights.tokens_of(f"{marks.opening}{marks.closing}{''.join(marks.frame)}", special=True):
            if self._attributes(token) & _OF_MARKS:
                tokens.setdefault(token, chr(_FIRST_CHARACTER + len(tokens)))

        def spell(text: str) -> str:
            for token, character in tokens.items():
                text = text.replace(self._token_text(token), character)
            return text

        texts = {character: piece_of(self._vocab, token).decode("utf-8", "replace") for token, character in tokens.items()}
        return Reasoning(marks.spelled(spell), tokens, texts, tuple(self._weights.tokens_of(marks.end, special=True)))

    def _need(self, messages: Sequence[Message], n: int, max_tokens: int, reasoning_tokens: int = 0) -> PromptRequest:
        """Return the request of a call. reasoning_tokens: number of reasoning tokens before each sample, if there is room."""
        messages = self._blended(messages)
        rows = [each for message in messages for _, each in message.embeddings if isinstance(each, InputEmbeddings)]
        for each in rows:
            check_input_embeddings(each, self._weights, self.info.name)
        vectors = {number: vector for each in rows for number, vector in zip(each.ids, each.vectors, strict=True)}
        tokens = self.tokenize(messages)
        room = (self.info.context_tokens or 0) - len(tokens) - n * max_tokens
        marks = self._marks(messages, tokens) if self._prompts.has_states else ()
        return PromptRequest(tokens, n, max_tokens, vectors, min(reasoning_tokens, max(0, room // n)), marks)

    def _marks(self, messages: Sequence[Message], tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of tokens at which later prompts may diverge from this one: at the end of the context, and at the
        end of the last question."""
        contexts = [(*messages[:i], message.context) for i, message in enumerate(messages) if message.context_end]
        read = (self._tokens_of(self._template.beginning(each)) for each in (*contexts, messages))
        return tuple(sorted({n for n in (common_prefix(each, tokens) for each in read) if 0 < n < len(tokens)}))

    def _run(self, need: PromptRequest, sampling: Sampling | None, options: CallOptions) -> Request:
        if not need.tokens:
            raise corrupt(f"{self.info.name} has no tokens for the words of the prompt")
        request = Request(need, sampling, options, replace(self._thinking, extra_tokens=need.reasoning_tokens))
        try:
            self._scheduler.run(request)
        except NoNumbersError:
            raise corrupt(f"{self.info.name} outputs values that are not numbers (NaN)") from None
        return request

    def _attributes(self, token: int) -> int:
        return int(llama_cpp.llama_vocab_get_attr(self._vocab, token))

    def _token_text(self, token: int) -> str:
        return "" if token < 0 else _decoded(llama_cpp.llama_vocab_get_text(self._vocab, token)) or ""


def _decoded(text: bytes | None) -> str | None:
    return text.decode("utf-8", "replace") if text else None
