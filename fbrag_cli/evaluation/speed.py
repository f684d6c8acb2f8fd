"""Speed of this machine: loading a model, indexing and scoring a text, reading a prompt, writing samples."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from statistics import median
from typing import TYPE_CHECKING

from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.generation.generator import CallOptions, Generations, Message, Sampling
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.progress import Event, Progress, Stopwatch, stage
from fbrag_cli.text.words import word_spans

if TYPE_CHECKING:
    from fbrag_cli.generation.llama.generator import LlamaGenerator

#: What is measured -> its unit.
MEASURES = {
    **dict.fromkeys(("index", "score", "load", "first_token_cold", "first_token", "first_token_cached"), "s"),
    **dict.fromkeys(("prefill", "decode", "decode_samples"), "tokens/s"),
}

_WRITTEN = 32  # tokens a sample
_SAMPLE_WORDS = 60  # of a text that is scored, as many as a forward sample has


@dataclass(slots=True)
class Measure:
    """The values of one measure, one a round.

    name: one of `MEASURES`. model: name of the model, None where none runs. tokens: length of the prompt, None without a prompt.
    """

    name: str
    model: str | None = None
    tokens: int | None = None
    values: list[float] = field(default_factory=list)

    @property
    def unit(self) -> str:
        return MEASURES[self.name]

    @property
    def median(self) -> float:
        return median(self.values)


class Measures:
    """Measures in the order in which they were first taken."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None, int | None], Measure] = {}

    def __iter__(self) -> Iterator[Measure]:
        return iter(self._found.values())

    def add(self, name: str, value: float, model: str | None = None, tokens: int | None = None) -> None:
        key = (name, model, tokens)
        self._found.setdefault(key, Measure(*key)).values.append(value)


@dataclass(frozen=True, slots=True)
class Workload:
    """The work to measure. sizes: lengths of prompts in tokens. samples: samples written at once. repeat: number of rounds."""

    text: str
    sizes: Sequence[int]
    samples: int
    repeat: int


def measure_text(work: Workload, measures: Measures) -> None:
    """Measure chunking and counting the text, and scoring its chunks by a question and the samples."""
    words = _words(work.text)
    for round_ in range(work.repeat):
        watch = Stopwatch()
        document = Document.of("text", "text", Extracted(Content(work.text), "text/plain"))
        retriever = collect_text(document).retriever
        measures.add("index", watch.seconds)
        asked = [" ".join(random.Random(f"{round_} {i}").choices(words, k=_SAMPLE_WORDS)) for i in range(work.samples + 1)]
        watch = Stopwatch()
        for each in asked:
            retriever.scores(each)
        measures.add("score", watch.seconds)


def measure_model(name: str, load: Callable[[], LlamaGenerator], work: Workload, measures: Measures, progress: Progress) -> None:
    """Measure loading the model, and reading two prompts of each size: one cold, one with the loaded model and then cached.

    The prompts have the number of tokens in `work`, to within a few. progress: stage "bench", in prompts.
    Raises what loading and generating raise: prompt_too_long for a size beyond the model's window.
    """
    done, total = 0, 2 * len(work.sizes) * work.repeat
    with stage("bench", progress):
        for round_ in range(work.repeat):
            for size in work.sizes:
                cold = Stopwatch()
                with load() as generator:
                    loaded = cold.seconds
                    measures.add("load", loaded, name)
                    texts = [_cut(generator, work.text, size, 2 * round_ + i) for i in range(2)]
                    watch = Stopwatch()
                    generator.generate([Message("user", texts[0])], 1, Sampling(1))
                    measures.add("first_token_cold", loaded + watch.seconds, name, size)
                    progress(Event("bench", "progress", done := done + 1, total))
                    _measure_loaded(generator, texts[1], (name, size), work.samples, measures)
                    progress(Event("bench", "progress", done := done + 1, total))


def _measure_loaded(generator: LlamaGenerator, text: str, about: tuple[str, int], samples: int, measures: Measures) -> None:
    """Measure a new prompt, then the same one again."""
    messages, sampling = [Message("user", text)], Sampling(_WRITTEN)
    first, read = _first_token(generator, messages, samples, sampling)
    measures.add("prefill", (read.prompt_tokens - read.cached_tokens) / read.prefill_seconds, *about)
    measures.add("first_token", first, *about)
    if read.decode_seconds:
        measures.add("decode_samples", read.generated_tokens / read.decode_seconds, *about)
    first, again = _first_token(generator, messages, 1, sampling)
    measures.add("first_token_cached", first, *about)
    if again.decode_seconds:
        measures.add("decode", again.generated_tokens / again.decode_seconds, *about)


def synthetic(n_words: int) -> str:
    """Return a text of invented words with the frequencies of a language (Zipf's law). It depends on `n_words` alone."""
    drawn = random.Random(n_words)
    vocabulary = ["".join(drawn.choices("aeiounrstldmgb", k=drawn.randint(2, 9))) for _ in range(20_000)]
    return " ".join(drawn.choices(vocabulary, [1 / rank for rank in range(1, len(vocabulary) + 1)], k=n_words))


def _first_token(generator: LlamaGenerator, messages: Sequence[Message], n: int, sampling: Sampling) -> tuple[float, Generations]:
    """Return the seconds to the first token, and the generations."""
    came: list[float] = []
    watch = Stopwatch()
    generations = generator.generate(messages, n, sampling, CallOptions(on_text=lambda _: came.append(watch.seconds)))
    return (came[0] if came else watch.seconds), generations  # a model may end its turn at once


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


def _cut(generator: LlamaGenerator, text: str, n_tokens: int, turn: int) -> str:
    """Return about `n_tokens` tokens of `text`, repeated if it is shorter. Each turn begins at another place."""
    words = _words(text)
    start = (turn * len(words)) // 7 % len(words)
    piece = words[start : start + 2000]
    n_words = max(1, round(n_tokens * len(piece) / generator.count_tokens(" ".join(piece))))
    return " ".join(islice(cycle(words), start, start + n_words))
