"""Evidence recall of two ways to cut a text into chunks: that of OLD_WORDS.py, and ours.

    python tests/benchmarks/chunk_ends.py OLD_WORDS.py [--sets musique hotpotqa ...] [--rows recall.jsonl.gz ...]

OLD_WORDS.py is another version of words.py, as `git show REVISION:fbrag_cli/text/words.py` gives it. The sets are the team's
(../shared/bench), all their questions. "question" scores chunks by the question alone. "FB" adds the samples that the 1.5B wrote
when --rows were made (5 of them, at temperature 1, from 8 chunks of exactly 300 words). No model runs here: both ways of cutting
are scored by the same samples. Prints evidence recall in percent, before and after, and the paired difference with its 95 %
bootstrap interval: by set, and the mean over the sets.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from question_recall import BENCH, load

from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import evidence_recall
from fbrag_cli.evaluation.statistics import paired_difference
from fbrag_cli.generation.generator import Generation
from fbrag_cli.indexing.collect import Collection, collect_text
from fbrag_cli.methods.fb_rag.fb_rag import FBRag, parse_sample, score
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text import words
from fbrag_cli.text.languages import detect

AT = (3, 5, 10)
SETS = ["musique", "hotpotqa", "2wikimqa", "qmsum", "fairytaleqa", "musique150k", "xquad.en", "xquad.zh"]
RESULTS = Path(__file__).with_name("results")
ROWS = [RESULTS / f"recall{name}.jsonl.gz" for name in ("", "-qmsum", "-fairytaleqa", "-musique150k")]
SETTINGS = {"method": "fb-rag", "small": "qwen2.5-coder-1.5b", "samples": 5, "recall": 8, "temperature": 1.0}

Recalls = list[float]  # at each of AT


def samples_of(rows: Sequence[Path]) -> dict[tuple[str, str], list[str]]:
    """The texts of the samples by data set and question."""
    found = {}
    for path in rows:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if SETTINGS.items() <= row["configuration"].items():
                    found[row["dataset"], row["id"]] = row["samples"]
    return found


def collections(examples: Sequence[Example], cut: Callable[..., Any]) -> Iterator[Collection]:
    """The chunks of each example's document, as `cut` makes them."""
    key, found = "", None
    for example in examples:
        if found is None or key != example.document:
            text, key = example.context(), example.document
            words.cut = cut
            found = collect_text(Document.of("d", "d", Extracted(Content(text), "text/plain"), "0" * 64, detect(text)))
        yield found


def recalls(example: Example, samples: list[str] | None, collection: Collection) -> tuple[Recalls, Recalls | None]:
    """Evidence recall of the question alone and, with samples, of FB (equations 5 and 6)."""
    backward = collection.retriever.scores(example.question)
    if not samples:
        return covered(example, backward, collection), None
    said = [parse_sample(i, Generation(text, 0, "stop", i)).said for i, text in enumerate(samples)]
    forward = np.stack([collection.retriever.scores(each) for each in said])
    return covered(example, backward, collection), covered(example, score(backward, forward, FBRag()).combined, collection)


def covered(example: Example, scores: Any, collection: Collection) -> Recalls:
    chunks, text = collection.corpus.chunks, collection.corpus.documents[0].text
    ranked = best(scores, max(AT))
    spans = [(chunks[position].start, chunks[position].end) for position in ranked]
    return [evidence_recall(example.evidence, spans[:k], text) or 0.0 for k in AT]


def line(name: str, before: dict[str, list[Recalls]], after: dict[str, list[Recalls]]) -> str:
    told = f"{name:22}{sum(map(len, before.values())):5}"
    for i, _ in enumerate(AT):
        pairs = {each: [b[i] - a[i] for a, b in zip(before[each], after[each], strict=True)] for each in before}
        found = paired_difference(pairs)
        old, new = (np.mean([np.mean([row[i] for row in rows]) for rows in way.values()]) for way in (before, after))
        told += f"  |{old:6.1%} {new:6.1%} {found.mean:+6.1%} [{found.low:+.1%}, {found.high:+.1%}]"
    return told.replace("%", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("old", type=Path, metavar="OLD_WORDS.py")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--rows", type=Path, nargs="*", default=ROWS)
    options = parser.parse_args()
    cuts = (load(options.old).cut, words.cut)
    samples = samples_of(options.rows)

    results: dict[str, tuple[dict[str, list[Recalls]], ...]] = {"question": ({}, {}), "FB": ({}, {})}
    print(f"{'':22}{'n':>5}" + "".join(f"  | @{k}: before, after, difference" for k in AT))
    for name in options.sets:
        examples = [each for each in load_examples([BENCH / f"{name}.jsonl.gz"]) if each.evidence]
        for way, cut in enumerate(cuts):
            for example, collection in zip(examples, collections(examples, cut), strict=True):
                question, both = recalls(example, samples.get((example.dataset, example.id)), collection)
                results["question"][way].setdefault(name, []).append(question)
                if both:
                    results["FB"][way].setdefault(name, []).append(both)
        for what, (before, after) in results.items():
            if name in before:
                print(line(f"{what}, {name}", {name: before[name]}, {name: after[name]}), flush=True)
    for what, (before, after) in results.items():
        if before:
            print(line(f"{what}, all sets", before, after))


if __name__ == "__main__":
    main()
