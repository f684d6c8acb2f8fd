"""A generator that answers a repeated call from the cache: for `explain` after `ask`, another `--select`, `eval`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from importlib.metadata import version

from fbrag_cli.generation.generator import Call, Choose, Generation, Generations, Generator, ModelInfo, Sampling, Turn
from fbrag_cli.storage.cache import Cache

#: The kind of cache entry.
KIND = "samples"

_Turns = tuple[Turn, ...]


class CachedGenerator:
    """The samples of `generator`, cached by prompt and sampling: in memory until `forget`, on the disk where `cache` is given.

    Of n samples the first k are what k samples would have been, through rounding at most (the promise of a `Generator`), so that
    fewer samples are taken from more. model: identifies the model in the cache. first_costs: whether cached samples report what
    they cost when they were drawn, as a comparison needs, and not nothing.
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

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call | None = None) -> Generations:
        asked = tuple(turns)
        known = self._generations.get((asked, sampling)) or self._stored(asked, sampling)
        cached = known is not None and len(known.samples) >= n
        if known is None or not cached:
            known = self._generator.generate(turns, n, sampling, call or Call())
            self._store(asked, sampling, known)
        self._generations[asked, sampling] = known
        known = replace(known, samples=known.samples[:n], cached=cached)
        if cached and not self._first_costs:
            known = replace(known, cached_tokens=known.prompt_tokens, prefill_seconds=0.0, decode_seconds=0.0)
        return known

    def written(self, turns: Sequence[Turn]) -> str:
        return self._generator.written(turns)

    def count_tokens(self, text: str) -> int:
        return self._generator.count_tokens(text)

    def forget(self) -> None:
        """Drop the samples in memory; those on the disk stay."""
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
        if (path := self._cache.path(KIND, key)) is None:
            return None
        try:
            found = json.loads(path.read_bytes())
            samples = tuple(Generation(**sample) for sample in found.pop("samples"))
            generations = Generations(samples, **found)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self._cache.discard(KIND, key)
            return None
        self._cache.touch(KIND, [key])
        return generations

    def _store(self, turns: _Turns, sampling: Sampling, generations: Generations) -> None:
        if self._cache is None:
            return
        key = self._key(turns, sampling)
        self._cache.discard(KIND, key)  # one of fewer samples
        with suppress(OSError), self._cache.new(KIND, key) as entry:
            entry.write_text(json.dumps(asdict(generations)), "utf-8")

    def _key(self, turns: _Turns, sampling: Sampling) -> str:
        said = [(turn.role, turn.text) for turn in turns]
        asked = [self._model, self.info.gpu_layers, version("llama-cpp-python"), said, asdict(sampling)]
        return sha256(json.dumps(asked).encode()).hexdigest()
