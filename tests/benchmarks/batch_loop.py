"""`fbrag batch` against a shell loop over `fbrag ask`: the same questions on the same documents, and whether the answers agree.

    python tests/benchmarks/batch_loop.py [--documents 5] [--questions 10] [--repeat 1] [--words N] [--cached] [OPTIONS of ask]
    python tests/benchmarks/batch_loop.py --behind book.txt --documents 1 --questions 20 --cached --at-once 4
    python tests/benchmarks/batch_loop.py --small smollm2-135m --large smollm2-135m --max-tokens 16 --words 1200

The documents are parts of the inquiry (`tests/documents`) of equal length, or of `--words` words; the questions are its own.
`--behind` puts a long text before each. `--at-once` adds a batch with that many questions at once (`--jobs`). The commands
take turns; another one begins each round. None has a cache; with `--cached` each has one of its own, empty at the start of a
round, as people run them. Prints the wall and the processor seconds of each, the loop's by the batch's in each round, what the
loop spends where no model works (`ask --dry-run`), and each answer that differs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

DOCUMENTS = Path(__file__).resolve().parents[1] / "documents"
FBRAG = [sys.executable, "-m", "fbrag_cli"]
LOOP = 'for f in *.txt; do while IFS= read -r q; do {ask} "$f" "$q" </dev/null; done <questions; done'
NOTHING = "No answer found in the document."


def make(folder: Path, n_documents: int, n_questions: int, n_words: int | None, before: str) -> None:
    """Write the documents, each behind the text `before`, and the questions, a line each."""
    words = (DOCUMENTS / "inquiry.txt").read_text("utf-8").split(" ")
    length = len(words) // n_documents
    for i in range(n_documents):
        part = words[i * length : (i + 1) * length][:n_words]
        (folder / f"{i + 1}.txt").write_text(before + " ".join(part), "utf-8")
    asked = [json.loads(line)["question"] for line in (DOCUMENTS / "inquiry.questions.jsonl").read_text("utf-8").splitlines()]
    (folder / "questions").write_text("".join(f"{question}\n" for question in asked[:n_questions]), "utf-8")


def timed(command: Sequence[str], folder: Path) -> tuple[list[str], float, float]:
    """Run a command. Return its lines, and its seconds: by the clock, and of processors."""
    with tempfile.TemporaryDirectory() as cache:
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
        environment = {**os.environ, "FBRAG_CACHE_DIR": cache}
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True)
        wall, after = perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout.splitlines(), wall, cpu


def answers(rows: Sequence[str]) -> list[str]:
    """Return the answers of rows as `ask -a` prints them."""
    found = map(json.loads, rows)
    return [" ".join(row["answer"].split()) if row["status"] == "answered" else NOTHING for row in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("documents", 5), ("questions", 10), ("repeat", 1), ("words", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--behind", type=Path)
    parser.add_argument("--at-once", type=int)
    options, given = parser.parse_known_args()
    shared = [*given, "--offline", *([] if options.cached else ["--no-cache"])]
    ask = shlex.join([*FBRAG, "ask", "-qa", "--exit-zero", *shared])
    batch = [*FBRAG, "batch", "-q", *(f"{i + 1}.txt" for i in range(options.documents)), "-Q", "questions", *shared]
    commands = {"batch": batch, "loop": ["sh", "-c", LOOP.format(ask=ask)]}
    if options.at_once:
        commands[f"batch, {options.at_once} at once"] = [*batch, "--jobs", str(options.at_once)]
    before = options.behind.read_text("utf-8") + "\n\n" if options.behind else ""
    walls, cpus = {name: list[float]() for name in commands}, {name: list[float]() for name in commands}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(folder, options.documents, options.questions, options.words, before)
        for i in range(options.repeat):
            said = {}
            for name in sorted(commands, reverse=i % 2 == 1):
                lines, wall, cpu = timed(commands[name], folder)
                walls[name].append(wall)
                cpus[name].append(cpu)
                said[name] = lines if name == "loop" else answers(lines)
            for name in (each for each in commands if each != "loop"):
                n = len(said[name])
                differing = [each for each in zip(said[name], said["loop"], strict=True) if each[0] != each[1]]
                ratio, of_cpus = walls["loop"][-1] / walls[name][-1], cpus["loop"][-1] / cpus[name][-1]
                equal = f"{n - len(differing)} of {n} answers equal"
                print(f"round {i + 1}, {name}: {ratio:.2f} times ({of_cpus:.2f} of processor time), {equal}", flush=True)
                for one, other in differing:
                    print(f"  {name}: {one}\n  loop: {other}")
        for name in commands:
            spread = f"{min(walls[name]):.1f} to {max(walls[name]):.1f}"
            print(f"{name:18} {median(walls[name]):8.1f} s ({spread}), {median(cpus[name]):8.1f} s of processors")
        _, wall, cpu = timed(["sh", "-c", LOOP.format(ask=f"{ask} --dry-run")], folder)
        print(f"loop, no model {wall:.1f} s, {cpu:.1f} s of processors")


if __name__ == "__main__":
    main()
