"""`fbrag train`: fit the trained parts of a method for a language model, which stays as it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import typer

from fbrag_cli.cli.console import Console
from fbrag_cli.cli.help import Command, Group
from fbrag_cli.cli.opening import open_cache, open_session
from fbrag_cli.cli.options import RunOptions, arguments, option
from fbrag_cli.cli.progress_line import progress_line
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.cli.takes import takes
from fbrag_cli.errors import FbragError
from fbrag_cli.session.session import Listener
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.storage.files import not_writable

HELP = """Train the small parts of a method for a language model, which stays as it is.

\b
Examples:
  fbrag train fit-rag nq.jsonl.gz 2wikimqa.jsonl.gz --limit 400 -o fit-rag/
"""

train_app = typer.Typer(cls=Group, help=HELP, no_args_is_help=True, rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class FitRagOptions:
    arguments: list[str] = arguments("questions with answers and passages (JSON Lines)", "DATA...")
    output: str = option("fit-rag", "-o", "--output", help="folder of what is made (fit-rag)", group="Output", metavar="FOLDER")
    stage: Literal["all", "labels", "scorer", "detector", "recognizer"] = option(
        "all", "--stage", help="all, labels, scorer, detector or recognizer (all)", group="Training", envvar=None
    )
    limit: int | None = option(
        None,
        "--limit",
        help="questions of each data set for the scorer, as many for the detector, a quarter for checking (all)",
        group="Training",
        metavar="N",
        min=1,
        envvar=None,
    )
    base: str | None = option(
        None, "--base", help="folder of a BERT encoder (all-MiniLM-L6-v2, 84 MB)", group="Training", metavar="FOLDER", envvar=None
    )
    restart: bool = option(False, "--restart", help="make everything anew", group="Training", envvar=None)

    @property
    def stages(self) -> tuple[str, ...]:
        return ("labels", "scorer", "detector", "recognizer") if self.stage == "all" else (self.stage,)


@dataclass(frozen=True, slots=True)
class FitRagCommand:
    fit_rag: FitRagOptions
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
    from fbrag_cli.learned.fit_rag import FIT_RAG
    from fbrag_cli.storage.places import models_dir
    from fbrag_cli.training.base_encoder import fetch
    from fbrag_cli.training.fit_rag import Training, run
    from fbrag_cli.training.folder import Folder
    from fbrag_cli.training.questions import read_material, split

    options, folder = command.fit_rag, _made(command.fit_rag)
    if command.run.timeout:
        limit_time(command.run.timeout, console.cancellation)
    material = read_material(map(Path, options.arguments))
    questions, others = split(material.questions, options.limit)
    with (
        progress_line(console) as progress,
        open_cache(command.cache, console, private=False) as cache,
        open_session(command.models, cache, console, progress) as session,
    ):
        training = Training(
            folder=Folder(folder, FIT_RAG),
            material=material,
            questions=questions,
            others=others,
            session=session,
            listener=Listener(progress=progress, cancellation=console.cancellation),
            base=lambda: Path(options.base) if options.base else fetch(models_dir(), progress, os.environ),
            note=console.note,
            restart=options.restart,
        )
        run(training, options.stages)


def _check(options: FitRagOptions) -> None:
    """Raise FbragError `usage` without data, and before hours of work where the last step lacks its packages."""
    if not options.arguments:
        raise FbragError("usage", "a file of questions is needed", "fbrag train fit-rag nq.jsonl.gz")
    needed = {"labels": (), "recognizer": ()}.get(options.stage, ("torch", "transformers", "peft", "gguf"))
    if missing := [name for name in needed if find_spec(name) is None]:
        raise FbragError("usage", f"training needs {', '.join(missing)}", "pip install 'fbrag[train]'")


def _made(options: FitRagOptions) -> Path:
    """Return the folder, which is made where it is missing."""
    _check(options)
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error, "output", "choose another -o FOLDER") from None
    return folder
