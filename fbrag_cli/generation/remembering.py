"""A generator that does not do twice what it was asked before: for `explain` after `ask`, another `--select`, `eval`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from importlib.metadata import version

from fbrag_cli.cache import Cache
from fbrag_cli.generation import Generation, Generations, Generator, ModelInfo, OnText, OnTokens, Sampling
from fbrag_cli.prompts import Prompt, Turn

#: In the cache.
KIND = "samples"


class Remembering:
    """What `generator` says, kept by prompt and sampling: in memory until `forget`, and on the disk where `cache` is given.

    Of n samples the first k are what k samples would have been, through rounding at most (the promise of a `Generator`), so that
    fewer samples are taken from more. model: what tells its model from all others, for the cache. first_costs: whether samples
    that were kept cost what they did when they were drawn, as in a comparison, and not nothing.
    """

    def __init__(self, generator: Generator, cache: Cache | None = None, model: str = "", *, first_costs: bool = False) -> None:
        self._generator, self._cache, self._model, self._first_costs = generator, cache, model, first_costs
        self._generations: dict[tuple[Prompt, Sampling], Generations] = {}
        self._choices: dict[tuple[Prompt, tuple[str, ...]], tuple[float, ...]] = {}

    @property
    def info(self) -> ModelInfo:
        return self._generator.info

    def prompt(self, turns: Sequence[Turn]) -> Prompt:
        return self._generator.prompt(turns)

    def generate(
        self, prompt: Prompt, n: int, sampling: Sampling, *, on_prompt: OnTokens | None = None, on_text: OnText | None = None
    ) -> Generations:
        known = self._generations.get((prompt, sampling)) or self._stored(prompt, sampling)
        kept = known is not None and len(known.samples) >= n
        if known is None or not kept:
            known = self._generator.generate(prompt, n, sampling, on_prompt=on_prompt, on_text=on_text)
            self._store(prompt, sampling, known)
        self._generations[prompt, sampling] = known
        known = replace(known, samples=known.samples[:n], kept=kept)
        if kept and not self._first_costs:
            known = replace(known, cached_tokens=known.prompt_tokens, prefill_seconds=0.0, decode_seconds=0.0)
        return known

    def choose(self, prompt: Prompt, choices: Sequence[str]) -> tuple[float, ...]:
        asked = (prompt, tuple(choices))
        if asked not in self._choices:
            self._choices[asked] = self._generator.choose(prompt, choices)
        return self._choices[asked]

    def count_tokens(self, text: str) -> int:
        return self._generator.count_tokens(text)

    def forget(self) -> None:
        self._generations.clear()
        self._choices.clear()

    def _stored(self, prompt: Prompt, sampling: Sampling) -> Generations | None:
        if self._cache is None:
            return None
        key = self._key(prompt, sampling)
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

    def _store(self, prompt: Prompt, sampling: Sampling, generations: Generations) -> None:
        if self._cache is None:
            return
        key = self._key(prompt, sampling)
        self._cache.discard(KIND, key)  # one of fewer samples
        with suppress(OSError), self._cache.new(KIND, key) as entry:
            entry.write_text(json.dumps(asdict(generations)), "utf-8")

    def _key(self, prompt: Prompt, sampling: Sampling) -> str:
        segments = [(type(segment).__name__, segment.text) for segment in prompt.segments]
        asked = [self._model, self.info.gpu_layers, version("llama-cpp-python"), segments, asdict(sampling)]
        return sha256(json.dumps(asked).encode()).hexdigest()
