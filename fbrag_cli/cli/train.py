"""`fbrag train`: fit the trained parts of a method for a language model. So far: the labels of FIT-RAG."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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

HELP = """The trained parts of a method, for a language model that stays as it is.

\b
Examples:
  fbrag train fit-rag nq.jsonl.gz 2wikimqa.jsonl.gz -o fit-rag/
"""

train_app = typer.Typer(cls=Group, help=HELP, no_args_is_help=True, rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class FitRagOptions:
    arguments: list[str] = arguments("rows with questions, answers and passages (JSON Lines)", "DATA...")
    output: str = option("fit-rag", "-o", "--output", help="folder of what is made (fit-rag)", group="Output", metavar="FOLDER")
    limit: int | None = option(
        None,
        "--limit",
        help="questions of each data set for training, and as many for checking (all)",
        group="Training",
        metavar="N",
        min=1,
        envvar=None,
    )
    restart: bool = option(False, "--restart", help="make all labels anew", group="Training", envvar=None)


@dataclass(frozen=True, slots=True)
class FitRagCommand:
    fit_rag: FitRagOptions
    models: ModelSettings
    cache: CacheSettings
    run: RunOptions


@train_app.command("fit-rag", cls=Command)
@takes(FitRagCommand)
def fit_rag(console: Console, command: FitRagCommand) -> None:
    """Make the labels of FIT-RAG: which passages hold the answer, and from which of them the model answers rightly.

    \b
    Examples:
      fbrag train fit-rag nq.jsonl.gz --limit 100 -o fit-rag/ -m qwen2.5-coder-1.5b

    A run that was stopped goes on where it was, when it is started again. The labels stand in FOLDER/labels.jsonl.
    """
    if command.run.timeout:
        limit_time(command.run.timeout, console.cancellation)
    from fbrag_cli.training.fit_rag import Training, make_labels
    from fbrag_cli.training.questions import read_material, split

    options = command.fit_rag
    if not options.arguments:
        raise FbragError("usage", "a file of questions is needed", "fbrag train fit-rag nq.jsonl.gz")
    material = read_material(map(Path, options.arguments))
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error, "output", "choose another -o FOLDER") from None
    with (
        progress_line(console) as progress,
        open_cache(command.cache, console, private=False) as cache,
        open_session(command.models, cache, console, progress) as session,
    ):
        make_labels(
            Training(
                folder=folder,
                material=material,
                questions=split(material.questions, options.limit)[0],
                session=session,
                listener=Listener(progress=progress, cancellation=console.cancellation),
                note=console.note,
                restart=options.restart,
            )
        )
