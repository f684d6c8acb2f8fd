"""GenRead: the model writes a background passage on the question, and answers from it, not the document (Yu et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fbrag_cli.generation.generator import Turn
from fbrag_cli.methods.answering import answered_by, ask, written_before
from fbrag_cli.methods.knobs import knob
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.methods.prompts import answer_turns, background_turns
from fbrag_cli.methods.ranking import nothing_selected
from fbrag_cli.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class GenRead(Method):
    """One passage, written greedily; the original draws several and clusters them."""

    name: ClassVar[str] = "genread"
    retrieves: ClassVar[bool] = False

    background_tokens: int = knob(
        128, "length limit of the passage that the model writes", minimum=1, group="Advanced", metavar="N"
    )

    def plan(self, n_chunks: int) -> list[str]:
        return ["none to read", "a passage to write"]

    def retrieve(self, question: str, tools: Tools) -> Trace:
        return nothing_selected(self, question, tools)

    def turns(self, trace: Trace) -> tuple[Turn, ...]:
        """Return the prompt of the answer; before the passage is written, that of the passage."""
        if not trace.background:
            return background_turns(trace.question)
        return answer_turns([trace.background], trace.question, self.instructions, self.templates)

    def answer(self, trace: Trace, tools: Tools) -> Trace:
        trace = written_before(self, trace, self.turns(trace), self.background_tokens, tools)
        trace, reply = ask(self, trace, self.turns(trace), tools)
        return replace(answered_by(trace, reply), route="own-knowledge")
