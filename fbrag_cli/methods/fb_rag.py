"""FB-RAG: forward-backward lookup (FB-RAG, section 2). Three stages, in the order of the paper.

I    recall: the chunks that BM25 ranks highest for the question, a generous set.
II   look forward: a small model samples K rationales and answers from them; every chunk of the whole document is scored by how
     well it supports the question (backward) and any of the samples (forward); the best are selected.
III  answer: a large model reads the selected chunks in document order.
"""

from __future__ import annotations

import re
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fbrag_cli.corpus import Corpus
from fbrag_cli.generation.generator import Call, Generation, Generator, Sampling
from fbrag_cli.methods.answering import answer_from, tell_tokens, texts
from fbrag_cli.methods.prompts import forward_turns
from fbrag_cli.methods.ranking import LOST, best, in_document_order
from fbrag_cli.progress import Event, Progress
from fbrag_cli.retrieval import Retriever
from fbrag_cli.trace import ForwardSample, MethodSettings, Scores, Stage, Trace

Array = NDArray[np.float32]

_ANSWER = re.compile(r"^[\s*_#>-]*(?:final\s+)?answer[\s*_]*:[\s*_]*|(?<=[.!?])\s+answer\s*:\s*", re.IGNORECASE | re.MULTILINE)
_LABEL = re.compile(r"^[\s*_#>-]*rationale[\s*_]*:[\s*_]*", re.IGNORECASE)


def select(
    question: str, corpus: Corpus, retriever: Retriever, small: Generator | None, settings: MethodSettings, progress: Progress
) -> Trace:
    """Stages I and II. The Trace has no answer yet."""
    assert small is not None
    # Stage I: the chunks that the question itself points to.
    started = perf_counter()
    backward = retriever.scores(question)  # S_B
    recalled = in_document_order(best(backward, settings.recall))
    recall = Stage("recall", perf_counter() - started)

    # Stage II: K samples of rationale and answer from these chunks, ...
    progress(Event("forward", "start"))
    context = [corpus.chunks[position].text for position in recalled]
    generations = small.generate(
        forward_turns(context, question, settings.templates),
        settings.samples,
        Sampling(settings.forward_tokens, settings.temperature, settings.top_p, settings.top_k, settings.seed),
        Call(on_prompt=tell_tokens(progress, "forward")),
    )
    samples = tuple(parse_sample(i, generation) for i, generation in enumerate(generations.samples))
    progress(Event("forward", "done"))
    forward = Stage(
        "forward",
        generations.prefill_seconds + generations.decode_seconds,
        generations.prompt_tokens,
        generations.cached_tokens,
        generations.generated_tokens,
    )

    # ... by which every chunk of the whole document is scored.
    started = perf_counter()
    per_sample = np.stack([retriever.scores(sample.said) for sample in samples])
    scores = score(backward, per_sample, settings)
    ranked = best(scores.combined, settings.select)
    select = Stage("select", perf_counter() - started)

    return Trace(
        question,
        settings,
        corpus,
        retriever.name,
        recalled,
        samples,
        scores,
        in_document_order(ranked),
        ranked,
        (recall, forward, select),
        {"small": small.info},
        warnings=() if backward.any() else (LOST,),
        cached=("samples",) if generations.cached else (),
    )


def answer(trace: Trace, large: Generator, progress: Progress) -> Trace:
    """Stage III: the answer of the large model from the selected chunks, in document order."""
    return answer_from(trace, texts(trace, trace.selected), large, progress)


def score(backward: Array, per_sample: Array, settings: MethodSettings) -> Scores:
    """Equations 5 and 6: S_F = max_k S(C_i; [R_k, A_k]), and eta_B S_B + eta_F S_F.

    backward: (n_chunks,). per_sample: (n_samples, n_chunks). Two choices are not in the paper. With `fusion` "minmax" S_B and
    S_F are scaled to 0..1 first, so that long samples, whose sums have many terms, do not outweigh a short question. With
    `pooling` "mean" S_F is the mean over k, so that one long sample does not outweigh what the others agree on.
    """
    forward = per_sample.mean(axis=0) if settings.pooling == "mean" else per_sample.max(axis=0)  # (n_chunks,)
    scale = minmax if settings.fusion == "minmax" else _as_is
    combined = settings.eta_backward * scale(backward) + settings.eta_forward * scale(forward)
    return Scores(backward, per_sample, forward, per_sample.argmax(axis=0), combined.astype(np.float32))


def minmax(scores: Array) -> Array:
    """`scores` scaled to 0..1; all zero where they are all equal."""
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def parse_sample(index: int, generation: Generation) -> ForwardSample:
    """Cut a sample at its first 'Answer:'. Without one the whole text counts, as the rationale."""
    text = generation.text.strip()
    rationale, answer = text, ""
    if found := _ANSWER.search(text):
        rationale, answer = text[: found.start()], text[found.end() :]
    return ForwardSample(
        index, generation.seed, text, _LABEL.sub("", rationale).strip(), answer.strip().rstrip("*_"), generation.finish
    )


def _as_is(scores: Array) -> Array:
    return scores
