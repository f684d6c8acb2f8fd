"""Draws the samples of one prompt: in one request if the server takes that, else in one request after another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from fbrag_cli.generation.generator import CallOptions, FinishReason, Generation, geometric_mean
from fbrag_cli.generation.reasoning import COMMON_TAGS, ReasoningParser, ReasoningTags, tags_named
from fbrag_cli.generation.repetition import Repetition
from fbrag_cli.generation.server.client import Endpoint, Json, RefusedError, Reply, TryAgainError, count, retried

_MOST_CHARACTERS = 100  # per token, on average: longer samples ignore the limit
_WORDS = re.compile(r"\s*\S+|\s+")
_CLOSED = re.compile(r"^</((?:seed:)?think)>[ \t]*$", re.MULTILINE)  # on its own line


class SampleStream:
    """Fills samples from a server's replies.

    started, first_text: times of `perf_counter`, first_text None until there is text. prompt_tokens, cached_tokens: None if the
    server does not report them.
    """

    def __init__(self, host: Endpoint, url: str, body: Json, samples: Sequence[StreamedSample], options: CallOptions) -> None:
        self._host, self._url, self._body, self.samples, self._call = host, url, body, samples, options
        self.started = perf_counter()
        self.first_text: float | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None

    def draw(self) -> None:
        """Finish the samples, and remember whether the server takes `n`. Raises the errors of `retried`."""
        together = len(self.samples) > 1 and self._host.takes_n
        if together:
            try:
                self._ask(self.samples)
            except RefusedError:
                if self.samples[0].n_sent:
                    raise
        left = [sample for sample in self.samples if not sample.finish]
        for sample in left:
            self._ask([sample])
        if together:
            self._host.takes_n = not left

    def _ask(self, group: Sequence[StreamedSample]) -> None:
        several = {"n": len(group)} if len(group) > 1 else {}
        body = {**self._body, **several, "seed": group[0].seed}
        attempt = partial(self._attempt, group, body)
        retried(self._host, attempt, self._call.cancellation, lambda: any(sample.n_sent for sample in group))

    def _attempt(self, group: Sequence[StreamedSample], body: Json) -> None:
        """Request the samples of a group, and read the reply to its end. If the server ignores `n`, only some have text then."""
        patience, begun = self._host.patience, list[StreamedSample]()
        for sample in group:
            sample.restart()
        with closing(Reply(self._host, self._url, body, patience.first, self._call.cancellation)) as reply:
            for item in reply:
                if self._take(group, item):
                    reply.allow(patience.idle)
                begun = [sample for sample in group if sample.begun]
                if all(sample.finish for sample in begun) and any(sample.cut for sample in begun):
                    return
        if not begun:
            raise TryAgainError("an empty reply; the prompt may be too long")
        if not all(sample.finish for sample in begun):
            raise TryAgainError("the connection was closed")

    def _take(self, group: Sequence[StreamedSample], item: Json) -> bool:
        """Process an event, or a complete reply. Return whether the server has written more."""
        more = False
        for part in said(item):
            if 0 <= part.index < len(group) and not group[part.index].finish:
                group[part.index].add(part)
                more = more or bool(part.thought or part.text or part.finish)
        if self.prompt_tokens is None:
            self.prompt_tokens = _tokens(item, "prompt_tokens")
            self.cached_tokens = _tokens(item, "prompt_tokens_details", "cached_tokens")
        if len(group) == 1 and (n_tokens := _tokens(item, "completion_tokens")) is not None:
            group[0].n_tokens = n_tokens
            group[0].n_reasoned = _tokens(item, "completion_tokens_details", "reasoning_tokens") or None
        self._report_writing(group)
        return more

    def _report_writing(self, group: Sequence[StreamedSample]) -> None:
        """Report the written text."""
        options, first = self._call, self.samples[0]
        if not (n_written := max(sample.n_pieces + sample.n_reasoning_pieces for sample in group)):
            return
        self.first_text = self.first_text or perf_counter()
        if options.on_written:
            most = first.max_tokens + first.reasoning_tokens
            options.on_written(min(n_written, most), most)
        if options.on_text and first in group and (piece := first.news()):
            options.on_text(piece)


class StreamedSample:
    """A sample while a server writes it, piece by piece. A piece is usually a token.

    opening: words with which the reply should begin; if the server repeats them, they are dropped. reasoning_tokens: number of
    reasoning tokens in addition to `max_tokens`. opened: tags of the reasoning in which the reply begins, if the server opens it
    silently; set when a reply shows that.

    n_tokens, n_reasoned: number of all tokens, and of reasoning tokens, None if the server does not report it. n_sent: number of
    characters that `news` has returned. cut: whether fbrag ended the sample, so that no more of it is read.
    """

    def __init__(
        self, seed: int, max_tokens: int, opening: str = "", reasoning_tokens: int = 0, opened: ReasoningTags | None = None
    ) -> None:
        self.seed, self.max_tokens, self.reasoning_tokens, self.opened = seed, max_tokens, reasoning_tokens, opened
        self._tags = (*COMMON_TAGS, ReasoningTags("", "", "", frame=(opening, "")))
        self.restart()

    def restart(self) -> None:
        """Start over, without the text of an interrupted reply."""
        self.text = ""
        self.finish: FinishReason | None = None
        self.cut = False
        self.n_tokens: int | None = None
        self.n_reasoned: int | None = None
        self.n_sent = 0
        self._n_pieces = self._n_thoughts = 0  # pieces of text, and those that the server itself marks as reasoning
        self._logprobs: list[float] = []  # of the tokens of the text
        self._thoughts = ReasoningParser(self._tags, self.opened)
        self._ids: dict[str, int] = {}
        self._repetition = Repetition()

    def add(self, part: ReplyPart) -> None:
        """Append a part. Repetition, or exceeding a limit, cuts the sample; a server that respects the limit ends it itself."""
        self._n_thoughts += part.thought
        if part.text:
            self._n_pieces += 1
            self._logprobs += part.logprobs
            n_thoughts = self._thoughts.n_pieces
            self._write(self._thoughts.add(part.text))
            if self._thoughts.n_pieces != n_thoughts or not (self.text or part.text).strip():
                self._logprobs.clear()  # those of reasoning, or of blanks before the answer
        most = self.max_tokens + self.reasoning_tokens
        if not self.finish and (self.n_pieces > self.max_tokens or self.n_reasoning_pieces > most):
            self.finish = "length"
        self.cut = bool(self.finish)
        if part.finish and not self.finish:
            self._end("length" if part.finish in ("length", "max_tokens") else "stop")

    def _end(self, finish: FinishReason) -> None:
        """End the sample, for the server's reason."""
        self._write(self._thoughts.end(answered=self.opened is not None and finish == "stop"))
        self.finish = self.finish or finish
        if closed := _CLOSED.search(self.text):  # reasoning that the server itself has opened
            self._thoughts.n_pieces = round(self._n_pieces * closed.end() / len(self.text))
            shown, answer = len(self.text), self.text[closed.end() :].lstrip()
            self.opened, self.text = tags_named(closed[1]), answer
            self._logprobs.clear()
            self.n_sent = max(0, self.n_sent - (shown - len(answer)))  # the rest of the answer is still to be shown

    def _write(self, text: str) -> None:
        """Append text that is not reasoning."""
        room = _MOST_CHARACTERS * self.max_tokens - len(self.text)
        for word in _WORDS.findall(text[:room]):  # a complete reply comes in one piece
            self.text += word
            self._repetition.add(self._ids.setdefault(word, len(self._ids)), self.text)
            if (end := self._repetition.loop()) is not None:
                self.text, self.finish = self.text[:end], "repeat"
                return
        if len(text) > room:
            self.finish = "length"

    @property
    def n_pieces(self) -> int:
        """The number of pieces of the reply."""
        return self._n_pieces - self._thoughts.n_pieces

    @property
    def n_reasoning_pieces(self) -> int:
        """The number of pieces of reasoning."""
        return self._n_thoughts + self._thoughts.n_pieces

    @property
    def begun(self) -> bool:
        return bool(self._n_pieces or self._n_thoughts or self.finish)

    def news(self) -> str:
        """Return the text that is final and was not returned before."""
        certain = len(self.text) if self.finish else self._repetition.n_fresh
        piece = self.text[self.n_sent : certain]
        self.n_sent += len(piece)
        return piece

    def generation(self) -> Generation:
        n_tokens = self.n_pieces + self.n_reasoning_pieces if self.n_tokens is None else self.n_tokens
        n_thought = self.n_reasoning_pieces if self.n_reasoned is None else self.n_reasoned
        probability = geometric_mean(self._logprobs if self.finish != "repeat" else ())
        return Generation(self.text, n_tokens, self.finish or "stop", self.seed, min(n_thought, n_tokens), probability)


# -- the shape of replies ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """The part of a sample in an event.

    index: number of the sample in its request. thought: whether the event has reasoning, which is not part of the reply. finish:
    why the sample ended, "" before its end. logprobs: natural logarithms of the probabilities of its tokens, none if the server
    does not return them.
    """

    index: int
    text: str
    thought: bool
    finish: str
    logprobs: Sequence[float]


def said(item: Json) -> list[ReplyPart]:
    """Return the parts of samples in an event or a complete reply. Raises ValueError for an unexpected shape."""
    try:
        return [_part(choice) for choice in item.get("choices") or ()]
    except (AttributeError, TypeError, OverflowError) as error:
        raise ValueError("not a reply of an OpenAI-compatible API") from error


def _part(choice: Json) -> ReplyPart:
    part = choice.get("delta") or choice.get("message") or {}
    if not isinstance(text := part.get("content") or "", str):
        raise ValueError("the content of the reply is not text")
    thought = bool(part.get("reasoning_content") or part.get("reasoning"))
    text, finish = text.encode("utf-8", "replace").decode(), str(choice.get("finish_reason") or "")
    return ReplyPart(int(choice.get("index") or 0), text, thought, finish, _logprobs(choice))


def _logprobs(choice: Json) -> Sequence[float]:
    try:
        return [min(0.0, float(each["logprob"])) for each in choice["logprobs"]["content"]]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return ()


def _tokens(item: Json, *names: str) -> int | None:
    """Return a count from the usage in an event, such as ("completion_tokens",); None if it is missing."""
    value: Any = item.get("usage")
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return count(value)
