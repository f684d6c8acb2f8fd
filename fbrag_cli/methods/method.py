"""`Method`: a system of the papers as one frozen record. Its fields are the settings that it reads.

A method is added in one file, and one line in `registry`. Its fields are the names for --set, in tables, in rows and in JSON.

Below it are the calls of a model that methods share: `ask` the large model, `draw_forward_samples` before chunks are selected.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Literal, NoReturn, Protocol, TypeVar

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.corpus import Corpus, texts_for
from fbrag_cli.generation.generator import CallOptions, Generation, Generations, Generator, Message, Sampling, Scorer
from fbrag_cli.methods.prompts import answer_messages, support_messages
from fbrag_cli.progress import Event, Progress, Stopwatch, stage
from fbrag_cli.query import MethodSettings, Query, Role
from fbrag_cli.retrieval import Retriever
from fbrag_cli.text.printable import plural
from fbrag_cli.trace import ForwardSample, Stage, Trace, Verdict

#: Why an answer may end early.
REPEATED = "the model started repeating itself, so the answer was cut off"
#: Below this support alone, if there are no samples, the answer is "the document does not say".
MIN_SUPPORT = 0.45
#: Below this mean of support and agreement the document does not say.
DECLINED = 0.275
_SAYS_EITHER = 0.2  # of the probability on yes and no together, for their ratio to mean anything
_GAP = " … "  # between two windows of a chunk
_SHORT = 4  # terms of a short answer, which a sample has to hold whole; of a longer one half


Part = TypeVar("Part")

#: Loads a scorer, a GGUF file, where and how the session loads its models. The session closes it.
OpenScorer = Callable[[Path], Scorer]


#: Returns a model, which may be loaded when it is first asked for something.
GetModel = Callable[[Role], Generator]


class GetPart(Protocol):
    def __call__(self, folder: str, load: Callable[[Path, OpenScorer], Part]) -> Part:
        """Return what `load` makes of a folder of trained parts; it is called once in a session. Raises what `load` raises."""


#: Returns the SHA-256 (hex) of the large model's file, None for a server.
GetDigest = Callable[[], str | None]


def _no_part(folder: str, load: Callable[[Path, OpenScorer], Part]) -> NoReturn:
    raise TypeError("only the tools of a Session load trained parts")


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The tools of a method for one question: chunks, scores, models and trained parts.

    load_seconds: returns the seconds for which models were waited for.
    """

    corpus: Corpus
    retriever: Retriever
    progress: Progress
    cancellation: Cancellation
    model: GetModel
    part: GetPart = _no_part
    digest: GetDigest = lambda: None
    load_seconds: Callable[[], float] = lambda: 0.0

    @cached_property
    def small(self) -> Generator:
        """The small model."""
        return self.model("small")

    @cached_property
    def large(self) -> Generator:
        """The large model as it answers: with the method's adapter, if it has one."""
        return self.model("large")

    def timer(self) -> Callable[[], float]:
        """Return a function that returns the seconds of wall time since this call, without those spent on loading models."""
        watch, before = Stopwatch(), self.load_seconds()
        return lambda: watch.seconds - (self.load_seconds() - before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(MethodSettings):
    """The base of all methods: their stages. Stage III is here."""

    @abstractmethod
    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Run Stages I and II: scores, samples, and the context. The Trace has no answer."""

    def passages(self, trace: Trace) -> list[str]:
        """Return the texts of the context for a prompt: one for each chunk, with "…" between parts of a chunk."""
        by_chunk = groupby(trace.context, key=lambda passage: passage.position)
        return texts_for(trace.query.text, ([*passages] for _, passages in by_chunk), _GAP)

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        """Return the prompt of Stage III, as `explain --show-prompt` prints it."""
        return answer_messages(self.passages(trace), trace.question, self.instructions)

    def support_messages(self, trace: Trace, answer: str) -> tuple[Message, ...]:
        """Return the question whether the context shows the answer. It begins as `messages` does, so nothing is read twice."""
        return support_messages(self.passages(trace), trace.question, answer)

    def adapter(self, part: GetPart, digest: GetDigest) -> Path | None:
        """Return the LoRA (a GGUF file) of the large model; None without one.

        part, digest: those of `Tools`. Raises FbragError `usage` for another model than the one that trained parts are for.
        """
        return None

    def truncate_to_window(self, trace: Trace, tools: Tools) -> Trace:
        """Return the trace with a context that fits the large model's window. Most methods select little enough anyway."""
        return trace

    def fallback(self, trace: Trace) -> tuple[Method, Trace] | None:
        """Return the method and the trace to answer from if the large model declines; None if it cannot decline."""
        return None

    def answer(self, trace: Trace, tools: Tools) -> Trace:
        """Run Stage III: the large model answers greedily from the context.

        Beyond the papers, it is then asked whether the context supports the answer; if not, the document does not say. There is
        no such check with `allow_unsupported`, or if the context is empty.
        """
        trace = self.truncate_to_window(trace, tools)
        trace = answered_by(*ask(self, trace, self.messages(trace), tools))
        if self.allow_unsupported or not trace.from_document:
            return replace(judged(trace, None), status="answered")
        elapsed = tools.timer()
        with stage("verify", tools.progress):
            support = _support(self, trace, trace.answer, tools) if trace.answer else None
        return replace(judged(trace, support), stages=(*trace.stages, Stage("verify", elapsed())))


def method_of(query: Query) -> Method:
    """Return the method that runs a query."""
    assert isinstance(query.method, Method)
    return query.method


def ask(method: Method, trace: Trace, messages: Sequence[Message], tools: Tools) -> tuple[Trace, Generation]:
    """Ask the large model. Return the trace with the cost, and the reply."""
    large = tools.large
    first_token: list[float] = []
    elapsed = tools.timer()

    def send(piece: str) -> None:
        if piece.strip() and not first_token:
            first_token.append(elapsed())
        tools.progress(Event("answer", "text", text=piece))

    with stage("answer", tools.progress):
        generations = large.generate(
            messages,
            1,
            Sampling(method.max_tokens, temperature=0, seed=method.seed),
            CallOptions(
                cancellation=tools.cancellation,
                on_prompt=report_tokens(tools.progress, "answer"),
                on_written=report_tokens(tools.progress, "answer", "written"),
                on_text=send,
            ),
        )
    answered = Stage(
        "answer",
        max(elapsed(), generations.prefill_seconds + generations.decode_seconds),
        generations.prompt_tokens,
        generations.cached_tokens,
        generations.generated_tokens,
        # Without a piece (an answer with its first costs) the first word waited for the reading of the prompt.
        first_token[0] if first_token else generations.prefill_seconds if generations.samples[0].text.strip() else None,
        generations.reasoning_tokens,
    )
    models = {**trace.models, "large": large.info}
    cached = (*(each for each in trace.cached if each != "answer"), *(("answer",) if generations.cached else ()))
    return replace(trace, stages=(*trace.stages, answered), models=models, cached=cached), generations.samples[0]


def answered_by(trace: Trace, reply: Generation) -> Trace:
    """Return the trace with a reply as its answer, not yet judged. Warn if the reply was cut because the model repeated
    itself."""
    return replace(
        trace,
        answer=reply.text.strip(),
        truncated=reply.finish == "length",
        status="answered",
        verdict=Verdict(answer_probability=reply.probability),
        warnings=(*trace.warnings, REPEATED) if reply.finish == "repeat" else trace.warnings,
    )


def report_tokens(
    progress: Progress, name: str, kind: Literal["progress", "written"] = "progress", text: str = ""
) -> Callable[[int, int], None]:
    """Return a listener that reports how many tokens of a stage's prompt are read, or written of its reply."""
    return lambda done, total: progress(Event(name, kind, done, total, text))


def _support(method: Method, trace: Trace, answer: str, tools: Tools) -> float | None:
    """Return `share_of_yes` to whether the context shows the answer."""
    return share_of_yes(tools.large, method.support_messages(trace, answer), tools)


def share_of_yes(model: Generator, messages: Sequence[Message], tools: Tools) -> float | None:
    """Return P(yes) / (P(yes) + P(no)) of a reply; None if the model gives no probabilities, or says neither."""
    if model.choice_probabilities is None:
        return None
    yes, no = model.choice_probabilities(messages, ("yes", "no"), CallOptions(cancellation=tools.cancellation))
    return yes / (yes + no) if yes + no >= _SAYS_EITHER else None


# How sure an answer is: whether the forward samples hold it, and whether the large model finds it in what it read. Beyond the
# papers. The samples were drawn before Stage III and from other text, so their agreement says more than the model's own check,
# and costs nothing (tests/benchmarks/README.md, "Confidence").


def agreement(trace: Trace) -> float | None:
    """Return the share of the samples that agree with the answer, 0 to 1; None without samples that were drawn from the document.
    Also None for an answer without a term, such as "yes".

    What counts of an answer are its terms that the question lacks. A sample agrees if it has them (half of them, if they are
    many), and its own answer has no other name or number. So does one whose answer has half of them and nothing else, if the
    terms that it lacks are no names and no numbers: "ten thousand a year" and "ten thousand pounds".
    """
    drawn = trace.samples if trace.retrieved else ()
    own, asked = _terms(trace, trace.answer or ""), _terms(trace, trace.question)
    sought = own - asked or own
    if not drawn or not sought:
        return None
    least, names = len(sought) if len(sought) <= _SHORT else len(sought) / 2, _names(trace, trace.answer or "")

    def agrees(sample: ForwardSample) -> bool:
        given = _terms(trace, sample.answer)
        more, held = given - own - asked, sought & given
        if len(sought & _terms(trace, sample.text)) >= least:
            return more.isdisjoint(_names(trace, sample.answer))
        return not more and len(held) >= len(sought) / 2 and names.isdisjoint(sought - held)

    return sum(map(agrees, drawn)) / len(drawn)


def judged(trace: Trace, support: float | None) -> Trace:
    """Return the trace with the verdict on its answer: the status, and how sure it is.

    support: see `Verdict`. The confidence is the answer's own probability plus half of the mean of support and agreement (or of
    the one that is known), scaled to 0 to 1; without samples it is the probability alone, and without the probability it is the
    mean.
    """
    agreed, probability = agreement(trace), trace.verdict.answer_probability
    known = [each for each in (support, agreed) if each is not None]
    mean = sum(known) / len(known) if known else None
    declined = not trace.answer or (support is not None and (mean or 0) < (MIN_SUPPORT if agreed is None else DECLINED))
    weighed = None if probability is None else probability if agreed is None else (probability + (mean or 0) / 2) / 1.5
    verdict = replace(trace.verdict, support=support, agreement=agreed, confidence=mean if weighed is None else weighed)
    return replace(trace, status="not_found" if declined else "answered", verdict=verdict)


def _terms(trace: Trace, text: str) -> frozenset[str]:
    from fbrag_cli.text.words import terms

    return frozenset(terms(text, _languages(trace)))


def _names(trace: Trace, text: str) -> frozenset[str]:
    """Return the terms of the numbers and names of a text: words with a capital that the context never has without one."""
    from fbrag_cli.text.word_forms import is_name, is_number
    from fbrag_cli.text.words import term_spans

    def is_named(word: str) -> bool:
        return is_number(word) or (is_name(word) and not any(word.lower() in passage.text for passage in trace.context))

    return frozenset(term for start, end, term in term_spans(text, _languages(trace)) if is_named(text[start:end]))


def _languages(trace: Trace) -> tuple[str, ...]:
    return tuple(dict.fromkeys(passage.document.language for passage in trace.context)) or ("",)


def draw_forward_samples(model: Generator, messages: Sequence[Message], n: int, sampling: Sampling, tools: Tools) -> Generations:
    """Return `n` replies of the model. The listener receives how many tokens are read and written, not their text."""
    tools.progress(Event("forward", "start"))
    generations = model.generate(
        messages,
        n,
        sampling,
        CallOptions(
            cancellation=tools.cancellation,
            on_prompt=report_tokens(tools.progress, "forward"),
            on_written=report_tokens(tools.progress, "forward", "written", plural(n, "sample")),
        ),
    )
    tools.progress(Event("forward", "done"))
    return generations


def cost_of(generations: Generations) -> Stage:
    """Return the stage of a look forward, with its cost."""
    return Stage(
        "forward",
        generations.prefill_seconds + generations.decode_seconds,
        generations.prompt_tokens,
        generations.cached_tokens,
        generations.generated_tokens,
        reasoning_tokens=generations.reasoning_tokens,
    )
