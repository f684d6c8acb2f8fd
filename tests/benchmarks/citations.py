"""Whether the chunk that an answer cites first holds the evidence, and whether wrong answers cite as many as right ones.

    python tests/benchmarks/citations.py [--before OLD_CITATIONS.py]

The first table compares the chunk that is cited first with the one with the best score. "answers" are real answers of the 1.5B
(results/answers.jsonl.gz; not vanilla, which selects as order-preserving). "gold, FB" are the gold answers of the questions in
results/recall*.jsonl.gz with the five chunks that FB-RAG selects by their samples; "gold, question" those of whole sets with
BM25's five chunks. A chunk is right if it overlaps a gold passage ("any"), and if it overlaps one that has the answer's words
("holding"; any where none has). Only questions with a right chunk among the five are counted.

The second table has the share of wrong and of right answers with a citation: "answers", and those of results/answers-cpu.jsonl.gz
with the chunks that they were from. Right: an F1 of 0.5 or more, and of more than 0.5. The first half of the questions chose the
rule. --before: another version of citations.py, as `git show 3b152d0:fbrag_cli/render/citations.py` gives it.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

import numpy as np
from chunk_ends import ROWS, samples_of
from looking_forward import questions
from sample_languages import read

from fbrag_cli.citations import Citations
from fbrag_cli.corpus import Corpus, build_corpus
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import score
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.ranking import whole_chunks
from fbrag_cli.retrieval.bm25 import BM25
from fbrag_cli.trace import Scores, Trace

BENCH = Path(__file__).parents[3] / "shared" / "bench"
RESULTS = Path(__file__).with_name("results")
RECALL = ("recall", "recall-fairytaleqa", "recall-qmsum", "recall-musique150k")
FB = {"method": "fb-rag", "recall": 8, "select": 5, "samples": 5, "eta_forward": 0.5, "eta_backward": 0.5}

WAYS = ("default", "order-preserving", "paper")  # of answers-cpu

Case = tuple[str, Example, str, Sequence[str]]  # group, example, answer, samples


def cases() -> Iterator[Case]:
    examples = {(each.dataset, each.id): each for each in load_examples(sorted(BENCH.glob("*.jsonl.gz")))}
    for row in rows("answers"):
        if row["configuration"]["method"] != "vanilla":
            yield "answers", examples[row["dataset"], row["id"]], row["answer"], row["samples"]
    for name in RECALL:
        for row in rows(name):
            known = row["configuration"]
            if known.get("pooling", "max") == "max" and all(known.get(key) == value for key, value in FB.items()):
                example = examples[row["dataset"], row["id"]]
                yield "gold, FB", example, example.answers[0], row["samples"]
    for example in examples.values():
        if example.dataset in ("xquad.en", "xquad.zh", "fairytaleqa"):
            yield f"gold, question: {example.dataset}", example, example.answers[0], ()


def rows(name: str) -> Iterator[dict]:  # type: ignore[type-arg]
    with gzip.open(RESULTS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@lru_cache(maxsize=256)
def indexed(text: str, language: str) -> tuple[Corpus, BM25]:
    corpus = build_corpus([Document.of("d", "d", Extracted(Content(text, ()), "text/plain", "utf-8"), language=language)])
    return corpus, BM25.of(corpus)


def trace_of(example: Example, answer: str, samples: Sequence[str], positions: Sequence[int] | None = None) -> Trace:
    """positions: of the chunks that were read; the five best without them."""
    corpus, bm25 = indexed(example.context(), example.language)
    backward = bm25.scores(example.question)
    per_sample = np.array([bm25.scores(sample) for sample in samples], np.float32).reshape(-1, len(backward))
    forward = per_sample.max(axis=0, initial=0)
    combined = 0.5 * (backward + forward) if samples else backward
    ranked = np.argsort(-combined, kind="stable").tolist()
    positions = tuple(ranked[:5] if positions is None else filter(positions.__contains__, ranked))
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
    cited = trace.citations
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


def real_answers() -> Iterator[tuple[Example, Trace]]:
    for group, example, answer, samples in cases():
        if group == "answers":
            yield example, trace_of(example, answer, samples)
    asked, drawn = questions(), RESULTS / "looking-forward.jsonl.gz"
    samples_by_way = {
        "default": {
            (row["set"], row["id"]): [text for *_, text in row["samples"]] for row in read(drawn) if row["read"] == "2 chunks"
        },
        "paper": samples_of(ROWS),
    }
    for row in rows("answers-cpu"):
        if row["way"] in WAYS:
            key = row["set"], row["id"]
            samples = samples_by_way.get(row["way"], {}).get(key, ())
            yield asked[key], trace_of(asked[key], row["answer"], samples, row["context"])


def compare(rules: dict[str, Callable[[Trace], Citations]]) -> None:
    """Print the share of right and wrong answers with a citation, by each rule."""
    half = {key: i % 2 for i, key in enumerate(questions())}
    counts: dict[tuple[str, int, str], list[bool]] = defaultdict(list)
    for example, trace in real_answers():
        f1 = score(example, trace.answer or "")["f1"]
        judged = ("wrong",) if f1 < 0.5 else ("right", "F1 over 0.5") if f1 > 0.5 else ("right",)
        for name, rule in rules.items():
            carries = any(claim.sources for claim in rule(trace).claims)
            for verdict in judged:
                counts[name, half[example.dataset, example.id], verdict].append(carries)
    print("\n| rule | half | wrong, with a citation | right | F1 over 0.5 |\n|---|---|---|---|---|")
    for name in rules:
        for at in (0, 1):
            found = (counts[name, at, verdict] for verdict in ("wrong", "right", "F1 over 0.5"))
            print(f"| {name} | {at + 1} | " + " | ".join(f"{100 * np.mean(each):.1f} % of {len(each)}" for each in found) + " |")


def rule_of(path: Path) -> Callable[[Trace], Citations]:
    """The function `citations` of another version of the module."""
    spec = importlib.util.spec_from_file_location("citations_before", path)
    assert spec
    assert spec.loader
    module = sys.modules["citations_before"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rule: Callable[[Trace], Citations] = module.citations
    return rule


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    before = parser.parse_args().before
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for group, example, answer, samples in cases():
        count = counted(example, trace_of(example, answer, samples))
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
    compare({**({"before": rule_of(before)} if before else {}), "after": attrgetter("citations")})


if __name__ == "__main__":
    main()
