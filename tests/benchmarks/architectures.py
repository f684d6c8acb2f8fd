"""What calls read anew, how far rounding changes them, and what memory they take, by architecture.

    python -m tests.benchmarks.architectures [--only qwen35 lfm2] [--sentences 12] [--model FILE]

The models are tiny, with random weights in full precision (`tests/generation/architectures.py`); a token is a letter. A prompt is
a context and a question about it. Prints, for each architecture: tokens that a follow-up and a check of the answer read, of all
tokens of their prompts; the largest relative difference of the probability of a letter, against a model that has read nothing
before; the memory of a context as fbrag asks for it, as llama.cpp's log gives it, and what a process grows by (Linux) when it
reads a prompt of 8,000 tokens and draws three samples. With `--model FILE`, the memory of that model alone.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from string import ascii_lowercase
from tempfile import TemporaryDirectory

from fbrag_cli.generation.generator import Call, Sampling, Turn
from fbrag_cli.generation.llama.context import Context, context_bytes
from fbrag_cli.generation.llama.context import _parameters as parameters
from fbrag_cli.generation.llama.generator import LlamaGenerator
from fbrag_cli.generation.llama.native_log import native_log
from fbrag_cli.generation.llama.weights import Loading
from tests.generation.architectures import ARCHITECTURES, LOG

Turns = tuple[Turn, ...]
Read = tuple[int, int, tuple[float, ...]]  # tokens read, of all, and the probability of each letter after them


@contextmanager
def opened(file: Path, at_once: int = 1) -> Iterator[LlamaGenerator]:
    with LlamaGenerator(file, Loading(threads=1)) as generator:
        generator.at_once = at_once
        yield generator


def read(generator: LlamaGenerator, turns: Turns) -> Read:
    done: list[tuple[int, int]] = []
    probabilities = generator.choose(turns, ascii_lowercase, Call(on_prompt=lambda n, total: done.append((n, total))))
    cached, total = done[0]
    return total - cached, total, probabilities


def difference(found: Read, expected: Read) -> float:
    return max(abs(a / b - 1) for a, b in zip(found[2], expected[2], strict=True))


def beside(generator: LlamaGenerator, turns: Turns) -> Read:
    """Read a prompt while two samples of another call are written."""
    generator.generate((Turn("user", "x" * len(turns[0].text)),), 2, Sampling(300))  # makes room for two such calls
    started: list[object] = []
    with ThreadPoolExecutor(1) as pool:

        def start(done: int, total: int) -> None:
            if not started:
                started.append(pool.submit(read, generator, turns))

        generator.generate(
            (Turn("user", "Who was there?"),), 2, Sampling(300, temperature=2.0, top_p=1.0), Call(on_written=start)
        )
        return started[0].result()  # type: ignore[attr-defined, no-any-return]


def memory(file: Path) -> tuple[int, int, int]:
    """Return bytes: asked for, in llama.cpp's log, and what this process, a new one, grows by."""
    with opened(file) as generator:
        generator.generate((Turn("user", "Who?"),), 1, Sampling(1))
        before = _status("VmRSS")
        generator.generate((Turn("user", (LOG * 400)[: 8000 * len(LOG) // generator.count_tokens(LOG)]),), 3, Sampling(100))
        grown = _status("VmHWM") - before
        weights, context = generator._weights, generator._prompts.opened
        asked = context_bytes(weights, parameters(weights, context.n_cells, context.n_sequences))
        native_log.verbose = True
        with redirect_stderr(StringIO()) as log:
            Context(weights, context.n_cells, context.n_sequences).close()
        return asked, bytes_in(log.getvalue()), grown


def bytes_in(log: str) -> int:
    """Return the sum of the sizes of a context in llama.cpp's log."""
    sizes = re.findall(r"(?:(?:compute|output) buffer size|(?<!buffer) size) = +([\d.]+) MiB", log)
    return round(sum(map(float, sizes)) * 2**20)


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def megabytes(file: Path) -> str:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return " / ".join(f"{each / 1e6:.0f}" for each in process.submit(memory, file).result())


def row(name: str, file: Path, n_sentences: int) -> str:
    first = (Turn.about([LOG * n_sentences], "What passed?"),)
    follow_up = (*first, Turn("assistant", "A brig."), Turn("user", "When?"))
    check = (Turn.about([LOG * n_sentences], "Proposed answer: a brig. Is it right?"),)
    expected = []
    for turns in (first, follow_up, check):
        with opened(file) as generator:
            expected.append(read(generator, turns))
    with opened(file) as generator:
        generator.generate(first, 3, Sampling(20))
        checked = read(generator, check)
        followed = read(generator, follow_up)
    with opened(file, at_once=2) as generator:
        together = beside(generator, first)
    rounding = [difference(*pair) for pair in ((followed, expected[1]), (checked, expected[2]), (together, expected[0]))]
    cells = [f"`{name}`", ARCHITECTURES[name].kind, *(f"{each[0]:,} of {each[1]:,}" for each in (followed, checked))]
    cells += [*(f"{each:.0e}" if each else "0" for each in rounding), megabytes(file)]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[*ARCHITECTURES], choices=ARCHITECTURES)
    parser.add_argument("--sentences", type=int, default=12, help="sentences of the context")
    parser.add_argument("--model", type=Path, metavar="FILE", help="a GGUF file: its memory alone")
    options = parser.parse_args()
    if options.model:
        print(megabytes(options.model))
        return
    columns = ["architecture", "layers", "follow-up reads", "check reads", "differs: follow-up", "check", "beside another call"]
    print(f"| {' | '.join([*columns, 'MB: asked, by the log, grown'])} |")
    print("|---" * (len(columns) + 1) + "|")
    with TemporaryDirectory() as folder:
        for name in options.only:
            print(row(name, ARCHITECTURES[name].write(Path(folder) / f"{name}.gguf"), options.sentences), flush=True)


if __name__ == "__main__":
    main()
