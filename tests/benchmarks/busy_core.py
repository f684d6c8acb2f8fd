"""How much slower a question is beside busy cores than alone.

    python tests/benchmarks/busy_core.py [MODEL] [--tokens 1500] [--steps 40] [--samples 1] [--busy 1] [--repeat 3]
        [--threads all auto 1 ...]

MODEL is a name from the catalogue or a path (default: qwen2.5-coder-1.5b). One call reads a prompt of --tokens tokens and draws
--steps tokens of --samples samples. It runs alone and beside --busy endless loops (`while :; do :; done`), with each setting of
--threads: "auto" follows the load, "all" always uses the physical cores, a number uses as many. In each round all settings take
turns, alone and beside the loops; each has a process of its own, which loads the model once, and each round has another prompt.
Prints medians in seconds, the lowest and the highest, and the median ratio of beside to alone within a round.

GOMP_SPINCOUNT=300000 in the environment measures libgomp's own limit on spinning, GOMP_SPINCOUNT=0 no spinning.
Needs a machine without other work, or it measures that work.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter, sleep

WORDS = "the keeper wrote in her log that a brig had passed at noon with torn sails and no flag"


def serve(path: str, threads: str, samples: int, steps: int) -> None:
    """Run the process of one setting: a prompt a line in, its seconds a line out."""
    from pathlib import Path

    from fbrag_cli.generation.process import set_environment

    set_environment()
    from fbrag_cli.generation.generator import Sampling, Turn
    from fbrag_cli.generation.llama.generator import LlamaGenerator
    from fbrag_cli.generation.llama.machine import physical_cores
    from fbrag_cli.generation.llama.weights import Loading
    from fbrag_cli.generation.placement import ON_THE_CPU

    chosen = {"auto": None, "all": physical_cores()}.get(threads, int(threads) if threads.isdigit() else None)
    generator = LlamaGenerator(Path(path), Loading(threads=chosen, placement=ON_THE_CPU))
    generator.generate([Turn("user", "Hello")], 1, Sampling(2))
    print("ready", flush=True)
    for line in sys.stdin:
        n_tokens, text = json.loads(line)
        while generator.count_tokens(text) > n_tokens:
            text = text[: -max(1, len(text) // 100)]
        started = perf_counter()
        read = generator.generate([Turn("user", text), Turn("assistant", "Once")], samples, Sampling(steps, temperature=0))
        print(json.dumps([perf_counter() - started, read.prefill_seconds, read.prompt_tokens - read.cached_tokens]), flush=True)


@contextmanager
def busy(n: int) -> Iterator[None]:
    """Run `n` endless loops."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(n)]
    sleep(1)
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def located(model: str) -> str:
    """Return the path of a model by its name in the store, or a path as it is."""
    from fbrag_cli.models.catalogue import load_catalogue
    from fbrag_cli.models.store import resolve
    from fbrag_cli.storage.places import models_dir

    return str(resolve(model, models_dir(), load_catalogue()).path.absolute())


def spread(seconds: list[float]) -> str:
    return f"{median(seconds):6.1f} ({min(seconds):.1f} to {max(seconds):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default="qwen2.5-coder-1.5b")
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--busy", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", nargs="+", default=["all", "auto", "1"])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the loops end with this process
    path = located(options.model)
    children = {}
    for threads in options.threads:
        command = [sys.executable, __file__, "--serve", path, threads, str(options.samples), str(options.steps)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if child.stdout is None or child.stdout.readline() != "ready\n":
            raise SystemExit(f"{' '.join(command)} did not start")
        children[threads] = child

    def ask(threads: str, text: str) -> list[float]:
        child = children[threads]
        assert child.stdin is not None
        assert child.stdout is not None
        print(json.dumps([options.tokens, text]), file=child.stdin, flush=True)
        return [float(figure) for figure in json.loads(child.stdout.readline())]

    alone: dict[str, list[list[float]]] = {threads: [] for threads in children}
    beside: dict[str, list[list[float]]] = {threads: [] for threads in children}
    for round_ in range(options.repeat):
        for n, figures in ((0, alone), (options.busy, beside)):
            text = f"{round_} {n}: " + f"{WORDS}. " * (options.tokens // 10)
            for threads in children:
                with busy(n):
                    figures[threads].append(ask(threads, text))
                sleep(1)
    for child in children.values():
        child.kill()
        child.wait()

    print(
        f"{os.path.basename(path)}: {options.tokens} tokens read, {options.samples} x {options.steps} drawn, "
        f"{os.cpu_count()} CPUs"
    )
    for threads in children:
        pairs = list(zip(alone[threads], beside[threads], strict=True))
        ratio = median(slow[0] / quick[0] for quick, slow in pairs)
        drawing = [[total - read for total, read, _ in figures] for figures in (alone[threads], beside[threads])]
        print(
            f"  threads {threads:4} alone {spread([quick[0] for quick, _ in pairs])}, beside {options.busy} busy "
            f"{spread([slow[0] for _, slow in pairs])}: {ratio:.2f} times; "
            f"of that drawing {median(drawing[0]):.1f} and {median(drawing[1]):.1f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
