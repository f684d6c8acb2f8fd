"""A generator that returns cached replies for a repeated call: the same question again, another `--select`, `explain`, `eval`."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Generic, TypeVar, get_args

from fbrag_cli.generation.build import installed
from fbrag_cli.generation.generator import (
    QUIET,
    Call,
    Choose,
    Finish,
    Generation,
    Generations,
    Generator,
    ModelInfo,
    Sampling,
    Turn,
)
from fbrag_cli.storage.cache import Cache, entry_key

#: The kind of cache entry.
KIND = "samples"

#: Number of replies in memory. The least recently used ones go first.
MOST_REPLIES = 1000

T = TypeVar("T")

_Turns = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Two switches of the cache of replies.

    again: skip what earlier runs left in the cache, and replace it. first_costs: report the tokens and seconds that a cached
    reply cost when it was drawn, as a comparison needs, rather than none.
    """

    again: bool = False
    first_costs: bool = False


@dataclass(frozen=True, slots=True)
class _Model:
    """What a cache entry holds of its model, so that the model need not be loaded."""

    info: ModelInfo
    chooses: bool


class _Latest(Generic[T]):
    """The values of the keys that were used last, `MOST_REPLIES` at most. For several threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, value: T) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > MOST_REPLIES:
                self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


class _Memory:
    """What is known of a model without asking it: itself, and its replies by their keys in the cache."""

    def __init__(self) -> None:
        self.about: _Model | None = None
        self.generations: _Latest[Generations] = _Latest()
        self.choices: _Latest[tuple[float, ...]] = _Latest()


class CachedGenerator:
    """A `Generator` that caches the replies of another by prompt and sampling: in memory until `forget`, and in `cache`.

    load: returns the other generator; called once, when something is asked for that is not cached. cache: None for memory alone.
    model: identifies the model in the cache (whatever JSON can hold), with all that changes its replies.

    The first k of n cached samples serve a call for k, since sample i does not depend on n (see `Generator`). Calls may come from
    several threads where the other generator takes them so.
    """

    def __init__(
        self, load: Callable[[], Generator], cache: Cache | None = None, model: object = "", reuse: Reuse | None = None
    ) -> None:
        self._load, self._cache, self._model, self._reuse = load, cache, model, reuse or Reuse()
        self._loaded: Generator | None = None
        self._loading = threading.Lock()
        self._memory = _Memory()

    def loaded_by(self, load: Callable[[], Generator]) -> CachedGenerator:
        """Return one that shares the replies, and loads the same model by another function."""
        other = CachedGenerator(load, self._cache, self._model, self._reuse)
        other._memory = self._memory
        return other

    @property
    def info(self) -> ModelInfo:
        return self._about.info

    @property
    def choose(self) -> Choose | None:
        return self._choose if self._about.chooses else None

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call = QUIET) -> Generations:
        key = self._key(tuple(turns), asdict(sampling))
        found = self._memory.generations.get(key) or self._entry(key, _generations)
        cached = found is not None and len(found.samples) >= n
        if found is None or not cached:
            found = self._generator.generate(turns, n, sampling, call)
            self._store(key, asdict(found))
        self._memory.generations.put(key, found)
        found = replace(found, samples=found.samples[:n], cached=cached)
        if cached and not self._reuse.first_costs:
            found = replace(found, cached_tokens=found.prompt_tokens, prefill_seconds=0.0, decode_seconds=0.0)
            if call.on_text:
                call.on_text(found.samples[0].text)
        return found

    def written(self, turns: Sequence[Turn]) -> str:
        return self._generator.written(turns)

    def count_tokens(self, text: str) -> int:
        return self._generator.count_tokens(text)

    def forget(self) -> None:
        """Drop the replies in memory. Those in the cache on the disk stay."""
        self._memory.generations.clear()
        self._memory.choices.clear()

    @property
    def _generator(self) -> Generator:
        with self._loading:
            if self._loaded is None:
                can = self._load()
                self._memory.about = _Model(can.info, can.choose is not None)
                self._loaded = can
            return self._loaded

    @property
    def _about(self) -> _Model:
        if self._memory.about is None:
            _ = self._generator
        assert self._memory.about
        return self._memory.about

    def _choose(self, turns: Sequence[Turn], choices: Sequence[str], call: Call) -> tuple[float, ...]:
        key = self._key(tuple(turns), tuple(choices))
        found = self._memory.choices.get(key)
        if found is None and not self._reuse.first_costs:  # an entry does not hold what it cost
            found = self._entry(key, partial(_probabilities, len(choices)))
        if found is None:
            choose = self._generator.choose
            assert choose
            found = choose(turns, choices, call)
            self._store(key, {"choices": found})
        self._memory.choices.put(key, found)
        return found

    # -- entries -----------------------------------------------------------------------------------------------------------

    def _entry(self, key: str, read: Callable[[dict[str, Any]], T]) -> T | None:
        """Return what `read` makes of an entry; None where there is none, or where it shall not be read."""
        if self._cache is None or self._reuse.again:
            return None
        found = self._cache.read_json(KIND, key, lambda meta: _restored(meta, read))
        if found is None:
            return None
        self._memory.about = self._memory.about or found[0]
        return found[1]

    def _store(self, key: str, reply: dict[str, Any]) -> None:
        if self._cache is not None:
            # It replaces an entry with fewer samples, and any with --again.
            self._cache.write_json(KIND, key, {"about": asdict(self._about), **reply})

    def _key(self, turns: _Turns, asked: object) -> str:
        messages = [
            (turn.role, turn.text, *((at, rows.width, sha256(rows.data).hexdigest()) for at, rows in turn.rows)) for turn in turns
        ]
        return entry_key(self._model, installed(), messages, asked)


def _restored(meta: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> tuple[_Model, T]:
    about = meta.pop("about")
    info = ModelInfo(**about["info"])
    texts = (info.name, info.sha256 or "", info.gpu_layers or "")
    if not all(isinstance(text, str) for text in texts) or type(info.context_tokens) not in (int, type(None)):
        raise ValueError("this describes no model")
    return _Model(info, about["chooses"] is True), read(meta)


def _generations(meta: dict[str, Any]) -> Generations:
    """Return the samples of an entry. Raises ValueError where a value is not of its type."""
    samples = tuple(Generation(**sample) for sample in meta.pop("samples"))
    found = Generations(samples, **meta)
    numbers = [found.prompt_tokens, found.cached_tokens]
    numbers += [number for each in samples for number in (each.n_tokens, each.thought_tokens)]
    seconds = (found.prefill_seconds, found.decode_seconds)
    if not (
        samples
        and all(isinstance(each.text, str) and type(each.seed) is int and each.finish in get_args(Finish) for each in samples)
        and all(type(number) is int and number >= 0 for number in numbers)
        and all(isinstance(each, int | float) and 0 <= each < math.inf for each in seconds)
    ):
        raise ValueError("these are no samples")
    return found


def _probabilities(n: int, meta: dict[str, Any]) -> tuple[float, ...]:
    """Return `n` probabilities of an entry. Raises ValueError where it has others."""
    found = tuple(map(float, meta["choices"]))
    if len(found) != n or not all(0 <= each <= 1.001 for each in found):
        raise ValueError("these are no probabilities")
    return found
