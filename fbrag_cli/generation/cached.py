"""A generator that returns cached samples for a repeated call: for `explain` after `ask`, another `--select`, `eval`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

from fbrag_cli.generation.generator import QUIET, Call, Choose, Generation, Generations, Generator, ModelInfo, Sampling, Turn
from fbrag_cli.storage import arrays
from fbrag_cli.storage.cache import Cache, entry_key

#: The kind of cache entry.
KIND = "samples"

_Turns = tuple[Turn, ...]


class CachedGenerator:
    """A `Generator` that caches the samples of another by prompt and sampling: in memory until `forget`, and in `cache`.

    The first k of n cached samples serve a call for k, since sample i does not depend on n (see `Generator`). cache: None for
    memory alone. model: identifies the model in the cache. first_costs: whether cached samples report the cost of drawing them,
    as a comparison needs, rather than none.
    """

    def __init__(self, generator: Generator, cache: Cache | None = None, model: str = "", *, first_costs: bool = False) -> None:
        self._generator, self._cache, self._model, self._first_costs = generator, cache, model, first_costs
        self._generations: dict[tuple[_Turns, Sampling], Generations] = {}
        self._choices: dict[tuple[_Turns, tuple[str, ...]], tuple[float, ...]] = {}

    @property
    def info(self) -> ModelInfo:
        return self._generator.info

    @property
    def continues_turns(self) -> bool:
        return self._generator.continues_turns

    @property
    def takes_rows(self) -> bool:
        return self._generator.takes_rows

    @property
    def choose(self) -> Choose | None:
        return self._choose if self._generator.choose else None

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call = QUIET) -> Generations:
        asked = tuple(turns)
        found = self._generations.get((asked, sampling)) or self._stored(asked, sampling)
        cached = found is not None and len(found.samples) >= n
        if found is None or not cached:
            found = self._generator.generate(turns, n, sampling, call)
            self._store(asked, sampling, found)
        self._generations[asked, sampling] = found
        found = replace(found, samples=found.samples[:n], cached=cached)
        if cached and not self._first_costs:
            found = replace(found, cached_tokens=found.prompt_tokens, prefill_seconds=0.0, decode_seconds=0.0)
        return found

    def written(self, turns: Sequence[Turn]) -> str:
        return self._generator.written(turns)

    def count_tokens(self, text: str) -> int:
        return self._generator.count_tokens(text)

    def forget(self) -> None:
        """Drop the samples in memory. Those in the cache on the disk stay."""
        self._generations.clear()
        self._choices.clear()

    def _choose(self, turns: Sequence[Turn], choices: Sequence[str], call: Call) -> tuple[float, ...]:
        asked = (tuple(turns), tuple(choices))
        if asked not in self._choices:
            assert self._generator.choose
            self._choices[asked] = self._generator.choose(turns, choices, call)
        return self._choices[asked]

    def _stored(self, turns: _Turns, sampling: Sampling) -> Generations | None:
        if self._cache is None:
            return None
        key = self._key(turns, sampling)
        return self._cache.load(KIND, key, lambda path: _restored(*arrays.load(path, f"{KIND}/{key}")))

    def _store(self, turns: _Turns, sampling: Sampling, generations: Generations) -> None:
        if self._cache is not None:
            key = self._key(turns, sampling)
            self._cache.discard(KIND, key)  # an entry with fewer samples
            self._cache.store(KIND, key, lambda path: arrays.save(path, f"{KIND}/{key}", asdict(generations), {}))

    def _key(self, turns: _Turns, sampling: Sampling) -> str:
        messages = [(turn.role, turn.text) for turn in turns]
        return entry_key(self._model, self.info.gpu_layers, version("llama-cpp-python"), messages, asdict(sampling))


def _restored(meta: dict[str, Any], _: dict[str, arrays.Array]) -> Generations:
    samples = tuple(Generation(**sample) for sample in meta.pop("samples"))
    return Generations(samples, **meta)
