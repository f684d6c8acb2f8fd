"""Answers to the questions of held_out.json, which chose nothing: by default, fast, thorough, and order-preserving RAG, by turns.

    python tests/benchmarks/held_out_answers.py ask evidence OUT.jsonl [--part 0/2] [--ways fast default ...]
    python tests/benchmarks/held_out_answers.py ask elsewhere|dial OUT.jsonl
    python tests/benchmarks/held_out_answers.py compare ROWS.jsonl.gz ... [--from default]
    python tests/benchmarks/held_out_answers.py lines ROWS.jsonl.gz ...

evidence: 240 questions, on which the default is reported. elsewhere: 60 of them, whose set has several documents, each asked of
another document of its set, so no answer is right. dial: 60 others, for what --fast and --thorough are worth.

Each way asks with a session of its own and an empty cache, one thread, no GPU, so that nothing is kept between two of them; the
ways of one question follow each other, another one first each time. A row has what the product makes of a question: F1 of the
answer as the model wrote it, whether it is withheld or marked and why, what was read, and the seconds of CPU time, loading
included, which other programs on the machine disturb little. `compare` prints the mean of each, and its paired difference to
--from with the 95 % bootstrap interval, also by set and by length; for seconds and tokens the median of the ratios. `lines`
prints how well what is known of an answer tells right from wrong, and what is withheld and marked. --part I/N: each Nth question
from I, so that N processes share a list. A run that is started again goes on after its last row.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from looking_forward import interval
from sample_languages import by_way, read
from stage_three import _share, print_how_well

from fbrag_cli import CacheSettings, ModelSettings, Query, Session
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import answer_in, evidence_recall, main_metric, score
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag import fb_rag
from fbrag_cli.methods.registry import choose_method
from fbrag_cli.query import Collection, ModelNames
from fbrag_cli.render.answer import answer_of
from fbrag_cli.text.languages import detect
from fbrag_cli.version import version

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
LISTS = {"evidence": ["default", "fast", "order-preserving"], "elsewhere": ["default", "fast"], "dial": list(WAYS)}
FIGURES = ("f1", "answer_in_context", "evidence", "words", "tokens", "seconds")


def questions(name: str) -> list[Example]:
    if name == "elsewhere":
        return [*_elsewhere(questions("evidence"))][:60]
    drawn = json.loads((HERE / "held_out.json").read_text("utf-8"))[name]
    sets = {name: load_examples([BENCH / f"{name}.jsonl.gz"]) for name in dict.fromkeys(name for name, _ in drawn)}
    found = {(name, each.id): each for name, examples in sets.items() for each in examples}
    return [found[name, id_] for name, id_ in drawn]


def _elsewhere(examples: Sequence[Example]) -> Iterator[Example]:
    """Yield the questions, each with the document of the next question of its set that has another one, if there is one."""
    for at, example in enumerate(examples):
        following = (each for each in (*examples[at + 1 :], *examples[:at]) if each.dataset == example.dataset)
        if other := next((each for each in following if each.context() != example.context()), None):
            yield replace(example, context=other.context, evidence=())


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
    shown, spans = answer_of(trace), [(each.start, each.end) for each in trace.context]
    return {
        "set": example.dataset,
        "id": example.id,
        "way": way,
        "seconds": round(process_time() - started, 2),
        "status": trace.status,
        "answer": trace.answer,
        "samples": [sample.text for sample in trace.samples],
        "read": [[each.position, each.start, each.end] for each in trace.context],
        "support": trace.verdict.support,
        "agreement": trace.verdict.agreement,
        "probability": trace.verdict.answer_probability,
        "confidence": trace.verdict.confidence,
        "marked": shown.low_confidence,
        "uncited": shown.uncited,
        "f1": score(example, trace.answer or "")["f1"],
        "answer_in_context": None if summary else answer_in(example, [each.text for each in trace.context]),
        "evidence": evidence_recall(example.evidence, spans, example.context()),
        "n_chunks": len(trace.corpus.chunks),
        "words": sum(each.n_words for each in trace.context),
        "tokens": sum(stage.prompt_tokens - stage.cached_tokens for stage in trace.stages),
        "version": version(),
    }


def ask(options: argparse.Namespace) -> None:
    done = {(row["set"], row["id"], row["way"]) for row in read(options.out)} if options.out.exists() else set()
    part, n_parts = map(int, options.part.split("/"))
    with options.out.open("a", encoding="utf-8") as rows:
        for n, example in enumerate(questions(options.list)[part::n_parts]):
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
            pairs = [(rows[key].get(name), base[key].get(name)) for key in both]
            pairs = [pair for pair in pairs if None not in pair]
            if not pairs:
                continue
            now, before = np.array(pairs, float).T
            if name in ("seconds", "tokens", "words"):
                ratios = now / before
                told = f"median {median(now):8.1f}, ratio {median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
            else:
                told = f"{100 * now.mean():5.1f}, {interval(100 * (now - before))}, n = {len(pairs)}"
            print(f"  {name:18} {told}")
        groups: dict[str, list[float]] = {}
        for key in both:
            for name in (key[0], "up to 50 chunks" if rows[key]["n_chunks"] <= fb_rag.FEW else "more chunks"):
                if rows[key]["f1"] is not None:
                    groups.setdefault(name, []).append(100 * (rows[key]["f1"] - base[key]["f1"]))
        for name, values in groups.items():
            print(f"    {name:16} {interval(np.array(values))}, n = {len(values)}")


def mark_of(row: dict[str, Any]) -> str:
    """Return what fbrag says of the answer of a row: "withheld", "marked", or "neither"."""
    return "withheld" if row["status"] == "not_found" else "marked" if row["marked"] else "neither"


def lines(options: argparse.Namespace) -> None:
    for way, rows in by_way(row for path in options.rows for row in read(path)).items():
        found = {key: row for key, row in rows.items() if row["answer"] and row["f1"] is not None}
        each = [*found.values()]
        right = np.array([row["f1"] >= 0.5 for row in each])
        print(f"{way}: {len(each)} answers, {right.sum()} right")
        marks = np.array([*map(mark_of, each)])
        for name in ("support", "agreement", "probability", "confidence"):
            known = [row[name] for row in each]
            if right.any() and any(known):
                print_how_well(name, known, [*found], right)
        for mark in ("withheld", "marked", "neither"):
            chosen = marks == mark
            print(f"  {mark}: {_share(chosen, right)} of right ones, {_share(chosen, ~right)} of wrong ones")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("ask")
    verb.add_argument("list", choices=list(LISTS))
    verb.add_argument("out", type=Path)
    verb.add_argument("--part", default="0/1", metavar="I/N")
    verb.add_argument("--ways", nargs="+", choices=list(WAYS))
    verb.set_defaults(run=ask)
    verb = verbs.add_parser("compare")
    verb.add_argument("rows", nargs="+", type=Path)
    verb.add_argument("--from", dest="base", default="default")
    verb.set_defaults(run=compare)
    verb = verbs.add_parser("lines")
    verb.add_argument("rows", nargs="+", type=Path)
    verb.set_defaults(run=lines)
    options = parser.parse_args()
    if options.run is ask:
        options.ways = options.ways or LISTS[options.list]
    options.run(options)


if __name__ == "__main__":
    main()
