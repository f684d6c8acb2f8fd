"""`fbrag eval`: what methods, models and settings are worth on questions whose answers and evidence are known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fbrag_cli import __version__
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.opening import (
    ModelPair,
    Models,
    chunk_count,
    default_sizes,
    model_files,
    open_cache,
    peak_memory_mb,
    remembering,
)
from fbrag_cli.cli.options import CacheOptions, ModelOptions, RunOptions, arguments, option, takes
from fbrag_cli.cli.progress_line import progress_line
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.methods.registry import LOOK_FORWARD, NAMES
from fbrag_cli.progress import silent
from fbrag_cli.session.placement import check_gpu
from fbrag_cli.session.retrievers import Retrievers
from fbrag_cli.trace import MethodSettings

if TYPE_CHECKING:
    from fbrag_cli.evaluation.results import Row
    from fbrag_cli.evaluation.runner import Configuration

Value = TypeVar("Value")
_LISTS = "several, parted by commas, are compared"


@dataclass(frozen=True, slots=True)
class EvalOptions:
    arguments: list[str] = arguments("files of questions (JSONL, plain or gzip), or folders of them", "DATA...")
    limit: int | None = option(None, "--limit", help="rows of each file, drawn by --seed (all)", group="Data", metavar="N", min=1)
    seed: int = option(0, "--seed", help="of the rows and the samples (0)", group="Data", metavar="N", min=0)
    method: str = option("fb-rag", "--method", help=f"{', '.join(NAMES)}; {_LISTS}", group="Compare", metavar="NAMES")
    recall: str | None = option(
        None, "--recall", help="chunks, or words as 6k (20 on a GPU, 8 on a CPU)", group="Compare", metavar="N,…"
    )
    select: str | None = option(
        None, "--select", help="chunks, or words as 3k (10 on a GPU, 5 on a CPU)", group="Compare", metavar="N,…"
    )
    samples: str = option("5", "--samples", help="forward samples (5)", group="Compare", metavar="K,…")
    weights: str = option(
        "0.5:0.5", "--weights", help="eta forward:eta backward; 1:0 is the paper's F (0.5:0.5)", group="Compare", metavar="X:Y,…"
    )
    fusion: str = option("raw", "--fusion", help="raw or minmax (raw)", group="Compare", metavar="NAMES")
    pooling: str = option("max", "--pooling", help="over the samples: max or mean (max)", group="Compare", metavar="NAMES")
    temperature: str = option("1.0", "--temperature", help="of the samples (1.0)", group="Compare", metavar="T,…")
    retriever: str = option(
        "bm25",
        "--retriever",
        help="bm25, or embedding models: GGUF files, names of the hub (bm25)",
        group="Compare",
        metavar="NAMES",
    )
    chunk_words: int = option(300, "--chunk-words", help="words in a chunk (300)", group="Compare", metavar="N", min=1)
    retrieval_only: bool = option(
        False, "--retrieval-only", help="answer nothing: needs no large model", group="Run", envvar=None
    )
    prompts: str | None = option(
        None,
        "--prompts",
        help="a benchmark's prompts and limits in place of ours: JSON, by data set; FILE:NAME for one set's",
        group="Run",
        metavar="FILE",
    )
    max_tokens: int = option(64, "--max-tokens", help="length limit of an answer (64)", group="Run", metavar="N", min=1)
    output: str = option(
        "eval.jsonl", "-o", "--output", help="a row each, as they come (eval.jsonl)", group="Output", metavar="FILE"
    )
    restart: bool = option(False, "--restart", help="begin anew, whatever the output file holds", group="Run", envvar=None)
    compare: str | None = option(
        None,
        "--compare",
        help="paired differences from a configuration of this run, by its label, or from another file of rows",
        group="Output",
        metavar="NAME|FILE",
        envvar=None,
    )
    plots: str | None = option(
        None, "--plots", help="figures of the rows, as PNG and SVG", group="Output", metavar="FOLDER", envvar=None
    )
    minimum: str | None = option(
        None,
        "--min",
        help="exit 1 where a mean is lower: f1=0.4,evidence_recall=0.8",
        group="Output",
        metavar="NAME=X,…",
        envvar=None,
    )
    format: Literal["text", "md", "html", "json"] = option("text", "-f", "--format", help="of the report (text)", group="Output")
    json: bool = option(False, "--json", help="short for --format json", group="Output", envvar=None)

    @property
    def form(self) -> str:
        return "json" if self.json else self.format


@takes(EvalOptions, ModelOptions, CacheOptions, RunOptions)
def eval(console: Console, options: EvalOptions, model: ModelOptions, kept: CacheOptions, run: RunOptions) -> int:
    """Answer and evidence quality, tokens and time, of one or several configurations on the same questions.

    \b
    Examples:
      fbrag eval musique.jsonl.gz --limit 60 --retrieval-only --weights 0.5:0.5,1:0 --select 3,5,10
      fbrag eval data/ --method fb-rag,order-preserving,vanilla -o rows.jsonl
    """
    if run.timeout:
        limit_time(run.timeout, console.cancellation)
    from fbrag_cli.evaluation import runner
    from fbrag_cli.evaluation.datasets import load_examples
    from fbrag_cli.evaluation.report import parse_minimum

    if not options.arguments:
        raise FbragError("usage", "a file of questions is needed", "fbrag eval musique.jsonl.gz")
    minimum = parse_minimum(options.minimum) if options.minimum else {}
    examples = load_examples(map(Path, options.arguments), limit=options.limit, seed=options.seed)
    configurations = _configurations(options, model, on_gpu=check_gpu(model, console))
    _check(options, configurations)
    asked = chain.from_iterable((each.small, each.large) for each in configurations)
    files = model_files([name for name in dict.fromkeys(asked) if name], console)
    large = configurations[0].large  # the same in all
    with (
        progress_line(console) as progress,
        open_cache(kept, console, private=False) as cache,
        Models(ModelPair(None, files[large] if large else None), model, console) as models,
        Retrievers(model, cache, console, silent) as retrievers,
    ):
        resources = runner.Resources(
            lambda name: remembering(models.load(files[name]), files[name], cache, first_costs=True),
            retrievers.of,
            peak_memory_mb,
            {"fbrag": __version__, "llama_cpp_python": version("llama-cpp-python")},
        )
        output = Path(options.output)
        runner.run(examples, configurations, output, resources, restart=options.restart, progress=progress)
    return _report(output, options, minimum, console)


def _report(output: Path, options: EvalOptions, minimum: dict[str, float], console: Console) -> int:
    """What the rows of `output` say, on stdout; the exit code is 1 where they stay below the minimum."""
    from fbrag_cli.evaluation import report, results, tables

    rows = results.read_rows(output)
    reports = [report.summarise(rows)]
    if options.compare:
        other = Path(options.compare)
        is_file = other.is_file()
        reports.append(report.compare_runs(rows, results.read_rows(other)) if is_file else report.compare(rows, options.compare))
    if options.form == "text":
        width = shutil.get_terminal_size((120, 24)).columns
        print("\n\n".join(tables.as_text(each, width) for each in reports))
    elif options.form == "md":
        print("\n\n".join(map(tables.as_markdown, reports)))
    elif options.form == "html":
        print(tables.as_html(*reports))
    else:
        print(json.dumps([tables.as_json(each) for each in reports]))
    if options.plots:
        _draw(rows, Path(options.plots), console)
    missed = report.below(rows, minimum)
    for line in missed:
        console.warn(line)
    return ExitCode.NEGATIVE if missed else ExitCode.DONE


def _check(options: EvalOptions, configurations: Sequence[Configuration]) -> None:
    """What the report will need is there before hours are spent. Raises FbragError `usage`."""
    from fbrag_cli.evaluation.configurations import labels

    known = [*labels([each.described() for each in configurations]), *(each.settings.name for each in configurations)]
    if options.compare and options.compare not in known and not Path(options.compare).is_file():
        names = ", ".join(dict.fromkeys(known))
        raise FbragError("usage", f"--compare {options.compare}: no file, and no configuration of this run", f"one of: {names}")
    if options.plots and find_spec("matplotlib") is None:
        raise FbragError("usage", "plots need matplotlib, which is not installed", "pip install 'fbrag[plots]'")


def _draw(rows: Sequence[Row], folder: Path, console: Console) -> None:
    from fbrag_cli.evaluation import plots

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in plots.supported(rows):
            for form, data in plots.plot(name, rows).items():
                (folder / f"{name}.{form}").write_bytes(data)
                console.note(f"wrote {folder / name}.{form}")
    except OSError as error:
        raise FbragError("output", f"{folder} cannot be written: {error.strerror}", "choose another --plots FOLDER") from None


def _configurations(options: EvalOptions, model: ModelOptions, *, on_gpu: bool) -> list[Configuration]:
    """Every combination of the lists; what a method does not read makes no difference."""
    from fbrag_cli.evaluation.runner import Configuration, distinct, expand
    from fbrag_cli.methods.prompt_file import read_prompt_file
    from fbrag_cli.models.catalogue import load_catalogue

    catalogue = load_catalogue()
    recall, select = default_sizes(on_gpu=on_gpu)
    methods = _list("--method", options.method, _one_of(NAMES))
    base = Configuration(
        MethodSettings(max_tokens=options.max_tokens, seed=options.seed, answer_anyway=True),
        None,
        None if options.retrieval_only else (model.large or catalogue.default_large),
        chunk_words=options.chunk_words,
        prompts=read_prompt_file(options.prompts) if options.prompts else None,
    )
    words = options.chunk_words
    small = _list("--small", model.small or catalogue.default_small, str) if set(methods) & set(LOOK_FORWARD) else [None]
    return distinct(
        expand(
            base,
            name=methods,
            recall=_list("--recall", options.recall or str(recall), lambda text: chunk_count("--recall", text, words)),
            select=_list("--select", options.select or str(select), lambda text: chunk_count("--select", text, words)),
            samples=_list("--samples", options.samples, int),
            weights=_list("--weights", options.weights, _weights),
            fusion=_list("--fusion", options.fusion, _one_of(("raw", "minmax"))),
            pooling=_list("--pooling", options.pooling, _one_of(("max", "mean"))),
            temperature=_list("--temperature", options.temperature, float),
            small=small,
            retriever=_list("--retriever", options.retriever, str),
        )
    )


def _list(name: str, text: str, parse: Callable[[str], Value]) -> list[Value]:
    try:
        return list(dict.fromkeys(parse(part.strip()) for part in text.split(",")))
    except ValueError as error:
        raise FbragError("usage", f"{name} {text}: {error}", f"fbrag eval --help tells what {name} takes") from None


def _one_of(names: tuple[str, ...]) -> Callable[[str], Any]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"{text!r} is none of {', '.join(names)}")
        return text

    return parse


def _weights(text: str) -> tuple[float, float]:
    forward, _, backward = text.partition(":")
    return float(forward), float(backward)
