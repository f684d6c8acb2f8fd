"""What was replied once is not asked again, in this process and in the next; anything that matters makes it new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fbrag_cli.generation.cached import KIND, CachedGenerator, CachePolicy, Replies
from fbrag_cli.generation.generator import QUIET, CallOptions, Generations, Generator, Message, Sampling
from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache
from tests.methods.scripted import Scripted

ASKED = (Message("user", "Who?"),)
SAMPLING = Sampling(20, seed=3)
SAID = ["one", "two", "three"]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def asked_again(
    cache: Cache, messages: Sequence[Message] = ASKED, n: int = 3, sampling: Sampling = SAMPLING, model: str = "m"
) -> bool:
    """Whether a new process asks the model."""
    scripted = Scripted(SAID)
    CachedGenerator(lambda: scripted, Replies(cache, model)).generate(messages, n, sampling)
    return bool(scripted.asked)


def test_a_later_process_takes_the_samples_of_an_earlier_one_at_no_cost(cache: Cache) -> None:
    first = CachedGenerator(lambda: Scripted(SAID), Replies(cache, "m")).generate(ASKED, 3, SAMPLING)
    scripted = Scripted(["other"])
    fewer = CachedGenerator(lambda: scripted, Replies(cache, "m")).generate(ASKED, 2, SAMPLING)
    assert scripted.asked == []
    assert fewer.samples == first.samples[:2]
    assert (first.cached, fewer.cached) == (False, True)
    assert (fewer.cached_tokens, fewer.prefill_seconds, fewer.decode_seconds) == (first.prompt_tokens, 0, 0)
    compared = CachedGenerator(lambda: scripted, Replies(cache, "m", CachePolicy(report_original_costs=True))).generate(
        ASKED, 3, SAMPLING
    )
    assert compared == replace(first, cached=True)


def test_a_sample_that_was_cut_because_it_repeats_itself_is_known_as_such_later(cache: Cache) -> None:
    CachedGenerator(lambda: Scripted(SAID, finish="repeat"), Replies(cache, "m")).generate(ASKED, 1, SAMPLING)
    later = CachedGenerator(lambda: Scripted(["other"]), Replies(cache, "m")).generate(ASKED, 1, SAMPLING)
    assert [(sample.text, sample.finish) for sample in later.samples] == [("one", "repeat")]


def test_what_a_model_thought_is_known_later_and_older_entries_stay_readable(cache: Cache) -> None:
    thinker = Scripted(SAID, thought_tokens=3)
    CachedGenerator(lambda: thinker, Replies(cache, "m")).generate(ASKED, 3, SAMPLING)
    later = CachedGenerator(lambda: Scripted(["other"]), Replies(cache, "m"))
    assert later.generate(ASKED, 3, SAMPLING).reasoning_tokens == 9
    (path,) = (cache.root / KIND).iterdir()
    meta, _ = arrays.load(path, f"{KIND}/{path.name}")
    for sample in meta["samples"]:
        del sample["reasoning_tokens"]
    cache.write_json(KIND, path.name, meta)
    assert not asked_again(cache)


def test_more_samples_another_prompt_sampling_or_model_are_asked_for(cache: Cache) -> None:
    assert asked_again(cache, n=2)
    assert not asked_again(cache, n=2)
    assert asked_again(cache, n=3)
    assert not asked_again(cache, n=3)
    assert asked_again(cache, messages=(Message("user", "<user>Who?"),))  # a user who writes the markers
    assert asked_again(cache, messages=(Message("assistant", "Who?"),))
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


@pytest.mark.parametrize(
    "lie",
    [
        {"samples": []},
        {"samples": [{"text": 5, "n_tokens": 1, "finish": "stop", "seed": 3}] * 3},
        {"samples": [{"text": "x", "n_tokens": "1", "finish": "stop", "seed": 3}] * 3},
        {"samples": [{"text": "x", "n_tokens": 1, "finish": ["stop"], "seed": 3}] * 3},
        {"samples": [{"text": "x", "n_tokens": 1, "finish": "stop", "seed": 3, "reasoning_tokens": -1}] * 3},
        {"prompt_tokens": None},
        {"prefill_seconds": "long"},
        {"decode_seconds": float("nan")},
        {"about": {"info": {"name": 7, "sha256": None, "gpu_layers": None, "context_tokens": 5}, "chooses": 1}},
    ],
    ids=lambda lie: ascii(lie)[:50],
)
def test_an_entry_with_a_right_checksum_over_no_samples_is_made_again(cache: Cache, lie: dict[str, object]) -> None:
    assert asked_again(cache)
    (path,) = (cache.root / KIND).iterdir()
    meta, _ = arrays.load(path, f"{KIND}/{path.name}")
    cache.write_json(KIND, path.name, {**meta, **lie})
    assert asked_again(cache)
    assert not asked_again(cache)


def test_a_flipped_bit_and_a_swapped_entry_are_made_again(cache: Cache) -> None:
    other = (Message("user", "When?"),)
    assert asked_again(cache)
    (path,) = (cache.root / KIND).iterdir()
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"two")] ^= 1
    path.write_bytes(whole)
    assert asked_again(cache)
    whole = bytearray(path.read_bytes())
    assert asked_again(cache, messages=other)
    (second,) = set((cache.root / KIND).iterdir()) - {path}
    second.write_bytes(whole)
    assert asked_again(cache, messages=other)
    assert not asked_again(cache)


def test_without_a_cache_samples_stay_in_memory_until_they_are_dropped() -> None:
    scripted = Scripted(SAID)
    replies = Replies()
    cached = CachedGenerator(lambda: scripted, replies)
    for _ in range(2):
        cached.generate(ASKED, 3, SAMPLING)
    assert len(scripted.asked) == 1
    replies.clear()
    cached.generate(ASKED, 3, SAMPLING)
    assert len(scripted.asked) == 2


def test_it_can_do_what_its_generator_can() -> None:
    scripted = Scripted(SAID)
    cached = CachedGenerator(lambda: scripted)
    assert cached.info == scripted.info
    assert cached.render_prompt(ASKED) == scripted.render_prompt(ASKED)
    assert cached.choice_probabilities
    for _ in range(2):
        assert cached.choice_probabilities(ASKED, ("yes", "no"), CallOptions()) == (1, 0)
    assert len(scripted.asked) == 1


def test_a_generator_that_gives_no_probabilities_is_not_asked_for_them() -> None:
    class Server(Scripted):
        choice_probabilities = None  # type: ignore[assignment]

    assert CachedGenerator(lambda: Server(SAID)).choice_probabilities is None


def never() -> Generator:
    raise AssertionError("the model is loaded")


def test_what_is_cached_needs_no_model(cache: Cache) -> None:
    scripted = Scripted(SAID)
    first = CachedGenerator(lambda: scripted, Replies(cache, "m"))
    samples = first.generate(ASKED, 3, SAMPLING).samples
    assert first.choice_probabilities
    chosen = first.choice_probabilities(ASKED, ("yes", "no"), QUIET)
    later = CachedGenerator(never, Replies(cache, "m"))
    sent: list[str] = []
    assert later.generate(ASKED, 1, SAMPLING, CallOptions(on_text=sent.append)).samples == samples[:1]
    assert sent == ["one"]
    assert later.choice_probabilities
    assert later.choice_probabilities(ASKED, ("yes", "no"), QUIET) == chosen
    assert later.info == scripted.info
    with pytest.raises(AssertionError):
        later.choice_probabilities(ASKED, ("true", "false"), QUIET)


def test_a_model_is_loaded_when_it_is_asked(cache: Cache) -> None:
    loads: list[Scripted] = []

    def load() -> Scripted:
        loads.append(Scripted(SAID))
        return loads[0]

    cached = CachedGenerator(load, Replies(cache, "m"))
    assert not loads
    cached.generate(ASKED, 3, SAMPLING)
    assert len(loads) == 1
    cached.generate(ASKED, 2, SAMPLING)
    assert cached.info == loads[0].info
    assert len(loads) == 1
    assert cached.count_tokens("one two") == 2


def test_again_asks_anew_and_replaces_the_entries(cache: Cache) -> None:
    replies = ["old"]

    def reply(reuse: CachePolicy | None = None) -> tuple[str, float]:
        generator = CachedGenerator(lambda: Scripted(replies, yes=len(replies[0]) / 10), Replies(cache, "m", reuse))
        assert generator.choice_probabilities
        return generator.generate(ASKED, 1, SAMPLING).samples[0].text, generator.choice_probabilities(
            ASKED, ("yes", "no"), QUIET
        )[0]

    assert reply() == ("old", 0.3)
    replies[0] = "newer"
    assert reply() == ("old", 0.3)
    assert reply(CachePolicy(refresh=True)) == ("newer", 0.5)
    replies[0] = "newest"
    assert reply() == ("newer", 0.5)


def test_a_call_that_fails_leaves_no_entry(cache: Cache) -> None:
    class Interrupted(Scripted):
        def generate(
            self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions | None = None
        ) -> Generations:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CachedGenerator(lambda: Interrupted(SAID), Replies(cache, "m")).generate(ASKED, 3, SAMPLING)
    assert asked_again(cache)
    with pytest.raises(KeyboardInterrupt):  # what is there stays until there is something better
        CachedGenerator(lambda: Interrupted(SAID), Replies(cache, "m", CachePolicy(refresh=True))).generate(ASKED, 3, SAMPLING)
    assert not asked_again(cache)


def test_a_comparison_measures_each_choice(cache: Cache) -> None:
    """An entry of a choice has no cost, so a later process would report that it took no time."""
    for _ in range(2):
        scripted = Scripted(SAID)
        cached = CachedGenerator(lambda scripted=scripted: scripted, Replies(cache, "m", CachePolicy(report_original_costs=True)))  # type: ignore[misc]
        assert cached.choice_probabilities
        assert cached.choice_probabilities(ASKED, ("yes", "no"), QUIET) == (1, 0)
        assert len(scripted.asked) == 1
