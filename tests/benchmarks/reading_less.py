"""What Stage III reads of long documents, and for summaries: answers by ways that the default may become.

    python tests/benchmarks/reading_less.py ask OUT.jsonl --questions long|summaries [--part 0/2] [--threads 2]
    python tests/benchmarks/reading_less.py compare ROWS.jsonl.gz ...

long: the 30 questions of pride.jsonl, and 20 each of FairytaleQA and of MuSiQue with 150,000 words, none of held_out.json.
Its "default" is the one up to 7fdc81cb. summaries: the 30 questions of QMSum in looking-forward.jsonl.gz. The ways of a question
share samples.

One model answers all, so that what it has read for one way need not be read again for the next: a row has the tokens that a way
would read alone, not its seconds. A row: F1 (Rouge-L where it is the set's), whether a gold answer stands in what is read, the
share of the evidence, and the words. A run that is started again goes on after its last row.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from looking_forward import RESULTS, from_samples, interval, retrieved, samples_by_name
from looking_forward import questions as kept_questions
from sample_languages import by_way, loaded, read

from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import answer_in, evidence_recall, main_metric, score
from fbrag_cli.generation.generator import Generator
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.trace import Trace

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared"
MODEL = "qwen2.5-coder-1.5b"
SEED, N_EACH = 63, 20

WAYS: dict[str, dict[str, Method]] = {
    "long": {
        "default": FBRag(order="read-first"),
        "document order": FBRag(order="document"),
        "order-preserving": OrderPreserving(select=5),
    },
    "summaries": {
        "default": FBRag(),
        "chunks": FBRag(granularity="chunk"),
    },
}


def questions(name: str) -> list[Example]:
    if name == "summaries":
        return [example for example in kept_questions().values() if example.dataset == "qmsum"]
    held = json.loads((HERE / "held_out.json").read_text("utf-8"))
    used = {id_ for rows in held.values() for _, id_ in rows}
    return [*_of_the_novel(), *(each for pair in zip(*_of_long_sets(used), strict=True) for each in pair)]


def _of_the_novel() -> Iterator[Example]:
    novel = (SHARED / "books" / "pride-and-prejudice.txt").read_text("utf-8")
    for i, line in enumerate((HERE / "pride.jsonl").read_text("utf-8").splitlines()):
        row = json.loads(line)
        yield Example(f"pride-{i}", "pride", row["question"], tuple(row["answers"]), lambda: novel, "novel")


def _of_long_sets(used: set[str]) -> Iterator[list[Example]]:
    for name in ("fairytaleqa", "musique150k"):
        free = [each for each in load_examples([SHARED / "bench" / f"{name}.jsonl.gz"]) if each.id not in used]
        yield random.Random(SEED).sample(free, N_EACH)


def answered(example: Example, way: str, trace: Trace, tools: Tools, model: Generator) -> dict[str, Any]:
    long = 256 if example.dataset == "qmsum" else 64
    method = replace(trace.query.method, max_tokens=long, allow_unsupported=True)
    done = method.answer(
        replace(trace, query=replace(trace.query, method=method)), replace(tools, model=lambda role, adapter=None: model)
    )
    spans = [(each.start, each.end) for each in done.context]
    return {
        "set": example.dataset,
        "id": example.id,
        "way": way,
        "n_chunks": len(done.corpus.chunks),
        "samples": [sample.text for sample in done.samples],
        "answer": done.answer,
        "confidence": done.verdict.confidence,
        "score": score(example, done.answer or "")[main_metric(example)],
        "answer_in_context": answer_in(example, [each.text for each in done.context]),
        "evidence": evidence_recall(example.evidence, spans, example.context()),
        "words_forward": sum(each.n_words for each in done.forward.read) if done.forward else 0,
        "words": sum(each.n_words for each in done.context),
        "tokens": {stage.name: stage.prompt_tokens for stage in done.stages if stage.prompt_tokens},
    }


def ask(options: argparse.Namespace) -> None:
    model = loaded(MODEL, options.threads)
    done = {(row["set"], row["id"], row["way"]) for row in read(options.rows[0])} if options.rows[0].exists() else set()
    part, n_parts = map(int, options.part.split("/"))
    drawn = samples_by_name(read(RESULTS / "looking-forward.jsonl.gz"))["2 chunks"] if options.questions == "summaries" else {}
    with options.rows[0].open("a", encoding="utf-8") as rows:
        for example in questions(options.questions)[part::n_parts]:
            ways = WAYS[options.questions]
            if all((example.dataset, example.id, way) in done for way in ways):
                continue
            texts = drawn.get((example.dataset, example.id), [])[:3]
            for way, method in ways.items():
                if texts:
                    trace, tools = from_samples(example, texts, method)
                else:
                    trace, tools = retrieved(example, method, model)
                    texts = [sample.text for sample in trace.samples]
                if (example.dataset, example.id, way) not in done:
                    row = answered(example, way, trace, tools, model)
                    rows.write(json.dumps(row, ensure_ascii=False) + "\n")
                    rows.flush()


def compare(options: argparse.Namespace) -> None:
    found = by_way(row for path in options.rows for row in read(path))
    base = found["default"]
    for way, rows in found.items():
        both = [key for key in rows if key in base]
        print(f"{way}, n = {len(both)}")
        for name in ("score", "answer_in_context", "evidence"):
            pairs = [(rows[key][name], base[key][name]) for key in both if None not in (rows[key][name], base[key][name])]
            if pairs:
                now, before = np.array(pairs, float).T
                print(f"  {name:18} {100 * now.mean():5.1f}  {interval(100 * (now - before))}, n = {len(pairs)}")
        means = {name: np.mean([rows[key][name] for key in both]) for name in ("words_forward", "words")}
        print(f"  {means['words_forward']:.0f} words in Stage II, {means['words']:.0f} in Stage III")
        by_set = {name: [key for key in both if key[0] == name] for name in dict.fromkeys(name for name, _ in both)}
        print(
            "  " + ", ".join(f"{name} {100 * np.mean([rows[key]['score'] for key in keys]):.1f}" for name, keys in by_set.items())
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["ask", "compare"])
    parser.add_argument("rows", nargs="+", type=Path)
    parser.add_argument("--questions", choices=list(WAYS))
    parser.add_argument("--part", default="0/1", metavar="I/N")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    {"ask": ask, "compare": compare}[options.do](options)


if __name__ == "__main__":
    main()
