"""Self-Route: answer from the retrieved chunks, or decline; then from the whole document (Li et al., 2024; FB-RAG, section 3)."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from fbrag_cli.generation.generator import Message
from fbrag_cli.methods.fb_rag.long_context import LongContext, whole_document
from fbrag_cli.methods.method import Method, Tools, answered_by, ask, judged
from fbrag_cli.methods.prompts import self_route_messages
from fbrag_cli.methods.ranking import ChunkMethod
from fbrag_cli.progress import Event
from fbrag_cli.query import Query
from fbrag_cli.trace import Trace

_ROUTE = "route"
_DECLINES = re.compile(r"\bunanswerable\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfRoute(ChunkMethod):
    """`Trace.method_notes` name the step that answered: "retrieved" or "long-context"."""

    name: ClassVar[str] = "self-route"
    note_keys: ClassVar[tuple[str, ...]] = (_ROUTE,)

    def retrieve(self, query: Query, tools: Tools) -> Trace:
        """Step 1: select the chunks that the retriever ranks highest for the question."""
        return self.select_by_question(query, tools)

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        """Step 2: return the prompt, by which the model may decline."""
        return self_route_messages(self.passages(trace), trace.question, self.instructions)

    def fallback(self, trace: Trace) -> tuple[Method, Trace]:
        """Step 3: return the method and the trace that read the whole document."""
        whole = LongContext(**{each.name: getattr(self, each.name) for each in fields(LongContext)})
        return whole, replace(trace.reading(whole_document(trace.corpus)), method_notes={_ROUTE: "long-context"})

    def reading_twice(self) -> None:
        """Return None: where the chunks do not say, it reads the whole document by itself."""
        return None

    def answer(self, trace: Trace, tools: Tools) -> Trace:
        """Answer from the chunks, unless the model declines; then from the whole document.

        The listener receives the text of the first reply once it is accepted.
        """

        def without_text(event: Event) -> None:
            if event.kind != "text":
                tools.progress(event)

        trace, reply = ask(self, trace, self.messages(trace), replace(tools, progress=without_text))
        text = reply.text.strip()
        if text and not _DECLINES.search(text):
            tools.progress(Event("answer", "text", text=reply.text))
            return replace(judged(answered_by(trace, reply), None), method_notes={_ROUTE: "retrieved"})
        method, trace = self.fallback(trace)
        return method.answer(trace, tools)
