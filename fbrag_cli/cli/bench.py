"""`fbrag bench`: measures the speed of models on this machine. `fbrag eval` measures quality."""

from __future__ import annotations

import json as json_format
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import progress_line
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options, RunOptions, arguments
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.documents.load import load
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.evaluation.speed import MEASURES, Measures, Workload, measure_model, measure_text, synthetic
from fbrag_cli.session.memory import peak_memory_mb
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.settings import seconds_of
from fbrag_cli.text.printable import one_line
from fbrag_cli.text.table import align_columns

SCHEMA = "fbrag.bench/1"

_TOKENS, _SAMPLES = {"cpu": "1k", "gpu": "8k"}, {"cpu": 3, "gpu": 5}  # read and drawn by Stage II by default
_WORDS = 150_000  # in the synthetic text: a long novel


class BenchOptions(Options):
    group = "Bench"

    documents: list[str] = arguments("a document to read (default: invented words)", "[DOC]")
    tokens: str | None = option(None, "prompt lengths, e.g. 8k,32k (default: 8k on a GPU, 1k on a CPU)", once=True, metavar="N,…")
    samples: int | None = option(
        None,
        "samples written at once (default: 5 on a GPU, 3 on a CPU)",
        flags=("-k", "--samples"),
        metavar="K",
        minimum=1,
        maximum=64,
    )
    repeat: int = option(3, "number of rounds", once=True, minimum=1)
    json: bool = option(False, "print JSON", group="Output", once=True)
    fail_over: str | None = option(
        None,
        "exit 1 if a median is above this, e.g. first_token=3s,load=1s",
        group="Output",
        once=True,
        metavar="NAME=TIME,…",
    )


@command(BenchOptions, ModelSettings, RunOptions)
def bench(console: Console, options: BenchOptions, models: ModelSettings, run: RunOptions) -> int:
    """Measure model speed on this machine.

    \b
    Examples:
      fbrag bench
      fbrag bench book.txt --tokens 4k,8k --json
      fbrag bench --fail-over first_token=60s
    """
    limit_time(run.time_limit, console.cancellation)
    most = _fail_over(options.fail_over)
    if len(options.documents) > 1:
        raise FbragError("usage", f"expected one document, got {len(options.documents)}", "fbrag bench book.txt")
    text = load(options.documents[0]).text if options.documents else synthetic(_WORDS)
    measures = Measures()
    with (
        progress_line(console) as progress,
        open_session(models, CacheSettings(no_cache=True), console, progress) as session,
    ):
        machine = "gpu" if session.on_gpu else "cpu"
        sizes = _sizes(options.tokens or _TOKENS[machine])
        work = Workload(text, sizes, options.samples or _SAMPLES[machine], options.repeat)
        loaders = session.pool.loaders()
        measure_text(work, measures)
        for name, loader in loaders.items():
            measure_model(name, loader, work, measures, progress)
    if options.json:
        print(json_format.dumps(_record(measures, len(text.split()))))
    else:
        print("\n".join(_table(measures)))
    missed = [each for each in measures if each.name in most and each.median > most[each.name]]
    for each in missed:
        console.warning(f"{each.name} is {each.median:.2f} s, more than {most[each.name]:g} s")
    return ExitCode.NEGATIVE if missed else ExitCode.DONE


def _sizes(text: str) -> list[int]:
    """Return the numbers of tokens in a list such as "8k,32k"."""
    sizes = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)(k?)\s*", part, re.IGNORECASE)
        size = round(float(found[1]) * (1000 if found[2] else 1)) if found and len(found[1]) < 10 else 0
        if size < 1:
            raise FbragError("usage", f"--tokens {text}: expected numbers of tokens, got {part.strip()!r}", "for example 4k,8k")
        sizes.append(size)
    return sizes


def _fail_over(text: str | None) -> dict[str, float]:
    """Return the seconds by name in a list such as "first_token=3s,load=1"."""
    timed = [name for name, unit in MEASURES.items() if unit == "s"]
    most: dict[str, float] = {}
    for part in text.split(",") if text is not None else []:
        name, _, time = map(str.strip, part.partition("="))
        try:
            seconds = seconds_of(time, plain=True)
        except ValueError:
            seconds = None
        if seconds is None or name not in timed:
            what = f"--fail-over {text}: expected NAME=TIME, got {part.strip()!r}"
            raise FbragError("usage", what, f"for example first_token=3s (names: {', '.join(timed)})")
        most[name] = seconds
    return most


def _table(measures: Measures) -> Iterator[str]:
    """Yield a line per measure: the median and the range of its rounds."""
    rows = [("", "TOKENS", "MEDIAN", "RANGE", "UNIT")]
    model = None
    for each in measures:
        if each.model != model:
            model = each.model
            rows.append((one_line(model or ""), "", "", "", ""))
        size = f"{each.tokens:,}" if each.tokens else ""
        low, high = min(each.values), max(each.values)
        rows.append((each.name, size, _number(each.median), f"{_number(low)}-{_number(high)}", each.unit))
    rows.append(("peak memory", "", f"{peak_memory_mb():,.0f}", "", "MB"))
    return align_columns(rows, {1, 2, 3})


def _number(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _record(measures: Measures, n_words: int) -> dict[str, Any]:
    from fbrag_cli.generation.build import nvidia_driver, versions
    from fbrag_cli.generation.llama.machine import cpu_name, gpus, physical_cores

    return {
        "schema": SCHEMA,
        "words": n_words,
        "measures": [{**asdict(each), "unit": each.unit, "median": each.median} for each in measures],
        "memory": {"ram_peak_mb": round(peak_memory_mb())},
        "cpu": cpu_name(),
        "cores": physical_cores(),
        "devices": [gpu.description for gpu in gpus()],
        "driver": nvidia_driver(),
        "versions": versions(),
    }
