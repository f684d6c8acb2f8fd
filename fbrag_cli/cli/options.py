"""Every option, declared once. A command names the groups that it takes, and gets them as frozen records.

@app.command("ask")
@takes(DocumentOptions, MethodOptions)
def ask(console: Console, documents: DocumentOptions, method: MethodOptions) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Any, Literal, get_type_hints

import typer

from fbrag_cli.cli.console import ColorMode, Console
from fbrag_cli.cli.version import print_version
from fbrag_cli.generation.cancellation import Cancellation
from fbrag_cli.methods.registry import NAMES, Name

#: Where the context of a command keeps the request to stop.
CANCELLATION = "fbrag.cancellation"


def option(default: Any, *names: str, help: str, group: str, **settings: Any) -> Any:
    """A field that is an option of the command line; also settable as FBRAG_<LONG NAME>."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    settings.setdefault("envvar", "FBRAG_" + long[2:].replace("-", "_").upper())
    settings.setdefault("show_envvar", False)
    settings.setdefault("show_default", False)
    return field(default=default, metadata={"option": typer.Option(*names, help=help, rich_help_panel=group, **settings)})


def arguments(help: str, metavar: str) -> Any:
    return field(default=(), metadata={"option": typer.Argument(help=help, metavar=metavar, show_default=False)})


def argument(help: str, metavar: str) -> Any:
    """A field that is one argument, and has to be there."""
    return field(metadata={"option": typer.Argument(help=help, metavar=metavar, show_default=False)})


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """May stand before or after the command; what stands after it adds to what stands before."""

    quiet: int = option(
        0, "-q", "--quiet", help="no messages but errors; -qq: none at all", group="Global", count=True, envvar=None
    )
    verbose: int = option(
        0, "-v", "--verbose", help="decisions and timings; -vv: llama.cpp's own log", group="Global", count=True, envvar=None
    )
    color: ColorMode | None = option(
        None, "--color", help="auto, always or never (auto; NO_COLOR and FORCE_COLOR count)", group="Global", envvar=None
    )
    no_progress: bool = option(False, "--no-progress", help="no progress bars", group="Global")
    offline: bool = option(
        False, "--offline", help="make no network connection", group="Global", envvar=["FBRAG_OFFLINE", "HF_HUB_OFFLINE"]
    )
    yes: bool = option(False, "-y", "--yes", help="accept the download of models, and confirmations", group="Global")
    config: str | None = option(
        None, "--config", help="another configuration file; 'none' for none", group="Global", metavar="FILE", envvar=None
    )

    def over(self, before: GlobalOptions) -> GlobalOptions:
        return GlobalOptions(
            self.quiet + before.quiet,
            self.verbose + before.verbose,
            self.color or before.color,
            self.no_progress or before.no_progress,
            self.offline or before.offline,
            self.yes or before.yes,
            self.config or before.config,
        )

    def console(self, cancellation: Cancellation | None = None) -> Console:
        verbosity = max(-2, min(2, self.verbose - self.quiet))
        return Console(
            verbosity,
            self.color or "auto",
            not self.no_progress,
            self.yes,
            self.offline,
            cancellation or Cancellation(),
            self.config,
        )


@dataclass(frozen=True, slots=True)
class RootOptions:
    version: bool = option(
        False,
        "-V",
        "--version",
        help="the version; with -v also llama.cpp's build and devices",
        group="Global",
        envvar=None,
        is_eager=True,
        callback=print_version,
    )


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    arguments: list[str] = arguments("one or more documents ('-' is stdin), and the question last", "DOC... QUESTION")
    pages: str | None = option(None, "--pages", help="pages of a PDF, as 3-9,12 (all)", group="Document", metavar="PAGES")
    encoding: str | None = option(
        None, "--encoding", help="of a text file (detected)", group="Document", metavar="NAME", envvar=None
    )
    lang: str | None = option(
        None, "--lang", help="of the documents: de, german (found by their words)", group="Document", metavar="NAME"
    )
    include: list[str] = option(
        (), "--include", help="of a folder, only files like GLOB (all known types)", group="Document", metavar="GLOB"
    )
    exclude: list[str] = option(
        (), "--exclude", help="of a folder, no files or folders like GLOB", group="Document", metavar="GLOB"
    )
    strict: bool = option(False, "--strict", help="a file that cannot be read ends the run", group="Document")
    password_file: str | None = option(
        None, "--password-file", help="holds the password of an encrypted PDF; '-' is stdin", group="Document", metavar="FILE"
    )


@dataclass(frozen=True, slots=True)
class OutputOptions:
    format: Literal["text", "json", "jsonl", "md"] = option(
        "text", "-f", "--format", help="text, json, jsonl (events as they happen) or md (text)", group="Output"
    )
    json: bool = option(False, "--json", help="short for --format json", group="Output", envvar=None)
    output: str = option("-", "-o", "--output", help="written whole or not at all (stdout)", group="Output", metavar="FILE")
    html: str | None = option(
        None,
        "--html",
        help="also as a page: the documents with their chunks and scores",
        group="Output",
        metavar="FILE",
        envvar=None,
    )

    @property
    def form(self) -> str:
        return "json" if self.json else self.format


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    answer_only: bool = option(False, "-a", "--answer-only", help="the answer and nothing else", group="Output", envvar=None)
    sources: Literal["selected", "none"] = option(
        "selected", "--sources", help="print the selected chunks, or none (selected)", group="Output"
    )
    context: int = option(
        1, "-C", "--context", help="lines around each highlighted passage (1)", group="Output", metavar="N", min=0
    )
    full: bool = option(False, "--full", help="whole chunks", group="Output")
    instructions: str | None = option(
        None, "--instructions", help="form of the answer: 'in one sentence'; @FILE reads it", group="Method", metavar="TEXT"
    )
    max_tokens: int | None = option(
        None, "--max-tokens", help="length limit of the answer (512, or of --prompts)", group="Method", metavar="N", min=1
    )
    answer_anyway: bool = option(False, "--answer-anyway", help="never answer that the document does not say", group="Method")
    exit_zero: bool = option(False, "--exit-zero", help="exit 0 also where the document does not say", group="Output")
    dry_run: bool = option(False, "--dry-run", help="read, chunk, count and plan; run no model", group="Run", envvar=None)


@dataclass(frozen=True, slots=True)
class MethodOptions:
    method: Name = option("fb-rag", "--method", help=", ".join(NAMES), group="Method")
    chunk_words: int = option(300, "--chunk-words", help="words in a chunk (300)", group="Method", metavar="N", min=1)
    recall: str | None = option(
        None, "--recall", help="chunks for the small model, or words as 6k (20 on a GPU, 8 on a CPU)", group="Method", metavar="N"
    )
    select: str | None = option(
        None, "--select", help="chunks for the large model, or words as 3k (10 on a GPU, 5 on a CPU)", group="Method", metavar="N"
    )
    retriever: str = option(
        "bm25",
        "--retriever",
        help="bm25, or an embedding model: a GGUF file, a name of the hub (bm25)",
        group="Method",
        metavar="NAME",
    )
    prompts: str | None = option(
        None,
        "--prompts",
        help="a benchmark's prompts in place of ours: JSON; FILE:NAME where it has several",
        group="Method",
        metavar="FILE",
    )
    samples: int = option(5, "--samples", help="forward samples (5)", group="Method", metavar="K", min=1, max=64)
    seed: int = option(0, "--seed", help="same seed, input and machine: same answer (0)", group="Method", metavar="N", min=0)
    eta_forward: float = option(
        0.5, "--eta-forward", help="weight of the forward lookup (0.5)", group="Advanced", metavar="X", min=0
    )
    eta_backward: float = option(
        0.5, "--eta-backward", help="weight of the backward lookup (0.5)", group="Advanced", metavar="Y", min=0
    )
    fusion: Literal["raw", "minmax"] = option(
        "raw", "--fusion", help="add the raw scores as in the paper, or minmax: each scaled to 0..1 (raw)", group="Advanced"
    )
    pooling: Literal["max", "mean"] = option(
        "max", "--pooling", help="a chunk's score over the samples: the best as in the paper, or the mean (max)", group="Advanced"
    )
    temperature: float = option(1.0, "--temperature", help="of the forward samples (1.0)", group="Advanced", metavar="T", min=0)
    top_p: float = option(0.9, "--top-p", help="of the forward samples (0.9)", group="Advanced", metavar="P", min=0, max=1)
    top_k: int = option(50, "--top-k", help="of the forward samples (50)", group="Advanced", metavar="N", min=0)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    large: str | None = option(
        None, "-m", "--large", help="who answers: a name of 'fbrag models list', or a GGUF file", group="Models", metavar="MODEL"
    )
    small: str | None = option(None, "--small", help="who looks forward", group="Models", metavar="MODEL")
    gpu: Literal["auto", "off", "require"] = option(
        "auto", "--gpu", help="auto, off, or require: exit 5 unless all layers are on it (auto)", group="Models"
    )
    gpu_layers: str = option(
        "auto", "--gpu-layers", help="of the large model on the GPU: auto, all or a number (auto)", group="Models", metavar="N"
    )
    device: str | None = option(
        None, "--device", help="GPUs for the models, as doctor names them: CUDA0,CUDA1 (all)", group="Models", metavar="NAMES"
    )
    small_device: str | None = option(
        None, "--small-device", help="GPUs for the small model (those of --device)", group="Models", metavar="NAMES"
    )
    tensor_split: str | None = option(
        None,
        "--tensor-split",
        help="shares of the GPUs in the large model: 3,1 (by their free memory)",
        group="Models",
        metavar="X,Y,…",
    )
    threads: int | None = option(None, "-t", "--threads", help="(the physical cores)", group="Models", metavar="N", min=1)
    ctx: int | None = option(
        None, "--ctx", help="at most so many tokens of context (the model's own length)", group="Models", metavar="N", min=256
    )


@dataclass(frozen=True, slots=True)
class RunOptions:
    timeout: float | None = option(
        None, "--timeout", help="give up after so many seconds, with exit code 5", group="Run", metavar="SECONDS", min=0.001
    )


@dataclass(frozen=True, slots=True)
class CacheOptions:
    no_cache: bool = option(False, "--no-cache", help="read the documents anew, and keep nothing of them", group="Run")
    cache_limit: float = option(
        5.0, "--cache-limit", help="the cache keeps at most so many GB (5)", group="Run", metavar="GB", min=0
    )


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    limit: int = option(20, "-n", "--limit", help="rows printed (20)", group="Explain", metavar="N", min=1, envvar=None)
    all: bool = option(False, "--all", help="all rows", group="Explain", envvar=None)
    sort: Literal["score", "position"] = option("score", "--sort", help="score or position (score)", group="Explain")
    samples_text: bool = option(
        False, "--samples-text", help="the forward samples, each with the chunk that it raised most", group="Explain", envvar=None
    )
    find: str | None = option(
        None, "--find", help="rank, scores and fate of the chunk that holds TEXT", group="Explain", metavar="TEXT", envvar=None
    )
    chunk: int | None = option(
        None, "--chunk", help="one chunk in full, with the terms that scored", group="Explain", metavar="N", min=1, envvar=None
    )
    map: bool | None = option(
        None, "--map/--no-map", help="one cell a chunk over the document (on a terminal)", group="Explain", envvar=None
    )
    prompt: bool = option(False, "--prompt", help="the exact prompts of both models", group="Explain", envvar=None)
    text: bool = option(
        False,
        "--text",
        help="the decoded text of DOC with line and page numbers; takes no QUESTION",
        group="Explain",
        envvar=None,
    )


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    json: bool = option(False, "--json", help="one JSON object", group="Output", envvar=None)
    no_gpu_probe: bool = option(False, "--no-gpu-probe", help="leave GPUs and their drivers alone", group="Run", envvar=None)


def takes(*groups: type[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function `(console, *groups)` the signature that Typer reads: the context, and the fields of all groups."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def command(typer_context: typer.Context, **values: Any) -> Any:
            options = _record(GlobalOptions, values)
            if isinstance(before := typer_context.obj, GlobalOptions):
                options = options.over(before)
            typer_context.find_root().obj = options
            console = options.console(typer_context.meta.get(CANCELLATION))
            return function(console, *(_record(group, values) for group in groups))

        context = inspect.Parameter("typer_context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [context]
        for group in (*groups, GlobalOptions):
            hints = get_type_hints(group)
            for each in fields(group):
                annotation: Any = Annotated[hints[each.name], each.metadata["option"]]
                default = inspect.Parameter.empty if each.name == "arguments" or each.default is MISSING else each.default
                parameters.append(
                    inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                )
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.groups = groups  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__name__, command.__doc__, command.__module__ = function.__name__, function.__doc__, function.__module__
        return command

    return decorate


def _record(group: type[Any], values: dict[str, Any]) -> Any:
    return group(**{each.name: values[each.name] for each in fields(group)})
