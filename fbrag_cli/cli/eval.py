"""`fbrag eval`: measures quality, tokens and time of methods, models and settings on questions with known answers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import progress_line
from fbrag_cli.cli.method_options import CHUNK_WORDS, RETRIEVER, ComparedOptions
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options, RunOptions, arguments, check_outputs
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.installation import extra
from fbrag_cli.methods.registry import DEFAULT, PLAIN, PRESETS, names
from fbrag_cli.query import DEFAULT_RETRIEVER
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.storage.files import files_of, not_writable, whole_file

if TYPE_CHECKING:
    from fbrag_cli.evaluation.configurations import Configuration
    from fbrag_cli.evaluation.report import Pair
    from fbrag_cli.evaluation.results import Result
    from fbrag_cli.evaluation.tables import Report

    Comparison = Callable[[Sequence[Result]], Sequence[Pair]]

_LISTS = "separate several with commas to compare them"
_LISTED: Any = {"separator": ","}


def _listed(incomplete: str) -> list[str]:
    """Return what Tab offers for a list of methods such as "fb-rag,van"."""
    begun = incomplete.rpartition(",")[0]
    return [f"{begun},{name}".lstrip(",") for name in names() if name not in begun.split(",")]


class EvalOptions(Options):
    group = "Compare"

    arguments: list[str] = arguments("files of questions (CSV, JSON Lines, JSON), or folders of them", "DATA...", required=True)
    limit: int | None = option(None, "use N rows of each file, drawn by --seed (default: all)", group="Data", minimum=1)
    seed: int = option(0, "random seed for the rows and the samples (default: 0)", group="Data", minimum=0, varies="")
    method: list[str] = option(
        (DEFAULT,), f"{', '.join(names())}; {_LISTS}", metavar="NAMES", autocompletion=_listed, varies="", **_LISTED
    )
    preset: list[str] = option(
        (PLAIN,),
        f"settings of 'fbrag ask --fast' and so on: {', '.join((PLAIN, *PRESETS))}; {_LISTS} (default: {PLAIN})",
        choices=(PLAIN, *PRESETS),
        metavar="NAMES",
        varies="",
        **_LISTED,
    )
    preset_fast: bool = option(False, "same as --preset fast", flags=("--fast",), once=True)
    preset_thorough: bool = option(False, "same as --preset thorough", flags=("--thorough",), once=True)
    retriever: list[str] = option((DEFAULT_RETRIEVER,), RETRIEVER, metavar="NAMES", varies="", **_LISTED)
    chunk_words: int | None = option(None, CHUNK_WORDS, minimum=1)
    retrieval_only: bool = option(False, "measure retrieval only (no large model needed)", group="Run", once=True)
    prompts: str | None = option(
        None,
        "use a benchmark's prompts and limits from a JSON file, by dataset (FILE:NAME for one dataset)",
        group="Run",
        metavar="FILE",
    )
    max_tokens: int | None = option(
        None, "limit the length of an answer, in tokens (default: from --prompts, else 64)", group="Run", minimum=1
    )
    abstain: bool = option(
        True,
        "check each answer as 'fbrag ask' does, or score all as written (default: check)",
        flags=("--abstain/--no-abstain",),
        group="Run",
        varies="",
    )
    output: str | None = option(
        None,
        "write the rows to FILE as they arrive (default: keep them in the cache)",
        flags=("-o", "--output"),
        group="Output",
        once=True,
        metavar="FILE",
    )
    restart: bool = option(False, "evaluate again, and overwrite the output file", group="Run", once=True)
    tables: bool = option(False, "print tables of all scores, by dataset", group="Output", once=True)
    baseline: str | None = option(
        None,
        "compare with this configuration, or with the rows in FILE (default: preset default, else the first)",
        group="Output",
        once=True,
        metavar="NAME|FILE",
    )
    plots: str | None = option(
        None, "write figures of the rows to FOLDER (PNG and SVG)", group="Output", once=True, metavar="FOLDER"
    )
    fail_under: str | None = option(
        None,
        "exit 1 if a mean is below this, e.g. right=0.6,evidence_recall=0.8",
        group="Output",
        once=True,
        metavar="NAME=X,…",
    )
    format: Literal["text", "md", "json"] = option(
        "text", "report format", flags=("-f", "--format"), group="Output", ignored=("jsonl",)
    )
    json: bool = option(False, "same as --format json", group="Output", once=True)

    @property
    def form(self) -> str:
        return "json" if self.json else self.format

    @property
    def presets(self) -> list[str]:
        """The presets given with --preset, --fast and --thorough."""
        named = [name for name, given in (("fast", self.preset_fast), ("thorough", self.preset_thorough)) if given]
        return list(dict.fromkeys([*([] if named and [*self.preset] == [PLAIN] else self.preset), *named]))


class EvalCommand(Options):
    eval: EvalOptions
    compared: ComparedOptions
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@command(EvalCommand)
def eval(console: Console, command: EvalCommand) -> int:
    """Evaluate methods and settings on questions with known answers.

    \b
    Examples:
      fbrag eval questions.csv --preset default,thorough     (columns: question, answer, document)
      fbrag eval musique.jsonl.gz --limit 60 --retrieval-only -s weights=0.5:0.5,1:0 -s select=3,5,10
      fbrag eval data/ --method fb-rag,order-preserving,vanilla -o rows.jsonl
    \f
    An answer is right if what 'fbrag ask' would print contains a right answer, or shares half of its words with it. The report
    begins with the better configuration, if the difference is hardly chance. A stopped run resumes.
    """
    limit = limit_time(command.run.time_limit, console.cancellation)
    from fbrag_cli.evaluation import runner
    from fbrag_cli.evaluation.datasets import load_examples
    from fbrag_cli.evaluation.report import parse_fail_under

    options = command.eval
    least = parse_fail_under(options.fail_under) if options.fail_under else {}
    data = [*map(Path, options.arguments), *([Path(options.baseline)] if options.baseline else [])]
    inputs = [*(str(file) for path in data for file in files_of(path)), options.prompts, command.models.key_file]
    check_outputs([("-o", options.output)], inputs)
    output = Path(options.output) if options.output else None
    examples = load_examples(map(Path, options.arguments), limit=options.limit, seed=options.seed)
    with (
        progress_line(console) as progress,
        open_session(command.models, command.cache, console, progress, report_original_costs=True) as session,
        limit,
    ):
        configurations = _configurations(command, on_gpu=session.on_gpu)
        _check(options, configurations)
        comparison = _comparison(options, configurations) if options.baseline else None
        for each in configurations:
            session.prepare(each.method, each.names, each.retriever, answering=not options.retrieval_only)
        configurations = [replace(each, checked=options.abstain) for each in configurations]
        restart = options.restart or (command.cache.refresh and output is None)
        rows = runner.run(examples, configurations, output, session, restart=restart, progress=progress)
    return _report(rows, options, comparison, least, console)


def _report(
    rows: Sequence[Result], options: EvalOptions, comparison: Comparison | None, least: dict[str, float], console: Console
) -> int:
    """Print the report on the rows. Return exit code 1 if a mean is below its minimum."""
    from fbrag_cli.evaluation import report, tables

    pairs = comparison(rows) if comparison else report.pairs_of(report.group_rows(rows))
    reports, compared = [report.overview(rows, pairs)], [report.compare(pairs)] if comparison else []
    if options.tables or options.form == "json":
        reports += [report.summarise(rows), *compared]
    if options.form == "text":
        width = shutil.get_terminal_size((120, 24)).columns
        print("\n\n".join(tables.as_text(each, width) for each in reports))
    elif options.form == "md":
        print("\n\n".join(map(tables.as_markdown, reports)))
    else:
        print(json.dumps([tables.as_json(each) for each in reports]))
    if options.plots:
        _draw(rows, compared, Path(options.plots), console)
    missed = report.below(rows, least)
    for line in missed:
        console.warning(line)
    return ExitCode.NEGATIVE if missed else ExitCode.DONE


def _check(options: EvalOptions, configurations: Sequence[Configuration]) -> None:
    """Check, before the run, that the report will be possible. Raises FbragError `usage`."""
    asking = [each.method.name for each in configurations if each.method.needs_large]
    if options.retrieval_only and asking:
        what = f"--retrieval-only cannot be combined with {asking[0]}, which needs the large model to retrieve"
        raise FbragError("usage", what, "drop one of them")
    if options.plots and find_spec("matplotlib") is None:
        raise FbragError("usage", "--plots needs matplotlib, which is not installed", extra("plots"))


def _comparison(options: EvalOptions, configurations: Sequence[Configuration]) -> Comparison:
    """Return the function that finds the pairs of --baseline. Raises FbragError `usage` if it would fail on the rows of this
    run."""
    from fbrag_cli.evaluation import report, results

    baseline, old = str(options.baseline), list[report.Group]()
    if os.path.isfile(baseline):
        old = report.group_rows(results.read_results(Path(baseline)))

    def compared(rows: Sequence[Result]) -> Sequence[Pair]:
        groups = report.group_rows(rows)
        return report.pairs_of_runs(groups, old) if old else report.pairs_of(groups, baseline)

    output = options.output
    before = results.read_results(Path(output)) if output and os.path.isfile(output) and not options.restart else []
    planned = [(each.described(), each.preset) for each in configurations]
    compared([results.planned_row(*each) for each in [*((row.configuration, row.preset) for row in before), *planned]])
    return compared


def _draw(rows: Sequence[Result], comparisons: Sequence[Report], folder: Path, console: Console) -> None:
    """Write the plots that the rows support, and a plot of the differences if there is a comparison."""
    from fbrag_cli.evaluation import plots

    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = plots.supported(rows)
        drawn = {name: plots.plot(name, rows) for name in names}
        if comparisons and comparisons[0].tables:
            drawn["differences"] = plots.forest(comparisons[0])
        for name, files in drawn.items():
            for form, data in files.items():
                with whole_file(folder / f"{name}.{form}") as path:
                    path.write_bytes(data)
                console.info(f"wrote {folder / name}.{form}")
    except OSError as error:
        raise not_writable(folder, error, "output", "choose another --plots FOLDER") from None


def _configurations(command: EvalCommand, *, on_gpu: bool) -> list[Configuration]:
    from fbrag_cli.evaluation.configurations import combinations
    from fbrag_cli.models.catalog import load_catalog

    options, models, catalog = command.eval, command.models, load_catalog()
    return combinations(
        methods=options.method,
        presets=options.presets,
        small=[name.strip() for name in (models.small or catalog.default_small).split(",")],
        retrievers=options.retriever,
        large=None if options.retrieval_only else (models.large or catalog.default_large),
        settings=command.compared.lists,
        given=command.compared.given,
        chunk_words=options.chunk_words,
        prompts=options.prompts,
        max_tokens=options.max_tokens,
        seed=options.seed,
        on_gpu=on_gpu,
    )
