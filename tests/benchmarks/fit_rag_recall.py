"""FIT-RAG's scorer on documents that it was not trained on: evidence recall of the sets in ../shared/bench.

    python tests/benchmarks/fit_rag_recall.py rank OUT.jsonl --fit-rag FOLDER --embedder MINILM.gguf [--questions 0:50]
        [--sets fairytaleqa ...]
    python tests/benchmarks/fit_rag_recall.py recall ROWS.jsonl.gz ...

A document is cut into chunks of 100 words. The scorer ranks the 100 chunks that BM25 finds, by Has_Answer, by LLM_Prefer and by
their sum; MiniLM, untrained, ranks all chunks by cosine. `rank` writes a row for each question, the sets in turn. `recall`
prints, for each set and all together, the share of the evidence that lies in the best k chunks, and of the sum the paired
difference to BM25 and to MiniLM with its 95 % bootstrap interval. A run that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from fit_rag import opened
from question_recall import BENCH, interval
from sample_languages import dense, embedder, read

from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import evidence_recall
from fbrag_cli.generation.scorer import Scorer
from fbrag_cli.indexing.collect import Collection, collect_text
from fbrag_cli.methods.fit_rag.method import FitRag
from fbrag_cli.retrieval.dense import Dense
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text.languages import detect

SETS = ("hotpotqa", "2wikimqa", "musique", "fairytaleqa", "musique150k", "xquad.en")
CANDIDATES = FitRag().candidates
AT = (1, 3, 5, 10, 20)
NAMES = ("BM25", "MiniLM", "Has_Answer", "LLM_Prefer", "sum")


@lru_cache(maxsize=16)  # the long documents of sets whose questions share one stay among those of the others
def collected(text: str) -> Collection:
    document = Document.of("d", "d", Extracted(Content(text), "text/plain"), "0" * 64, detect(text))
    return collect_text(document, chunk_words=FitRag.chunk_words)


def questions(names: Sequence[str], span: slice) -> Iterator[Example]:
    """Yield the questions of the sets in turn, so that the first n are a fair part of each."""
    sets = [load_examples([BENCH / f"{name}.jsonl.gz"])[span] for name in names]
    yield from (each for turn in zip_longest(*sets) for each in turn if each is not None)


def rank(out: Path, options: argparse.Namespace) -> None:
    parts = opened(options.fit_rag, options.threads)
    assert parts
    by = embedder(options.embedder, options.threads)

    @lru_cache(maxsize=16)
    def dense_of(text: str) -> Dense:
        return dense(by, (chunk.text for chunk in collected(text).corpus.chunks))

    kept = {(row["set"], row["id"]) for row in (read(out) if out.exists() else [])}
    with out.open("a", encoding="utf-8") as rows:
        for example in questions(options.sets, slice(*map(int, options.questions.split(":")))):
            if (example.dataset, example.id) not in kept:
                row = {
                    "set": example.dataset,
                    "id": example.id,
                    "recall": recalls(example, parts.scorer, dense_of(example.context())),
                }
                print(json.dumps(row), file=rows, flush=True)


def recalls(example: Example, scorer: Scorer, by_vectors: Dense) -> dict[str, list[float]]:
    """Return evidence recall at each of `AT`, by what ranks."""
    collection = collected(example.context())
    backward = collection.retriever.scores(example.question)
    candidates = list(best(backward, CANDIDATES))
    logits = scorer.scores(example.question, [collection.corpus.chunks[i].text for i in candidates])
    labels = 1 / (1 + np.exp(-logits))
    by_label = {"Has_Answer": labels[:, 0], "LLM_Prefer": labels[:, 1], "sum": labels.sum(axis=1)}
    orders = {name: [candidates[i] for i in np.argsort(-values, kind="stable")] for name, values in by_label.items()}
    orders |= {"BM25": candidates, "MiniLM": list(best(by_vectors.scores(example.question), max(AT)))}
    return {name: at_each(example, collection, order) for name, order in orders.items()}


def at_each(example: Example, collection: Collection, order: Sequence[int]) -> list[float]:
    spans = [(collection.corpus.chunks[i].start, collection.corpus.chunks[i].end) for i in order]
    text = collection.corpus.documents[0].text
    return [evidence_recall(example.evidence, spans[:k], text) or 0.0 for k in AT]


def table(rows: Sequence[dict[str, Any]]) -> None:
    rows = list({(row["set"], row["id"]): row for row in rows}.values())
    for name in (*dict.fromkeys(row["set"] for row in rows), "all"):
        found = [row["recall"] for row in rows if name in (row["set"], "all")]
        by = {each: 100 * np.array([row[each] for row in found]) for each in NAMES}
        print(f"\n{name}, n {len(found)}" + "".join(f"{f'@{k}':>7}" for k in AT))
        for each, values in by.items():
            print(f"{each:12}" + "".join(f"{value:7.1f}" for value in values.mean(axis=0)))
        for base in ("BM25", "MiniLM"):
            differences = (by["sum"] - by[base])[:, AT.index(5)]
            low, high = interval(differences)
            print(f"sum less {base} at 5: {differences.mean():+.1f} ({low:+.1f} to {high:+.1f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("do", choices=["rank", "recall"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--fit-rag", metavar="FOLDER")
    parser.add_argument("--embedder", type=Path, metavar="FILE.gguf")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--questions", default="0:50", metavar="FROM:TO")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.do == "rank":
        rank(options.files[0], options)
    else:
        table([row for path in options.files for row in read(path)])


if __name__ == "__main__":
    main()
