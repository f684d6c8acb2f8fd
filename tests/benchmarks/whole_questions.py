"""Whole questions as a shell sees them: a plain script, order-preserving RAG, the default, and an older checkout, by turns.

    python tests/benchmarks/whole_questions.py ask OUT.jsonl [--sets musique musique150k] [--questions 0:10] [--before CHECKOUT]
    python tests/benchmarks/whole_questions.py ask OUT.jsonl --book BOOK QUESTION QUESTION ... [--before CHECKOUT]
    python tests/benchmarks/whole_questions.py compare OUT.jsonl ...

Every command is a process of its own with an empty cache, so that nothing is kept between two of them. The ways of one question
follow each other, another one first each time. `ask` writes a row each: seconds, exit code, answer. `compare` prints the seconds
of each way, and the median over the questions of its ratio to the first way of the row (lowest to highest). A run that is started
again goes on where it stopped. plain_rag.py lies beside this file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean, median
from time import perf_counter

HERE = Path(__file__).resolve().parent
BENCH = HERE.parents[2] / "shared" / "bench"
FBRAG = [sys.executable, "-m", "fbrag_cli", "ask"]
MODEL = "qwen2.5-coder-1.5b"
OURS = ["-qa", "--offline", "-m", MODEL]
BEFORE = "default, before"
WAYS = {
    "order-preserving, 5": ["--method", "order-preserving"],
    "plain script, 5": [],
    "default": [],
    "document order": ["--set", "order=document"],
    "order-preserving, 8": ["--method", "order-preserving", "--select", "8"],
    BEFORE: [],
}


def commands(document: str, question: str) -> dict[str, list[str]]:
    model = subprocess.run([*FBRAG[:-1], "models", "path", MODEL], capture_output=True, text=True, check=True).stdout.strip()
    ours = {way: [*FBRAG, document, question, *OURS, *options] for way, options in WAYS.items()}
    return {**ours, "plain script, 5": [sys.executable, str(HERE / "plain_rag.py"), model, document, question]}


def run(command: Sequence[str], checkout: Path) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "FBRAG_CACHE_DIR": cache, "PYTHONPATH": str(checkout)}
        started = perf_counter()
        done = subprocess.run(command, cwd=cache, env=environment, capture_output=True, encoding="utf-8", check=False)
        took = perf_counter() - started
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return {"seconds": round(took, 2), "exit": done.returncode, "answer": done.stdout.strip()}


def of_sets(names: Sequence[str], first: int, last: int, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield set, document and question; the sets take turns."""
    sets = [gzip.decompress((BENCH / f"{name}.jsonl.gz").read_bytes()).decode().splitlines() for name in names]
    for rows in islice(zip(*sets, strict=False), first, last):
        for name, line in zip(names, rows, strict=True):
            row = json.loads(line)
            yield name, _text(name, row, folder), row["input"]


def _text(name: str, row: dict[str, str], folder: Path) -> str:
    packed = BENCH / f"{name}.txt.gz"  # one document for all questions
    text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else row["context"]
    path = folder / f"{name}.txt"
    path.write_text(text, "utf-8")
    return str(path)


def ask(options: argparse.Namespace) -> None:
    out: Path = options.out
    done = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else []
    seen = {(row["document"], row["question"], row["way"]) for row in done}
    first, last = map(int, options.questions.split(":"))
    with out.open("a", encoding="utf-8") as rows, tempfile.TemporaryDirectory() as folder:
        if options.book:
            book, *questions = options.book
            asked: Iterator[tuple[str, str, str]] = ((Path(book).name, str(Path(book).resolve()), each) for each in questions)
        else:
            asked = of_sets(options.sets, first, last, Path(folder))
        for n, (name, document, question) in enumerate(asked):
            ways = list(commands(document, question).items())
            message = n % len(ways)
            for way, command in ways[message:] + ways[:message]:
                skipped = way not in options.ways or (way == BEFORE and not options.before)
                if skipped or (name, question, way) in seen:
                    continue
                checkout = options.before if way == BEFORE else HERE.parents[1]
                row = {"document": name, "question": question, "way": way, **run(command, checkout)}
                rows.write(json.dumps(row, ensure_ascii=False) + "\n")
                rows.flush()


def compare(options: argparse.Namespace) -> None:
    rows = [json.loads(line) for path in options.rows for line in Path(path).read_text("utf-8").splitlines()]
    for document in dict.fromkeys(row["document"] for row in rows):
        seconds: dict[str, dict[str, float]] = defaultdict(dict)
        for row in rows:
            if row["document"] == document:
                seconds[row["way"]][row["question"]] = row["seconds"]
        print(document)
        for way, took in sorted(seconds.items(), key=lambda each: mean(each[1].values())):
            spread = f"{mean(took.values()):6.1f} s ({min(took.values()):.1f} to {max(took.values()):.1f}), n = {len(took)}"
            print(f"  {way:20} {spread}; to others: {', '.join(_ratios(took, seconds, way))}")


def _ratios(took: dict[str, float], seconds: dict[str, dict[str, float]], way: str) -> Iterator[str]:
    for other, base in seconds.items():
        both = [took[question] / base[question] for question in took if question in base]
        if other != way and both:
            yield f"{other} {median(both):.2f} ({min(both):.2f} to {max(both):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("ask")
    verb.add_argument("out", type=Path)
    verb.add_argument("--sets", nargs="+", default=["musique", "musique150k"])
    verb.add_argument("--questions", default="0:10")
    verb.add_argument("--book", nargs="+")
    verb.add_argument("--ways", nargs="+", default=list(WAYS))
    verb.add_argument("--before", type=Path)
    verb.set_defaults(run=ask)
    verb = verbs.add_parser("compare")
    verb.add_argument("rows", nargs="+")
    verb.set_defaults(run=compare)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
