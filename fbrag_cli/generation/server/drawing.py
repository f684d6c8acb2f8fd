"""Draws the samples of one prompt, in as many requests as a server needs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from fbrag_cli.generation.generator import CallOptions, FinishReason, Generation, geometric_mean
from fbrag_cli.generation.reasoning import COMMON_TAGS, ReasoningParser, ReasoningTags, tags_named
from fbrag_cli.generation.repetition import Repetition
from fbrag_cli.generation.server.client import (
    BrokenError,
    Endpoint,
    Json,
    RefusedError,
    Reports,
    ServerRequest,
    Took,
    said,
    tokens,
)

_OF_THE_TEMPLATE = 10_000  # tokens that a server may add around the messages
_MOST_CHARACTERS = 100  # per token, on average: longer samples ignore the limit
_WORDS = re.compile(r"\s*\S+|\s+")
_CLOSED = re.compile(r"^</((?:seed:)?think)>[ \t]*$", re.MULTILINE)  # on its own line


class SampleStream:
    """Fills samples from a server's replies.

    K samples are one request with `n = K` if the server supports that. Otherwise the first sample is requested alone, and the
    others after its first token: they then find the prompt in the server's cache.

    reports: calls of the listeners in `options`, for `run`. started, first_text: times of `perf_counter`; first_text is None
    until there is text. prompt_tokens, cached_tokens: None if the server does not report them.
    """

    def __init__(self, host: Endpoint, url: str, body: Json, samples: Sequence[StreamedSample], options: CallOptions) -> None:
        self._host, self._url, self._body, self.samples, self._call = host, url, body, samples, options
        self._longest = _OF_THE_TEMPLATE + sum(len(each["content"].encode("utf-8", "replace")) for each in body["messages"])
        self._writes = asyncio.Event()  # the first sample of a request
        self.reports: Reports = SimpleQueue()
        self.started = perf_counter()
        self.first_text: float | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None

    async def draw(self) -> None:
        """Finish the samples, and remember what the server does not support. Raises the errors of `ServerRequest`."""
        if len(self.samples) > 1 and self._host.takes_n:
            self._host.takes_n = await self._together()
        if len(self._unfinished) > 1 and self._host.at_once:
            self._host.at_once = await self._each_at_once()
        for sample in self._unfinished:  # one at a time
            await self._ask([sample], tolerant=not sample.n_sent)
            if sample.finish is None:  # a second attempt
                await self._ask([sample])

    async def _together(self) -> bool:
        """Request all samples at once. Return False if the server rejects that, or returns fewer. If the reply is interrupted,
        return True, with unfinished samples."""
        try:
            broke = await self._ask(self.samples, tolerant=True)
        except RefusedError:
            return False
        return broke or not self._unfinished

    async def _each_at_once(self) -> bool:
        """Request the samples in parallel, after the first one if none exists yet. Return False if one request breaks another;
        their samples are then unfinished."""
        todo = self._unfinished
        if len(todo) == len(self.samples):
            self._writes.clear()
        running = [asyncio.ensure_future(self._ask_beside(sample, leads=sample is todo[0])) for sample in todo]
        try:
            await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
        return not self._unfinished

    @property
    def _unfinished(self) -> list[StreamedSample]:
        return [sample for sample in self.samples if sample.finish is None]

    async def _ask_beside(self, sample: StreamedSample, *, leads: bool) -> None:
        """Request a sample: at once if it leads, else when the leading one is being written or has ended."""
        if not leads:
            await self._writes.wait()
        await self._ask([sample], tolerant=True)
        self._writes.set()

    async def _ask(self, group: Sequence[StreamedSample], *, tolerant: bool = False) -> bool:
        """Request a group of samples together. Return whether the reply was interrupted, so that its samples may be requested
        again.

        tolerant: whether an interrupted reply is not an error, as long as none of it was shown.
        """
        several = {"n": len(group)} if len(group) > 1 else {}
        body = {**self._body, **several, "seed": group[0].seed}
        try:
            await ServerRequest(self._host, self._url, body, partial(self._take, group)).run()
        except BrokenError:
            unfinished = [sample for sample in group if sample.finish is None]
            if not tolerant or any(sample.n_sent for sample in unfinished):
                raise
            for sample in unfinished:
                sample.restart()
            return True
        return False

    def _take(self, group: Sequence[StreamedSample], item: Json) -> Took:
        """Process an event, or a complete reply."""
        took = Took.READING if self._report_reading(item.get("prompt_progress"), group) else Took.NOTHING
        for each in said(item):
            if 0 <= each.index < len(group) and (sample := group[each.index]).finish is None:
                if each.thought:
                    sample.think()
                sample.logprobs += each.logprobs
                sample.add(each.text)
                if each.finish:
                    sample.end(each.finish)
                if each.thought or each.text or each.finish:
                    took = Took.WRITING
        if self.prompt_tokens is None:
            self.prompt_tokens = tokens(item, "prompt_tokens")
            self.cached_tokens = tokens(item, "prompt_tokens_details", "cached_tokens")
        if len(group) == 1 and (n_tokens := tokens(item, "completion_tokens")) is not None:
            group[0].n_tokens = n_tokens
            group[0].n_reasoned = tokens(item, "completion_tokens_details", "reasoning_tokens") or None
        if not (begun := [sample for sample in group if sample.begun]):
            return took
        self._writes.set()
        self._report_writing(group)
        # If the server ignores `n`, the other samples never begin.
        if all(sample.finish for sample in begun):
            return Took.ENOUGH if any(sample.cut for sample in begun) else Took.ENDED
        return took

    def _report_reading(self, read: Any, group: Sequence[StreamedSample]) -> bool:
        """Report how much of the prompt has been read. Return whether it is more than before."""
        done, total = (read.get("processed"), read.get("total")) if isinstance(read, dict) else (None, None)
        if not (isinstance(done, int) and isinstance(total, int) and group[0].n_read < done <= total <= self._longest):
            return False
        group[0].n_read = done
        if self._call.on_prompt and self.samples[0] in group:
            self.reports.put(partial(self._call.on_prompt, done, total))
        return True

    def _report_writing(self, group: Sequence[StreamedSample]) -> None:
        """Report the written text."""
        options, first = self._call, self.samples[0]
        n_written = max(sample.n_pieces + sample.n_reasoning_pieces for sample in group)
        if n_written and self.first_text is None:
            self.first_text = perf_counter()
        if options.on_written and n_written:
            most = first.max_tokens + first.reasoning_tokens
            self.reports.put(partial(options.on_written, min(n_written, most), most))
        if options.on_text and first in group and (piece := first.news()):
            self.reports.put(partial(options.on_text, piece))


class StreamedSample:
    """A sample while a server writes it, piece by piece. A piece is usually a token.

    opening: words with which the reply should begin; if the server repeats them, they are dropped. reasoning_tokens: number of
    reasoning tokens in addition to `max_tokens`. opened: tags of the reasoning in which the reply begins, if the server opens it
    silently; set when a reply shows that.

    logprobs: tokens of the reply, see `ReplyPart`. n_tokens, n_reasoned: number of all tokens, and of reasoning tokens, None if
    the server does not report it. n_sent: number of characters that `news` has returned. n_read: number of prompt tokens that the
    server reports as read.
    """

    def __init__(
        self, seed: int, max_tokens: int, opening: str = "", reasoning_tokens: int = 0, opened: ReasoningTags | None = None
    ) -> None:
        self.seed, self.max_tokens, self.reasoning_tokens = seed, max_tokens, reasoning_tokens
        self.opening, self.opened = opening, opened
        self.restart()

    def restart(self) -> None:
        """Start over, without the text of an interrupted reply."""
        self.text = ""
        self.logprobs: list[tuple[bytes, float]] = []
        self.finish: FinishReason | None = None
        self.n_tokens: int | None = None
        self.n_reasoned: int | None = None
        self.n_sent, self.n_read = 0, -1
        self._n_pieces = 0
        self._n_reasons = 0  # pieces that the server itself marks as reasoning
        self._thoughts = ReasoningParser(COMMON_TAGS, self.opened)
        self._held: str | None = ""  # text that may become the opening; None once that is decided
        self._ended = False  # by the server
        self._ids: dict[str, int] = {}
        self._repetition = Repetition()

    def add(self, piece: str) -> None:
        """Append a piece. Repetition, or exceeding the limit, ends the sample."""
        if piece and not self.finish:
            self._n_pieces += 1
            self._say(self._thoughts.add(piece))
            self._keep_limit()

    def think(self) -> None:
        """Count a piece of reasoning, which is not part of the reply."""
        self._n_reasons += 1
        self._keep_limit()

    def end(self, reason: str) -> None:
        """End the sample, for the server's reason."""
        if self.finish:
            return
        finish: FinishReason = "length" if reason in ("length", "max_tokens") else "stop"
        self._say(self._thoughts.end(answered=self.opened is not None and finish == "stop"))
        self._take(self._held or "")
        self._ended = True
        self.finish = self.finish or finish
        if closed := _CLOSED.search(self.text):  # reasoning that the server itself has opened
            self._thoughts.n_pieces = round(self._n_pieces * closed.end() / len(self.text))
            shown, answer = len(self.text), self.text[closed.end() :].lstrip()
            self.opened, self.text = tags_named(closed[1]), answer
            self.n_sent = max(0, self.n_sent - (shown - len(answer)))  # the rest of the answer is still to be shown

    @property
    def n_pieces(self) -> int:
        """The number of pieces of the reply."""
        return self._n_pieces - self._thoughts.n_pieces

    @property
    def n_reasoning_pieces(self) -> int:
        """The number of pieces of reasoning."""
        return self._n_reasons + self._thoughts.n_pieces

    @property
    def begun(self) -> bool:
        return bool(self._n_pieces or self._n_reasons or self.finish)

    @property
    def cut(self) -> bool:
        """Whether fbrag ended the sample, so that no more of it is read."""
        return self.finish is not None and not self._ended

    def news(self) -> str:
        """Return the text that is final and was not returned before."""
        certain = len(self.text) if self.finish else self._repetition.n_fresh
        piece = self.text[self.n_sent : certain]
        self.n_sent += len(piece)
        return piece

    def generation(self) -> Generation:
        n_tokens = self.n_pieces + self.n_reasoning_pieces if self.n_tokens is None else self.n_tokens
        n_thought = self.n_reasoning_pieces if self.n_reasoned is None else self.n_reasoned
        return Generation(
            self.text, n_tokens, self.finish or "stop", self.seed, min(n_thought, n_tokens), geometric_mean(self._own_logprobs())
        )

    def _own_logprobs(self) -> list[float]:
        """Return the logarithms of the tokens that the text is made of; none if it is not found in the tokens."""
        reply, text = b"".join(token for token, _ in self.logprobs), self.text.strip().encode()
        begin = reply.rfind(text) if text and self.finish != "repeat" else -1
        ends = accumulate(len(token) for token, _ in self.logprobs)
        placed = ((end - len(token), end, logprob) for end, (token, logprob) in zip(ends, self.logprobs, strict=True))
        return [logprob for start, end, logprob in placed if start < begin + len(text) and begin < end] if begin >= 0 else []

    def _keep_limit(self) -> None:
        """End a sample that exceeds a limit. A server that respects the limit ends the sample itself."""
        if self.finish is None and (
            self.n_pieces > self.max_tokens or self.n_reasoning_pieces > self.max_tokens + self.reasoning_tokens
        ):
            self.finish = "length"

    def _say(self, piece: str) -> None:
        """Append text that is not reasoning, without the words with which the reply should begin."""
        if self._held is not None and piece:
            self._held += piece
            head = self._held.lstrip()
            if len(head) < len(self.opening) and self.opening.startswith(head):
                return
            piece = head[len(self.opening) :] if self.opening and head.startswith(self.opening) else self._held
            self._held = None
        self._take(piece)

    def _take(self, text: str) -> None:
        room = _MOST_CHARACTERS * self.max_tokens - len(self.text)
        for word in _WORDS.findall(text[:room]):  # a complete reply comes in one piece
            self.text += word
            self._repetition.add(self._ids.setdefault(word, len(self._ids)), self.text)
            if (end := self._repetition.loop()) is not None:
                self.text, self.finish = self.text[:end], "repeat"
                return
        if len(text) > room:
            self.finish = "length"
