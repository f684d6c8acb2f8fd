"""Whole commands as a shell sees them, against what people would type instead.

    python tests/benchmarks/commands.py question MODEL.gguf DOCUMENT.txt "QUESTION" [--select 5] [--repeat 3]
    python tests/benchmarks/commands.py start [--repeat 20]

question: plain_rag.py, beside this file, against `fbrag ask` with the same model and as many chunks: order-preserving, and the
default with the model looking forward as well; each cold (an empty cache) and warm (the document's index is kept, and for the
default nothing else: the question is another one each time).
start: `import typer` against commands that load no model, in CPU seconds.
The contenders take turns; medians, the lowest and the highest, and the median of the ratios to the first of them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

HERE = Path(__file__).parent
FBRAG = [sys.executable, "-m", "fbrag_cli"]
QUICK = ["--version", "--help", "config show", "config get gpu", "config path", "cache size", "cache dir", "models list"]
COMPLETING = ["_FBRAG_COMPLETE=complete_bash", "COMP_WORDS=fbrag\nask\n--sm", "COMP_CWORD=2"]


def seconds(command: Sequence[str], cache: str) -> float:
    started = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "FBRAG_CACHE_DIR": cache})
    took = perf_counter() - started
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return took


def cpu_seconds() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(times: dict[str, list[float]]) -> None:
    base = next(iter(times.values()))
    for name, all_seconds in times.items():
        ratio = median(took / of for took, of in zip(all_seconds, base, strict=True))
        lowest, highest = min(all_seconds), max(all_seconds)
        print(f"  {name:26} {median(all_seconds):7.2f} s ({lowest:.2f} to {highest:.2f}) {ratio:6.2f}", flush=True)


def question(model: str, document: str, asked: str, select: int, repeat: int) -> None:
    ask = [*FBRAG, "ask", document, "-m", model, "--small", model, "--select", str(select), "--offline"]
    plain = [sys.executable, str(HERE / "plain_rag.py"), model, document]
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as warm:
        seconds([*FBRAG, "ask", document, asked, "--dry-run"], warm)
        for i in range(repeat):
            again = f"{asked} ({i + 1})"  # nothing is kept of this question
            with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as other:
                for name, command, cache in (
                    ("plain_rag.py", [*plain, again, str(select)], cold),
                    ("order-preserving, cold", [*ask, again, "--method", "order-preserving"], cold),
                    ("order-preserving, warm", [*ask, again, "--method", "order-preserving"], warm),
                    ("fb-rag, cold", [*ask, again], other),
                    ("fb-rag, warm", [*ask, again], warm),
                ):
                    times.setdefault(name, []).append(seconds(command, cache))
    report(times)


def start(repeat: int) -> None:
    document = HERE.parents[1] / "README.md"
    contenders = {
        "import typer": [sys.executable, "-c", "import typer"],
        **{f"fbrag {words}": [*FBRAG, *words.split()] for words in QUICK},
        "completion": ["env", *COMPLETING, *FBRAG],
        "fbrag ask --dry-run, warm": [*FBRAG, "ask", str(document), "What is FB-RAG?", "--dry-run"],
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(repeat + 1):
            for name, command in contenders.items():
                before = cpu_seconds()
                seconds(command, cache)
                times[name].append(cpu_seconds() - before)
    report({name: all_seconds[1:] for name, all_seconds in times.items()})  # the first time everything is cold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True)
    parse = commands.add_parser("question")
    for name in ("model", "document", "asked"):
        parse.add_argument(name)
    parse.add_argument("--select", type=int, default=5)
    parse.add_argument("--repeat", type=int, default=3)
    parse.set_defaults(run=question)
    parse = commands.add_parser("start")
    parse.add_argument("--repeat", type=int, default=20)
    parse.set_defaults(run=start)
    options = vars(parser.parse_args())
    options.pop("run")(**options)


if __name__ == "__main__":
    main()
