"""Stage III that continues from what Stage II has read: answers, tokens and seconds by length of the document.

    python tests/benchmarks/reading_order.py answer OUT.jsonl --lengths 30000 60000 book [--ways default "read first, chunks" ...]
    python tests/benchmarks/reading_order.py compare ROWS.jsonl.gz ... [--from default]

Lengths: 10000 and kept are the questions of stage_three.py and looking_forward.py on their own documents, with the samples that
were drawn for these tables; 30000 and 60000 the first 40 of stage_three.py on passages (14 of MuSiQue, 13 of HotpotQA and of
2WikiMultihopQA) with the passages of other questions of their set added and all shuffled, as musique150k is made; 150000 those of
musique150k; book 30 questions on Pride and Prejudice (pride.jsonl), which were written before any of these runs. Of the last four
the samples are drawn in the run. The ways are those of stage_three.py. (The kept rows were made with the same ways at 005afd0,
before these were settings: all 462 contexts that were compared are equal.)

A row is written as it comes, and a run that is started again goes on where it stopped. With --lock FILE each question waits for
that file's lock, so that tests and measurements take turns on one machine.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from looking_forward import DRAWN, MODEL, Key, from_samples, interval, retrieved
from looking_forward import questions as kept_questions
from question_recall import BENCH
from sample_languages import loaded, read
from stage_three import WAYS, drawn_samples
from stage_three import questions as fresh_questions

from fbrag_cli.evaluation.datasets import Example, load_examples
from fbrag_cli.evaluation.metrics import answer_in, evidence_recall, score
from fbrag_cli.generation.generator import Generator
from fbrag_cli.methods.fb_rag.fb_rag import FEW

RESULTS = Path(__file__).with_name("results")
BOOK = BENCH.parent / "books" / "pride-and-prejudice.txt"
AMONG = {"musique": 14, "hotpotqa": 13, "2wikimqa": 13}
_LONG = {"qmsum": 256}  # tokens of an answer; of the others 64

# -- questions -----------------------------------------------------------------------------------------------------------------


def passages(context: str) -> list[str]:
    return [each.strip() for each in re.split(r"^Passage \d+:\n", context, flags=re.MULTILINE) if each.strip()]


def lengthened(example: Example, others: Sequence[Example], n_words: int) -> Example:
    """The question on its own passages and those of others, shuffled, until the document has `n_words` words."""
    drawn = random.Random(example.id)
    own = passages(example.context())
    total, known = sum(len(each.split()) for each in own), set(own)
    pool = [
        each for other in drawn.sample(list(others), len(others)) if other.id != example.id for each in passages(other.context())
    ]
    for passage in pool:
        if total >= n_words:
            break
        if passage not in known:
            own.append(passage)
            known.add(passage)
            total += len(passage.split())
    drawn.shuffle(own)
    text = "\n\n".join(f"Passage {i}:\n{passage}" for i, passage in enumerate(own, 1))
    return replace(example, context=lambda: text)


def asked(length: str) -> Iterator[tuple[Key, Example]]:
    if length in ("10000", "kept"):
        yield from (fresh_questions() if length == "10000" else kept_questions()).items()
    elif length == "150000":
        yield from (((each.dataset, each.id), each) for each in load_examples([BENCH / "musique150k.jsonl.gz"])[:30])
    elif length == "book":
        text = BOOK.read_text("utf-8")
        for line in Path(__file__).with_name("pride.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            yield (
                ("book", row["question"]),
                Example("book", row["question"], row["question"], lambda: text, tuple(row["answers"])),
            )
    else:
        left, sets = dict(AMONG), {name: load_examples([BENCH / f"{name}.jsonl.gz"]) for name in AMONG}
        for key, example in fresh_questions().items():
            if left.get(key[0], 0):
                left[key[0]] -= 1
                yield key, lengthened(example, sets[key[0]], int(length))


def known_samples(length: str) -> Mapping[Key, list[str]]:
    name = {"10000": "fresh-samples.jsonl.gz", "kept": "looking-forward.jsonl.gz"}.get(length)
    return drawn_samples([RESULTS / name]) if name else {}


# -- answer --------------------------------------------------------------------------------------------------------------------


@contextmanager
def turn(lock: Path | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def answered(
    length: str, key: Key, example: Example, texts: Sequence[str], ways: Sequence[str], model: Generator
) -> Iterator[dict[str, Any]]:
    """Yield a row for each way. Stage II's model call is repeated where its samples are known, so that its prompt is in the
    context as in a real run only where they are not."""
    method = replace(DRAWN, max_tokens=_LONG.get(key[0], 64))
    trace, tools = from_samples(example, texts[:3], method) if texts else retrieved(example, method, model)
    about = {"length": length, "set": key[0], "id": key[1]}
    if not texts:
        cost = next(stage for stage in trace.stages if stage.name == "forward")
        samples = [[sample.seed, sample.finish, sample.text] for sample in trace.samples]
        yield {
            **about,
            "way": "forward",
            "samples": samples,
            "cost": {k: v for k, v in asdict(cost).items() if v and k != "name"},
        }
    tools = replace(tools, model=lambda role, adapter=None: model)
    kept = [sample.text for sample in trace.samples]
    for way in ways:
        started = perf_counter()
        method = replace(WAYS[way], max_tokens=_LONG.get(key[0], 64))
        done = method.answer(from_samples(example, kept, method)[0], tools)
        stage = next(each for each in done.stages if each.name == "answer")
        yield {
            **about,
            "way": way,
            "chunks": len(done.corpus.chunks),
            "read": [[excerpt.position, excerpt.start, excerpt.end] for excerpt in done.context],
            "answer": done.answer,
            "status": done.status,
            "confidence": done.verdict.confidence,
            "scores": score(example, done.answer or ""),
            "held": answer_in(example, [each.text for each in done.context]) if key[0] != "qmsum" else None,
            "evidence": evidence_recall(example.evidence, [(e.start, e.end) for e in done.context], example.context()),
            "seconds": round(perf_counter() - started, 1),
            "tokens": {"prompt": stage.prompt_tokens, "cached": stage.cached_tokens, "written": stage.generated_tokens},
        }


def answer(options: argparse.Namespace) -> None:
    (out,) = options.files
    model = loaded(MODEL, options.threads)
    done = {(row["length"], row["set"], row["id"], row["way"]) for row in read(out)} if out.exists() else set()
    first, last = map(int, options.questions.split(":"))
    with out.open("a", encoding="utf-8") as rows:
        for length in options.lengths:
            drawn = known_samples(length)
            drawn = drawn or drawn_of(read(out), length)
            for key, example in list(asked(length))[first:last]:
                left = [way for way in options.ways if (length, *key, way) not in done]
                if not left or (length in ("10000", "kept") and key not in drawn):
                    continue
                with turn(options.lock):
                    for row in answered(length, key, example, drawn.get(key, ()), left, model):
                        print(json.dumps(row, ensure_ascii=False), file=rows, flush=True)


def drawn_of(rows: Sequence[Mapping[str, Any]], length: str) -> dict[Key, list[str]]:
    return {
        (row["set"], row["id"]): [text for *_, text in row["samples"]]
        for row in rows
        if row["way"] == "forward" and row["length"] == length
    }


# -- compare -------------------------------------------------------------------------------------------------------------------


def compare(options: argparse.Namespace) -> None:
    """Print for each length of document and way the main metric, paired with --from, what was in the context, and the tokens."""
    rows = [row for path in options.files for row in read(path) if row["way"] != "forward"]
    for size in dict.fromkeys(map(size_of, sorted(rows, key=lambda row: row["chunks"]))):
        print(f"\n{size} words")
        by_way: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {}
        for row in (row for row in rows if size_of(row) == size):
            by_way.setdefault(row["way"], {})[row["length"], row["set"], row["id"]] = row
            if row["way"] == ("read first, windows" if row["chunks"] <= FEW else "read first, chunks"):
                by_way.setdefault("the product's default", {})[row["length"], row["set"], row["id"]] = row
        base = by_way.get(options.base, {})
        for way, found in by_way.items():
            keys = [key for key in found if key in base]
            if not keys:
                continue
            mine, other = (np.array([_main(each[key]) for key in keys]) for each in (found, base))
            tokens = [found[key]["tokens"]["prompt"] for key in keys]
            held = [100 * found[key]["held"] for key in keys if found[key]["held"] is not None]
            sets = ", ".join(
                f"{name} {mine[at].mean():.1f}, {other[at].mean():.1f} ({len(at)})"
                for name in dict.fromkeys(key[1] for key in keys)
                if (at := [i for i, key in enumerate(keys) if key[1] == name])
            )
            print(f"  {way:22} n {len(keys):3}  {mine.mean():5.1f}, {other.mean():5.1f} {interval(mine - other)}", end="")
            print(f"  right {(mine >= 50).sum()}, {(other >= 50).sum()}  in context {np.mean(held or [0]):.1f}", end="")
            print(f"  {np.mean(tokens):.0f} tokens | {sets}")


def size_of(row: Mapping[str, Any]) -> str:
    """The length of the document in words, about: by its chunks."""
    if row["set"] == "fairytaleqa":
        return "60,000 (books of tales)"
    return next(
        name for most, name in ((90, "10,000"), (120, "30,000"), (250, "60,000"), (9999, "150,000")) if row["chunks"] <= most
    )


def _main(row: Mapping[str, Any]) -> float:
    return 100 * row["scores"]["rouge_l" if row["set"] == "qmsum" else "f1"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["answer", "compare"])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--lengths", nargs="+", default=["30000", "60000", "book"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--questions", default="0:230", metavar="FROM:TO")
    parser.add_argument("--from", dest="base", default="default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lock", type=Path)
    options = parser.parse_args()
    {"answer": answer, "compare": compare}[options.do](options)


if __name__ == "__main__":
    main()
