"""`Asked`: one question to a session. All that belongs to the question stands here, so that many may run at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.progress import Event, Listener
from fbrag_cli.session.pool import Lease
from fbrag_cli.text.printable import counted
from fbrag_cli.trace import Stage, Trace

if TYPE_CHECKING:
    from fbrag_cli.generation.generator import ModelInfo
    from fbrag_cli.indexing.collect import Collection
    from fbrag_cli.retrieval import Retriever
    from fbrag_cli.session.session import Choice, Session

_INSTEAD = "models that answer at once: fbrag models list --all"
_AT_THE_SERVER = "turn thinking off at the server, or take another of its models"


@dataclass(kw_only=True)
class Asked:
    """A question on a collection, as `Session.ask` returns it. One thread runs it at a time.

    listener: receives the progress and the warnings; its cancellation stops what runs. answering: whether `answer` follows. The
    models that a call needs are held while it runs; between two calls a session may let them go.
    """

    session: Session
    question: str
    collection: Collection
    method: Method
    choice: Choice
    listener: Listener
    answering: bool = True
    _retrieved: Trace | None = field(default=None, init=False)
    _stage: str = field(default="", init=False)  # that runs

    def retrieve(self) -> Trace:
        """Return the trace of Stages I and II, which the first call runs.

        Missing models are fetched first. Raises what the method, its models and its retriever raise, and the error of a requested
        cancellation.
        """
        if self._retrieved is None:
            self._retrieved = self._retrieve()
            if not self.answering:
                self._retrieved = self._with_thoughts(self._retrieved)
        return self._retrieved

    def answer(self) -> Trace:
        """Run Stage III on what `retrieve` returns. Return the trace with the answer. Raises as `retrieve`."""
        trace = self.retrieve()
        with self._tools() as tools:
            before = tools.load_seconds()
            answered = self.method.answer(trace, tools)
            seconds = tools.load_seconds() - before
        warn(answered.warnings[len(trace.warnings) :], self.listener)
        stages = (replace(each, seconds=each.seconds + seconds) if each.name == "load" else each for each in answered.stages)
        return self._with_thoughts(replace(answered, stages=tuple(stages)))

    def prompts(self) -> Iterator[tuple[str, str]]:
        """Yield a title and the exact prompt of each model, in the order in which the method asks them. Raises as `retrieve`."""
        trace, method = self.retrieve(), self.method
        with self._tools() as tools:
            large = tools.large()
            for each in trace.rounds:
                title, model = ("small model", tools.small()) if method.needs_small else ("large model, first", large)
                yield title, model.written(each.turns)
            yield "large model", large.written(method.turns(method.fitted(trace, large)))
            if fallback := method.fallback(trace):
                method, trace = fallback
                yield "large model, where it declines", large.written(method.turns(method.fitted(trace, large)))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, as the model that looks forward reads it. That model is loaded for it."""
        with self._tools() as tools:
            return (tools.small() if self.method.needs_small else tools.large()).count_tokens(text)

    @property
    def retriever(self) -> Retriever:
        """The retriever that scores the chunks for this question."""
        return self.session.retriever(self.collection, self.choice, self.listener)

    def _retrieve(self) -> Trace:
        from fbrag_cli.retrieval import Counting

        self.session.prepare(self.method, self.choice, answering=self.answering, listener=self.listener)
        with self._tools() as tools:
            before = tools.load_seconds()
            trace = self.method.retrieve(self.question, tools)
            load = Stage("load", tools.load_seconds() - before)
        for each in trace.rounds:
            self.listener.progress(Event("forward", "sampled", about=each))
        warn(trace.warnings, self.listener)
        return replace(
            trace,
            question=self.method.asked(self.question),
            stages=(Stage("read", self.collection.seconds), load, *trace.stages),
            warnings=(*self.collection.warnings, *trace.warnings),
            cached=(*self.collection.cached, *trace.cached),
            absent=tools.retriever.lacks(self.question) if isinstance(tools.retriever, Counting) else (),
        )

    def _with_thoughts(self, trace: Trace) -> Trace:
        """Return the trace with a warning for each model that has thought. Each is reported once in a session."""
        thoughts = warnings_of_thoughts(trace)
        self.session.report_thoughts(thoughts)
        return replace(trace, warnings=(*trace.warnings, *thoughts.values()))

    @contextmanager
    def _tools(self) -> Iterator[Tools]:
        """Yield the method's tools. What they load is held until the block ends."""
        session, names = self.session, dict(zip(("small", "large"), self.session.names(self.choice), strict=True))
        with Lease(replace(self.listener, progress=self._loads)) as lease:
            yield Tools(
                corpus=self.collection.corpus,
                retriever=session.retrievers.over(self.collection, self.choice.retriever, lease),
                progress=self._report,
                cancellation=self.listener.cancellation,
                model=lambda role, adapter=None: session.model(names[role], adapter, lease),
                part=partial(session.pool.part, lease=lease),
                digest=lambda: session.models.digest(names["large"], lease),
                load_seconds=lambda: lease.seconds,
            )

    def _report(self, event: Event) -> None:
        if event.kind in ("start", "done"):
            self._stage = event.stage if event.kind == "start" else ""
        self.listener.progress(event)

    def _loads(self, event: Event) -> None:
        """Pass on what is loaded. Then the stage starts that waited for it, and the model that will answer is loaded ahead."""
        self.listener.progress(event)
        if (event.stage, event.kind) == ("load", "done"):
            if self._stage:
                self.listener.progress(Event(self._stage, "start"))
            if self.answering and self.method.needs_small:
                self.session.pool.begin(self.session.names(self.choice)[1], self.listener)


def warnings_of_thoughts(trace: Trace) -> dict[str, str]:
    """Return a warning for each model that has thought for this question, by its name. What came from the cache took no time."""
    looks = "small" if "small" in trace.models else "large"
    models = {"forward": (looks, "samples"), "answer": ("large", "answer")}
    totals: dict[ModelInfo, int] = {}
    for stage in trace.stages:
        role, cached = models.get(stage.name, ("", ""))
        if stage.thought_tokens and cached not in trace.cached:
            totals[trace.models[role]] = totals.get(trace.models[role], 0) + stage.thought_tokens
    return {
        model.name: f"{model.name} thinks before it answers, although it was told not to: {counted(n, 'token')} of thought are "
        f"left out; it takes longer ({_INSTEAD if model.gpu_layers else _AT_THE_SERVER})"
        for model, n in totals.items()
    }


def warn(warnings: tuple[str, ...], listener: Listener) -> None:
    """Report warnings of a reading or of a question."""
    for warning in warnings:
        listener.progress(Event("answer", "warning", text=warning))
