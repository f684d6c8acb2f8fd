"""Calls from several threads on one model: each gets what it would get alone, and none hurts another.

Most run on a model of 200 kB with random weights in full precision: what it says is nonsense, and equal to the token however its
calls are batched (up to 9,216 cells, where flash attention begins). With quantized weights llama.cpp rounds what flows between
the layers to 8 bits, so that the order of a sum, by the place of a prompt among the cells, can change a probability by some
hundredths. The last test bounds that.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.errors import FbragError
from fbrag_cli.generation.generator import QUIET, CallOptions, Generations, Message, Sampling
from fbrag_cli.generation.llama import kv_cache
from fbrag_cli.generation.llama.context import Context
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.weights import Loading
from tests.generation.tiny_gguf import Tiny

WORDS = "the keeper wrote in her log that a brig with torn sails had passed at noon and was seen no more".split()
PASSAGE = f"Log of the lighthouse. {' '.join(WORDS * 8)}\n"


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Tiny(blocks=2, heads=4, width=64, weights=0.3).write(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def shared(tiny: Path) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(tiny, Loading(threads=1)) as generator:
        generator.at_once = 4
        yield generator


@pytest.fixture(scope="module")
def single(tiny: Path) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(tiny, Loading(threads=1)) as generator:
        yield generator


def asked(question: str) -> tuple[Message, ...]:
    return (Message("user", PASSAGE + question),)


def test_the_time_of_reading_includes_the_wait_for_the_logits(shared: LlamaGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, decoding returns at once, and the logits come when all is computed."""
    logits = Context.logits

    def late(context: Context, i: int) -> Any:
        time.sleep(0.2)
        return logits(context, i)

    monkeypatch.setattr(Context, "logits", late)
    assert shared.generate(asked("When?"), 1, Sampling(1, temperature=0)).prefill_seconds >= 0.2


def unended(generator: LlamaGenerator, question: str, n_tokens: int) -> Sampling:
    """A sampling with which the only sample gets to its length limit."""
    samplings = (Sampling(n_tokens, seed=seed) for seed in range(100))
    return next(each for each in samplings if generator.generate(asked(question), 1, each).samples[0].finish == "length")


class Started:
    """A call in a thread of its own, once it is running: after its first token."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        run: Callable[..., Generations],
        question: str,
        sampling: Sampling,
        on_written: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.written: list[int] = []
        self.cancellation = Cancellation()
        self._on_written = on_written
        self._first = threading.Event()
        options = CallOptions(cancellation=self.cancellation, on_written=self._note)
        self.future = pool.submit(run, asked(question), 1, sampling, options)
        assert self._first.wait(30)

    def _note(self, done: int, total: int) -> None:
        self.written.append(done)
        self._first.set()
        self._on_written(done)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def test_calls_of_many_threads_get_what_they_get_alone(shared: LlamaGenerator, single: LlamaGenerator) -> None:
    """Random calls, some of them stopped on the way, or with a listener that fails."""
    drawn = random.Random(5)
    calls = []
    for _ in range(50):
        head = PASSAGE if drawn.random() < 0.5 else ""
        messages = (Message("user", head + " ".join(drawn.choices(WORDS, k=drawn.randint(1, 60)))),)
        sampling = Sampling(drawn.randint(1, 20), temperature=drawn.choice([0, 1.0]), seed=drawn.randint(0, 99))
        calls.append((messages, drawn.randint(0, 4), sampling, drawn.choice(["well"] * 6 + ["stopped", "failing"])))

    def ask(generator: LlamaGenerator, messages: Sequence[Message], n: int, sampling: Sampling, how: str) -> Any:
        if n == 0:
            return [round(each, 4) for each in generator.choice_probabilities(messages, ("a", "b"))]
        pieces: list[str] = []
        cancellation = Cancellation()

        def written(done: int, total: int) -> None:
            if done == 3 and how == "stopped":
                cancellation.request(Stopped())
            if done == 3 and how == "failing":
                raise KeyError("listener")

        try:
            options = CallOptions(cancellation=cancellation, on_written=written, on_text=pieces.append)
            samples = generator.generate(messages, n, sampling, options).samples
        except (Stopped, KeyError) as error:
            return type(error)
        assert samples[0].text.startswith("".join(pieces))
        return samples

    expected = [ask(single, *call) for call in calls]
    with ThreadPoolExecutor(7) as pool:
        found = list(pool.map(lambda call: ask(shared, *call), calls))
    assert found == expected
    assert {Stopped, KeyError} <= {each for each in expected if isinstance(each, type)}
    assert not any(prompt.live for prompt in shared._prompts._held)


def test_a_call_that_ends_makes_room_for_the_next_while_a_longer_one_goes_on(
    shared: LlamaGenerator, single: LlamaGenerator, pool: ThreadPoolExecutor
) -> None:
    shared.at_once = 2
    long = unended(single, "long", 300)
    running = Started(pool, shared.generate, "long", long)
    n_written: dict[str, int] = {}  # by the long one, when another got its first token

    def ask(question: str) -> None:
        options = CallOptions(on_written=lambda *_: n_written.setdefault(question, len(running.written)))
        shared.generate(asked(question), 2, Sampling(20), options)

    list(pool.map(ask, ("short", "next")))
    assert running.future.result().samples == single.generate(asked("long"), 1, long).samples
    first, second = sorted(n_written.values())
    assert 0 < first <= second - 10 < 290


def test_a_stopped_call_ends_at_once_and_the_others_go_on(
    shared: LlamaGenerator, single: LlamaGenerator, pool: ThreadPoolExecutor
) -> None:
    sampling = {question: unended(single, question, 200) for question in ("one", "other")}
    one, other = (Started(pool, shared.generate, question, sampling[question]) for question in sampling)
    one.cancellation.request(Stopped())
    with pytest.raises(Stopped):
        one.future.result()
    assert len(one.written) < 200
    assert other.future.result().samples == single.generate(asked("other"), 1, sampling["other"]).samples


def test_a_call_that_waits_for_its_turn_is_stopped_too(
    shared: LlamaGenerator, single: LlamaGenerator, pool: ThreadPoolExecutor
) -> None:
    shared.at_once = 1
    cancellation, read = Cancellation(), []

    def stop(n: int) -> None:
        if n == 200:
            cancellation.request(Stopped())

    running = Started(pool, shared.generate, "long", unended(single, "long", 300), stop)
    options = CallOptions(cancellation=cancellation, on_prompt=lambda done, total: read.append(done))
    with pytest.raises(Stopped):
        shared.generate(asked("waits"), 1, Sampling(3), options)
    assert read == []
    assert running.future.result().samples[0].n_tokens == 300


def test_a_prompt_that_is_too_long_is_refused_beside_others(tiny: Path, pool: ThreadPoolExecutor) -> None:
    with LlamaGenerator(tiny, Loading(threads=1), max_context=1500) as small:
        small.at_once = 2
        running = Started(pool, small.generate, "long", unended(small, "long", 200))
        with pytest.raises(FbragError, match=r"has [\d,]+ tokens, limit 1,500") as caught:
            small.generate(asked(PASSAGE * 3), 1, Sampling(9))
        assert caught.value.code == "prompt_too_long"
        assert running.future.result().samples[0].n_tokens == 200


def test_where_memory_is_short_fewer_calls_run_at_once_and_the_others_wait(
    shared: LlamaGenerator, single: LlamaGenerator, monkeypatch: pytest.MonkeyPatch, pool: ThreadPoolExecutor
) -> None:
    made, refused = list[int](), list[int]()

    def scarce(weights: Any, n_cells: int, n_sequences: int) -> Context:
        if n_cells > 2560:
            refused.append(n_cells)
            raise FbragError("out_of_memory", "no room", None)
        made.append(n_cells)
        return Context(weights, n_cells, n_sequences)

    monkeypatch.setattr(kv_cache, "Context", scarce)
    questions = [f"question {i}" for i in range(8)]
    found = list(pool.map(lambda question: shared.generate(asked(question), 2, Sampling(9)).samples, questions))
    assert found == [single.generate(asked(question), 2, Sampling(9)).samples for question in questions]
    assert refused, "more than two calls never asked for room"
    assert max(made) == 2560  # for two calls of 1,280; before that, how much is made depends on which calls are there


def test_a_call_that_outgrows_the_context_waits_for_a_larger_one(
    shared: LlamaGenerator, single: LlamaGenerator, pool: ThreadPoolExecutor
) -> None:
    shared.at_once = 2  # four such calls would be large enough for flash attention, which rounds otherwise
    long = unended(single, "long", 200)
    running = Started(pool, shared.generate, "long", long)
    before = shared._prompts.context
    larger = shared.generate(asked(PASSAGE * 2), 3, Sampling(5)).samples
    assert running.future.done()
    assert shared._prompts.context is not before
    assert larger == single.generate(asked(PASSAGE * 2), 3, Sampling(5)).samples
    assert running.future.result().samples == single.generate(asked("long"), 1, long).samples


def test_what_prompts_have_in_common_is_read_once(shared: LlamaGenerator) -> None:
    shared.generate(asked(PASSAGE), 1, Sampling(3))
    n_passage = shared.count_tokens(PASSAGE)
    others = [shared.generate(asked(question), 1, Sampling(3)) for question in ("Which ship?", "When?")]
    assert all(each.cached_tokens >= n_passage for each in others)
    follow_up = shared.generate(asked("Which ship? None."), 1, Sampling(3))  # after another question
    assert follow_up.cached_tokens >= n_passage + len("Which ship?")


def test_everything_is_freed_at_the_end(tiny: Path, monkeypatch: pytest.MonkeyPatch, pool: ThreadPoolExecutor) -> None:
    counts = dict.fromkeys(("llama_init_from_model", "llama_free", "llama_sampler_chain_init", "llama_sampler_free"), 0)

    def counting(name: str) -> Callable[..., Any]:
        function = getattr(llama_cpp, name)

        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    for name in counts:
        monkeypatch.setattr(llama_cpp, name, counting(name))
    generator = LlamaGenerator(tiny, Loading(threads=1))
    generator.at_once = 2
    sampling = unended(generator, "long", 300)
    running = [Started(pool, generator.generate, "long", sampling) for _ in range(2)]
    waiting = pool.submit(generator.generate, asked("waits"), 1, Sampling(3), QUIET)
    running[0].cancellation.request(Stopped())
    with pytest.raises(Stopped):
        running[0].future.result()
    generator.close()
    for each in (running[1].future, waiting):
        assert isinstance(each.exception(), RuntimeError | None)
    assert counts["llama_init_from_model"] == counts["llama_free"] > 0
    assert counts["llama_sampler_chain_init"] == counts["llama_sampler_free"] > 0


def test_a_signal_ends_the_call_of_its_thread_while_another_thread_runs_the_batches(
    shared: LlamaGenerator, single: LlamaGenerator, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal raises inside the wait for the other thread."""
    shared.at_once = 1
    long = unended(single, "long", 300)
    running = Started(pool, shared.generate, "long", long)

    def interrupted(predicate: Callable[[], bool]) -> bool:
        raise Stopped

    monkeypatch.setattr(shared._scheduler._changed, "wait_for", interrupted)
    with pytest.raises(Stopped):
        shared.generate(asked("waits"), 1, Sampling(3))
    monkeypatch.undo()
    assert running.future.result().samples == single.generate(asked("long"), 1, long).samples
    assert not shared._scheduler._waiting


def test_a_quantized_model_is_as_sure_beside_others_as_alone(smollm2: Path) -> None:
    countries = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Poland": "Warsaw"}

    def sure(generator: LlamaGenerator, country: str) -> float:
        question = Message("user", f"What is the capital of {country}?")
        generator.generate((question,), 2, Sampling(6))
        opening = Message("assistant", f"The capital of {country} is the city of")
        return generator.choice_probabilities((question, opening), (countries[country],))[0]

    with LlamaGenerator(smollm2) as generator:
        alone = [sure(generator, country) for country in countries]
        generator.at_once = 3
        with ThreadPoolExecutor(3) as pool:
            together = list(pool.map(lambda country: sure(generator, country), countries))
    assert min(alone) > 0.2
    assert together == pytest.approx(alone, abs=0.1)
