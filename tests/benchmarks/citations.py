"""Whether the chunk that an answer cites first holds the evidence, against citing the chunk with the best score.

    python tests/benchmarks/citations.py

"answers" are real answers of the 1.5B (results/answers.jsonl.gz; not vanilla, which selects as order-preserving). "gold, FB" are
the gold answers of the questions in results/recall*.jsonl.gz with the five chunks that FB-RAG selected; "gold, question" those of
whole sets with BM25's five chunks. A chunk is right if it overlaps a gold passage ("any"), and if it overlaps one that has the
answer's words ("holding"; any where none has). Only questions with a right chunk among the five are counted.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.methods.fb_rag import FBRag
from fbrag_cli.methods.ranking import whole_chunks
from fbrag_cli.render.citations import citations
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.trace import Scores, Trace

BENCH = Path(__file__).parents[3] / "shared" / "bench"
RESULTS = Path(__file__).with_name("results")
RECALL = ("recall", "recall-fairytaleqa", "recall-qmsum", "recall-musique150k")
FB = {"method": "fb-rag", "recall": 8, "select": 5, "samples": 5, "eta_forward": 0.5, "eta_backward": 0.5, "fusion": "raw"}

Case = tuple[str, Example, str, Sequence[int] | None, Sequence[str]]  # group, example, answer, ranked positions, samples


def cases() -> Iterator[Case]:
    examples = {(each.dataset, each.id): each for each in load_examples(sorted(BENCH.glob("*.jsonl.gz")))}
    for row in rows("answers"):
        if row["configuration"]["method"] != "vanilla":
            yield "answers", examples[row["dataset"], row["id"]], row["answer"], ranked(row), row["samples"]
    for name in RECALL:
        for row in rows(name):
            known = row["configuration"]
            if known.get("pooling", "max") == "max" and all(known.get(key) == value for key, value in FB.items()):
                example = examples[row["dataset"], row["id"]]
                yield "gold, FB", example, example.answers[0], ranked(row), row["samples"]
    for example in examples.values():
        if example.dataset in ("xquad.en", "xquad.zh", "fairytaleqa"):
            yield f"gold, question: {example.dataset}", example, example.answers[0], None, ()


def rows(name: str) -> Iterator[dict]:  # type: ignore[type-arg]
    with gzip.open(RESULTS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def ranked(row: dict) -> list[int]:  # type: ignore[type-arg]
    return [number - 1 for number in row["selected"]]


@lru_cache(maxsize=256)
def indexed(text: str, language: str) -> tuple[Corpus, BM25]:
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(text, ()), "text/plain", "utf-8"), language=language)])
    return corpus, BM25.of(corpus)


def trace_of(example: Example, answer: str, positions: Sequence[int] | None, samples: Sequence[str]) -> Trace:
    corpus, bm25 = indexed(example.context(), example.language)
    backward = bm25.scores(example.question)
    per_sample = np.array([bm25.scores(sample) for sample in samples], np.float32).reshape(-1, len(backward))
    forward = per_sample.max(axis=0, initial=0)
    combined = 0.5 * (backward + forward) if samples else backward
    positions = tuple(np.argsort(-combined, kind="stable")[:5].tolist() if positions is None else positions)
    scores = Scores(backward, per_sample, forward, np.full(len(backward), -1), combined)
    return Trace(
        question=example.question,
        method=FBRag(),
        corpus=corpus,
        retriever="bm25",
        scores=scores,
        ranked=positions,
        context=whole_chunks(corpus, sorted(positions)),
        stages=(),
        models={},
        status="answered",
        answer=answer,
    )


def right_ones(trace: Trace, passages: Sequence[str]) -> set[int]:
    """The numbers of the sources that overlap one of `passages`."""
    text = trace.corpus.documents[0].text
    found = set()
    for passage in passages:
        at = text.find(passage)
        while at >= 0:
            found |= {i for i, chunk in enumerate(trace.sources, 1) if chunk.start < at + len(passage) and chunk.end > at}
            at = text.find(passage, at + 1)
    return found


def counted(example: Example, trace: Trace) -> Counter[str]:
    any_, has = right_ones(trace, example.evidence), [p for p in example.evidence if _has(p, example.answers)]
    if not any_:
        return Counter()
    cited = citations(trace)
    numbers = [number for claim in cited.claims for number in claim.sources]
    holding = right_ones(trace, has) or any_
    count = Counter(n=1)
    if numbers:
        count += Counter(cited=1, first=numbers[0] in any_, rank=1 in any_, first_h=numbers[0] in holding, rank_h=1 in holding)
        count += Counter(marks=len(set(numbers)), right=len(set(numbers) & any_))
    if cited.unseen:
        count += Counter(unseen=1)
    return count


def _has(passage: str, answers: Sequence[str]) -> bool:
    return any(answer.casefold() in passage.casefold() for answer in answers)


def main() -> None:
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for group, example, answer, positions, samples in cases():
        count = counted(example, trace_of(example, answer, positions, samples))
        groups[group] += count
        groups["all"] += count
    print("| answers | n | cited | any: best -> first cited | holding: best -> first cited | right | marks | unseen |")
    print("|---|---|---|---|---|---|---|---|")
    for group, n in groups.items():
        share = {name: 100 * n[name] / n["cited"] for name in ("first", "rank", "first_h", "rank_h")}
        print(
            f"| {group} | {n['n']} | {100 * n['cited'] / n['n']:.0f} % | {share['rank']:.1f} -> {share['first']:.1f} | "
            f"{share['rank_h']:.1f} -> {share['first_h']:.1f} | {100 * n['right'] / n['marks']:.0f} % | "
            f"{n['marks'] / n['cited']:.2f} | {100 * n['unseen'] / n['n']:.0f} % |"
        )


if __name__ == "__main__":
    main()
