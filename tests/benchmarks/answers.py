"""Answers of several ways to select, to order and to ask, question by question: word F1 against the gold answers.

    python tests/benchmarks/answers.py answer OUT.jsonl --rows ROWS.jsonl.gz [--ways default paper ...] [--questions 0:270]
    python tests/benchmarks/answers.py compare ROWS.jsonl.gz ... [--from default] [--half 0]

No small model runs: the samples are those of looking_forward.py (--rows), those of `recall*.jsonl.gz` for the paper's setting.
`answer` writes a row for each question and way. The ways of a question follow each other, so that what their prompts begin with
is read once; therefore rows hold tokens, and no seconds. `compare` prints the mean F1 of each way and the paired difference to
--from with its 95 % bootstrap interval. --half: 0 or 1, every other question. A run that is started again goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from looking_forward import DRAWN, MODEL, PAPER, ROWS, Key, from_samples, questions, recalls, samples_of
from question_recall import interval
from sample_languages import loaded, read

from fbrag_cli.corpus import Passage
from fbrag_cli.evaluation.datasets import Example
from fbrag_cli.evaluation.metrics import evidence_recall, score
from fbrag_cli.generation.generator import Generator, Message
from fbrag_cli.methods.fb_rag.baselines import OrderPreserving
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method
from fbrag_cli.trace import Trace

ANSWERING = ("musique", "hotpotqa", "fairytaleqa")
_ASKED = "\n\nQuestion: "


@dataclass(frozen=True, slots=True, kw_only=True)
class WithCandidates(FBRag):
    """The large model reads the answers of the forward samples, too."""

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        said = "; ".join(dict.fromkeys(sample.answer for sample in trace.samples if sample.answer))
        told = f" Others proposed, after reading a part of them: {said}. They may be wrong." if said else ""
        return _told(FBRag.messages(self, trace), told)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotingFirst(FBRag):
    """The large model copies the sentence that shows the answer before it answers."""

    def messages(self, trace: Trace) -> tuple[Message, ...]:
        told = " First copy the sentence that shows it, after 'Quote:'. Then write the answer on a new line, after 'Answer:'."
        return _told(FBRag.messages(self, trace), told)


def _told(messages: tuple[Message, ...], told: str) -> tuple[Message, ...]:
    (message,) = messages
    return (replace(message, text=message.text.replace(_ASKED, told + _ASKED)),)


def best_last(trace: Trace) -> Trace:
    best = trace.selection.ranked[0]
    return trace.reading(tuple(sorted(trace.context, key=lambda each: each.position == best)))


def as_it_is(trace: Trace) -> Trace:
    return trace


@dataclass(frozen=True, slots=True)
class Way:
    method: Method
    change: Callable[[Trace], Trace] = as_it_is


_DEFAULT = {**DRAWN.described(), "max_tokens": 64, "select": 5}
#: Those whose contexts begin alike follow each other.
WAYS = {
    "default": Way(FBRag(**_DEFAULT)),
    "candidates": Way(WithCandidates(**_DEFAULT)),
    "quote first": Way(QuotingFirst(**_DEFAULT | {"max_tokens": 160})),
    "3 chunks": Way(FBRag(**_DEFAULT | {"select": 3})),
    "7 chunks": Way(FBRag(**_DEFAULT | {"select": 7})),
    "order-preserving": Way(OrderPreserving(select=5, max_tokens=64)),
    "order-preserving, 8 chunks": Way(OrderPreserving(select=8, max_tokens=64)),
    "paper": Way(replace(PAPER, select=5, max_tokens=64)),
    "best last": Way(FBRag(**_DEFAULT), best_last),
}


def answered(example: Example, name: str, texts: Sequence[str], large: Generator) -> dict[str, Any]:
    way = WAYS[name]
    trace, tools = from_samples(example, texts, way.method)
    done = way.method.answer(way.change(trace), replace(tools, model=lambda role, adapter=None: large))
    stage = next(each for each in done.stages if each.name == "answer")
    answer = done.answer or ""
    return {
        "set": example.dataset,
        "id": example.id,
        "way": name,
        "context": [excerpt.position for excerpt in done.context],
        "evidence": recalls(example, done.scores.combined)[1],
        "shown": shown(example, done.context),
        "answer": answer,
        "support": done.verdict.support,
        "f1": score(example, answer.rpartition("Answer:")[2].strip() if name == "quote first" else answer)["f1"],
        "tokens": {"prompt": stage.prompt_tokens, "cached": stage.cached_tokens, "written": stage.generated_tokens},
    }


def shown(example: Example, context: Sequence[Passage]) -> float | None:
    """The share of the gold evidence that the context holds."""
    return evidence_recall(example.evidence, [(each.start, each.end) for each in context], context[0].document.text)


def unfinished(out: Path, options: argparse.Namespace) -> Iterator[tuple[Key, str]]:
    done = {(row["set"], row["id"], row["way"]) for row in read(out)} if out.exists() else set()
    first, last = map(int, options.questions.split(":"))
    for key in [key for key in list(questions())[first:last] if key[0] in options.sets]:
        yield from ((key, way) for way in WAYS if way in options.ways and (*key, way) not in done)


def answer(out: Path, options: argparse.Namespace) -> None:
    asked, large, paper = questions(), loaded(MODEL, options.threads), samples_of(ROWS)
    drawn: dict[Key, list[str]] = {(row["set"], row["id"]): [text for *_, text in row["samples"]] for row in read(options.rows)}
    work = list(unfinished(out, options))
    with out.open("a", encoding="utf-8") as rows:
        for key, way in work:
            row = answered(asked[key], way, (paper if way == "paper" else drawn)[key], large)
            print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def compare(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    order = [key for key in questions() if key[0] in options.sets]
    kept = set(order if options.half is None else order[options.half :: 2])
    by_way: dict[str, dict[Key, dict[str, Any]]] = {}
    for row in rows:
        if (row["set"], row["id"]) in kept:
            by_way.setdefault(row["way"], {})[row["set"], row["id"]] = row
    base = by_way[options.base]
    for way in (way for way in WAYS if way in by_way):
        keys = [key for key in base if key in by_way[way]]
        after, before = ([found[key] for key in keys] for found in (by_way[way], base))
        f1, other = (np.array([row["f1"] for row in found]) * 100 for found in (after, before))
        low, high = interval(f1 - other)
        by_set = ", ".join(f"{name} {f1[[key[0] == name for key in keys]].mean():.1f}" for name in {key[0]: 0 for key in keys})
        tokens, shown = (np.mean([row["tokens"]["prompt"] for row in after]), 100 * np.mean([row["shown"] for row in after]))
        print(
            f"{way:28} n {len(keys):3}  F1 {f1.mean():5.1f}  {(f1 - other).mean():+5.1f} ({low:+.1f} to {high:+.1f})"
            f"  | {by_set} | {tokens:.0f} tokens, {shown:.1f} % of the evidence"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("do", choices=["answer", "compare"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--sets", nargs="+", default=ANSWERING)
    parser.add_argument("--questions", default="0:270", metavar="FROM:TO")
    parser.add_argument("--from", dest="base", default="default")
    parser.add_argument("--half", type=int)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.do == "answer":
        answer(options.files[0], options)
    else:
        compare([row for path in options.files for row in read(path)], options)


if __name__ == "__main__":
    main()
