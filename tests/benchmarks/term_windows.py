"""What windows of 60 terms over the ends of chunks are worth beside the score of a chunk: evidence recall and time.

    python tests/benchmarks/term_windows.py question
    python tests/benchmarks/term_windows.py samples SAMPLES.jsonl ...
    python tests/benchmarks/term_windows.py time

`question`: the question alone, with and without 0.6 of the best window (`--fast`), on the questions of the six sets that are not
in `recall*.jsonl.gz`. `samples`: FB-RAG by equation 5's maximum, against the mean over the samples and 0.3 of the best window in
both lookups, which was fixed before these samples (of stage_three.py) were drawn. Both print evidence recall in percent at 3, 5
and 10, and paired differences with 95 % bootstrap intervals, by set. `time`: milliseconds a question of the scores of chunks and
of windows, on MuSiQue 150k. No model runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from chunk_ends import AT, ROWS, SETS, samples_of
from looking_forward import DRAWN, collected, interval, recalls
from question_recall import BENCH
from stage_three import drawn_samples, questions

from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.generation.generator import Generation
from fbrag_cli.methods.fb_rag.fb_rag import parse_sample, score
from fbrag_cli.text import words

FAST, FIXED = 0.6, 0.3  # weights of the window

Scores = Callable[[str], Any]


def of_chunks(example: Example, weight: float, candidates: int | None = None) -> Scores:
    """Return what scores the chunks of an example's document for a text. candidates: of `window_scores`, None for all chunks."""
    collection = collected(example.context())
    own, windows, corpus = collection.retriever.scores, collection.retriever.window_scores, collection.corpus
    return lambda text: own(text) + weight * windows(text, corpus, candidates or len(corpus.chunks)) if weight else own(text)


def fresh() -> Iterable[Example]:
    used = samples_of(ROWS)
    for name in SETS[:6]:
        for example in load_examples([BENCH / f"{name}.jsonl.gz"]):
            if example.evidence and (example.dataset, example.id) not in used:
                yield example


def by_question(example: Example, weight: float) -> list[float]:
    return recalls(example, of_chunks(example, weight, candidates=40)(example.question))


def by_samples(example: Example, texts: Iterable[str], pooling: str, weight: float) -> list[float]:
    scores = of_chunks(example, weight)
    said = [parse_sample(i, Generation(text, 0, "stop", i)).said for i, text in enumerate(texts)]
    method: Any = replace(DRAWN, pooling=pooling)
    return recalls(example, score(scores(example.question), np.stack([scores(each) for each in said]), method).combined)


def table(rows: list[tuple[str, list[float], list[float]]]) -> None:
    """Print the means before and after, and the differences, by set and over all questions."""
    print(f"{'':14}{'n':>4}" + "".join(f"  | @{k}: before, after, difference" for k in AT))
    for name in [*dict.fromkeys(name for name, *_ in rows), "all"]:
        pairs = 100 * np.array([(before, after) for each, before, after in rows if name in (each, "all")])
        told = f"{name:14}{len(pairs):4}"
        for i, _ in enumerate(AT):
            before, after = pairs[:, 0, i], pairs[:, 1, i]
            told += f"  | {before.mean():5.1f} {after.mean():5.1f} {interval(after - before)}"
        print(told)


def milliseconds() -> None:
    """Print the median CPU time of the scores of chunks and of windows, with empty caches of terms and with full ones."""
    examples = list(load_examples([BENCH / "musique150k.jsonl.gz"]))
    collection = collected(examples[0].context())
    ways: dict[str, Scores] = {
        "chunks": collection.retriever.scores,
        "windows": lambda text: collection.retriever.window_scores(text, collection.corpus),
    }
    for caches in ("empty", "full"):
        found: dict[str, list[float]] = {name: [] for name in ways}
        for example in examples:
            for name, way in ways.items():
                if caches == "empty":
                    words._table.cache_clear()
                    words.term_of.cache_clear()
                start = time.process_time()
                way(example.question)
                found[name].append(1000 * (time.process_time() - start))
        own, windows = (float(np.median(each)) for each in found.values())
        print(f"{len(examples)} questions, {caches}: chunks {own:.2f} ms, windows {windows:.2f} ms, ratio {windows / own:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["question", "samples", "time"])
    parser.add_argument("files", type=Path, nargs="*")
    options = parser.parse_args()
    if options.do == "time":
        milliseconds()
    elif options.do == "question":
        table([(each.dataset, by_question(each, 0), by_question(each, FAST)) for each in fresh()])
    else:
        drawn = drawn_samples(options.files)
        asked = {key: each for key, each in questions().items() if key in drawn and each.evidence}
        sides = (("max", 0.0), ("mean", 0.0), ("max", FIXED), ("mean", FIXED))
        found = [{key: by_samples(each, drawn[key], *side) for key, each in asked.items()} for side in sides]
        for side, after in zip(sides[1:], found[1:], strict=True):
            print(f"\n{side[0]} over the samples, {side[1]:g} of the window; before: the maximum alone")
            table([(key[0], found[0][key], after[key]) for key in asked])


if __name__ == "__main__":
    main()
