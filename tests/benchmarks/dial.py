"""What the dial is worth: fast, default, thorough and order-preserving RAG on the 60 questions of held_out.json, by turns.

    python tests/benchmarks/dial.py ask OUT.jsonl [--questions 0:60] [--ways fast default ...]
    python tests/benchmarks/dial.py compare ROWS.jsonl.gz [--from default]

Each way asks with a session of its own and an empty cache, one thread, no GPU, so that nothing is kept between two of them; the
ways of one question follow each other, another one first each time. A row has the F1, whether the answer is in what was read,
the tokens read, and the seconds of CPU time, loading included, which other programs on the machine disturb little. `compare`
prints the mean of each, and its paired difference to --from with the 95 % bootstrap interval; for the seconds the median of the
ratios. A run that is started again goes on after its last row.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from looking_forward import interval
from sample_languages import by_way, read

from fbrag_cli import CacheSettings, ModelSettings, Query, Session
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import answer_in, main_metric, score
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag import fb_rag
from fbrag_cli.methods.registry import choose_method
from fbrag_cli.query import Collection, ModelNames
from fbrag_cli.text.languages import detect

HERE = Path(__file__).resolve().parent
BENCH = HERE.parents[2] / "shared" / "bench"
MODEL = "qwen2.5-coder-1.5b"
WIDER, WORDS = "fast, 600 words of windows", 600
WAYS: dict[str, dict[str, Any]] = {
    "fast": {"fast": True},
    WIDER: {"fast": True},
    "default": {},
    "thorough": {"thorough": True},
    "order-preserving": {"method": "order-preserving"},
}
FIGURES = ("f1", "answer_in_context", "tokens", "seconds")


def questions() -> list[Example]:
    drawn = json.loads((HERE / "held_out.json").read_text("utf-8"))["dial"]
    sets = {name: load_examples([BENCH / f"{name}.jsonl.gz"]) for name in dict.fromkeys(name for name, _ in drawn)}
    found = {(name, each.id): each for name, examples in sets.items() for each in examples}
    return [found[name, id_] for name, id_ in drawn]


def collected(example: Example) -> Collection:
    text = example.context()
    return collect_text(Document.of("d", "d", Extracted(Content(text), "text/plain"), "0" * 64, detect(text)))


@contextmanager
def windows_of(words: int) -> Iterator[None]:
    before, fb_rag._WINDOWS = fb_rag._WINDOWS, words
    try:
        yield
    finally:
        fb_rag._WINDOWS = before


def answered(example: Example, way: str) -> dict[str, Any]:
    method = choose_method(WAYS[way], on_gpu=False)
    models, cache = ModelSettings(large=MODEL, small=MODEL, gpu="off", threads=1), CacheSettings(no_cache=True)
    started = process_time()
    with windows_of(WORDS if way == WIDER else fb_rag._WINDOWS), Session.open(models, cache) as session:
        trace = session.ask(Query(example.question, collected(example), method, ModelNames(small=MODEL, large=MODEL)))
    summary = main_metric(example) == "rouge_l"
    return {
        "set": example.dataset,
        "id": example.id,
        "way": way,
        "seconds": round(process_time() - started, 2),
        "status": trace.status,
        "answer": trace.answer,
        "confidence": trace.verdict.confidence,
        "f1": score(example, trace.answer or "")["f1"],
        "answer_in_context": None if summary else answer_in(example, [each.text for each in trace.context]),
        "n_chunks": len(trace.corpus.chunks),
        "tokens": sum(stage.prompt_tokens - stage.cached_tokens for stage in trace.stages),
    }


def ask(options: argparse.Namespace) -> None:
    done = {(row["set"], row["id"], row["way"]) for row in read(options.out)} if options.out.exists() else set()
    first, last = map(int, options.questions.split(":"))
    with options.out.open("a", encoding="utf-8") as rows:
        for n, example in enumerate(questions()[first:last], first):
            turn = n % len(options.ways)
            for way in (*options.ways[turn:], *options.ways[:turn]):
                if (example.dataset, example.id, way) not in done:
                    rows.write(json.dumps(answered(example, way), ensure_ascii=False) + "\n")
                    rows.flush()


def compare(options: argparse.Namespace) -> None:
    found = by_way(row for path in options.rows for row in read(path))
    base = found[options.base]
    for way, rows in found.items():
        both = [key for key in rows if key in base]
        print(f"{way}, n = {len(both)}")
        for name in FIGURES:
            pairs = [(rows[key][name], base[key][name]) for key in both if None not in (rows[key][name], base[key][name])]
            now, before = np.array(pairs, float).T
            if name in ("seconds", "tokens"):
                ratios = now / before
                told = f"median {median(now):8.1f}, ratio {median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
            else:
                told = f"{100 * now.mean():5.1f}, {interval(100 * (now - before))}, n = {len(pairs)}"
            print(f"  {name:18} {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("ask")
    verb.add_argument("out", type=Path)
    verb.add_argument("--questions", default="0:60")
    verb.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    verb.set_defaults(run=ask)
    verb = verbs.add_parser("compare")
    verb.add_argument("rows", nargs="+", type=Path)
    verb.add_argument("--from", dest="base", default="default")
    verb.set_defaults(run=compare)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
