"""`Session`: a question on a collection becomes a `Trace`, whatever front asks. Models stay loaded from question to question."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fbrag_cli.generation.server.address import is_server
from fbrag_cli.generation.start import set_environment
from fbrag_cli.methods.method import Method, ModelTools, Tools
from fbrag_cli.progress import Event, Listener, stage
from fbrag_cli.session.models import Fetch, Models
from fbrag_cli.session.placement import check_gpu
from fbrag_cli.session.retrievers import BM25, Retrievers
from fbrag_cli.session.settings import DocumentSettings, ModelSettings
from fbrag_cli.storage.files import sha256_of
from fbrag_cli.trace import Stage, Trace

if TYPE_CHECKING:
    from fbrag_cli.corpus import Corpus
    from fbrag_cli.generation.cached import CachedGenerator
    from fbrag_cli.generation.generator import Generator
    from fbrag_cli.generation.reuse import Reuse
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.retrieval import Retriever
    from fbrag_cli.storage.cache import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Names of the models and of the retriever for a question. None: the default pair of the session."""

    small: str | None = None
    large: str | None = None
    retriever: str = BM25


#: The default pair, and BM25.
DEFAULT = Choice()


class _Question(threading.local):
    """The question that a thread is at. stage: that runs. retriever: of its corpus, by the key of `Session._at_hand`."""

    def __init__(self, listener: Listener) -> None:
        self.choice, self.listener, self.stage = DEFAULT, listener, ""
        self.retriever: tuple[tuple[str, str], Retriever] | None = None


class Session:
    """Runs questions. Use it as a context manager, or call `close`. Questions may come from several threads (`run_at_once`), if
    each of them is retrieved and answered in one.

    models, retrievers: make and hold what is loaded. cache: of the models' replies. reuse: what is taken from it. A model is
    loaded when it is first asked for what is not cached.
    """

    def __init__(
        self, models: Models, retrievers: Retrievers, cache: Cache, listener: Listener | None = None, reuse: Reuse | None = None
    ) -> None:
        set_environment()
        self.models, self._retrievers, self.cache = models, retrievers, cache
        self._listener, self._reuse = listener or Listener(), reuse
        self._question = _Question(self._listener)
        self._cached: dict[tuple[str, Path | None], CachedGenerator] = {}  # by name and adapter
        self._at_hand: dict[tuple[str, str], Retriever] = {}
        self._making, self._answering = threading.Lock(), False  # making: a retriever

    @classmethod
    def open(
        cls,
        settings: ModelSettings,
        cache: Cache,
        listener: Listener | None = None,
        *,
        fetch: Fetch | None = None,
        verbose: bool = False,
        reuse: Reuse | None = None,
    ) -> Session:
        """Return a session with models by `settings`. fetch: brings missing models. verbose: whether llama.cpp's log is shown."""
        listener = listener or Listener()
        shared: dict[str, Any] = {"cancellation": listener.cancellation, "verbose": verbose}
        models = Models(settings, cache=cache, fetch=fetch, progress=listener.progress, **shared)
        return cls(models, Retrievers(settings, cache, progress=listener.progress, **shared), cache, listener, reuse)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free all models."""
        self._retrievers.close()
        self.models.close()

    # -- before a question -----------------------------------------------------------------------------------------------

    @cached_property
    def on_gpu(self) -> bool:
        """True if the models run on a GPU. Raises FbragError `gpu_unavailable` or `usage` by the settings."""
        return check_gpu(self.models.settings, self.models.default_pair, self._listener.progress)

    @property
    def device(self) -> str:
        """The devices of the loaded models, in words; "" where none is loaded."""
        return self.models.device

    def collect(
        self,
        paths: Sequence[str],
        settings: DocumentSettings,
        chunk_words: int = 300,
        *,
        password: str | None = None,
        stdin: BinaryIO | None = None,
    ) -> Collection:
        """Read the files, folders and stdin ("-") that `paths` name. Raises FbragError as `indexing.collect`."""
        progress = self._listener.progress
        with stage("read", progress) as watch:
            from fbrag_cli.indexing.collect import collect, collect_one
            from fbrag_cli.indexing.entry import ReadSettings
            from fbrag_cli.indexing.files import find_files
            from fbrag_cli.text.languages import resolve

            language = None if settings.lang is None else resolve(settings.lang)
            reading = ReadSettings(chunk_words, settings.encoding, settings.pages, language, password)
            findings = find_files(paths, settings.include, settings.exclude)
            if len(findings.files) == 1 and not any(map(os.path.isdir, paths)):
                collection = collect_one(findings.files[0].path, reading, self.cache, stdin, self._listener)
            else:
                collection = collect(
                    findings.files, reading, self.cache, strict=settings.strict, stdin=stdin, listener=self._listener
                )
        warnings = (*findings.warnings, *collection.warnings)
        _warn([*warnings, *(each for document in collection.corpus.documents for each in document.warnings)], self._listener)
        return replace(collection, warnings=warnings, seconds=watch.seconds)

    def prepare(self, method: type[Method] | Method, choice: Choice = DEFAULT, *, answering: bool = True) -> None:
        """Find the models that the method needs; fetch missing ones. answering: whether `answer` follows, with the large one."""
        small, large = self.names(choice)
        self._answering = answering or method.needs_large
        names = [*([small] if method.needs_small else []), *([large] if self._answering else [])]
        self.models.find(names, large=[large] if self._answering else [])

    def identities(self, method: type[Method] | Method, choice: Choice = DEFAULT) -> dict[str, str]:
        """Return the models that the method asks, by role: their names, and what identifies them."""
        names = zip(("small", "large"), self.names(choice), strict=True)
        asked = ((role, self.models.identity(name)) for role, name in names if role == "large" or method.needs_small)
        return {role: " ".join(map(str, identity[:2])) for role, identity in asked}

    def name_servers(self, method: Method, choice: Choice = DEFAULT) -> None:
        """Say where the text goes, for models that are servers and that other processes ask. No text is sent."""
        for name in filter(is_server, self.names(choice)[0 if method.needs_small else 1 :]):
            self.models.load(name)

    def run_at_once(self, n: int) -> None:
        """Let the models run the calls of up to `n` threads in common batches; of fewer where memory is short."""
        self.models.at_once = n

    # -- a question ------------------------------------------------------------------------------------------------------

    def retrieve(
        self, question: str, collection: Collection, method: Method, choice: Choice = DEFAULT, listener: Listener | None = None
    ) -> Trace:
        """Run Stages I and II. Raises what the method, its models and its retriever raise."""
        from fbrag_cli.retrieval import Counting

        listener = listener or self._listener
        retriever, waited = self.retriever(collection, choice, listener), self.models.load_seconds
        trace = method.retrieve(question, self._tools(collection.corpus, retriever, choice, listener))
        load = Stage("load", self.models.load_seconds - waited)
        _warn(trace.warnings, listener)
        return replace(
            trace,
            question=method.asked(question),
            stages=(Stage("read", collection.seconds), load, *trace.stages),
            warnings=(*collection.warnings, *trace.warnings),
            cached=(*collection.cached, *trace.cached),
            absent=retriever.lacks(question) if isinstance(retriever, Counting) else (),
        )

    def answer(self, trace: Trace, choice: Choice = DEFAULT, listener: Listener | None = None) -> Trace:
        """Run Stage III of the trace's method on what the last `retrieve` on its corpus gave."""
        listener = listener or self._listener
        method = trace.method
        assert isinstance(method, Method)
        waited = self.models.load_seconds
        answered = method.answer(trace, self._tools(trace.corpus, self.retriever_of(trace, choice), choice, listener))
        seconds = self.models.load_seconds - waited
        _warn(answered.warnings[len(trace.warnings) :], listener)
        stages = (replace(each, seconds=each.seconds + seconds) if each.name == "load" else each for each in answered.stages)
        return replace(answered, stages=tuple(stages))

    def prompts(self, trace: Trace) -> Iterator[tuple[str, str]]:
        """Yield a title and the exact prompt of each model, in the order in which the method asks them."""
        method = trace.method
        assert isinstance(method, Method)
        large = self.large()
        for each in trace.rounds:
            title, model = ("small model", self.small()) if method.needs_small else ("large model, first", large)
            yield title, model.written(each.turns)
        yield "large model", large.written(method.turns(method.fitted(trace, large)))
        if fallback := method.fallback(trace):
            method, trace = fallback
            yield "large model, where it declines", large.written(method.turns(method.fitted(trace, large)))

    def retriever_of(self, trace: Trace, choice: Choice = DEFAULT) -> Retriever:
        """Return the retriever that scored the last trace on this corpus."""
        key, own = (trace.corpus.fingerprint, choice.retriever), self._question.retriever
        return own[1] if own and own[0] == key else self._at_hand[key]

    def small(self, choice: Choice = DEFAULT) -> CachedGenerator:
        """Return the small model. Its samples come from the cache where they can; else it is loaded."""
        return self._generator(self.names(choice)[0])

    def large(self, choice: Choice = DEFAULT) -> CachedGenerator:
        """Return the large model. Its answers come from the cache where they can; else it is loaded."""
        return self._generator(self.names(choice)[1])

    def forget(self) -> None:
        """Drop the replies in memory, as between two documents of a long run."""
        for generator in list(self._cached.values()):  # other threads add to it
            generator.forget()

    # -- what a question needs -------------------------------------------------------------------------------------------

    def names(self, choice: Choice = DEFAULT) -> tuple[str, str]:
        """Return the names of the small and of the large model."""
        small, large = self.models.default_pair
        return choice.small or small, choice.large or large

    def _tools(self, corpus: Corpus, retriever: Retriever, choice: Choice, listener: Listener) -> Tools:
        def progress(event: Event) -> None:
            if event.kind in ("start", "done"):
                self._question.stage = event.stage if event.kind == "start" else ""
            listener.progress(event)

        self._question.choice, self._question.listener = choice, listener
        models = self.model_tools(choice)
        return Tools(
            corpus=corpus,
            retriever=retriever,
            progress=progress,
            cancellation=listener.cancellation,
            model=models.model,
            part=models.part,
            digest=models.digest,
            load_seconds=models.load_seconds,
        )

    def model_tools(self, choice: Choice = DEFAULT) -> ModelTools:
        """Return the models and the trained parts that a method may ask for."""
        small, large = self.names(choice)
        return ModelTools(
            model=lambda role, adapter=None: self._generator(small if role == "small" else large, adapter),
            part=self.models.part,
            digest=lambda: self.models.digest(large),
            load_seconds=lambda: self.models.load_seconds,
        )

    def retriever(self, collection: Collection, choice: Choice, listener: Listener) -> Retriever:
        """Return the retriever of a collection. Those of the last corpus are reused."""
        key = (collection.corpus.fingerprint, choice.retriever)
        with self._making:
            if key not in self._at_hand:
                self._at_hand = {at: each for at, each in self._at_hand.items() if at[0] == key[0]}
                self._at_hand[key] = self._retrievers.over(collection, key[1], listener.progress)
            self._question.retriever = key, self._at_hand[key]
            return self._at_hand[key]

    def _generator(self, name: str, adapter: Path | None = None) -> CachedGenerator:
        from fbrag_cli.generation.cached import CachedGenerator

        if (name, adapter) not in self._cached:
            identity = [*self.models.identity(name), *([sha256_of(adapter)] if adapter else [])]
            generator = CachedGenerator(partial(self._load, name, adapter), self.cache, identity, self._reuse)
            self._cached.setdefault((name, adapter), generator)
        return self._cached[name, adapter]

    def _load(self, name: str, adapter: Path | None) -> Generator:
        """Load a model for the thread's question, then begin to load the one that will answer. The stage that needs it starts
        after it, for whoever follows the progress."""
        asked = self._question
        with stage("load", asked.listener.progress):
            generator = self.models.load(name, adapter)
        if asked.stage:
            asked.listener.progress(Event(asked.stage, "start"))
        if self._answering and adapter is None:
            self.models.begin(self.names(asked.choice)[1])
        return generator


def _warn(warnings: Sequence[str], listener: Listener) -> None:
    for warning in warnings:
        listener.progress(Event("answer", "warning", text=warning))
