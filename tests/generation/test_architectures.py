"""Every architecture that people run: what a call returns does not depend on what ran before it or beside it.

A model with random weights says nonsense, and another state of it says other nonsense.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.generator import CallOptions, Generations, Message, Sampling
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.weights import Loading
from tests.generation.architectures import ARCHITECTURES, LOG

MARKUP = 60  # the most tokens that a template writes before the first words


class Stopped(Exception):
    pass


def asked(question: str, subject: str = "passed", length: int = 4) -> tuple[Message, ...]:
    """A question about a context. Contexts of other subjects have nothing in common, and a token is a letter."""
    return (Message.about([f"{subject}: {LOG * length}"], question),)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each architecture."""
    return ARCHITECTURES[request.param].write(tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf")


@pytest.fixture(scope="module")
def model(file: Path) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(file, Loading(threads=1)) as generator:
        yield generator


@pytest.fixture(scope="module")
def alone(file: Path) -> Iterator[LlamaGenerator]:
    """The same model, for what is expected."""
    with LlamaGenerator(file, Loading(threads=1)) as generator:
        yield generator


def fresh(alone: LlamaGenerator, messages: tuple[Message, ...], n: int, sampling: Sampling) -> Generations:
    """What a model draws that has read nothing of the prompt before."""
    drawn = alone.generate(messages, n, sampling)
    assert drawn.cached_tokens < MARKUP
    return drawn


def test_it_loads_and_draws_samples_that_differ(model: LlamaGenerator) -> None:
    assert model.problems == ()
    drawn = model.generate(asked("What passed?"), 3, Sampling(16))
    assert len({sample.text for sample in drawn.samples}) == 3


def test_the_samples_of_a_call_are_those_of_calls_with_one_sample(model: LlamaGenerator, alone: LlamaGenerator) -> None:
    messages = asked("What passed?", "samples")
    drawn = model.generate(messages, 4, Sampling(24, seed=5)).samples
    first = fresh(alone, messages, 1, Sampling(24, seed=5))
    others = [alone.generate(messages, 1, Sampling(24, seed=seed)) for seed in (6, 7, 8)]
    assert drawn == tuple(each.samples[0] for each in (first, *others))


def test_a_follow_up_is_answered_as_a_fresh_prompt_is_and_reads_only_what_is_new(
    model: LlamaGenerator, alone: LlamaGenerator
) -> None:
    first = asked("What passed?", "follow-up")
    model.generate(first, 3, Sampling(20))
    more = (*first, Message("assistant", "A brig."), Message("user", "When?"))
    other = (*more[:-1], Message("user", "Was it seen again?"))
    expected = fresh(alone, more, 2, Sampling(24)), alone.generate(other, 2, Sampling(24))
    drawn = model.generate(more, 2, Sampling(24)), model.generate(other, 2, Sampling(24))
    assert [each.samples for each in drawn] == [each.samples for each in expected]
    assert min(each.cached_tokens for each in drawn) >= len(first[0].text)


def test_a_check_after_the_answer_weighs_as_a_fresh_prompt_does_and_does_not_read_the_context_again(
    model: LlamaGenerator, alone: LlamaGenerator
) -> None:
    model.generate(asked("What passed?", "check"), 1, Sampling(20))
    check = asked("Is it a brig?", "check")
    expected = alone.choice_probabilities(check, ("yes", "no"))
    read: list[int] = []
    options = CallOptions(on_prompt=lambda done, total: read.append(done))
    assert model.choice_probabilities(check, ("yes", "no"), options) == pytest.approx(expected, rel=1e-3)
    assert read[0] >= len(check[0].context.text)


def test_two_calls_at_once_get_what_each_gets_alone(file: Path, alone: LlamaGenerator) -> None:
    """The second begins while the first writes."""
    one, two = asked("What passed?", "one"), asked("What passed?", "two")
    samplings = (Sampling(60, seed=seed) for seed in range(50))
    unended = next(each for each in samplings if alone.generate(one, 2, each).samples[0].finish == "length")
    expected = alone.generate(one, 2, unended), fresh(alone, two, 2, Sampling(24))
    order: list[str] = []
    began: list[Future[Generations]] = []
    with LlamaGenerator(file, Loading(threads=1)) as shared, ThreadPoolExecutor(2) as pool:
        shared.at_once = 2

        def note_one(done: int, total: int) -> None:
            order.append("one")
            if done == 1:
                options = CallOptions(on_written=lambda *_: order.append("two"))
                began.append(pool.submit(shared.generate, two, 2, Sampling(24), options))

        first = pool.submit(shared.generate, one, 2, unended, CallOptions(on_written=note_one)).result()
        second = began[0].result()
        third = shared.generate(asked("When?", "one"), 1, Sampling(3))
    assert "one" in order[order.index("two") :]
    assert third.cached_tokens >= len(one[0].context.text)
    got, due = [*first.samples, *second.samples], [sample for each in expected for sample in each.samples]
    # The kernels of its experts round by what else is in the batch (seen on an AMD EPYC without AVX-512): a sample then parts.
    shown = 3 if file.stem == "gpt-oss" else None
    assert [(each.seed, each.text[:shown]) for each in got] == [(each.seed, each.text[:shown]) for each in due]


@pytest.mark.parametrize("moment", ["reading", "writing"])
def test_a_cancelled_call_leaves_nothing_behind(model: LlamaGenerator, alone: LlamaGenerator, moment: str) -> None:
    messages = asked("What passed?", f"cancelled while {moment}", 8)
    cancellation = Cancellation()

    def stop(done: int, total: int) -> None:
        if done > (MARKUP if moment == "reading" else 2):
            cancellation.request(Stopped())

    options = CallOptions(cancellation=cancellation, **{"on_prompt" if moment == "reading" else "on_written": stop})
    with pytest.raises(Stopped):
        model.generate(messages, 3, Sampling(100), options)
    assert model.generate(messages, 2, Sampling(24)).samples == fresh(alone, messages, 2, Sampling(24)).samples
