"""`fbrag train`: fit the trained parts of a method for a language model, which stays as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import typer

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.help import Command, Group
from fbrag_cli.cli.opening import open_cache, open_session
from fbrag_cli.cli.options import ParallelOptions, RunOptions, arguments, option
from fbrag_cli.cli.progress_line import progress_line
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.cli.takes import takes
from fbrag_cli.errors import FbragError, pip_install
from fbrag_cli.progress import Listener
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.storage.files import not_writable

HELP = """Train the small parts of a method for a language model, which stays as it is.

\b
Examples:
  fbrag train fit-rag nq.jsonl.gz 2wikimqa.jsonl.gz --limit 400 -o fit-rag/
  fbrag train r2ag nq.jsonl.gz 2wikimqa.jsonl.gz -m qwen2.5-coder-0.5b -o r2ag/
"""

Training = TypeVar("Training")

train_app = typer.Typer(cls=Group, help=HELP, no_args_is_help=True, rich_markup_mode=None)


def _limit(of: str) -> int | None:
    """Return the option --limit. of: what it counts."""
    help = f"{of}, a quarter as many for checking (all)"
    found: int | None = option(None, "--limit", help=help, group="Training", metavar="N", min=1, envvar=None)
    return found


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """What all of `fbrag train` takes."""

    arguments: list[str] = arguments("questions with answers and passages (JSON Lines)", "DATA...")
    restart: bool = option(False, "--restart", help="make everything anew", group="Training", envvar=None)


@dataclass(frozen=True, slots=True)
class RetrieverOptions:
    retriever: str = option(
        "bm25",
        "--retriever",
        help="bm25, or an embedding model: a GGUF file, a name of the hub (bm25)",
        group="Training",
        metavar="NAME",
    )


@dataclass(frozen=True, slots=True)
class FitRagOptions(ParallelOptions):
    output: str = option("fit-rag", "-o", "--output", help="folder of what is made (fit-rag)", group="Output", metavar="FOLDER")
    stage: Literal["all", "labels", "scorer", "detector", "recognizer"] = option(
        "all", "--stage", help="all, labels, scorer, detector or recognizer (all)", group="Training", envvar=None
    )
    limit: int | None = _limit("questions of each data set for the scorer, as many for the detector")
    base: str | None = option(
        None, "--base", help="folder of a BERT encoder (all-MiniLM-L6-v2, 84 MB)", group="Training", metavar="FOLDER", envvar=None
    )


@dataclass(frozen=True, slots=True)
class R2agOptions(RetrieverOptions):
    output: str = option("r2ag", "-o", "--output", help="folder of what is made (r2ag)", group="Output", metavar="FOLDER")
    limit: int | None = _limit("lists of each data set")
    list_length: int | None = option(
        None, "--list-length", help="passages of each list (5 to 10)", group="Training", metavar="N", min=2, max=40, envvar=None
    )
    epochs: int = option(2, "--epochs", help="times each list is read (2)", group="Training", metavar="N", min=1, envvar=None)
    lora: bool = option(False, "--lora", help="train LoRA of the model as well", group="Training", envvar=None)
    rows: bool = option(
        True, "--rows/--no-rows", help="train embedding rows; without them, LoRA alone (RAFT)", group="Training", envvar=None
    )
    control: Literal["none", "soft", "shuffled"] = option(
        "none",
        "--control",
        help="soft: rows know the place alone; shuffled: features of other passages (none)",
        group="Training",
        envvar=None,
    )
    without: Literal["none", "relevance", "precedent", "neighbour"] = option(
        "none", "--without", help="a feature to leave out, for an ablation (none)", group="Training", envvar=None
    )
    qdm_weight: float = option(
        1.0, "--qdm-weight", help="weight of the relevance in the loss (1)", group="Training", metavar="X", min=0, envvar=None
    )


@dataclass(frozen=True, slots=True)
class FitRagCommand:
    training: TrainingOptions
    fit_rag: FitRagOptions
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@dataclass(frozen=True, slots=True)
class R2agCommand:
    training: TrainingOptions
    r2ag: R2agOptions
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@train_app.command("fit-rag", cls=Command)
@takes(FitRagCommand)
def fit_rag(console: Console, command: FitRagCommand) -> None:
    """Train FIT-RAG's scorer, detector and recognizer. Needs pip install 'fbrag[train]' (with CUDA libraries 5.6 GB).

    \b
    Examples:
      fbrag train fit-rag nq.jsonl.gz --limit 400 -o fit-rag/ -m qwen2.5-coder-1.5b
      fbrag ask book.txt "Who sealed the chronometer box?" --method fit-rag --fit-rag fit-rag/

    Labels take longest: replies of the model to questions with one passage each. A run that was stopped goes on where it was.
    """
    from fbrag_cli.methods.fit_rag.parts import FIT_RAG
    from fbrag_cli.storage.places import models_dir
    from fbrag_cli.training.fit_rag import stages
    from fbrag_cli.training.fit_rag.base_encoder import fetch
    from fbrag_cli.training.folder import Folder
    from fbrag_cli.training.questions import read_material, split

    options = command.fit_rag
    last_needs = ("torch", "transformers", "peft", "gguf")
    _check(() if options.stage in ("labels", "recognizer") else last_needs)
    folder = _made(options.output)
    material = read_material(map(Path, command.training.arguments))
    questions, others = split(material.questions, options.limit)
    stages.check_questions(options.stage, questions, others)
    with _work(console, command) as work:
        training = stages.Training(
            **work,
            folder=Folder(folder, FIT_RAG),
            material=material,
            questions=questions,
            others=others,
            at_once=options.at_once,
            base=lambda: Path(options.base) if options.base else fetch(models_dir(), work["listener"].progress, os.environ),
        )
        _run(stages.STAGES, options.stage, training)


@train_app.command("r2ag", cls=Command)
@takes(R2agCommand)
def r2ag(console: Console, command: R2agCommand) -> None:
    """Train R2AG's embedding rows for a model, which stays as it is. Needs pip install 'fbrag[train]' (with CUDA 5.6 GB).

    \b
    Examples:
      fbrag train r2ag nq.jsonl.gz 2wikimqa.jsonl.gz --limit 400 -m qwen2.5-coder-0.5b -o r2ag/
      fbrag ask book.txt "Who sealed the chronometer box?" --method r2ag --r2ag r2ag/ -m qwen2.5-coder-0.5b

    Without a GPU it takes hours: the model reads each list, and gradients go back through it. A run that was stopped goes on
    where it was.
    """
    from fbrag_cli.methods.r2ag.features import FEATURES
    from fbrag_cli.session.session import Choice
    from fbrag_cli.training.questions import read_material
    from fbrag_cli.training.r2ag.stages import R2agWork, train_r2ag

    options = command.r2ag
    if not options.rows and (not options.lora or options.control != "none"):
        raise FbragError("usage", "--no-rows trains LoRA alone, without a control", "add --lora, and leave --control out")
    _check(("torch", "transformers", "peft", "gguf"))
    folder, control = _made(options.output), "" if options.control == "none" else options.control
    material = read_material(map(Path, command.training.arguments))
    with _work(console, command) as work:
        from fbrag_cli.training.r2ag.fit import R2agSettings  # imports torch, whose threads `_work` limits

        settings = R2agSettings(
            rows=options.rows, lora=options.lora, control=control, epochs=options.epochs, qdm_weight=options.qdm_weight
        )
        work |= {"folder": folder, "material": material, "settings": settings, "choice": Choice(retriever=options.retriever)}
        work |= {"limit": options.limit, "length": options.list_length}
        work |= {"features": tuple(name for name in FEATURES if name != options.without)}
        train_r2ag(R2agWork(**work))


@contextmanager
def _work(console: Console, command: FitRagCommand | R2agCommand) -> Iterator[dict[str, Any]]:
    """Yield the fields of `training.work.Work`."""
    if command.run.timeout:
        limit_time(command.run.timeout, console.cancellation)
    if command.models.threads:
        os.environ["OMP_NUM_THREADS"] = str(command.models.threads)  # of torch, which is imported later
    with (
        progress_line(console) as progress,
        open_cache(command.cache, console, private=False) as cache,
        open_session(command.models, cache, console, progress) as session,
    ):
        console.note(f"models run on {'a GPU' if session.on_gpu else 'the CPU'}")
        listener = Listener(progress=progress, cancellation=console.cancellation)
        yield {"session": session, "listener": listener, "note": console.note, "restart": command.training.restart}


def _run(stages: Mapping[str, Callable[[Training], None]], name: str, training: Training) -> None:
    """Run one stage, or all of them in their order ("all")."""
    for each, make in stages.items():
        if name in ("all", each):
            make(training)


def _check(needed: Sequence[str]) -> None:
    """Raise FbragError `usage` where the last step lacks its packages, before hours of work."""
    if missing := [name for name in needed if find_spec(name) is None]:
        raise FbragError("usage", f"training needs {', '.join(missing)}", pip_install("'fbrag[train]'"))


def _made(output: str) -> Path:
    """Return the folder, which is made where it is missing."""
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error, "output", "choose another -o FOLDER") from None
    return folder
