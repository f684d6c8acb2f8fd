"""Vanilla RAG: the chunks that the retriever ranks highest for the question, best first (FB-RAG, section 3)."""

from __future__ import annotations

from fbrag_cli.corpus import Corpus
from fbrag_cli.generation.generator import Generator
from fbrag_cli.methods.answering import answer_from, texts
from fbrag_cli.methods.ranking import select_by_question
from fbrag_cli.progress import Progress
from fbrag_cli.retrieval import Retriever
from fbrag_cli.trace import MethodSettings, Trace


def select(
    question: str, corpus: Corpus, retriever: Retriever, small: Generator | None, settings: MethodSettings, progress: Progress
) -> Trace:
    return select_by_question(question, corpus, retriever, settings)


def answer(trace: Trace, large: Generator, progress: Progress) -> Trace:
    """From the selected chunks, in the order of their rank."""
    return answer_from(trace, texts(trace, trace.ranked), large, progress)
