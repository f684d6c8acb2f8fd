"""Whether the gold answer stands in what is read, question by question: what turns into F1, and what a wrong sample is worth.

    python tests/benchmarks/answer_in_context.py

No model runs. The answers are those of `answers-cpu.jsonl.gz`, all of them. The samples are the first 3 of each question of
`looking-forward.jsonl.gz` whose answer stands in the text, and is neither yes nor no. Differences are paired, with 95 % bootstrap
intervals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np
from looking_forward import DRAWN, RESULTS, Key, collected, from_samples, interval, questions, samples_by_name
from sample_languages import read

from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.metrics import answer_in, main_metric
from fbrag_cli.retrieval.ranking import best

WAYS = ("default", "order-preserving", "paper")
SELECTED = 5


def holds(example: Example, positions: Iterable[int]) -> bool:
    """Whether the answer stands in one of the chunks."""
    chunks = collected(example.context()).corpus.chunks
    return bool(answer_in(example, [chunks[position].text for position in positions]))


def print_f1(asked: dict[Key, Example]) -> None:
    found: dict[tuple[str, bool], list[float]] = {}
    for row in read(RESULTS / "answers-cpu.jsonl.gz"):
        if row["way"] in WAYS:
            evidence = {0: "none", 1: "all"}.get(row["shown"], "part")
            held = holds(asked[row["set"], row["id"]], row["context"])
            found.setdefault((evidence, held), []).append(row["f1"])
    for evidence, held in product(("all", "part", "none"), (True, False)):
        f1, told = found[evidence, held], "read" if held else "not read"
        print(f"{evidence:4} of the evidence, the answer {told:8}  F1 {100 * np.mean(f1):4.1f}  n {len(f1)}")


def print_worth(asked: dict[Key, Example]) -> None:
    drawn = samples_by_name(read(RESULTS / "looking-forward.jsonl.gz"))["2 chunks"]
    found: dict[bool, list[tuple[bool, bool]]] = {True: [], False: []}
    for key, example in asked.items():
        answers = {answer.lower() for answer in example.answers}
        if main_metric(example) != "f1" or answers <= {"yes", "no"} or not answer_in(example, [example.context()]):
            continue
        samples = drawn[key][: DRAWN.samples]
        scores = from_samples(example, samples, replace(DRAWN, select=SELECTED))[0].scores
        held = [holds(example, best(each, SELECTED)) for each in (scores.backward, scores.combined)]
        found[bool(answer_in(example, samples))].append((held[0], held[1]))
    for name, pairs in (("all", found[True] + found[False]), ("a sample holds it", found[True]), ("no sample", found[False])):
        before, after = 100 * np.array(pairs).T
        told = f"{before.mean():.1f} by the question, {after.mean():.1f} looking forward: {interval(after - before)}"
        print(f"the answer in {SELECTED} chunks, {name:18} n {len(pairs):3}  {told}")


if __name__ == "__main__":
    print_f1(questions())
    print_worth(questions())
