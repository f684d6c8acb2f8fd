"""Stage III, which all methods share: the large model reads a context and answers.

Beyond the papers, it is then asked whether the context shows the answer; if not, the document does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from fbrag_cli.generation.generator import Call, Generation, Sampling, Turn
from fbrag_cli.methods.confidence import judged
from fbrag_cli.progress import Event, Progress, stage
from fbrag_cli.trace import Stage, Trace

if TYPE_CHECKING:
    from fbrag_cli.methods.method import Method, Tools

#: Why an answer may end early.
REPEATED = "the model repeated itself: the answer was cut"
_SAYS_EITHER = 0.2  # of the probability on yes and no together, for their ratio to mean anything


def answer_from(method: Method, trace: Trace, tools: Tools) -> Trace:
    """Answer greedily from the context, then ask whether the context supports the answer (not with `answer_anyway`, and not where
    the context is empty)."""
    trace, reply = ask(method, trace, method.turns(trace), tools)
    trace = answered_by(trace, reply)
    if not trace.from_document:
        return trace
    if method.answer_anyway:
        return replace(judged(trace, None), status="answered")
    elapsed = tools.timer()
    with stage("verify", tools.progress):
        support = _support(method, trace, trace.answer, tools) if trace.answer else None
    return replace(judged(trace, support), stages=(*trace.stages, Stage("verify", elapsed())))


def ask(method: Method, trace: Trace, turns: Sequence[Turn], tools: Tools) -> tuple[Trace, Generation]:
    """Ask the large model. Return the trace with the cost, and the reply."""
    large = tools.large()
    first_token: list[float] = []
    elapsed = tools.timer()

    def send(piece: str) -> None:
        if piece.strip() and not first_token:
            first_token.append(elapsed())
        tools.progress(Event("answer", "text", text=piece))

    with stage("answer", tools.progress):
        generations = large.generate(
            turns,
            1,
            Sampling(method.max_tokens, temperature=0, seed=method.seed),
            Call(
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
    )
    models = {**trace.models, "large": large.info}
    cached = (*(each for each in trace.cached if each != "answer"), *(("answer",) if generations.cached else ()))
    return replace(trace, stages=(*trace.stages, answered), models=models, cached=cached), generations.samples[0]


def answered_by(trace: Trace, reply: Generation) -> Trace:
    """Return the trace with a reply as its answer. A reply that was cut where the model repeated itself makes a warning."""
    return replace(
        trace,
        answer=reply.text.strip(),
        truncated=reply.finish == "length",
        status="answered",
        warnings=(*trace.warnings, REPEATED) if reply.finish == "repeat" else trace.warnings,
    )


def report_tokens(
    progress: Progress, name: str, kind: Literal["progress", "written"] = "progress", text: str = ""
) -> Callable[[int, int], None]:
    """Return a listener that reports how many tokens of a stage's prompt are read, or written of its reply."""
    return lambda done, total: progress(Event(name, kind, done, total, text))


def _support(method: Method, trace: Trace, answer: str, tools: Tools) -> float | None:
    """Return P(yes) / (P(yes) + P(no)) that the context shows the answer; None where the model says neither."""
    large = tools.large()
    if large.choose is None:
        return None
    yes, no = large.choose(method.support_turns(trace, answer), ("yes", "no"), Call(cancellation=tools.cancellation))
    return yes / (yes + no) if yes + no >= _SAYS_EITHER else None
