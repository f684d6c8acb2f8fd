"""What was sampled once is not sampled again, in this process and in the next; anything that matters makes it new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fbrag_cli.generation.cached import KIND, CachedGenerator
from fbrag_cli.generation.generator import Sampling
from fbrag_cli.generation.llama.chat_template import Markup, Prompt, Text
from fbrag_cli.storage.cache import Cache
from tests.methods.scripted import Scripted

PROMPT = Prompt((Markup("<user>"), Text("Who?")))
SAMPLING = Sampling(20, seed=3)
SAID = ["one", "two", "three"]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def asked_again(cache: Cache, prompt: Prompt = PROMPT, n: int = 3, sampling: Sampling = SAMPLING, model: str = "m") -> bool:
    """Whether a new process asks the model."""
    scripted = Scripted(SAID)
    CachedGenerator(scripted, cache, model).generate(prompt, n, sampling)
    return bool(scripted.asked)


def test_a_later_process_takes_the_samples_of_an_earlier_one_at_no_cost(cache: Cache) -> None:
    first = CachedGenerator(Scripted(SAID), cache, "m").generate(PROMPT, 3, SAMPLING)
    scripted = Scripted(["other"])
    fewer = CachedGenerator(scripted, cache, "m").generate(PROMPT, 2, SAMPLING)
    assert scripted.asked == []
    assert fewer.samples == first.samples[:2]
    assert (first.kept, fewer.kept) == (False, True)
    assert (fewer.cached_tokens, fewer.prefill_seconds, fewer.decode_seconds) == (first.prompt_tokens, 0, 0)
    compared = CachedGenerator(scripted, cache, "m", first_costs=True).generate(PROMPT, 3, SAMPLING)
    assert compared == replace(first, kept=True)


def test_more_samples_another_prompt_sampling_or_model_are_asked_for(cache: Cache) -> None:
    assert asked_again(cache, n=2)
    assert not asked_again(cache, n=2)
    assert asked_again(cache, n=3)
    assert not asked_again(cache, n=3)
    assert asked_again(cache, prompt=Prompt((Text("<user>"), Text("Who?"))))  # a user who writes the markers
    assert asked_again(cache, sampling=replace(SAMPLING, seed=4))
    assert asked_again(cache, sampling=replace(SAMPLING, temperature=0.5))
    assert asked_again(cache, model="n")


@pytest.mark.parametrize("damaged", ['{"samples": [{"text"', "[]", '{"samples": 1}', '{"samples": [{"text": "x"}]}', ""])
def test_a_damaged_entry_is_made_again(cache: Cache, damaged: str) -> None:
    assert asked_again(cache)
    (path,) = (cache.root / KIND).iterdir()
    path.write_text(damaged, "utf-8")
    assert asked_again(cache)
    assert not asked_again(cache)


def test_without_a_cache_it_is_kept_until_it_is_forgotten() -> None:
    scripted = Scripted(SAID)
    remembering = CachedGenerator(scripted)
    for _ in range(2):
        remembering.generate(PROMPT, 3, SAMPLING)
    assert len(scripted.asked) == 1
    remembering.forget()
    remembering.generate(PROMPT, 3, SAMPLING)
    assert len(scripted.asked) == 2
