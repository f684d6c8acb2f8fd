"""How much Stage III reads: all combinations of the settings, presets, models and devices, against the rule in plain words.

The rule: N chunks are read; without a number 5, on a GPU 10. Those of a document of more than 50 chunks are in document order.
Windows fill the words of N chunks, those of the retrieved chunks included where these come first; without a number, of up to 50
chunks, 400 words beside the retrieved ones. Up to N chunks are read whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import pytest

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method
from fbrag_cli.methods.registry import METHODS, all_settings, choose_method
from fbrag_cli.settings import settings_of
from fbrag_cli.trace import Trace
from tests.methods.scripted import Scripted, retrieved, tools

WORDS = 40  # of a chunk
QUESTION = "Who lit the lantern?"
LENGTHS = (4, 12, 60)  # chunks: read whole, with windows, above 50

SELECT = (None, 1, 5, 20)
RECALL = (None, 4)
ORDER = ("auto", "read-first", "document")
GRANULARITY = ("auto", "chunk", "window")
SAMPLES = (None, 0)
PRESET = (None, "fast", "thorough")


@cache
def log_of(n_chunks: int) -> Corpus:
    """A text of which each chunk has the lantern, in ten sentences of four words."""
    said = [f"Lantern {day} was lit. " + "".join(f"Wrenn saw day{day}x{i} pass. " for i in range(9)) for day in range(n_chunks)]
    corpus = build_corpus([Document.of("d", "d", Extracted(Content("".join(said)), "text/plain"))], WORDS)
    assert len(corpus.chunks) == n_chunks
    return corpus


@dataclass(frozen=True)
class Case:
    """One combination. None: not given."""

    select: int | None
    recall: int | None
    order: str | None
    granularity: str | None
    samples: int | None
    preset: str | None
    two_models: bool
    on_gpu: bool

    @property
    def given(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in ("select", "recall", "order", "granularity", "samples")}
        return {name: value for name, value in named.items() if value is not None} | ({self.preset: True} if self.preset else {})

    def expected(self, n_chunks: int) -> tuple[bool, bool, float]:
        """Whether the retrieved chunks come first, whether windows are read, and about how many words."""
        recall = self.recall or (20 if self.on_gpu else 2)
        select = self.select
        if select is None and self.preset == "thorough":
            select = 20 if self.on_gpu else 8
        if select is None and self.on_gpu:
            select = 10
        n = select or 5
        no_samples = self.samples == 0 or self.preset == "fast"
        first = recall < n and n_chunks <= 50 and not (self.two_models and not no_samples)
        if self.order in ("read-first", "document"):
            first = self.order == "read-first"
        if n_chunks <= n:
            return first, False, n_chunks * WORDS
        windows = first and n_chunks <= 50
        if self.granularity in ("chunk", "window"):
            windows = self.granularity == "window"
        words = float(n * WORDS)
        if windows and select is None and n_chunks <= 50:
            words = recall * WORDS + 400
        if first:
            words = max(words, recall * WORDS)
        return first, windows, min(words, n_chunks * WORDS)


def trace_of(method: Method, n_chunks: int) -> Trace:
    return retrieved(method, QUESTION, tools(log_of(n_chunks), Scripted(["Wrenn lit it."]), Scripted(["Wrenn"])))


def chosen(case: Case) -> Method | None:
    """The method; None for a combination that is refused: a preset of which nothing is left."""
    try:
        method = choose_method(case.given, on_gpu=case.on_gpu)
    except FbragError:
        return None
    return method.for_two_models() if case.two_models else method


@pytest.mark.parametrize("n_chunks", LENGTHS)
@pytest.mark.parametrize("on_gpu", [False, True])
def test_what_is_read_is_what_the_settings_say(n_chunks: int, on_gpu: bool) -> None:
    refused = []
    for values in product(SELECT, RECALL, ORDER, GRANULARITY, SAMPLES, PRESET, (False, True)):
        case = Case(*values, on_gpu=on_gpu)  # type: ignore[arg-type]
        if (method := chosen(case)) is None:
            refused.append(case)
            continue
        trace, (first, windows, words) = trace_of(method, n_chunks), case.expected(n_chunks)
        read = sum(passage.n_words for passage in trace.context)
        assert abs(read - words) <= (WORDS if windows else 0), (case, read, words)
        whole = [passage == trace.corpus.chunks[passage.position] for passage in trace.context]
        assert windows or all(whole), case
        best = sorted(sorted(range(n_chunks), key=lambda position: (-trace.scores.backward[position], position))[: method.recall])  # type: ignore[attr-defined]
        positions = [passage.position for passage in trace.context]
        assert not first or positions[: len(best)] == best, case
        assert first or positions == sorted(positions), case
    assert all(
        case.samples == 0 if case.preset == "fast" else case.select and (case.samples == 0 or on_gpu) for case in refused
    ), "nothing is left of the preset"
    assert {case.preset for case in refused} == {"fast", "thorough"}


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("on_gpu", [False, True])
def test_what_is_printed_as_the_default_changes_nothing(kind: type[Method], on_gpu: bool) -> None:
    usual = choose_method({"method": kind.name}, on_gpu=on_gpu)
    for name, setting in settings_of(kind).items():
        default = getattr(usual, name)
        given = {"method": kind.name, name: "auto" if default is None and setting.words else default}
        parsed = {key: setting.check(value) if key == name and value is not None else value for key, value in given.items()}
        assert choose_method(parsed, on_gpu=on_gpu) == usual, name


@pytest.mark.parametrize("kind", [each for each in METHODS if "select" in settings_of(each)], ids=lambda kind: kind.name)
def test_every_method_with_a_number_gets_it_when_it_is_made(kind: type[Method]) -> None:
    for on_gpu in (False, True):
        method: Any = choose_method({"method": kind.name}, on_gpu=on_gpu)
        expected = 10 if on_gpu or kind.name == "fit-rag" else None if kind is FBRag else 5
        assert method.select == expected
        assert choose_method({"method": kind.name, "select": 3}, on_gpu=on_gpu).select == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.name)
def test_a_setting_of_another_method_is_refused_and_one_of_its_own_is_checked(kind: type[Method]) -> None:
    for name, setting in all_settings().items():
        value = 1 if setting.kind is int else setting.choices[0] if setting.choices else setting.default
        if name not in settings_of(kind) and value is not None:
            with pytest.raises(FbragError, match=f"{name} has no effect with the method {kind.name}"):
                choose_method({"method": kind.name, name: value}, on_gpu=False)
        elif name in settings_of(kind) and setting.minimum is not None:
            with pytest.raises(FbragError, match=f"{name} is"):
                kind(**{name: setting.kind(setting.minimum - 1)})
