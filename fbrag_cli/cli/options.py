"""The options that commands share, in groups. Those of a method stand in `method_options`; those of models, documents and the
cache in `session.settings`; those of one command beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import typer

from fbrag_cli.cancellation import Cancellation
from fbrag_cli.cli.completion import install_script, show_script
from fbrag_cli.cli.console import ColorMode, Console
from fbrag_cli.cli.version import print_version
from fbrag_cli.errors import FbragError
from fbrag_cli.methods.knobs import Knob, settings_of

#: Where the context of a command keeps the request to stop.
CANCELLATION = "fbrag.cancellation"


def option(default: Any, *names: str, help: str, group: str, **about: Any) -> Any:
    """A field that is an option of the command line.

    about: choices, metavar, words and once as of `Knob`; min and max; envvar, the variables that set it, None for none; and what
    Typer alone reads.
    """
    variables = tuple(about.pop("envvar") or ()) if "envvar" in about else None
    bounds: dict[str, Any] = {"minimum": about.pop("min", None), "maximum": about.pop("max", None)}
    same = {name: about.pop(name) for name in ("metavar", "words", "once") if name in about}
    choices = tuple(about.pop("choices", ()))
    knob = Knob(help=help, varies="", group=group, names=names, variables=variables, choices=choices, **bounds, **same)
    return field(default=default, metadata={"knob": knob, "typer": about})


def arguments(help: str, metavar: str) -> Any:
    return field(default=(), metadata={"option": typer.Argument(help=help, metavar=metavar, show_default=False)})


def argument(help: str, metavar: str, *, autocompletion: Callable[..., list[str]], **default: Any) -> Any:
    """A field that is an argument, required without a `default`. autocompletion: returns the words that may stand there."""
    about = typer.Argument(help=help, metavar=metavar, show_default=False, autocompletion=autocompletion)
    return field(metadata={"option": about}, **default)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalOptions:
    """May stand before or after the command; what stands after it adds to what stands before."""

    quiet: int = option(
        0, "-q", "--quiet", help="no messages but errors; -qq: no messages at all", group="Global", count=True, envvar=None
    )
    verbose: int = option(
        0, "-v", "--verbose", help="decisions and timings; -vv: llama.cpp's own log", group="Global", count=True, envvar=None
    )
    color: ColorMode | None = option(
        None, "--color", help="colour: auto, always or never (auto; NO_COLOR and FORCE_COLOR count)", group="Global"
    )
    no_progress: bool = option(False, "--no-progress", help="no bars and no preview: a plain line for each stage", group="Global")
    offline: bool = option(
        False, "--offline", help="make no network connection", group="Global", envvar=["FBRAG_OFFLINE", "HF_HUB_OFFLINE"]
    )
    yes: bool = option(False, "-y", "--yes", help="accept the download of models, and confirmations", group="Global", once=True)
    config: str | None = option(
        None, "--config", help="another configuration file; 'none' for none", group="Global", metavar="FILE", envvar=None
    )

    def over(self, before: GlobalOptions) -> GlobalOptions:
        """Return these options, which stand after the command, together with those before it."""
        return GlobalOptions(
            quiet=self.quiet + before.quiet,
            verbose=self.verbose + before.verbose,
            color=self.color or before.color,
            no_progress=self.no_progress or before.no_progress,
            offline=self.offline or before.offline,
            yes=self.yes or before.yes,
            config=self.config or before.config,
        )

    def console(self, cancellation: Cancellation | None = None) -> Console:
        return Console(
            verbosity=max(-2, min(2, self.verbose - self.quiet)),
            color=self.color or "auto",
            bars=not self.no_progress,
            yes=self.yes,
            offline=self.offline,
            cancellation=cancellation or Cancellation(),
            config=self.config,
        )


@dataclass(frozen=True, slots=True)
class RootOptions:
    version: bool = option(
        False,
        "-V",
        "--version",
        help="print the version; with -v also llama.cpp's build and devices",
        group="Global",
        envvar=None,
        is_eager=True,
        callback=print_version,
    )
    show_completion: bool = option(
        False,
        "--show-completion",
        help="print the script of tab completion; a shell may follow: bash, zsh, fish",
        group="Global",
        envvar=None,
        is_eager=True,
        callback=show_script,
    )
    install_completion: bool = option(
        False,
        "--install-completion",
        help="install the script of tab completion for the shell",
        group="Global",
        envvar=None,
        is_eager=True,
        callback=install_script,
    )


@dataclass(frozen=True, slots=True)
class PasswordOptions:
    password_file: str | None = option(
        None, "--password-file", help="file with the password of an encrypted PDF; '-' is stdin", group="Document", metavar="FILE"
    )


@dataclass(frozen=True, slots=True)
class DocumentOptions(PasswordOptions):
    arguments: list[str] = arguments("one or more documents ('-' is stdin), and the question last", "DOC... QUESTION")


#: The words of --format. A command may take only some of them.
FORMATS = ("text", "json", "jsonl", "md")


@dataclass(frozen=True, slots=True)
class OutputOptions:
    format: Literal["text", "json", "jsonl", "md"] = option(
        "text",
        "-f",
        "--format",
        help="form of the output: text, json, jsonl (events as they happen) or md (text)",
        group="Output",
    )
    json: bool = option(False, "--json", help="short for --format json", group="Output", envvar=None)
    output: str = option(
        "-",
        "-o",
        "--output",
        help="file for the output, written whole or not at all (stdout)",
        group="Output",
        metavar="FILE",
        once=True,
    )
    html: str | None = option(
        None,
        "--html",
        help="file for a page as well: the documents with their chunks and scores",
        group="Output",
        metavar="FILE",
        envvar=None,
    )
    open: bool = option(
        False,
        "--open",
        help="open that page in the browser; without --html it is a private file in the temporary folder, which stays",
        group="Output",
        envvar=None,
    )
    exit_zero: bool = option(False, "--exit-zero", help="exit 0 also where nothing is found", group="Output")

    @property
    def form(self) -> str:
        return "json" if self.json else self.format


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    answer_only: bool = option(False, "-a", "--answer-only", help="print the answer and nothing else", group="Output")
    sources: Literal["cited", "all", "none"] = option(
        "cited",
        "--sources",
        help="print the cited sources with their lines and the others in a line each, all with their lines, or none (cited)",
        group="Output",
    )
    context: int = option(
        1,
        "-C",
        "--context",
        help="lines around the sentence of a source, of prose to the end of a sentence; 0: the sentence alone (1)",
        group="Output",
        metavar="N",
        min=0,
    )
    full: bool = option(False, "--full", help="print whole chunks", group="Output")


@dataclass(frozen=True, slots=True)
class RunOptions:
    timeout: float | None = option(
        None,
        "--timeout",
        help="give up after so many seconds, with exit code 5",
        group="Run",
        metavar="SECONDS",
        min=0.001,
        max=1e8,  # three years; timers of macOS take no more
    )


@dataclass(frozen=True, slots=True)
class ParallelOptions:
    parallel: str = option(
        "auto",
        "--parallel",
        help="questions decoded at once, auto or a number; above 1, answers may differ by rounding (auto; on a CPU 1)",
        group="Run",
        metavar="N",
        words=("auto",),
        min=1,
        max=64,
    )

    @property
    def at_once(self) -> int | None:
        """How many questions run at once; None for as many as pay. Raises FbragError `usage`."""
        accepted = settings_of(ParallelOptions)["parallel"]
        if accepted.parsed(self.parallel) is None:
            hint = f"use auto, or {accepted.minimum} to {accepted.maximum}"
            raise FbragError("usage", f"--parallel {self.parallel}: not a number of questions", hint)
        return None if self.parallel == "auto" else int(self.parallel)


@dataclass(frozen=True, slots=True)
class QuestionRunOptions(RunOptions):
    dry_run: bool = option(False, "--dry-run", help="read, chunk, count and plan; run no model", group="Run", envvar=None)
    more: int = option(
        0,
        "--more",
        help="read the next passages too, for the same question again: twice as much; --more --more: three times",
        group="Method",
        count=True,
        envvar=None,
    )


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    limit: int = option(20, "-n", "--limit", help="number of rows to print (20)", group="Explain", metavar="N", min=1)
    all: bool = option(False, "--all", help="print all rows", group="Explain", envvar=None)
    sort: Literal["score", "position"] = option(
        "score", "--sort", help="order of the rows: score or position (score)", group="Explain"
    )
    samples_text: bool = option(
        False, "--samples-text", help="print the forward samples, each with the chunk that it raised most", group="Explain"
    )
    find: str | None = option(
        None,
        "--find",
        help="print rank, scores and fate of the chunk that holds TEXT",
        group="Explain",
        metavar="TEXT",
        envvar=None,
    )
    chunk: int | None = option(
        None,
        "--chunk",
        help="print one chunk in full, with the terms that scored",
        group="Explain",
        metavar="N",
        min=1,
        envvar=None,
    )
    map: bool | None = option(
        None, "--map/--no-map", help="draw a map of the document, a cell for each chunk (on a terminal)", group="Explain"
    )
    prompt: bool = option(False, "--prompt", help="print the exact prompts of both models", group="Explain", envvar=None)
    text: bool = option(
        False,
        "--text",
        help="print the decoded text of DOC with line and page numbers; takes no QUESTION",
        group="Explain",
        envvar=None,
    )


@dataclass(frozen=True, slots=True)
class BatchOptions(ParallelOptions):
    documents: list[str] = arguments("documents; of a folder, each file is one", "DOC...")
    questions: str | None = option(
        None,
        "-Q",
        "--questions",
        help="file of questions: text (one a line, # begins a comment), CSV (question, id) or JSON lines; '-' is stdin",
        group="Jobs",
        metavar="FILE",
        envvar=None,
    )
    jobs: str | None = option(
        None,
        "--jobs",
        help="file of jobs: CSV or JSON lines with document and question; id and answers may stand beside them",
        group="Jobs",
        metavar="FILE",
        envvar=None,
    )
    together: bool = option(False, "--together", help="pool all DOCs: one row a question", group="Jobs", envvar=None)
    n_rows: int | None = option(
        None, "--limit", help="do the first N rows only (all)", group="Jobs", metavar="N", min=1, envvar=None
    )
    shard: str | None = option(
        None, "--shard", help="do every N-th row from the I-th on, for several machines", group="Jobs", metavar="I/N", envvar=None
    )
    output: str = option(
        "-",
        "-o",
        "--output",
        help="file for the rows: JSON lines as they come, or CSV by its name, made from the JSON lines beside it (stdout)",
        group="Output",
        metavar="FILE",
        once=True,
    )
    html: str | None = option(
        None,
        "--html",
        help="file for a page of all rows as well: documents down, questions across, each answer with its sentence",
        group="Output",
        metavar="FILE",
        envvar=None,
    )
    wide: str | None = option(
        None,
        "--wide",
        help="file for all answers as CSV as well: a row for each document, a column for each question",
        group="Output",
        metavar="FILE",
        envvar=None,
    )
    resume: bool = option(
        True,
        "--resume/--restart",
        help="go on with what -o FILE holds, or begin anew (resume)",
        group="Run",
        envvar=None,
    )
    retry_errors: bool = option(False, "--retry-errors", help="do rows with an error again", group="Run", envvar=None)
    max_errors: int | None = option(
        None, "--max-errors", help="stop after so many rows with an error (no limit)", group="Run", metavar="N", min=1
    )
    fail_fast: bool = option(False, "--fail-fast", help="stop at the first row with an error", group="Run")
    engine: str = option(
        "local",
        "--engine",
        help="who answers: this process (local), or the workers of a Ray cluster (ray)",
        group="Cluster",
        choices=("local", "ray"),
    )
    address: str | None = option(
        None,
        "--address",
        help="a running Ray cluster: auto, or host:port; without it one is started on this machine",
        group="Cluster",
        metavar="ADDRESS",
    )

    @property
    def own_files(self) -> list[str]:
        """The files that a run writes, where they hold what an earlier run wrote: in a folder, they are no documents."""
        from fbrag_cli.batch.row import is_own, rows_of

        return [self.output, str(rows_of(self.output)), *(path for path in (self.html, self.wide) if path and is_own(Path(path)))]

    @property
    def most_errors(self) -> float:
        return 1 if self.fail_fast else self.max_errors or float("inf")


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    json: bool = option(False, "--json", help="one JSON object", group="Output", envvar=None)
    no_gpu_probe: bool = option(False, "--no-gpu-probe", help="leave GPUs and their drivers alone", group="Run")
