"""Forecasts the seconds that a question still takes, from the pace of this machine in its last run and in this one.

A question has these phases: "load"; for the calls of the small and the large model, reading the prompt ("forward", "answer") and
writing the reply ("forward written", "answer written"); and "verify". A phase has a number of units and a pace in seconds per
unit. The units of reading and writing are tokens; each other phase is one unit.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fbrag_cli.progress import Event
from fbrag_cli.query import DEFAULT_MODELS, MethodSettings, ModelNames

if TYPE_CHECKING:
    from fbrag_cli.corpus import Corpus
    from fbrag_cli.session.session import Session
    from fbrag_cli.trace import Trace

#: The kind of cache entry.
KIND = "pace"

_WRITTEN = " written"
_JUDGED_AFTER_SECONDS = 1.0  # into a phase before its pace in this run counts

#: Phase -> seconds per unit, and units: for reading, tokens per word of the text; for others, the number in the last run.
Pace = Mapping[str, tuple[float, float]]


@dataclass(slots=True)
class _Phase:
    """The current phase. left: units still to do. before: units already done when it began."""

    name: str
    began: float
    left: float = 0
    before: float | None = None


class Forecast:
    """A forecast of the end of a question, updated by each event of its run. pace: as measured in this run, else as given.

    Its arguments: the pace of the last run, without which there is no forecast; the number of words that each reading phase
    reads, in the order of the phases; and whether the answer will be checked.
    """

    def __init__(self, pace: Pace | None = None, words: Mapping[str, float] | None = None, *, checked: bool = False) -> None:
        self.pace: dict[str, tuple[float, float]] = dict(pace or {})
        self._last, self._words = dict(self.pace), dict(words or {})
        phases = [*(phase for name in self._words for phase in (name, name + _WRITTEN)), *(["verify"] if checked else [])]
        known = self._words and self._last.keys() >= set(phases)
        if "load" in self._last:  # in the last run, the models were not loaded before
            phases.append("load")
        self._todo = {name: self._last[name][1] * self._words.get(name, 1) for name in phases} if known else {}
        self._slowness = 1.0  # seconds in this run per second of the last one
        self._loading = 0.0
        self._phase: _Phase | None = None
        self._end: float | None = None

    def left(self) -> float | None:
        """Return the seconds until the answer is complete; None if unknown."""
        return None if self._end is None else max(0.0, self._end - perf_counter())

    def whole(self) -> float:
        """Return the seconds of the whole question by the last run's pace, its models loaded; 0 if they are not known."""
        return sum(count * self._last[name][0] for name, count in self._todo.items() if name != "load")

    def update(self, event: Event) -> None:
        """Update the forecast from an event."""
        now, phase = perf_counter(), self._phase
        if event.kind == "start" and event.stage in ("load", "forward", "answer", "verify"):
            self._phase = _Phase(event.stage, now, self._todo.get(event.stage, 0))
        elif phase is None or phase.name.removesuffix(_WRITTEN) != event.stage:
            return
        elif event.kind in ("progress", "written") and event.total:
            self._advance(phase, event, now)
        elif event.kind == "done":
            self._finish(phase, now)
        else:
            return
        self._end = self._reckoned(now)

    def _advance(self, phase: _Phase, event: Event, now: float) -> None:
        """Update the number of tokens read or written."""
        reads = event.kind == "progress"
        name = event.stage if reads else event.stage + _WRITTEN
        if phase.name != name:
            self._todo.pop(phase.name, None)
            phase = self._phase = _Phase(name, now)
        if phase.before is None:
            phase.before, phase.began = event.done, now
        expected = event.total if reads else min(event.total, max(self._todo.get(name, 0), event.done + 1))
        phase.left = expected - event.done
        if done := event.done - phase.before:
            seconds = (now - phase.began) / done
            self.pace[name] = (seconds, event.total / self._words.get(name, 1) if reads else event.done)
            if name in self._last and now - phase.began > _JUDGED_AFTER_SECONDS:
                self._slowness = seconds / self._last[name][0]

    def _finish(self, phase: _Phase, now: float) -> None:
        seconds = now - phase.began
        if phase.name == "load":
            self._loading += seconds
            self.pace["load"] = (self._loading, 1)
        elif phase.name == "verify":
            self.pace["verify"] = (seconds, 1)
        stage = phase.name.removesuffix(_WRITTEN)
        for name in (stage, stage + _WRITTEN):
            self._todo.pop(name, None)
        self._phase = None

    def _reckoned(self, now: float) -> float | None:
        """Return the time at which the answer will be complete."""
        units = {**self._todo, self._phase.name: self._phase.left} if self._phase else self._todo
        if not self._todo or not units.keys() <= self._last.keys():
            return None
        return now + self._slowness * sum(count * self._last[name][0] for name, count in units.items())


def forecast(session: Session, method: MethodSettings, corpus: Corpus, models: ModelNames = DEFAULT_MODELS) -> Forecast:
    """Return the forecast for a question on a corpus, from the pace in the session's cache."""
    pace = session.cache.read_json(KIND, _key(session, method, models), _read)
    return Forecast(
        pace,
        _words_read(method, corpus),
        checked=not method.allow_unsupported and method.n_context_chunks(1, corpus.chunk_words) > 0,
    )


def keep(forecast: Forecast, session: Session, method: MethodSettings, trace: Trace) -> None:
    """Store the pace of a run in the cache, replacing that of the last one. A cached answer has none."""
    if forecast.pace and "answer" not in trace.cached:
        session.cache.write_json(KIND, _key(session, method, trace.query.models), forecast.pace)


def _key(session: Session, method: MethodSettings, models: ModelNames) -> str:
    """Return the cache key for the pace of this machine with these models, threads and devices, with or without samples."""
    from fbrag_cli.storage.cache import entry_key

    settings, names = asdict(session.models.settings), session.names(models)
    return entry_key(KIND, platform.node(), settings, names, method.name, method.needs_small)


def _read(entry: Mapping[str, Any]) -> Pace:
    pace = {name: (float(seconds), float(units)) for name, (seconds, units) in entry.items()}
    if not all(isfinite(value) and value > 0 for each in pace.values() for value in each):
        raise ValueError("not a pace")
    return pace


def _words_read(method: MethodSettings, corpus: Corpus) -> dict[str, float]:
    """Return the numbers of words that the forward lookup and the answer will read, at least 1 each."""
    n_all = len(corpus.chunks)
    chunks = {"forward": getattr(method, "recall", 0)} if method.needs_small or method.needs_large else {}
    chunks["answer"] = method.n_context_chunks(n_all, corpus.chunk_words)
    return {name: max(1, min(count * corpus.chunk_words, corpus.n_words)) for name, count in chunks.items()}
