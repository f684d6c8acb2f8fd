"""`fbrag train`: trains the components of a method for a language model, which is not changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from fbrag_cli.cli.command import Group
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import progress_line
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import JobsOptions, Options, RunOptions, arguments
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.progress import Listener
from fbrag_cli.session.settings import CacheSettings, ModelSettings
from fbrag_cli.storage.files import not_writable
from fbrag_cli.training.registry import TRAININGS
from fbrag_cli.training.training import Training

HELP = """Train the components that a method needs.

\b
Examples:
""" + "\n".join(f"  fbrag train {each.example}" for each in TRAININGS)

#: The common options that `fbrag train NAME --help` shows.
_FIRST = "--output --restart --large"

train = Group("train", HELP)


class TrainingOptions(Options):
    """The options of all trainings."""

    group = "Training"

    arguments: list[str] = arguments("questions with answers and passages (JSON Lines)", "DATA...")
    restart: bool = option(False, "start over", once=True)


def _add(training: type[Training]) -> None:
    """Add the command of a training."""
    jobs = (JobsOptions,) if training.is_parallel else ()
    groups: tuple[type[Any], ...] = (TrainingOptions, *jobs, training, ModelSettings, CacheSettings, RunOptions)

    def command(console: Console, *records: Any) -> None:
        given = dict(zip(groups, records, strict=True))
        _train(console, given[training], given)

    command.__doc__ = training.help
    train.command(*groups, name=training.name, first=f"{_FIRST} {training.first}")(command)


for _each in TRAININGS:
    _add(_each)


def _train(console: Console, training: Training, given: Mapping[type[Any], Any]) -> None:
    """Run a training. given: the records of all option groups."""
    from fbrag_cli.training.rows import read_material
    from fbrag_cli.training.training import Work

    options, models, cache, run = (given[group] for group in (TrainingOptions, ModelSettings, CacheSettings, RunOptions))
    if models.threads:  # for torch; read when the first library with OpenMP loads, which may be a check of rows
        os.environ["OMP_NUM_THREADS"] = str(models.threads)
    training.check()
    path = Path(training.output)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(path, error, "output", "choose another -o FOLDER") from None
    material = read_material(map(Path, options.arguments))
    training.check_rows(material)
    limit = limit_time(run.time_limit, console.cancellation)
    with (
        progress_line(console) as progress,
        open_session(models, cache, console, progress) as session,
        limit,
    ):
        console.info(f"models run on {'a GPU' if session.on_gpu else 'the CPU'}")
        work = Work(
            session=session,
            listener=Listener(progress=progress, cancellation=console.cancellation),
            note=console.info,
            path=path,
            material=material,
            restart=options.restart,
            at_once=given[JobsOptions].at_once if training.is_parallel else 1,
        )
        import_module(TRAININGS[type(training)]).train(work, training)
