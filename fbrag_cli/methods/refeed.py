"""REFEED: the model answers alone, its answer helps to retrieve, and it answers again from what was found (Yu et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fbrag_cli.methods.answering import written_before
from fbrag_cli.methods.knobs import knob
from fbrag_cli.methods.method import Selecting, Tools
from fbrag_cli.methods.prompts import alone_turns
from fbrag_cli.methods.ranking import nothing_selected, select_by_question, whole_chunks
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Refeed(Selecting):
    """One answer before, drawn greedily; the original draws several and weighs them by likelihood."""

    name: ClassVar[str] = "refeed"

    first_tokens: int = knob(32, "length limit of the answer before", minimum=1, group="Advanced", metavar="N")

    def plan(self, n_chunks: int) -> list[str]:
        return ["an answer before", *Selecting.plan(self, n_chunks)]

    def retrieve(self, question: str, tools: Tools) -> Trace:
        """Answer alone, and retrieve by the question with this answer."""
        before = nothing_selected(self, question, tools)
        before = written_before(self, before, alone_turns(question), self.first_tokens, tools)
        trace = select_by_question(self, f"{question}\n{before.background}", tools)
        return replace(
            trace,
            question=question,
            context=whole_chunks(tools.corpus, trace.ranked),
            background=before.background,
            stages=(*before.stages, *trace.stages),
            models=before.models,
        )
