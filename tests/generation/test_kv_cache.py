"""Which part of a prompt is read again, on tiny models of the kinds of memory: cells, cells within a window, and states.

What a call returns is compared with that of a model that has read nothing before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.generator import CallOptions, Generations, Message, Sampling
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.weights import Loading
from fbrag_cli.methods.prompts import answer_messages, self_route_messages, support_messages
from tests.generation.architectures import ARCHITECTURES

WORDS = "keeper log brig torn sails noon lighthouse harbour storm anchor captain mast Anna Meridian".split()
LOG = "The keeper wrote in her log that a brig with torn sails had passed at noon and was seen no more. "
HYBRIDS = [each.name for each in ARCHITECTURES.values() if "hybrid" in each.kind]
WINDOWS = [each.name for each in ARCHITECTURES.values() if "windows" in each.kind]

Opened = Callable[[str], LlamaGenerator]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Opens the tiny model of an architecture."""

    def opening(name: str) -> LlamaGenerator:
        path = tmp_path / f"{name}.gguf"
        return LlamaGenerator(path if path.exists() else ARCHITECTURES[name].write(path), Loading(threads=1))

    return opening


def words(n: int, seed: int) -> str:
    return " ".join(Random(seed).choices(WORDS, k=n))


def fresh(opened: Opened, name: str, messages: tuple[Message, ...], n: int, sampling: Sampling) -> Generations:
    with opened(name) as model:
        return model.generate(messages, n, sampling)


@pytest.mark.parametrize("name", ["qwen2", "gemma4", *HYBRIDS])
def test_the_check_of_an_answer_does_not_read_the_context_again(opened: Opened, name: str) -> None:
    """The prompts of a question share their context, and part within the words of one turn."""
    context = [words(60, seed) for seed in range(4)]
    with opened(name) as model:
        n_context = model.count_tokens("".join(context))
        model.generate(self_route_messages(context, "Which brig?"), 1, Sampling(6))
        read = []
        note = CallOptions(on_prompt=lambda done, total: read.append(total - done))
        checked = model.choice_probabilities(support_messages(context, "Which brig?", "Meridian"), ("yes", "no"), note)
        again = model.generate(answer_messages(context, "Which captain?"), 2, Sampling(6))
    assert read[0] < 300 < n_context  # a token is a byte
    assert again.cached_tokens > n_context
    with opened(name) as model:
        alone = model.choice_probabilities(support_messages(context, "Which brig?", "Meridian"), ("yes", "no"))
        assert checked == pytest.approx(alone, rel=1e-3)
        assert model.generate(answer_messages(context, "Which captain?"), 2, Sampling(6)).samples == again.samples


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_chat_that_goes_on_reads_only_what_is_new(opened: Opened, name: str) -> None:
    first = (Message("user", LOG * 6 + "What passed?"),)
    more = (*first, Message("assistant", "A brig."), Message("user", "When?"))
    with opened(name) as model:
        asked = model.generate(first, 3, Sampling(12))
        followed = model.generate(more, 3, Sampling(12))
        longer = (*more, Message("assistant", "At noon."), Message("user", "And its sails?"))
        last = model.generate(longer, 1, Sampling(12))
    assert followed.cached_tokens >= len(LOG * 6 + "What passed?")
    assert asked.prompt_tokens < last.cached_tokens < followed.prompt_tokens
    assert last.samples == fresh(opened, name, longer, 1, Sampling(12)).samples


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_larger_context_takes_the_copy_of_a_state_over(opened: Opened, name: str) -> None:
    context = [words(60, 0)]
    messages = (Message.about([f"{context[0]}\n\n"], "What passed? " * 200),)
    with opened(name) as model:
        model.generate((Message.about([f"{context[0]}\n\n"], "What passed?"),), 1, Sampling(4))
        before = model._prompts.context
        found = model.generate(messages, 2, Sampling(9))
        assert model._prompts.context is not before
    assert found.cached_tokens >= len(context[0])
    assert found.samples == fresh(opened, name, messages, 2, Sampling(9)).samples


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_prompt_that_was_cancelled_goes_on_where_it_was_left(opened: Opened, name: str) -> None:
    class Stopped(BaseException):
        pass

    messages = (Message("user", LOG * 15),)
    cancellation = Cancellation()

    def note(done: int, total: int) -> None:
        if done:
            cancellation.request(Stopped())

    with opened(name) as model:
        with pytest.raises(Stopped):
            model.generate(messages, 2, Sampling(9), CallOptions(cancellation=cancellation, on_prompt=note))
        found = model.generate(messages, 2, Sampling(9))
    assert found.cached_tokens >= 512
    assert found.samples == fresh(opened, name, messages, 2, Sampling(9)).samples


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("name", ["llama", *WINDOWS, "qwen35", "granitehybrid"])
def test_what_was_read_before_changes_no_reply(opened: Opened, name: str, at_once: int) -> None:
    """Prompts that begin alike, in an order drawn at random: of a window, the cells before it are given to others."""
    drawn = Random(at_once)
    texts = [words(n, seed=n) for n in (15, 60, 110)]
    with opened(name) as model, opened(name) as alone:
        model.at_once = at_once
        messages: tuple[Message, ...] = ()
        n_cached = 0
        for i in range(12):
            if len(messages) == 1 and drawn.random() < 0.5:
                messages = (*messages, Message("assistant", "A brig."), Message("user", words(3, i)))
            else:
                messages = (Message.about([drawn.choice(texts)[: drawn.choice([20, 200, 1000])]], words(3, i)),)
            n, sampling = drawn.choice([1, 3]), Sampling(8, seed=i)
            found = model.generate(messages, n, sampling)
            n_cached += found.cached_tokens
            alone._prompts.close()  # what it has read
            assert found.samples == alone.generate(messages, n, sampling).samples
    assert n_cached > 500
