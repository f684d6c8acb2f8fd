"""Runs calls from several threads on one llama.cpp context: prompts are read and samples are decoded in shared batches.

A batch has the last token of every live sample of every running call, and the next piece of the prompt being read. A call that
ends makes room at once, and the next waiting one is admitted. There is no separate thread: one of the threads that wait for their
calls runs the batches for all, and hands over to another when its own call is done. So a single call runs in its own thread.

A request to stop, or an error in a listener, ends only its own call. A batch that llama.cpp rejects ends all calls in it.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.generator import CallOptions, Sampling
from fbrag_cli.generation.llama.context import BATCH, BatchToken
from fbrag_cli.generation.llama.kv_cache import Prompt, PromptCache, PromptRequest
from fbrag_cli.generation.llama.sample import NO_REASONING, Reasoning, Sample
from fbrag_cli.generation.llama.weights import Weights

#: Prompt tokens per batch with samples, on a CPU. A batch with several calls is not interrupted for one of them; this number of
#: tokens takes about half a second. 16 and 500 are no faster.
_PIECE_BESIDE_SAMPLES = 64


class NoNumbersError(Exception):
    """The model outputs values that are not numbers (NaN)."""


@dataclass(slots=True, eq=False)
class Request:
    """A call. sampling: None if only the logits after the prompt are needed. reasoning: how the model may reason first.

    prompt: in the context, None while the call waits. n_cached: number of its tokens already in the context. samples: empty until
    it is read. n_written: tokens of the longest sample. logits: float32 `(n_vocab,)`, after the prompt. begun, read, ended: times
    of `perf_counter`, initially 0. error: raised by the call when it is `done`.
    """

    need: PromptRequest
    sampling: Sampling | None
    call: CallOptions
    reasoning: Reasoning = NO_REASONING
    cancellation: Cancellation = field(init=False)
    prompt: Prompt | None = None
    n_cached: int = 0
    samples: list[Sample] = field(default_factory=list)
    n_written: int = 0
    logits: NDArray[np.float32] | None = None
    begun: float = 0.0
    read: float = 0.0
    ended: float = 0.0
    error: BaseException | None = None
    done: bool = False

    def __post_init__(self) -> None:
        self.cancellation = self.call.cancellation or Cancellation()

    @property
    def live_samples(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.finish is None]


class Scheduler:
    """Runs calls from any thread. weights, prompts: the model and its prompts, for exclusive use."""

    def __init__(self, weights: Weights, prompts: PromptCache) -> None:
        self._weights, self._prompts = weights, prompts
        self._changed = threading.Condition()
        self._driver: Request | None = None  # the call whose thread runs the batches
        self._closed = False
        self._waiting: list[Request] = []
        self._running: list[Request] = []  # admitted; if a prompt is being read, it is that of the last call

    def run(self, request: Request) -> None:
        """Run a call until it ends. Raises its error."""
        self._prompts.check(request.need)
        with self._changed:
            self._waiting.append(request)
        try:
            while not request.done:
                with self._changed:
                    self._changed.wait_for(lambda: request.done or self._driver is None)
                    if not request.done:
                        self._driver = request
                while not request.done:
                    self._round()
        except BaseException as error:  # a signal: the interrupted state is unknown
            if self._driver is request:
                self._end_all(error)
            request.cancellation = Cancellation()  # for the next thread that runs a batch
            request.cancellation.request(error)
            raise
        finally:
            with self._changed:
                if self._driver is request:
                    self._driver = None
                self._changed.notify_all()
        if request.error is not None:
            raise request.error

    def close(self) -> None:
        """End the running calls, free the context, and refuse further calls."""
        self._closed = True
        with self._changed:
            self._changed.wait_for(lambda: self._driver is None)
            self._prompts.close()

    # -- one batch -------------------------------------------------------------------------------------------------------

    def _round(self) -> None:
        if self._closed:
            raise RuntimeError("the generator is closed")
        # 1. End the calls that were asked to stop. If no prompt is being read, admit the next call.
        self._stop()
        reading = self._reading() or self._admit()
        # 2. Decode the last token of every live sample, and a piece of the prompt.
        samples = [sample for request in self._running for sample in request.live_samples]
        piece = self._piece(reading, len(samples)) if reading else []
        batch = [*(BatchToken(sample.token, sample.position, sample.sequence) for sample in samples), *piece]
        if not batch or not self._decode(batch, reading):
            return
        for i, sample in enumerate(samples):
            sample.output = i
            sample.position += 1
        # 3. Draw the next token of each sample. Begin the samples of a prompt that has been read.
        for request in list(self._running):
            self._advance(request, len(piece) if request is reading else 0, len(batch) - 1)

    def _stop(self) -> None:
        with self._changed:
            requests = [*self._running, *self._waiting]
        for request in requests:
            if request.cancellation.requested:
                self._end(request, request.cancellation.error)

    def _reading(self) -> Request | None:
        last = self._running[-1] if self._running else None
        return last if last and not last.read else None

    def _admit(self) -> Request | None:
        """Admit the next call, if there is one and it fits."""
        if not self._waiting:
            return None
        request = self._waiting[0]
        self._weights.cancellation = request.cancellation
        request.begun = perf_counter()
        try:
            if (prompt := self._prompts.admit(request.need)) is None:
                assert self._running  # otherwise it would wait forever
                return None
            request.prompt, request.n_cached = prompt, prompt.n_read
            _report(request, prompt)
        except BaseException as error:
            if not isinstance(error, Exception) and not request.cancellation.requested:
                raise
            self._end(request, error)
            return None
        with self._changed:
            self._waiting.remove(request)
        self._running.append(request)
        return request

    def _piece(self, request: Request, n_samples: int) -> list[BatchToken]:
        """Return the tokens of a prompt to read in one batch with `n_samples` samples."""
        assert request.prompt
        prompt, size = request.prompt, BATCH - n_samples
        if n_samples and not self._weights.layers_on_gpu:
            size = min(size, _PIECE_BESIDE_SAMPLES)
        last = len(prompt.tokens) - 1
        positions = range(prompt.n_read, min(prompt.n_read + size, prompt.next_stop))
        return [BatchToken(prompt.tokens[each], each, prompt.sequences[0], each == last) for each in positions]

    def _decode(self, batch: list[BatchToken], reading: Request | None) -> bool:
        """Decode a batch. Return False if it ended the running calls. The native code returns early if all of them were asked to
        stop.

        reading: the call whose prompt is being read, the only one that can have input embeddings in the batch.
        """
        each = list(dict.fromkeys(request.cancellation for request in self._running))
        self._weights.cancellation = stop = each[0] if len(each) == 1 else Cancellation(all_of=each)
        try:
            self._prompts.opened.decode(batch, reading.need.vectors if reading else {})
        except BaseException as error:
            if not isinstance(error, Exception) and not stop.requested:
                raise
            self._end_all(error)
            return False
        return True

    def _advance(self, request: Request, n_read: int, last: int) -> None:
        """Update a call after a batch: `n_read` tokens of its prompt were read, or there are logits for its samples.

        last: index of the last token of the batch.
        """
        try:
            if n_read:
                self._note_read(request, n_read, last)
            if request.samples:
                self._draw(request)
        except Exception as error:
            self._end(request, error)

    def _note_read(self, request: Request, n_tokens: int, last: int) -> None:
        """Record that tokens of a prompt have been read. At its end, begin the samples."""
        assert request.prompt
        prompt = request.prompt
        self._prompts.note_read(prompt, n_tokens)
        _report(request, prompt)
        if prompt.n_read < len(prompt.tokens):
            return
        request.logits = self._prompts.opened.logits(last).copy()
        request.read = perf_counter()  # a GPU computes until the logits are there
        if not np.isfinite(request.logits).all():
            raise NoNumbersError
        if request.sampling is None:
            self._end(request)
            return
        self._prompts.fork(prompt)
        request.samples = [
            Sample.of(request.sampling, i, sequence, len(prompt.tokens), last, request.reasoning)
            for i, sequence in enumerate(prompt.sequences)
        ]

    def _draw(self, request: Request) -> None:
        """Draw a token for each live sample of a call. A call without live samples ends."""
        send = request.call.on_text
        for sample in request.live_samples:
            logprob = None
            if (token := sample.forced()) is None and sample.sampler is None:
                token, logprob = self._prompts.opened.likeliest(sample.output)
                if not math.isfinite(logprob):
                    raise NoNumbersError
            elif token is None:
                token = self._prompts.opened.sample(sample.sampler, sample.output)
            sample.add(token, self._weights.vocab, logprob)
            if send and sample is request.samples[0] and (piece := sample.next_piece()):
                send(piece)
        if not request.live_samples:
            self._end(request)
            return
        request.n_written += 1
        if request.call.on_written:
            request.call.on_written(request.n_written, request.need.max_tokens + request.need.reasoning_tokens)

    # -- the end of a call -----------------------------------------------------------------------------------------------

    def _end(self, request: Request, error: BaseException | None = None) -> None:
        """Free what a call used, and wake its thread."""
        for sample in request.samples:
            sample.free()
        if request.prompt:
            self._prompts.release(request.prompt)
        request.error, request.ended = error, perf_counter()
        with self._changed:
            for queue in (self._running, self._waiting):
                if request in queue:
                    queue.remove(request)
            request.done = True
            self._changed.notify_all()

    def _end_all(self, error: BaseException) -> None:
        """End the running calls, and free the context, which may have part of a batch."""
        self._prompts.close()
        for request in list(self._running):
            self._end(request, request.cancellation.error or error)


def _report(request: Request, prompt: Prompt) -> None:
    if request.call.on_prompt:
        request.call.on_prompt(prompt.n_read, len(prompt.tokens))
