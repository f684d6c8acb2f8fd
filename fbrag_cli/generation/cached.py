"""A generator that returns cached replies for repeated calls: the same question again, another `--select`, `explain`, `eval`."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar, get_args

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.generation.build import installed
from fbrag_cli.generation.generator import (
    QUIET,
    CallOptions,
    ChoiceProbabilities,
    FinishReason,
    Generation,
    Generations,
    Generator,
    Message,
    ModelInfo,
    Sampling,
)
from fbrag_cli.storage.cache import Cache, entry_key

#: The kind of cache entry.
KIND = "samples"

#: Number of replies in memory. The least recently used ones are dropped first.
MOST_REPLIES = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Two switches for the cache of replies.

    refresh: ignore replies from earlier runs, and replace them. report_original_costs: report the tokens and seconds that a
    cached reply originally cost, which comparisons need, instead of zero.
    """

    refresh: bool = False
    report_original_costs: bool = False


@dataclass(frozen=True, slots=True)
class _Model:
    """The data about a model in a cache entry, so that the model need not be loaded."""

    info: ModelInfo
    chooses: bool


class Replies:
    """A model's replies by prompt: the latest in memory until `clear`, all in `cache`. Thread-safe.

    cache: None for memory only. model: identifies the model, and everything that affects its replies, in the cache (any JSON
    value). about: data about the model, None until the model or one of its entries was seen.
    """

    about: _Model | None = None

    def __init__(self, cache: Cache | None = None, model: object = "", reuse: CachePolicy | None = None) -> None:
        self._cache, self._model, self.reuse = cache, model, reuse or CachePolicy()
        self._latest: OrderedDict[str, Any] = OrderedDict()  # least recently used first
        self._lock = threading.Lock()

    def key(self, messages: Sequence[Message], asked: object) -> str:
        keyed = [(message.role, message.text, *((at, *row.key) for at, row in message.embeddings)) for message in messages]
        return entry_key(self._model, installed(), keyed, asked)

    def find(self, key: str, read: Callable[[dict[str, Any]], T], *, in_memory: bool = False) -> T | None:
        """Return a reply, None if there is none. read: converts a cache entry to a reply. in_memory: whether to look only in
        memory."""
        with self._lock:
            if key in self._latest:
                self._latest.move_to_end(key)
                latest: T = self._latest[key]
                return latest
        if self._cache is None or self.reuse.refresh or in_memory:
            return None
        if (found := self._cache.read_json(KIND, key, partial(_restored, read))) is None:
            return None
        self.about = self.about or found[0]
        self._remember(key, found[1])
        return found[1]

    def add(self, key: str, reply: object, entry: dict[str, Any]) -> None:
        """Store a reply. entry: its cache entry, which replaces one with fewer samples, or any with --refresh."""
        self._remember(key, reply)
        if self._cache is not None and self.about:
            self._cache.write_json(KIND, key, {"about": asdict(self.about), **entry})

    def clear(self) -> None:
        """Drop the replies in memory. Those in the disk cache are kept."""
        with self._lock:
            self._latest.clear()

    def _remember(self, key: str, reply: object) -> None:
        with self._lock:
            self._latest[key] = reply
            self._latest.move_to_end(key)
            while len(self._latest) > MOST_REPLIES:
                self._latest.popitem(last=False)


class CachedGenerator:
    """A `Generator` that returns cached `replies` of another one, and adds new ones.

    load: returns the other generator, whose model it loads once. Called for each reply that is not cached.

    The first k of n cached samples serve a call for k, since sample i does not depend on n (see `Generator`). It is thread-safe
    if the other generator is.
    """

    def __init__(self, load: Callable[[], Generator], replies: Replies | None = None) -> None:
        self._load, self._replies = load, replies or Replies()

    @property
    def info(self) -> ModelInfo:
        return self._described().info

    @property
    def choice_probabilities(self) -> ChoiceProbabilities | None:
        return self._choose if self._described().chooses else None

    def generate(self, messages: Sequence[Message], n: int, sampling: Sampling, options: CallOptions = QUIET) -> Generations:
        key = self._replies.key(messages, asdict(sampling))
        found = self._replies.find(key, _generations)
        if found is None or len(found.samples) < n:
            found = self._loaded().generate(messages, n, sampling, options)
            self._replies.add(key, found, asdict(found))
            return found
        found = replace(found, samples=found.samples[:n], cached=True)
        if not self._replies.reuse.report_original_costs:
            found = replace(found, cached_tokens=found.prompt_tokens, prefill_seconds=0.0, decode_seconds=0.0)
            if options.on_text:
                options.on_text(found.samples[0].text)
        return found

    def render_prompt(self, messages: Sequence[Message]) -> str:
        return self._loaded().render_prompt(messages)

    def count_tokens(self, text: str, cancellation: Cancellation | None = None) -> int:
        return self._loaded().count_tokens(text, cancellation)

    def _loaded(self) -> Generator:
        """Load the other generator."""
        generator = self._load()
        self._replies.about = _Model(generator.info, generator.choice_probabilities is not None)
        return generator

    def _described(self) -> _Model:
        """Return data about the model, which is loaded if no entry has them."""
        if self._replies.about is None:
            self._loaded()
        assert self._replies.about
        return self._replies.about

    def _choose(self, messages: Sequence[Message], choices: Sequence[str], options: CallOptions) -> tuple[float, ...]:
        key = self._replies.key(messages, tuple(choices))
        # An entry does not include its cost.
        found = self._replies.find(
            key, partial(_probabilities, len(choices)), in_memory=self._replies.reuse.report_original_costs
        )
        if found is None:
            choose = self._loaded().choice_probabilities
            assert choose
            found = choose(messages, choices, options)
            self._replies.add(key, found, {"choices": found})
        return found


# -- entries ---------------------------------------------------------------------------------------------------------------


def _restored(read: Callable[[dict[str, Any]], T], meta: dict[str, Any]) -> tuple[_Model, T]:
    about = meta.pop("about")
    info = ModelInfo(**about["info"])
    texts = (info.name, info.sha256 or "", info.gpu_layers or "")
    if not all(isinstance(text, str) for text in texts) or type(info.context_tokens) not in (int, type(None)):
        raise ValueError("not the data of a model")
    return _Model(info, about["chooses"] is True), read(meta)


def _generations(meta: dict[str, Any]) -> Generations:
    """Return the samples in an entry. Raises ValueError for a value of the wrong type."""
    samples = tuple(Generation(**sample) for sample in meta.pop("samples"))
    found = Generations(samples, **meta)
    numbers = [found.prompt_tokens, found.cached_tokens]
    numbers += [number for each in samples for number in (each.n_tokens, each.reasoning_tokens)]
    seconds = (found.prefill_seconds, found.decode_seconds)
    if not (
        samples
        and all(
            isinstance(each.text, str) and type(each.seed) is int and each.finish in get_args(FinishReason) for each in samples
        )
        and all(type(number) is int and number >= 0 for number in numbers)
        and all(isinstance(each, int | float) and 0 <= each < math.inf for each in seconds)
        and all(each.probability is None or 0 <= each.probability <= 1 for each in samples)
    ):
        raise ValueError("not samples")
    return found


def _probabilities(n: int, meta: dict[str, Any]) -> tuple[float, ...]:
    """Return the `n` probabilities in an entry. Raises ValueError for anything else."""
    found = tuple(map(float, meta["choices"]))
    if len(found) != n or not all(0 <= each <= 1.001 for each in found):
        raise ValueError("not probabilities")
    return found
