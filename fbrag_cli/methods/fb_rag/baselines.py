"""The methods that the paper of FB-RAG compares it with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import groupby
from typing import Any, ClassVar

from fbrag_cli.corpus import Corpus, Passage
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Generator, Message
from fbrag_cli.methods.method import Method, Tools, answered_by, ask, judged
from fbrag_cli.methods.prompts import BETWEEN, self_route_messages
from fbrag_cli.methods.ranking import ChunkMethod, whole_chunks
from fbrag_cli.progress import Event
from fbrag_cli.query import Query
from fbrag_cli.trace import Trace

_ROUTE = "route"
_DECLINES = re.compile(r"\bunanswerable\b", re.IGNORECASE)
_SPARE = 64  # tokens, for what a chat template adds and what tokens at the cut may become


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanilla(ChunkMethod):
    """Vanilla RAG: the chunks that the retriever ranks highest for the question, best first (FB-RAG, section 3)."""

    name: ClassVar[str] = "vanilla"

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        trace = self.select_by_question(query, tools)
        return trace.reading(whole_chunks(tools.corpus, trace.selection.ranked))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreserving(ChunkMethod):
    """Order-preserving RAG: the chunks that the retriever ranks highest for the question, in document order (Yu et al., 2024).

    As in the paper, `select` chunks are read even if some have nothing in common with the question.
    """

    name: ClassVar[str] = "order-preserving"

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        return self.select_by_question(query, tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfRoute(ChunkMethod):
    """Self-Route: answer from the retrieved chunks, or decline; then from the whole document (Li et al., 2024).

    `Trace.method_notes` name the step that answered: "retrieved" or "long-context".
    """

    name: ClassVar[str] = "self-route"
    note_keys: ClassVar[tuple[str, ...]] = (_ROUTE,)

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Step 1: select the chunks that the retriever ranks highest for the question."""
        return self.select_by_question(query, tools)

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        """Step 2: return the prompt, which lets the model decline."""
        return self_route_messages(self.passages(trace), trace.question, self.instructions)

    def fallback(self, trace: Trace) -> tuple[Method, Trace]:
        """Step 3: return the method and the trace that read the whole document."""
        whole = LongContext(**{each.name: getattr(self, each.name) for each in fields(LongContext)})
        return whole, replace(trace.reading(whole_document(trace.corpus)), method_notes={_ROUTE: "long-context"})

    def reading_twice(self) -> None:
        """Return None: if the chunks do not have the answer, the method reads the whole document anyway."""
        return None

    def answer(self, trace: Trace, tools: Tools) -> Trace:
        """Answer from the chunks, unless the model declines; then from the whole document.

        The listener receives the text of the first reply once the method accepts it.
        """

        def without_text(event: Event) -> None:
            if event.kind != "text":
                tools.progress(event)

        trace, reply = ask(self, trace, self.messages(trace), replace(tools, progress=without_text))
        text = reply.text.strip()
        if text and not _DECLINES.search(text):
            tools.progress(Event("answer", "text", text=reply.text))
            return replace(judged(answered_by(trace, reply), None), method_notes={_ROUTE: "retrieved"})
        method, trace = self.fallback(trace)
        return method.answer(trace, tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongContext(ChunkMethod):
    """Long context: the large model reads the whole document. If it exceeds the window, the middle is cut, as LongBench does.

    `select` is the number of chunks that are shown as sources: those nearest to the question.
    """

    name: ClassVar[str] = "long-context"
    retrieves: ClassVar[bool] = False

    def steps(self, n_chunks: int, chunk_words: int) -> list[str]:
        return ["all to read"]

    def n_context_chunks(self, n_chunks: int, chunk_words: int) -> int:
        return n_chunks

    def reading_twice(self) -> None:
        return None

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Take the whole of every document as the context."""
        return replace(self.select_by_question(query, tools).reading(whole_document(tools.corpus)), warnings=())

    def passages(self, trace: Trace) -> list[str]:
        """Return one text: the whole documents, not cut at chunks; of several, each is below its name."""
        by_document = groupby(trace.context, key=lambda passage: id(passage.document))
        parts = ([*passages] for _, passages in by_document)
        return [BETWEEN.join(_heading(each[0]) + "".join(passage.text for passage in each) for each in parts)]

    def truncate_to_window(self, trace: Trace, tools: Tools) -> Trace:
        """Cut the middle of a document that exceeds the model's window. Raises FbragError prompt_too_long if no room is left."""
        large = tools.large
        window, count_tokens = large.info.context_tokens, partial(large.count_tokens, cancellation=tools.cancellation)
        if window is None:
            return trace
        text = self.passages(trace)[0]
        room = window - self.max_tokens - max(map(count_tokens, self._asked(trace, large))) - _SPARE
        if room < 1:
            what = f"{large.info.name} has a window of {window} tokens, which the question alone fills"
            raise FbragError("prompt_too_long", what, "lower --max-tokens, or take a model with a longer window")
        head, tail = cut_middle(text, room, count_tokens)
        if head + tail >= len(text):
            return trace
        trace = trace.reading(_without_middle(trace.context, head, len(text) - tail))
        share = 100 * (head + tail) / len(text)
        cut = f"the document is too long for {large.info.name}: only its beginning and end ({share:.0f}%) were read"
        return replace(trace, warnings=(*trace.warnings, cut))

    def described(self) -> dict[str, Any]:
        """Return the settings without `select`, which changes no answer."""
        return {name: value for name, value in ChunkMethod.described(self).items() if name != "select"}

    def _asked(self, trace: Trace, large: Generator) -> Iterator[str]:
        """Yield the prompts with a context of one character: for the answer, and for the check of the answer."""
        first = trace.context[0]
        trace = trace.reading([first.part(first.start, first.start + 1)])
        return map(large.render_prompt, (self.messages(trace), self.support_messages(trace, "")))


def whole_document(corpus: Corpus) -> tuple[Passage, ...]:
    """Return passages that hold every character of each document: each ends where the next chunk begins."""
    passages = []
    for number, document in enumerate(corpus.documents):
        positions = corpus.chunks_of(number)
        chunks = [corpus.chunks[position] for position in positions]
        starts = [0, *(chunk.start for chunk in chunks[1:]), document.n_chars]
        passages += [chunk.part(starts[i], starts[i + 1]) for i, chunk in enumerate(chunks)]
    return tuple(passages)


def cut_middle(text: str, room: int, count_tokens: Callable[[str], int]) -> tuple[int, int]:
    """Return the numbers of characters to read at the beginning and at the end, each half of `room` tokens; all if it fits."""
    if count_tokens(text) <= room:
        return len(text), 0
    half = room // 2
    head = _longest(len(text), lambda n: count_tokens(text[:n]) <= half)
    tail = _longest(len(text) - head, lambda n: count_tokens(text[len(text) - n :]) <= half)
    return head, tail


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, by bisection: longer texts have more tokens."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _without_middle(context: tuple[Passage, ...], head: int, tail: int) -> Iterator[Passage]:
    """Yield the passages before character `head` and from character `tail` on, in the text that `passages` makes."""
    at, last = 0, None
    for passage in context:
        if last is None or last.document is not passage.document:
            at += len(BETWEEN if last else "") + len(_heading(passage))
        length = passage.end - passage.start
        if (kept := min(length, head - at)) > 0:
            yield replace(passage, end=passage.start + kept)
        if (skipped := max(0, tail - at)) < length:
            yield replace(passage, start=passage.start + skipped)
        at, last = at + length, passage


def _heading(passage: Passage) -> str:
    """Return the line with the name of a passage's file; "" for a file alone."""
    return f"{passage.document.label}\n" if passage.document.label else ""
