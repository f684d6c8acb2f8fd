"""`Session`: answers queries for every front. Documents are read once, and models stay loaded between questions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args

from fbrag_cli.documents.originals import Originals
from fbrag_cli.generation.cached import CachePolicy
from fbrag_cli.generation.process import set_environment
from fbrag_cli.generation.server.address import is_server
from fbrag_cli.methods.method import Method, Tools, method_of
from fbrag_cli.methods.registry import DEFAULT as FB_RAG
from fbrag_cli.methods.registry import choose_method, find_method
from fbrag_cli.progress import Event, Listener, Resuming, stage
from fbrag_cli.query import DEFAULT_MODELS, DEFAULT_RETRIEVER, MethodSettings, ModelNames, Query, Role, checked_question
from fbrag_cli.session.models import Fetch, Models, Offer, is_one_model
from fbrag_cli.session.placement import check_gpu
from fbrag_cli.session.pool import Lease
from fbrag_cli.session.retrievers import Retrievers
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.settings import settings_of
from fbrag_cli.storage.files import on_disk, sha256_of
from fbrag_cli.text.printable import in_short, plural
from fbrag_cli.trace import Stage, Trace

if TYPE_CHECKING:
    from fbrag_cli.documents.document import Document, ScannedLines
    from fbrag_cli.generation.cached import CachedGenerator, Replies
    from fbrag_cli.generation.generator import ModelInfo
    from fbrag_cli.indexing.entry import ReadSettings
    from fbrag_cli.query import Collection
    from fbrag_cli.retrieval import Retriever
    from fbrag_cli.storage.cache import Cache

_INSTEAD = "for other models: fbrag models list --all"
_AT_THE_SERVER = "turn reasoning off on the server, or use another of its models"


class Session:
    """Runs questions, also from several threads. Use it as a context manager, or call `close`.

    models, retrievers: find, load and lend models. cache: holds texts, indexes and the models' replies. listener: receives the
    progress and warnings of calls without their own listener. reuse: what to take from the cache. A model is loaded when a reply
    is first needed that is not cached.
    """

    def __init__(
        self,
        models: Models,
        retrievers: Retrievers,
        cache: Cache,
        listener: Listener | None = None,
        reuse: CachePolicy | None = None,
    ) -> None:
        set_environment()
        self.models, self.retrievers, self.cache = models, retrievers, cache
        self.listener, self._reuse = listener or Listener(), reuse or CachePolicy()
        self._replies: dict[tuple[str, Role, Path | None], Replies] = {}  # by name and role of the model, and adapter
        self._thinking: dict[str, str] = {}  # models whose reasoning was reported -> the warning

    @classmethod
    def open(
        cls,
        settings: ModelSettings | None = None,
        cache: Cache | CacheSettings | None = None,
        listener: Listener | None = None,
        *,
        fetch: Fetch | None = None,
        offer: Offer | None = None,
        offline: bool = False,
        verbose: bool = False,
        reuse: CachePolicy | None = None,
    ) -> Session:
        """Open a session.

        settings: models and devices; None for the default pair. cache: None for the user's. fetch, offer, offline, verbose: those
        of `Models`. reuse: what to take from the cache; None for its default.
        """
        settings, listener = settings or ModelSettings(), listener or Listener()
        if cache is None or isinstance(cache, CacheSettings):
            chosen = cache or CacheSettings()
            cache, reuse = chosen.opened(progress=listener.progress), reuse or CachePolicy(refresh=chosen.refresh)
        models = Models(settings, listener, fetch=fetch, offer=offer, offline=offline, verbose=verbose)
        return cls(models, Retrievers(settings, cache, verbose=verbose), cache, listener, reuse)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free all models, and trim the cache to its limit."""
        self.retrievers.close()
        self.models.close()
        self.cache.trim()

    def uncached(self) -> Session:
        """Return a session that caches nothing on disk. It shares the models of this session, and ends with it."""
        from fbrag_cli.storage.cache import NOWHERE

        return Session(self.models, Retrievers(self.models.settings, NOWHERE), NOWHERE, self.listener)

    def evict_idle(self, seconds: float) -> None:
        """Free the models that no question uses and that have been idle for `seconds`. The next question loads them again."""
        self.retrievers.evict_idle(seconds)
        self.models.evict_idle(seconds)

    # -- before a question -----------------------------------------------------------------------------------------------

    @cached_property
    def on_gpu(self) -> bool:
        """Whether the models run on a GPU. Raises FbragError `gpu_unavailable` or `usage` if the settings cannot be met."""
        return check_gpu(self.models.settings, self.models.default_pair, self.listener.progress)

    @property
    def device(self) -> str:
        """The devices of the loaded models, and the servers, in words; "" if there are none."""
        return self.models.device

    @property
    def device_details(self) -> str:
        """`device`, with the number of layers on GPUs, or of CPU threads."""
        return self.models.device_details

    def collect(
        self,
        paths: Sequence[str],
        settings: DocumentSettings | None = None,
        chunk_words: int = 300,
        *,
        password: str | None = None,
        stdin: BinaryIO | None = None,
        listener: Listener | None = None,
    ) -> Collection:
        """Read the files, folders and stdin ("-") named by `paths`. Raises the same errors as `indexing.collect`.

        settings: which files to read, and how; None for all known files, complete. chunk_words: words per chunk. password: for
        encrypted PDFs. listener: receives progress and warnings, and can stop the reading together with its child processes; None
        for the session's.
        """
        settings, listener = settings or DocumentSettings(), listener or self.listener
        with stage("read", listener.progress) as watch:
            from fbrag_cli.indexing.collect import collect, collect_one
            from fbrag_cli.indexing.walk import find_files

            paths = [*map(on_disk, paths)]
            reading = replace(_reading(settings, chunk_words, password), refresh=self._reuse.refresh)
            findings = find_files(paths, *settings.chosen, listener.cancellation)
            if len(findings.files) == 1 and not any(map(os.path.isdir, paths)):
                collection = collect_one(findings.files[0].path, reading, self.cache, stdin, listener)
            else:
                collection = collect(findings.files, reading, self.cache, strict=settings.strict, stdin=stdin, listener=listener)
        warnings = (*findings.warnings, *collection.warnings)
        documents = collection.corpus.documents
        read = {document.path for document in documents}
        unread = [file.path for file in findings.files if file.path not in read]
        named = [("", each) for each in findings.warnings]
        named += zip_longest(unread, collection.warnings, fillvalue="") if collection.warnings else ()
        named += [(document.name, each) for document in documents for each in document.warnings]
        warn("read", in_short(named), listener)
        originals = Originals(password, self.scanned_lines)
        return replace(collection, warnings=warnings, seconds=watch.seconds, originals=originals)

    def scanned_lines(self, document: Document, number: int) -> ScannedLines:
        """Return the lines that OCR has read on a page, with their corners, if they are in memory or in the cache."""
        if number not in document.ocr_pages:
            return ()
        if lines := document.content().scanned.get(number):
            return lines
        from fbrag_cli.documents.ocr.scans import read_page

        page = read_page(document.sha256, number, self.cache)
        return page.scanned_lines if page else ()

    def collect_bytes(
        self,
        name: str,
        data: bytes,
        settings: DocumentSettings | None = None,
        chunk_words: int = 300,
        listener: Listener | None = None,
    ) -> Collection:
        """Read a file that exists only in memory. It is not cached. name: its suffix matters. Raises and reports as `collect`
        does."""
        settings, listener = settings or DocumentSettings(), listener or self.listener
        with stage("read", listener.progress) as watch:
            from fbrag_cli.indexing.collect import collect_bytes

            collection = collect_bytes(name, data, _reading(settings, chunk_words), listener)
        warn("read", tuple(each for document in collection.corpus.documents for each in document.warnings), listener)
        return replace(collection, seconds=watch.seconds)

    def names(self, models: ModelNames = DEFAULT_MODELS) -> tuple[str, str]:
        """Return the names of the small and the large model. If both are of one file, each is the large model's."""
        small, large = self.models.default_pair
        small, large = models.small or small, models.large or large
        return large if is_one_model(small, large) else small, large

    def check(
        self,
        method: type[MethodSettings] | MethodSettings,
        models: ModelNames = DEFAULT_MODELS,
        retriever: str = DEFAULT_RETRIEVER,
        *,
        answering: bool = True,
    ) -> None:
        """Check the names of the models, the retriever and the trained components that a method needs, without downloading or
        loading.

        answering: whether the large model will answer. Raises FbragError for an unknown name.
        """
        self.models.check(self._asked(method, models, answering=answering))
        self.retrievers.check(retriever)
        if isinstance(method, MethodSettings):
            method.check()

    def prepare(
        self,
        method: type[MethodSettings] | MethodSettings,
        models: ModelNames = DEFAULT_MODELS,
        retriever: str = DEFAULT_RETRIEVER,
        *,
        answering: bool = True,
        listener: Listener | None = None,
    ) -> None:
        """Find the models that a method needs, and download missing ones. Raises the errors of `check` before any download."""
        self.check(method, models, retriever, answering=answering)
        self.models.find(self._asked(method, models, answering=answering), listener)

    def resolved(self, query: Query) -> Query:
        """Return the query with the names of its models filled in, and its method adapted to these models."""
        names = ModelNames(*self.names(query.models))
        method = query.method if names.small == names.large else query.method.for_two_models()
        return replace(query, method=method, models=names)

    def _asked(self, method: type[MethodSettings] | MethodSettings, models: ModelNames, *, answering: bool) -> list[str]:
        """Return the names of the models that the method uses."""
        small, large = self.names(models)
        return [*([small] if method.needs_small else []), *([large] if answering or method.needs_large else [])]

    def identities(self, method: type[MethodSettings] | MethodSettings, models: ModelNames = DEFAULT_MODELS) -> dict[str, str]:
        """Return the models that the method uses, by role: their names and identifiers."""
        names = zip(("small", "large"), self.names(models), strict=True)
        asked = ((role, self.models.identity(name)) for role, name in names if role == "large" or method.needs_small)
        return {role: " ".join(map(str, identity[:2])) for role, identity in asked}

    def name_servers(self, method: MethodSettings, models: ModelNames = DEFAULT_MODELS) -> None:
        """Report where document text goes, for servers that other processes will use. No text is sent."""
        for role in get_args(Role)[0 if method.needs_small else 1 :]:
            if is_server(name := self.names(models)[role == "large"]):
                self.models.load(name, role)

    def run_at_once(self, n: int) -> None:
        """Let the models run the calls of up to `n` threads in shared batches; fewer if memory is short."""
        self.models.run_at_once(n)

    # -- a question ------------------------------------------------------------------------------------------------------

    def ask(self, query: Query, listener: Listener | None = None) -> Trace:
        """Answer a question: run all three stages. Raises the same errors as `retrieve`."""
        return self.answer(self.retrieve(query, listener), listener)

    def retrieve(self, query: Query, listener: Listener | None = None, *, answering: bool = True) -> Trace:
        """Run Stages I and II. Return the trace without an answer. Missing models are downloaded first.

        listener: receives progress and warnings, and can stop the question; None for the session's. answering: whether `answer`
        follows; the large model is then loaded ahead. Raises the errors of the method, its models and its retriever, and the
        error of a requested cancellation.
        """
        from fbrag_cli.retrieval.bm25 import BM25

        listener = listener or self.listener
        self.models.find(self._asked(query.method, query.models, answering=answering), listener)
        query = self.resolved(query)
        with self._tools(query, listener, ahead=answering) as tools:
            before = tools.load_seconds()
            trace = method_of(query).retrieve(query, tools)
            load = Stage("load", tools.load_seconds() - before)
        if trace.forward:
            listener.progress(Event("forward", "sampled", about=trace))
        warn("answer", trace.warnings, listener)
        collection = query.collection
        trace = replace(
            trace,
            stages=(Stage("read", collection.seconds), load, *trace.stages),
            warnings=(*collection.warnings, *trace.warnings),
            cached=(*collection.cached, *trace.cached),
            missing_terms=tools.retriever.missing_terms(query.text) if isinstance(tools.retriever, BM25) else (),
        )
        return trace if answering else self._with_thoughts(trace)

    def answer(self, trace: Trace, listener: Listener | None = None) -> Trace:
        """Run Stage III on a trace of `retrieve`. Return the trace with the answer. Raises the same errors as `retrieve`."""
        listener = listener or self.listener
        with self._tools(trace.query, listener) as tools:
            before = tools.load_seconds()
            answered = method_of(trace.query).answer(trace, tools)
            seconds = tools.load_seconds() - before
        warn("answer", answered.warnings[len(trace.warnings) :], listener)
        stages = (replace(each, seconds=each.seconds + seconds) if each.name == "load" else each for each in answered.stages)
        return self._with_thoughts(replace(answered, stages=tuple(stages)))

    def prompts(self, trace: Trace) -> Iterator[tuple[str, str]]:
        """Yield a title and the exact prompt of each model, in the order of the method. Raises the same errors as `retrieve`."""
        method = method_of(trace.query)
        with self._tools(trace.query, self.listener) as tools:
            large = tools.large
            if trace.forward:
                title, model = ("small model", tools.small) if method.needs_small else ("large model, first", large)
                yield title, model.render_prompt(trace.forward.messages)
            yield "large model", large.render_prompt(method.messages(method.truncate_to_window(trace, tools)))
            if fallback := method.fallback(trace):
                method, trace = fallback
                yield (
                    "large model, if it abstains",
                    large.render_prompt(method.messages(method.truncate_to_window(trace, tools))),
                )

    def count_tokens(self, text: str, query: Query) -> int:
        """Return the number of tokens of a text for the model that writes the forward samples. Loads that model."""
        with self._tools(query, self.listener) as tools:
            model = tools.small if query.method.needs_small else tools.large
            return model.count_tokens(text, tools.cancellation)

    def retriever(self, collection: Collection, name: str = DEFAULT_RETRIEVER, listener: Listener | None = None) -> Retriever:
        """Return the retriever over a collection. Raises the errors of `Retrievers.over`, and the error of a requested
        cancellation."""
        with Lease(listener or self.listener) as lease:
            return self.retrievers.over(collection, name, lease)

    def forget(self) -> None:
        """Drop the replies in memory, for example between two documents of a long run."""
        for replies in list(self._replies.values()):  # other threads add to it
            replies.clear()

    def _with_thoughts(self, trace: Trace) -> Trace:
        """Return the trace with a warning for each model that reasoned. Each is reported once per session."""
        thoughts = reasoning_warnings(trace)
        for name, warning in thoughts.items():
            if self._thinking.setdefault(name, warning) is warning:
                self.listener.progress(Event("load", "warning", text=warning))
        return replace(trace, warnings=(*trace.warnings, *thoughts.values()))

    # -- models ----------------------------------------------------------------------------------------------------------

    def model(
        self,
        role: Role,
        models: ModelNames = DEFAULT_MODELS,
        method: Method | None = None,
        lease: Lease | None = None,
        *,
        ahead: bool = False,
    ) -> CachedGenerator:
        """Return a model. Its replies come from the cache if possible; otherwise it is loaded.

        A model that is both the small and the large one is placed as the large one. method: whose adapter the large one has.
        lease: holds the model once it is loaded; None: held until `close`. ahead: whether the large model is loaded ahead, once
        the small one is loaded. Raises the errors of `Method.adapter`.
        """
        from fbrag_cli.generation.cached import CachedGenerator, Replies

        lease, (small, large), adapter = lease or Lease(self.listener), self.names(models), None
        if method and role == "large":
            adapter = method.adapter(partial(self.models.part, lease=lease), partial(self.models.digest, large, lease))
        placed: Role = "large" if small == large else role
        name = large if placed == "large" else small
        if (replies := self._replies.get((name, placed, adapter))) is None:
            identity = [*self.models.identity(name, placed, lease.listener), *([sha256_of(adapter)] if adapter else [])]
            replies = self._replies.setdefault((name, placed, adapter), Replies(self.cache, identity, self._reuse))
        return CachedGenerator(partial(self.models.load, name, placed, adapter, lease, large if ahead else None), replies)

    def load_ahead(self, listener: Listener | None = None, models: ModelNames = DEFAULT_MODELS) -> None:
        """Start to load both models in threads, unless they are loaded. Raises the errors of `Models.find`."""
        small, large = self.names(models)
        if small != large:
            self.models.begin(small, "small", listener)
        self.models.begin(large, "large", listener)

    @contextmanager
    def _tools(self, query: Query, listener: Listener, *, ahead: bool = False) -> Iterator[Tools]:
        """Yield the tools of a method. The models that they load are held until the block ends. ahead: as of `model`."""
        progress = Resuming(listener.progress)
        with Lease(replace(listener, progress=progress)) as lease:
            yield Tools(
                corpus=query.corpus,
                retriever=self.retrievers.over(query.collection, query.retriever, lease),
                progress=progress,
                cancellation=listener.cancellation,
                model=partial(self.model, models=query.models, method=method_of(query), lease=lease, ahead=ahead),
                part=partial(self.models.part, lease=lease),
                digest=partial(self.models.digest, self.names(query.models)[1], lease),
                load_seconds=lambda: lease.seconds,
            )


def reasoning_warnings(trace: Trace) -> dict[str, str]:
    """Return a warning for each model that reasoned for this question, by its name. Cached replies do not count."""
    looks = "small" if "small" in trace.models else "large"
    models = {"forward": (looks, "samples"), "answer": ("large", "answer")}
    totals: dict[ModelInfo, int] = {}
    for timing in trace.stages:
        role, cached = models.get(timing.name, ("", ""))
        if timing.reasoning_tokens and cached not in trace.cached:
            totals[trace.models[role]] = totals.get(trace.models[role], 0) + timing.reasoning_tokens
    return {
        model.name: f"{model.name} ignored the request not to reason: {plural(n, 'reasoning token')} discarded, which costs time "
        f"({_INSTEAD if model.gpu_layers else _AT_THE_SERVER})"
        for model, n in totals.items()
    }


def warn(stage: Literal["read", "answer"], warnings: Iterable[str], listener: Listener) -> None:
    """Report the warnings of reading documents, or of a question."""
    for warning in warnings:
        listener.progress(Event(stage, "warning", text=warning))


def _reading(settings: DocumentSettings, chunk_words: int, password: str | None = None) -> ReadSettings:
    from fbrag_cli.documents.ocr.engine import how_to_install, is_installed
    from fbrag_cli.errors import FbragError
    from fbrag_cli.indexing.entry import ReadSettings
    from fbrag_cli.text.languages import resolve

    language = None if settings.lang is None else resolve(settings.lang)
    if settings.ocr == "all" and not is_installed():
        raise FbragError("usage", "--ocr all: OCR is not installed", how_to_install())
    return ReadSettings(
        chunk_words, settings.encoding, settings.pages, language, password, markup=settings.markup, ocr=settings.ocr
    )


def ask(
    documents: str | PathLike[str] | Sequence[str | PathLike[str]],
    question: str,
    method: str | Method = FB_RAG,
    *,
    models: ModelSettings | None = None,
    listener: Listener | None = None,
    **settings: Any,
) -> Trace:
    """Answer a question about files or folders. Models are loaded for this question and then freed: open a `Session` for several
    questions.

    method: name or record of the method. models: models and devices; None for the default pair. listener: receives progress and
    warnings, and can stop the question. settings: settings of the method by name (`select=8`); the others have the default for
    this machine.

    Raises FbragError for the errors that the command `fbrag ask` reports, and TypeError for a setting that the method lacks.
    """
    paths, question = [documents] if isinstance(documents, str | PathLike) else documents, checked_question(question)
    with Session.open(models, listener=listener) as session:
        if isinstance(method, str):
            if unknown := sorted(settings.keys() - settings_of(find_method(method)).keys()):
                raise TypeError(f"{method} has no setting {unknown[0]!r}")
            method, settings = choose_method({"method": method, **settings}, on_gpu=session.on_gpu), {}
        method = replace(method, **settings)
        collection = session.collect([os.fspath(path) for path in paths], chunk_words=method.chunk_words)
        return session.ask(Query(question, collection, method))
