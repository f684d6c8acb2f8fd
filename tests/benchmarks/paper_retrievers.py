"""The embedding model of the FB-RAG paper (all-mpnet-base-v2) and MiniLM as S of equations 4 and 5, beside BM25: evidence recall.

    python tests/benchmarks/paper_retrievers.py score OUT.jsonl [--model FOLDER] [--questions 0:180]
    python tests/benchmarks/paper_retrievers.py compare ROWS.jsonl.gz ...

The questions are those of MuSiQue, HotpotQA and 2WikiMultihopQA among the 270 of looking_forward.py, by turns, each with three
samples of results/looking-forward.jsonl.gz. FOLDER is a model of sentence-transformers, run in bfloat16; without one it is BM25.
A row has the evidence recall at 3, 5 and 10 by the question, by the samples, and by both in equal parts. A run that is started
again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from looking_forward import AT, DRAWN, RESULTS, collected, interval, questions, recalls, samples_by_name
from sample_languages import read

from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.generation.generator import Generation
from fbrag_cli.methods.fb_rag.fb_rag import parse_sample
from fbrag_cli.progress import silent
from fbrag_cli.retrieval import Retriever
from fbrag_cli.retrieval.dense import Dense, embed_chunks

SETS = ("musique", "hotpotqa", "2wikimqa")
FORMS = ("question", "samples", "both")


def scored(example: Example, texts: list[str], retriever: Retriever) -> dict[str, list[float]]:
    backward = retriever.scores(example.question)
    samples = [parse_sample(i, Generation(text, 0, "stop", i)).scored_text for i, text in enumerate(texts)]
    forward = np.max([retriever.scores(text) for text in samples], axis=0)
    found = {"question": backward, "samples": forward, "both": 0.5 * backward + 0.5 * forward}
    return {form: recalls(example, scores) for form, scores in found.items()}


def score(options: argparse.Namespace) -> None:
    embedder: Any = None
    if options.model != "bm25":
        import torch

        from fbrag_cli.retrieval.sentence_model import SentenceModel

        torch.set_num_threads(options.threads)
        embedder = SentenceModel(options.model)
        embedder._model.bfloat16()
        encode = embedder._model.encode
        embedder._model.encode = lambda *given, **named: encode(*given, **named, convert_to_tensor=True).float().numpy()
    drawn = samples_by_name(read(RESULTS / "looking-forward.jsonl.gz"))["2 chunks"]
    done = {(row["set"], row["id"]) for row in read(options.out)} if options.out.exists() else set()
    first, last = map(int, options.questions.split(":"))
    asked = [(key, example) for key, example in questions().items() if key[0] in SETS][first:last]
    with options.out.open("a", encoding="utf-8") as rows:
        for key, example in asked:
            if key in done:
                continue
            collection = collected(example.context())
            retriever: Any = collection.retriever
            if embedder is not None:
                chunks = [chunk.text for chunk in collection.corpus.chunks]
                retriever = Dense(embedder, embed_chunks(chunks, embedder, silent, 0, len(chunks)))
            name = embedder.name if embedder else "bm25"
            row = {"set": key[0], "id": key[1], "model": name, "recall": scored(example, drawn[key][: DRAWN.samples], retriever)}
            print(json.dumps(row), file=rows, flush=True)


def compare(options: argparse.Namespace) -> None:
    by_model: dict[str, dict[Any, Any]] = {}
    for row in (row for path in options.rows for row in read(path)):
        by_model.setdefault(row["model"], {})[row["set"], row["id"]] = row["recall"]
    keys = [key for key in by_model["bm25"] if all(key in found for found in by_model.values())]
    base = np.array([by_model["bm25"][key]["both"] for key in keys])
    print(f"n = {len(keys)}; at {AT}, difference to BM25 by both")
    for model, found in by_model.items():
        for form in FORMS:
            values = np.array([found[key][form] for key in keys])
            told = ", ".join(f"{100 * values[:, i].mean():.1f} {interval(100 * (values - base)[:, i])}" for i in range(len(AT)))
            by_set = {name: [found[key][form][1] for key in keys if key[0] == name] for name in SETS}
            print(
                f"{model:20} {form:9} {told} | " + ", ".join(f"{name} {100 * np.mean(each):.1f}" for name, each in by_set.items())
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("score")
    verb.add_argument("out", type=Path)
    verb.add_argument("--model", default="bm25")
    verb.add_argument("--questions", default="0:180")
    verb.add_argument("--threads", type=int, default=2)
    verb.set_defaults(run=score)
    verb = verbs.add_parser("compare")
    verb.add_argument("rows", nargs="+", type=Path)
    verb.set_defaults(run=compare)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
