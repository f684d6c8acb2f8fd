"""R2AG and its controls on Natural Questions: what rows in the prompt change in the answers of a model.

    python tests/benchmarks/r2ag.py answer OUT.jsonl [--parts NAME=FOLDER ...] [--systems NAME ...] [--model NAME] [--length 10]
        [--questions 0:320]
    python tests/benchmarks/r2ag.py compare ROWS.jsonl.gz ... [--from plain]

The questions are the last 320 of ../shared/train/nq.jsonl.gz, which train nothing. Each has a list: its evidence, and the nearest
passages of all 1,600 without the answer, by BM25, best first. Systems: "plain", the prompt without rows; "gold", the same with
the evidence alone, which says how much there is to win; "told", with the relevance in words; and each of --parts, folders of
`fbrag train r2ag`. Right: a gold answer stands in the first line of the reply, as whole words.
`compare` prints the share that is right, and the paired difference to --from with its 95 % bootstrap interval, tokens and
seconds. A run that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from question_recall import BENCH, interval
from sample_languages import loaded, read

from fbrag_cli.generation.generator import Rows, Sampling, Turn
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.learned.r2_former import R2Former, load
from fbrag_cli.methods.prompts import list_turns
from fbrag_cli.retrieval.list_features import permuted
from fbrag_cli.training.passages import Pool
from fbrag_cli.training.questions import Question, read_material
from fbrag_cli.training.r2ag_lists import PassageList, list_of

NQ = BENCH.parent / "train" / "nq.jsonl.gz"
REPLY = Sampling(64, temperature=0)  # greedy, as in the paper


def turns_of(name: str, found: PassageList, former: R2Former | None) -> tuple[Turn, ...]:
    """Return the prompt of a system. former: the trained parts that it has, None for the systems without any."""
    if name == "gold":
        return list_turns([found.passages[i] for i in np.flatnonzero(found.labels)], found.question, None)
    if name == "told":
        (marked,) = list_turns(found.passages, found.question, [Rows.of(row[None, :1]) for row in found.features])
        parts = [f" {part.vectors[0, 0]:.2f}" if isinstance(part, Rows) else part for part in marked.parts]
        return (Turn.of("user", parts),)
    if former is None or not former.makes_rows:
        return list_turns(found.passages, found.question, None)
    features = permuted(found.features, found.question) if former.control == "shuffled" else found.features
    return list_turns(found.passages, found.question, [Rows.of(row[None]) for row in former.rows(features)])


def answer(out: Path, options: argparse.Namespace) -> None:
    material = read_material([NQ])
    pool, first_last = Pool(material), [*map(int, options.questions.split(":"))]
    questions = [each for each in material.questions if each.dev][slice(*first_last)]
    kept = {(row["id"], row["system"]) for row in (read(out) if out.exists() else [])}
    with out.open("a", encoding="utf-8") as rows:
        for name, folder in systems(options.parts, options.systems):
            former = load(Path(folder)) if folder else None
            with closing(loaded(options.model, options.threads)) as model:
                assert isinstance(model, LlamaGenerator)
                if former and former.adapter:
                    model.add_adapter(former.adapter)
                for question in questions:
                    if (question.id, name) not in kept:
                        row = answered(question, name, pool, former, model, options.length)
                        print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def systems(parts: Sequence[str], wanted: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the name of each system that is wanted, None for all, and the folder of its parts or ""."""
    for each in ("plain", "gold", "told", *parts):
        name, _, folder = each.partition("=")
        if wanted is None or name in wanted:
            yield name, folder


def answered(
    question: Question, name: str, pool: Pool, former: R2Former | None, model: LlamaGenerator, length: int
) -> dict[str, Any]:
    found = list_of(question, pool, pool.of(question.group).retriever, length)
    assert found is not None
    started = perf_counter()
    made = model.generate(turns_of(name, found, former), 1, REPLY)
    reply = made.samples[0].text.strip()
    return {
        "id": question.id,
        "system": name,
        "answer": reply,
        "right": question.answered_in(reply.partition("\n")[0]),
        "tokens": made.prompt_tokens,
        "seconds": round(perf_counter() - started, 2),
    }


def compare(rows: Sequence[Mapping[str, Any]], base: str) -> None:
    by_system: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_system.setdefault(row["system"], {})[row["id"]] = row
    for name, found in by_system.items():
        both = sorted(found.keys() & by_system[base].keys())
        differences = np.array([100.0 * (found[each]["right"] - by_system[base][each]["right"]) for each in both])
        low, high = interval(differences)
        right, tokens, seconds = (np.mean([float(found[each][key]) for each in both]) for key in ("right", "tokens", "seconds"))
        told = "" if name == base else f" ({differences.mean():+.1f}, {low:+.1f} to {high:+.1f})"
        print(f"{name:10} n {len(both)}  right {100 * right:.1f}{told}  tokens {tokens:.0f}  seconds {seconds:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("do", choices=["answer", "compare"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--parts", nargs="+", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--systems", nargs="+", metavar="NAME")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--length", type=int, default=10)
    parser.add_argument("--questions", default="0:320", metavar="FROM:TO")
    parser.add_argument("--from", dest="base", default="plain")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.do == "answer":
        answer(options.files[0], options)
    else:
        compare([row for path in options.files for row in read(path)], options.base)


if __name__ == "__main__":
    main()
