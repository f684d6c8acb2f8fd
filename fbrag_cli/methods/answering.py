"""Stage III, which all methods share: the large model reads a context and answers.

Beyond the papers, it is then asked whether the context shows what it answered; if not, the document does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from fbrag_cli.generation.generator import Call, Generation, Generator, Sampling, Turn
from fbrag_cli.methods.prompts import answer_turns, support_turns
from fbrag_cli.progress import Event, Progress
from fbrag_cli.trace import Stage, Trace

#: Below this support the answer is "the document does not say". Set on 23 of 54 cases measured, see the README.
MIN_SUPPORT = 0.45
_SAYS_EITHER = 0.2  # of the probability on yes and no together, for their ratio to mean anything


def answer_from(trace: Trace, context: Sequence[str], large: Generator, progress: Progress) -> Trace:
    """The answer from `context`, decoded greedily, and whether the context supports it (not asked with `answer_anyway`)."""
    settings = trace.method
    trace, reply = ask(trace, answer_turns(context, trace.question, settings.instructions, settings.templates), large, progress)
    text = reply.text.strip()
    trace = replace(trace, answer=text, truncated=reply.finish == "length", status="answered")
    if settings.answer_anyway:
        return trace
    started = perf_counter()
    support = _support(large, context, trace.question, text) if text else None
    found = bool(text) and (support is None or support >= MIN_SUPPORT)
    stages = (*trace.stages, Stage("verify", perf_counter() - started))
    return replace(trace, support=support, status="answered" if found else "not_found", stages=stages)


def ask(trace: Trace, turns: Sequence[Turn], large: Generator, progress: Progress) -> tuple[Trace, Generation]:
    """The large model's reply to `turns`, and the trace with what it cost."""
    progress(Event("answer", "start"))
    started = perf_counter()
    first_token: list[float] = []

    def tell(piece: str) -> None:
        if piece.strip() and not first_token:
            first_token.append(perf_counter() - started)
        progress(Event("answer", "text", text=piece))

    generations = large.generate(
        turns,
        1,
        Sampling(trace.method.max_tokens, temperature=0, seed=trace.method.seed),
        Call(on_prompt=tell_tokens(progress, "answer"), on_text=tell),
    )
    answered = Stage(
        "answer",
        max(perf_counter() - started, generations.prefill_seconds + generations.decode_seconds),
        generations.prompt_tokens,
        generations.cached_tokens,
        generations.generated_tokens,
        # Of an answer that was remembered nothing was heard: its prompt's reading is what the first word waited for.
        first_token[0] if first_token else generations.prefill_seconds if generations.samples[0].text.strip() else None,
    )
    progress(Event("answer", "done"))
    trace = replace(trace, stages=(*trace.stages, answered), models={**trace.models, "large": large.info})
    return trace, generations.samples[0]


def tell_tokens(progress: Progress, stage: str) -> Callable[[int, int], None]:
    """Tells how many tokens of a stage's prompt are read."""
    return lambda done, total: progress(Event(stage, "progress", done, total))


def texts(trace: Trace, positions: Sequence[int]) -> list[str]:
    """The chunks at `positions`, in that order."""
    return [trace.corpus.chunks[position].text for position in positions]


def _support(large: Generator, context: Sequence[str], question: str, answer: str) -> float | None:
    """The probability of yes, of yes and no, to whether the context shows the answer; None where the model says neither."""
    if large.choose is None:
        return None
    yes, no = large.choose(support_turns(context, question, answer), ("yes", "no"), Call())
    return yes / (yes + no) if yes + no >= _SAYS_EITHER else None
