"""Long context: the large model reads the whole document; of one that exceeds its window the middle is cut, as LongBench does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fbrag_cli.corpus import Corpus
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import Generator
from fbrag_cli.methods.answering import answer_from
from fbrag_cli.methods.prompts import answer_turns, support_turns
from fbrag_cli.methods.ranking import select_by_question
from fbrag_cli.progress import Progress
from fbrag_cli.retrieval import Retriever
from fbrag_cli.trace import MethodSettings, Trace

_BETWEEN = "\n\n"  # two documents
_SPARE = 64  # tokens, for what a chat template adds and what tokens at the cut may become


def select(
    question: str, corpus: Corpus, retriever: Retriever, small: Generator | None, settings: MethodSettings, progress: Progress
) -> Trace:
    """Nothing is retrieved: every chunk is selected. Ranked, and shown as sources, are those nearest to the question."""
    trace = select_by_question(question, corpus, retriever, settings)
    return replace(trace, selected=tuple(range(len(corpus.chunks))))


def answer(trace: Trace, large: Generator, progress: Progress) -> Trace:
    """From the whole document, or its beginning and its end. Raises FbragError prompt_too_long where neither leaves room."""
    text = _BETWEEN.join(document.text for document in trace.corpus.documents)
    asked = max(_tokens(large, trace, answer) for answer in (None, ""))
    window = large.info.context_tokens
    if window is None:  # nobody knows how much it takes: it gets the whole
        return answer_from(trace, [text], large, progress)
    room = window - trace.method.max_tokens - asked - _SPARE
    if room < 1:
        what = f"{large.info.name} has a window of {large.info.context_tokens} tokens, which the question alone fills"
        raise FbragError("prompt_too_long", what, "lower --max-tokens, or take a model with a longer window")
    head, tail = cut_middle(text, room, large.count_tokens)
    if head + tail < len(text):
        kept = text[:head] + text[len(text) - tail :]
        shown = tuple(_shown(trace, head, len(text) - tail))
        share = 100 * len(kept) / len(text)
        cut = f"the document exceeds the window of {large.info.name}: its middle was cut, {share:.0f} % of it was read"
        trace = replace(trace, selected=shown, warnings=(*trace.warnings, cut))
        text = kept
    return answer_from(trace, [text], large, progress)


def cut_middle(text: str, room: int, count_tokens: Callable[[str], int]) -> tuple[int, int]:
    """How many characters to keep at the beginning and at the end, for each to have half of `room` tokens; all where it fits."""
    if count_tokens(text) <= room:
        return len(text), 0
    half = room // 2
    head = _longest(len(text), lambda n: count_tokens(text[:n]) <= half)
    tail = _longest(len(text) - head, lambda n: count_tokens(text[len(text) - n :]) <= half)
    return head, tail


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, by bisection: longer texts have more tokens."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _shown(trace: Trace, head: int, tail: int) -> list[int]:
    """The chunks that lie wholly before `head` or after `tail` (characters of all documents together)."""
    starts, at = [], 0
    for document in trace.corpus.documents:
        starts.append(at)
        at += document.n_chars + len(_BETWEEN)
    spans = enumerate(trace.corpus.spans.tolist())
    return [i for i, (own, start, end, _) in spans if starts[own] + end <= head or starts[own] + start >= tail]


def _tokens(large: Generator, trace: Trace, proposed: str | None) -> int:
    """Of what is asked beside the context: the answer, or for "" whether it is supported."""
    turns = answer_turns([], trace.question, trace.method.instructions, trace.method.templates)
    if proposed is not None:
        turns = support_turns([], trace.question, proposed)
    return large.count_tokens(large.written(turns))
