"""A generator that returns cached replies for a repeated call: the same question again, another `--select`, `explain`, `eval`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from typing import Any, TypeVar

from fbrag_cli.generation.generator import QUIET, Call, Choose, Generation, Generations, Generator, ModelInfo, Sampling, Turn
from fbrag_cli.generation.reuse import Reuse
from fbrag_cli.storage.cache import Cache, entry_key

#: The kind of cache entry.
KIND = "samples"

T = TypeVar("T")

_Turns = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class _About:
    """What a cache entry says of its model, so that the model need not be loaded."""

    info: ModelInfo
    chooses: bool
    continues_turns: bool


class CachedGenerator:
    """A `Generator` that caches the replies of another by prompt and sampling: in memory until `forget`, and in `cache`.

    load: returns the other. It is called once, and not before something is asked for that is not cached. The first k of n cached
    samples serve a call for k, since sample i does not depend on n (see `Generator`). cache: None for memory alone. model:
    identifies the model in the cache (whatever JSON can hold), with all that changes its replies. Calls may come from several
    threads where the other takes them so.
    """

    def __init__(
        self, load: Callable[[], Generator], cache: Cache | None = None, model: object = "", reuse: Reuse | None = None
    ) -> None:
        self._load, self._cache, self._model, self._reuse = load, cache, model, reuse or Reuse()
        self._loaded: Generator | None = None
        self._loading = threading.Lock()
        self._known: _About | None = None
        self._generations: dict[tuple[_Turns, Sampling], Generations] = {}
        self._choices: dict[tuple[_Turns, tuple[str, ...]], tuple[float, ...]] = {}

    @property
    def info(self) -> ModelInfo:
        return self._about.info

    @property
    def continues_turns(self) -> bool:
        return self._about.continues_turns

    @property
    def choose(self) -> Choose | None:
        return self._choose if self._about.chooses else None

    def generate(self, turns: Sequence[Turn], n: int, sampling: Sampling, call: Call = QUIET) -> Generations:
        asked = tuple(turns)
        found = self._generations.get((asked, sampling)) or self._stored(asked, sampling)
        cached = found is not None and len(found.samples) >= n
        if found is None or not cached:
            found = self._generator.generate(turns, n, sampling, call)
            self._store(self._key(asked, asdict(sampling)), asdict(found))
        self._generations[asked, sampling] = found
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
        self._generations.clear()
        self._choices.clear()

    @property
    def _generator(self) -> Generator:
        with self._loading:
            if self._loaded is None:
                can = self._load()
                self._known = _About(can.info, can.choose is not None, can.continues_turns)
                self._loaded = can
            return self._loaded

    @property
    def _about(self) -> _About:
        if self._known is None:
            _ = self._generator
        assert self._known
        return self._known

    def _choose(self, turns: Sequence[Turn], choices: Sequence[str], call: Call) -> tuple[float, ...]:
        asked = (tuple(turns), tuple(choices))
        found = self._choices.get(asked) or self._stored_choice(*asked) or self._chosen(*asked, call)
        self._choices[asked] = found  # another thread may forget it at once
        return found

    def _chosen(self, turns: _Turns, choices: tuple[str, ...], call: Call) -> tuple[float, ...]:
        choose = self._generator.choose
        assert choose
        found = choose(turns, choices, call)
        self._store(self._key(turns, choices), {"choices": found})
        return found

    # -- entries -----------------------------------------------------------------------------------------------------------

    def _stored(self, turns: _Turns, sampling: Sampling) -> Generations | None:
        return self._entry(self._key(turns, asdict(sampling)), _generations)

    def _stored_choice(self, turns: _Turns, choices: tuple[str, ...]) -> tuple[float, ...] | None:
        """Return what was chosen before. A comparison takes it from memory alone, since an entry does not hold its cost."""
        if self._reuse.first_costs:
            return None
        return self._entry(self._key(turns, choices), lambda meta: tuple(map(float, meta["choices"])))

    def _entry(self, key: str, read: Callable[[dict[str, Any]], T]) -> T | None:
        """Return what `read` makes of an entry; None where there is none, or where it shall not be read."""
        if self._cache is None or self._reuse.again:
            return None
        found = self._cache.read_json(KIND, key, lambda meta: _restored(meta, read))
        if found is None:
            return None
        self._known = self._known or found[0]
        return found[1]

    def _store(self, key: str, reply: dict[str, Any]) -> None:
        if self._cache is not None:
            # It replaces an entry with fewer samples, and any with --again.
            self._cache.write_json(KIND, key, {"about": asdict(self._about), **reply})

    def _key(self, turns: _Turns, asked: object) -> str:
        messages = [
            (turn.role, turn.text, *((at, rows.width, sha256(rows.data).hexdigest()) for at, rows in turn.rows)) for turn in turns
        ]
        return entry_key(self._model, version("llama-cpp-python"), messages, asked)


def _restored(meta: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> tuple[_About, T]:
    about = meta.pop("about")
    return _About(**about | {"info": ModelInfo(**about["info"])}), read(meta)


def _generations(meta: dict[str, Any]) -> Generations:
    samples = tuple(Generation(**sample) for sample in meta.pop("samples"))
    return Generations(samples, **meta)
