"""Self-Route: answer from the retrieved chunks, or decline; then from the whole document (Li et al., 2024; FB-RAG, section 3)."""

from __future__ import annotations

import re
from dataclasses import replace

from fbrag_cli.corpus import Corpus
from fbrag_cli.generation.generator import Generator
from fbrag_cli.methods import long_context
from fbrag_cli.methods.answering import ask, texts
from fbrag_cli.methods.prompts import self_route_turns
from fbrag_cli.methods.ranking import select_by_question
from fbrag_cli.progress import Progress
from fbrag_cli.retrieval import Retriever
from fbrag_cli.trace import MethodSettings, Trace

_DECLINES = re.compile(r"\bunanswerable\b", re.IGNORECASE)


def select(
    question: str, corpus: Corpus, retriever: Retriever, small: Generator | None, settings: MethodSettings, progress: Progress
) -> Trace:
    """Step 1: the chunks that the retriever ranks highest for the question."""
    return select_by_question(question, corpus, retriever, settings)


def answer(trace: Trace, large: Generator, progress: Progress) -> Trace:
    """Step 2: the answer from the chunks, unless the model declines; step 3: then from the whole document. `route` says which."""
    context, settings = texts(trace, trace.selected), trace.method
    turns = self_route_turns(context, trace.question, settings.instructions, settings.templates)
    trace, reply = ask(trace, turns, large, progress)
    if not _DECLINES.search(reply.text) and reply.text.strip():
        return replace(trace, answer=reply.text.strip(), truncated=reply.finish == "length", status="answered", route="retrieved")
    whole = replace(trace, selected=tuple(range(len(trace.corpus.chunks))), route="long-context")
    return long_context.answer(whole, large, progress)
