"""What Stage II reads, how many samples it draws, and what that is worth: evidence recall.

    python tests/benchmarks/looking_forward.py draw OUT.jsonl --read "2 chunks" [--seed 0] [--questions 0:270] [--after ROWS]
    python tests/benchmarks/looking_forward.py recall ROWS.jsonl.gz ... [--samples 1 2 3]

The questions are the 270 of `recall*.jsonl.gz`, taken from the six sets in turn, so that the first n are a fair part of each.
`draw` writes the samples of a setting, a row a question. `recall` prints evidence recall in percent at 3, 5 and 10 chunks: the
mean over all ways to take n of the samples of rows, and the paired difference to the paper's setting (8 chunks, 5 samples), whose
samples are those of `recall*.jsonl.gz`; no model runs. --read: also "2 chunks greedy". --after: a second look
forward, at chunks that the samples of ROWS raise. A run that is started again goes on where it stopped. Answers from these
samples: answers.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from question_recall import BENCH
from sample_languages import Kept, loaded, read

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.documents.document import Content, Document, Extracted
from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import evidence_recall
from fbrag_cli.generation.generator import Generation, Generator
from fbrag_cli.indexing.collect import collect_text
from fbrag_cli.methods.fb_rag.fb_rag import FBRag
from fbrag_cli.methods.method import Method, Tools
from fbrag_cli.progress import silent
from fbrag_cli.query import Collection, Query
from fbrag_cli.retrieval.ranking import best
from fbrag_cli.text.languages import detect
from fbrag_cli.trace import Trace

AT = (3, 5, 10)
SETS = ["musique", "hotpotqa", "2wikimqa", "qmsum", "fairytaleqa", "musique150k"]
RESULTS = Path(__file__).with_name("results")
ROWS = [RESULTS / f"recall{name}.jsonl.gz" for name in ("", "-qmsum", "-fairytaleqa", "-musique150k")]
KEPT = {"method": "fb-rag", "small": "qwen2.5-coder-1.5b", "samples": 5, "recall": 8, "temperature": 1.0}

MODEL = "qwen2.5-coder-1.5b"
PAPER = FBRag(recall=8, granularity="chunk", samples=5, forward_tokens=128)
SECOND = "2 chunks more"
DRAWN = FBRag(granularity="chunk", samples=3, forward_tokens=48)

Key = tuple[str, str]  # of a question: data set and id


def reading(name: str) -> FBRag:
    """The settings of "2 chunks", or "2 chunks greedy" (the likeliest sample)."""
    n, _, *greedy = name.split()
    method = replace(DRAWN, recall=int(n))
    return replace(method, temperature=0.0, samples=1) if greedy else method


def samples_of(rows: Sequence[Path]) -> dict[Key, list[str]]:
    """The texts of the samples by data set and question."""
    found = {}
    for path in rows:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if KEPT.items() <= row["configuration"].items():
                    found[row["dataset"], row["id"]] = row["samples"]
    return found


def questions() -> dict[Key, Example]:
    """The questions of the kept rows, taken from the sets in turn; the larger sets give two of them a turn."""
    kept = samples_of(ROWS)
    sets = [[e for e in load_examples([BENCH / f"{name}.jsonl.gz"]) if (e.dataset, e.id) in kept] for name in SETS]
    turns = zip_longest(*(half for found in sets for half in ((found[::2], found[1::2]) if len(found) > 30 else (found,))))
    return {(each.dataset, each.id): each for turn in turns for each in turn if each is not None}


@lru_cache(maxsize=2)
def collected(text: str) -> Collection:
    return collect_text(Document.of("d", "d", Extracted(Content(text), "text/plain"), "0" * 64, detect(text)))


def retrieved(example: Example, method: Method, small: Generator) -> tuple[Trace, Tools]:
    collection = collected(example.context())
    tools = Tools(
        corpus=collection.corpus,
        retriever=collection.retriever,
        progress=silent,
        cancellation=Cancellation(),
        model=lambda role: small,
    )
    return method.retrieve(Query(example.question, collection, method), tools), tools


def from_samples(example: Example, texts: Sequence[str], method: Method) -> tuple[Trace, Tools]:
    """Stages I and II with samples that were drawn before."""
    small = Kept()
    small.samples = tuple(Generation(text, 0, "stop", i) for i, text in enumerate(texts))
    return retrieved(example, method, small)


def recalls(example: Example, scores: Any) -> list[float]:
    corpus = collected(example.context()).corpus
    spans = [(corpus.chunks[i].start, corpus.chunks[i].end) for i in best(scores, max(AT))]
    return [evidence_recall(example.evidence, spans[:k], corpus.documents[0].text) or 0.0 for k in AT]


# -- draw --------------------------------------------------------------------------------------------------------------------


def drawn(example: Example, name: str, seed: int, generator: Generator, after: Sequence[str] = ()) -> dict[str, Any]:
    """after: the samples of a first look. The chunks that they raise, and that it has not read, are read in a second one."""
    method = replace(reading(name), seed=seed)
    trace, _ = retrieved(example, method, generator) if not after else second_look(example, method, generator, after)
    cost = next(stage for stage in trace.stages if stage.name == "forward")
    return {
        "set": example.dataset,
        "id": example.id,
        "read": SECOND if after else name,
        "model": MODEL,
        "settings": trace.method.described(),  # type: ignore[attr-defined]
        "samples": [[sample.seed, sample.finish, sample.text] for sample in trace.samples],
        "cost": {key: value for key, value in asdict(cost).items() if key not in ("name", "first_token_seconds")},
    }


def second_look(example: Example, method: FBRag, small: Generator, after: Sequence[str]) -> tuple[Trace, Tools]:
    first, tools = from_samples(example, after, method)
    scores = first.scores.combined.copy()
    scores[[excerpt.position for excerpt in first.forward.read]] = 0

    class Raised:
        name = tools.retriever.name

        def scores(self, text: str) -> Any:
            return scores if text == example.question else tools.retriever.scores(text)

    retriever: Any = Raised()
    given = replace(tools, retriever=retriever, model=lambda role: small)
    return method.retrieve(Query(example.question, collected(example.context()), method), given), tools


# -- recall ------------------------------------------------------------------------------------------------------------------


def tables(rows: Iterable[dict[str, Any]], sizes: Sequence[int], method: FBRag) -> None:
    asked, paper, by_name = questions(), samples_of(ROWS), samples_by_name(rows)
    for name, samples in by_name.items():
        keys = [key for key in asked if key in samples]
        base = {key: fb(asked[key], paper[key], PAPER) for key in keys}
        print(f"\n{name}: {len(keys)} questions" + "".join(f"  | @{k}: mean, difference to the paper's" for k in AT))
        print(line("question alone", base, {key: alone(asked[key]) for key in keys}))
        print(line("the paper's setting", base, base))
        for n in (n for n in sizes if n <= min(map(len, samples.values()))):
            means = {key: expected(asked[key], samples[key], n, method) for key in keys}
            print(line(f"{n} of its samples", base, means))
    first = by_name.get("2 chunks", {})
    for name, kept in ((SECOND, DRAWN.samples), ("2 chunks greedy", DRAWN.samples - 1)):
        others = by_name.get(name, {})
        keys = [key for key in asked if key in others and key in first]
        if keys:
            before = {key: fb(asked[key], first[key][: DRAWN.samples], method) for key in keys}
            after = {key: fb(asked[key], [*first[key][:kept], *others[key]], method) for key in keys}
            print(f"\n{name}, to {DRAWN.samples} samples of 2 chunks: {len(keys)} questions")
            print(line("these alone", before, before))
            print(line(f"{kept} of these and those", before, after))


def samples_by_name(rows: Iterable[dict[str, Any]]) -> dict[str, dict[Key, list[str]]]:
    by_name: dict[str, dict[Key, list[str]]] = {}
    for row in rows:
        by_name.setdefault(row["read"], {}).setdefault((row["set"], row["id"]), []).extend(text for *_, text in row["samples"])
    return by_name


def expected(example: Example, texts: Sequence[str], n: int, method: FBRag) -> list[float]:
    """The mean over all ways to take n of the samples."""
    return np.mean([fb(example, some, method) for some in combinations(texts, n)], axis=0).tolist()  # type: ignore[no-any-return]


def fb(example: Example, texts: Sequence[str], method: FBRag) -> list[float]:
    return recalls(example, from_samples(example, texts, method)[0].scores.combined)


def alone(example: Example) -> list[float]:
    return recalls(example, collected(example.context()).retriever.scores(example.question))


def line(name: str, before: Mapping[Key, list[float]], after: Mapping[Key, list[float]]) -> str:
    """The mean over the questions with the bootstrap interval of the paired difference, and the differences at 5 by set."""
    told = f"{name:24}"
    for i, _ in enumerate(AT):
        old, new = (np.array([row[i] for row in rows.values()]) for rows in (before, after))
        told += f"  | {100 * new.mean():5.1f} {interval(100 * (new - old))}"
    by_set = {name: [100 * (after[key][1] - before[key][1]) for key in before if key[0] == name] for name, _ in before}
    return told + "  | " + ", ".join(f"{name} {np.mean(values):+.1f}" for name, values in by_set.items())


def interval(differences: Any) -> str:
    drawn = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{differences.mean():+5.1f} ({low:+5.1f} to {high:+5.1f})"


def unfinished(out: Path, keys: Iterable[Key]) -> Iterator[Key]:
    done = {(row["set"], row["id"]) for row in read(out)} if out.exists() else set()
    return (key for key in keys if key not in done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("do", choices=["draw", "recall"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--read", default="2 chunks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--after", type=Path)
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--questions", default="0:270", metavar="FROM:TO")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.do == "recall":
        tables((row for path in options.files for row in read(path)), options.samples, DRAWN)
        return
    generator, (out,) = loaded(MODEL, options.threads), options.files
    asked = questions()
    first, last = map(int, options.questions.split(":"))
    before = samples_by_name(read(options.after))[options.read] if options.after else {}
    with out.open("a", encoding="utf-8") as rows:
        for key in unfinished(out, list(asked)[first:last]):
            row = drawn(asked[key], options.read, options.seed, generator, before.get(key, [])[: DRAWN.samples])
            print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


if __name__ == "__main__":
    main()
