"""R2AG and its controls: what rows in the prompt change in the answers of a model.

    python tests/benchmarks/r2ag.py answer OUT.jsonl [--parts NAME=FOLDER ...] [--systems NAME ...] [--model NAME] [--length 10]
        [--set hotpotqa] [--embedder FILE.gguf] [--questions 0:320]
    python tests/benchmarks/r2ag.py compare ROWS.jsonl.gz ... [--from plain]
    python tests/benchmarks/r2ag.py loss FOLDER FOLDER
    python tests/benchmarks/r2ag.py latency FOLDER [--model NAME] [--length 10] [--questions 0:20]

The questions are the last 320 of ../shared/train/nq.jsonl.gz, which train nothing, or those of a set in ../shared/bench. Each has
a list: its best passages as they come, best first, by BM25 or by the embedding model in --embedder. They are of all 1,600
passages, in a set of the question's own document. Systems: "plain", the prompt without rows; "gold", the same with the evidence
of the list alone, which says how much there is to win; "told", with the relevance in words; "once", the part that ships; each of
--parts, folders of `fbrag train r2ag`; "NAME permuted", the same parts with the features of other passages of the list: what is
lost then, features had given; and "NAME words", with a word for each row that lies between two words. Right: a gold answer stands
in the first line of the reply, as whole words; F1: of that line's words.
`loss` prints the difference of the loss of the answer between two trainings, paired, for checking lists that both have.
`latency` prints how long the first token takes with the rows of a folder, as a ratio of the prompt without them.
`compare` prints the share that is right and F1, with the paired differences to --from and their 95 % bootstrap intervals, tokens
and seconds. A run that is started again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from question_recall import BENCH, interval
from sample_languages import by_system, dense, embedder, loaded, read

from fbrag_cli.evaluation.metrics import f1, words
from fbrag_cli.generation.generator import InputEmbeddings, Message, Sampling
from fbrag_cli.generation.llama.encoder import LlamaEmbedder
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.methods.r2ag.method import list_messages, list_rows
from fbrag_cli.methods.relevance.features import FEATURES, permuted
from fbrag_cli.methods.relevance.former import SHIPPED, R2Former, load
from fbrag_cli.retrieval import Retriever
from fbrag_cli.training.r2ag.lists import PassageList, list_of
from fbrag_cli.training.rows import GoldQuestion, Material, Passage, Pool, read_material

NQ = BENCH.parent / "train" / "nq.jsonl.gz"
PERMUTED, WORDS = " permuted", " words"
NUMBERED = re.compile(r"^Passage \d+:\n", re.MULTILINE)
REPLY, FIRST_TOKEN = Sampling(64, temperature=0), Sampling(1, temperature=0)  # greedy, as in the paper


def turns_of(name: str, found: PassageList, former: R2Former | None) -> tuple[Message, ...]:
    """Return the prompt of a system. former: the trained parts that it has, None for the systems without any."""
    if name == "gold":
        return list_messages([found.passages[i] for i in np.flatnonzero(found.labels)], found.question, None)
    if name == "told":
        (marked,) = list_messages(found.passages, found.question, [InputEmbeddings.of(row[None, :1]) for row in found.features])
        parts = [f" {part.vectors[0, 0]:.2f}" if isinstance(part, InputEmbeddings) else part for part in marked.parts]
        return (Message.of("user", parts),)
    if former is None:
        return list_messages(found.passages, found.question, None)
    others = former.control == "shuffled" or name.endswith(PERMUTED)
    features = permuted(found.features, found.question) if others else found.features
    turns = list_messages(found.passages, found.question, list_rows(former, features, former.relevance(features)))
    return tuple(each.blended(lambda blend: blend.word) for each in turns) if name.endswith(WORDS) else turns


def material_of(name: str) -> Material:
    """The questions of a set with their passages: "nq", or a set of ../shared/bench whose contexts are numbered passages."""
    if name == "nq":
        material = read_material([NQ])
        return replace(material, questions=tuple(each for each in material.questions if each.dev))
    questions, passages = [], {}
    for row in read(BENCH / f"{name}.jsonl.gz"):
        texts = [each.strip() for each in NUMBERED.split(row["context"]) if each.strip()]
        own = passages[row["_id"]] = tuple(Passage(str(i), text, row["_id"]) for i, text in enumerate(texts))
        gold = tuple(each.id for each in own if any(evidence.strip() in each.text for evidence in row["evidence"]))
        asked = {"id": row["_id"], "dataset": name, "text": row["input"], "answers": tuple(row["answers"])}
        questions.append(GoldQuestion(**asked, group=row["_id"], gold=gold, verbatim=True, dev=True))
    return Material(tuple(questions), passages, {})


def answer(out: Path, options: argparse.Namespace) -> None:
    material = material_of(options.set)
    pool, questions = Pool(material), material.questions[slice(*map(int, options.questions.split(":")))]
    retriever_of = partial(retriever, pool, embedder(options.embedder, options.threads) if options.embedder else None)
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
                        names = former.features if former else FEATURES
                        found = list_of(question, pool, retriever_of(question), options.length, names)
                        row = answered(question, name, found, former, model)
                        print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def systems(parts: Sequence[str], wanted: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the name of each system that is wanted, None for all, and the folder of its parts or ""."""
    parts = [f"once={SHIPPED}", *parts]
    others = [each.replace("=", f"{kind}=", 1) for kind in (PERMUTED, WORDS) for each in parts]
    for each in ("plain", "gold", "told", *parts, *others):
        name, _, folder = each.partition("=")
        if wanted is None or name in wanted:
            yield name, folder


def retriever(pool: Pool, by: LlamaEmbedder | None, question: GoldQuestion) -> Retriever:
    return pool.of(question.group).retriever if by is None else dense_of(pool, by, question.group)


@cache
def dense_of(pool: Pool, by: LlamaEmbedder, group: str) -> Retriever:
    return dense(by, (each.text for each in pool.passages[group]))


def answered(
    question: GoldQuestion, name: str, found: PassageList | None, former: R2Former | None, model: LlamaGenerator
) -> dict[str, Any]:
    assert found is not None
    started = perf_counter()
    made = model.generate(turns_of(name, found, former), 1, REPLY)
    reply = made.samples[0].text.strip()
    line = reply.partition("\n")[0]
    return {
        "id": question.id,
        "system": name,
        "answer": reply,
        "right": question.answered_in(line),
        "f1": round(max(f1(words(line), words(each)) for each in question.answers), 4),
        "tokens": made.prompt_tokens,
        "seconds": round(perf_counter() - started, 2),
    }


def compare(rows: Sequence[dict[str, Any]], base: str) -> None:
    kept = by_system(rows)
    for name, found in kept.items():
        both = sorted(found.keys() & kept[base].keys())
        line = f"{name:16} n {len(both)}"
        for key, told in (("right", "right"), ("f1", "F1")):
            values, others = (np.array([100.0 * each[id][key] for id in both]) for each in (found, kept[base]))
            low, high = interval(values - others)
            line += f"  {told} {values.mean():.1f}"
            line += "" if name == base else f" ({(values - others).mean():+.1f}, {low:+.1f} to {high:+.1f})"
        tokens, seconds = (np.mean([found[each][key] for each in both]) for key in ("tokens", "seconds"))
        print(f"{line}  tokens {tokens:.0f}  seconds {seconds:.1f}")


def loss(one: Path, other: Path) -> None:
    kept = [json.loads((folder / "r2ag.json").read_text("utf-8"))["training"]["r2ag"]["answer_loss"] for folder in (one, other)]
    by_id = [dict(zip(each["ids"], each["trained"], strict=True)) for each in kept]
    differences = np.array([by_id[0][each] - by_id[1][each] for each in by_id[0] if each in by_id[1]])
    low, high = interval(differences)
    print(f"{one} less {other}: {differences.mean():+.3f} ({low:+.3f} to {high:+.3f}), n {len(differences)}")


def latency(folder: Path, options: argparse.Namespace) -> None:
    material, former, ratios = material_of(options.set), load(folder), []
    pool = Pool(material)
    with closing(loaded(options.model, options.threads)) as model:
        for i, question in enumerate(material.questions[slice(*map(int, options.questions.split(":")))]):
            found = list_of(question, pool, pool.of(question.group).retriever, options.length, former.features)
            assert found is not None
            seconds = {}
            for parts in (None, former) if i % 2 else (former, None):
                started = perf_counter()
                model.generate(turns_of("", found, parts), 1, FIRST_TOKEN)
                seconds[parts is None] = perf_counter() - started
            ratios.append(seconds[False] / seconds[True])
    ratios = ratios[1:]  # the first question warms up
    low, high = interval(np.array(ratios))
    print(f"first token, ratio to plain: {np.mean(ratios):.3f} ({low:.3f} to {high:.3f}), n {len(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("do", choices=["answer", "compare", "loss", "latency"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--parts", nargs="+", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--systems", nargs="+", metavar="NAME")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--set", default="nq")
    parser.add_argument("--embedder", type=Path, metavar="FILE.gguf")
    parser.add_argument("--length", type=int, default=10)
    parser.add_argument("--questions", default="0:320", metavar="FROM:TO")
    parser.add_argument("--from", dest="base", default="plain")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.do == "answer":
        answer(options.files[0], options)
    elif options.do == "loss":
        loss(*options.files)
    elif options.do == "latency":
        latency(options.files[0], options)
    else:
        compare([row for path in options.files for row in read(path)], options.base)


if __name__ == "__main__":
    main()
