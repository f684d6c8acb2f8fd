"""The call of a model before chunks are selected, which all methods share that make one."""

from __future__ import annotations

from collections.abc import Sequence

from fbrag_cli.generation.generator import Call, Generations, Generator, Sampling, Turn
from fbrag_cli.methods.answering import report_tokens
from fbrag_cli.methods.method import Tools
from fbrag_cli.progress import Event
from fbrag_cli.text.printable import counted
from fbrag_cli.trace import Stage


def look_forward(model: Generator, turns: Sequence[Turn], n: int, sampling: Sampling, tools: Tools) -> Generations:
    """Return `n` replies of the model. A listener learns how far they are; their text is no part of the answer."""
    tools.progress(Event("forward", "start"))
    generations = model.generate(
        turns,
        n,
        sampling,
        Call(
            cancellation=tools.cancellation,
            on_prompt=report_tokens(tools.progress, "forward"),
            on_written=report_tokens(tools.progress, "forward", "written", counted(n, "sample")),
        ),
    )
    tools.progress(Event("forward", "done"))
    return generations


def cost_of(generations: Generations) -> Stage:
    """Return what a look forward cost."""
    return Stage(
        "forward",
        generations.prefill_seconds + generations.decode_seconds,
        generations.prompt_tokens,
        generations.cached_tokens,
        generations.generated_tokens,
    )
